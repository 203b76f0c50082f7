//! Connects processes of different worlds on executors at run time. Each of the two says where it listens and which
//! certificate it has, and is told this of the other. Then one connects to the other.

use super::{Command, Launch};
use crate::level::Levels;
use crate::wire::ranks::{Listens, MOST_CERTIFICATE, ToRank};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// The pairs that were asked where they listen, lower number first, and their answers so far.
#[derive(Debug, Default)]
pub(super) struct Meetings(BTreeMap<(u32, u32), [Option<Listens>; 2]>);

impl Meetings {
    /// Drops all meetings with that process.
    pub fn leave(&mut self, rank: u32) {
        self.0.retain(|(one, other), _| *one != rank && *other != rank);
    }
}

/// Some processes of a world on one executor, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The name of the executor.
    pub name: String,
    /// The index of the host.
    pub host: usize,
    /// How many processes.
    pub processes: u32,
}

impl Launch {
    /// Executors have reserved places for a spawned world. They become the next machines. Returns whether the world is
    /// still wanted.
    pub fn on_placed(
        &mut self,
        now: Duration,
        ranks: Range<u32>,
        places: Vec<Place>,
        levels: Vec<Vec<Levels>>,
    ) -> bool {
        self.now = now;
        self.options.levels = levels;
        let mut rank = ranks.start;
        for Place { name, host, processes } in places {
            let machine = self.options.machines.len();
            self.options.machines.push(name);
            self.options.host_of.push(host);
            let its = &mut self.options.machine_of[rank as usize..(rank + processes) as usize];
            its.fill(machine);
            rank += processes;
        }
        self.ending.is_none() && self.is_spawning(ranks.start)
    }

    /// Begins to connect two processes.
    pub(super) fn ask_where(&mut self, one: u32, other: u32) {
        self.meetings.0.insert((one.min(other), one.max(other)), [None, None]);
        for (rank, process) in [(one, other), (other, one)] {
            self.commands.push(Command::Tell { ranks: vec![rank], message: ToRank::Listen { process } });
        }
    }

    /// A process has left or ended. Processes that are about to be connected with it need not wait.
    pub(super) fn part_from_all(&mut self, rank: u32) {
        if !self.options.is_remote {
            return; // connections come in pairs, and end when either end closes
        }
        let has_met = |one: u32, other: u32| self.ranks[one.max(other) as usize].met.contains(&one.min(other));
        let others = (0..self.ranks.len() as u32).filter(|other| *other != rank && has_met(rank, *other));
        let ranks: Vec<u32> = others.filter(|other| self.ranks[*other as usize].passes_messages()).collect();
        if !ranks.is_empty() {
            self.commands.push(Command::Tell { ranks, message: ToRank::Left { process: rank } });
        }
    }

    /// A process says where another one can reach it.
    pub(super) fn introduce(&mut self, rank: u32, process: u32, listens: Listens) {
        let pair = (rank.min(process), rank.max(process));
        let long = listens.certificate.len() > MOST_CERTIFICATE;
        let is_known = self.ranks.get(process as usize).is_some() && rank != process;
        if long || !is_known {
            return self.on_nonsense(self.now, rank);
        }
        let Some(both) = self.meetings.0.get_mut(&pair) else { return }; // the other process has ended meanwhile
        both[usize::from(rank > process)] = Some(listens);
        let [Some(lower), Some(higher)] = both.clone() else { return };
        self.meetings.0.remove(&pair);
        for (rank, process) in [pair, (pair.1, pair.0)] {
            let from = self.options.machine_of[rank as usize];
            let entries = vec![self.entry(pair.0, lower.clone(), from), self.entry(pair.1, higher.clone(), from)];
            self.commands.push(Command::Tell { ranks: vec![rank], message: ToRank::Connect { process, entries } });
        }
    }
}
