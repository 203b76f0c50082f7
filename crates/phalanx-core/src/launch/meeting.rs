//! Processes of different worlds on executors, which are connected while they run: both say where they listen, and by which
//! certificate they are known, and hear it of each other. Then one calls the other.

use super::{Command, Launch};
use crate::level::Levels;
use crate::wire::ranks::{Listens, MOST_CERTIFICATE, ToRank};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Those who have been asked where they listen, the lower number first, and what they have said.
#[derive(Debug, Default)]
pub(super) struct Meetings(BTreeMap<(u32, u32), [Option<Listens>; 2]>);

impl Meetings {
    /// Nobody meets that process any more.
    pub fn leave(&mut self, rank: u32) {
        self.0.retain(|(one, other), _| *one != rank && *other != rank);
    }
}

/// Some processes of a world, in the order of their numbers, on one executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub name: String,
    /// Which of the hosts it is.
    pub host: usize,
    pub processes: u32,
}

impl Launch {
    /// Executors have room for a world that is spawned; they are the next machines. Whether it is still wanted.
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

    /// Two processes are to be connected.
    pub(super) fn ask_where(&mut self, one: u32, other: u32) {
        self.meetings.0.insert((one.min(other), one.max(other)), [None, None]);
        for (rank, process) in [(one, other), (other, one)] {
            self.commands.push(Command::Tell { ranks: vec![rank], message: ToRank::Listen { process } });
        }
    }

    /// A process has left or ended: who is still about to be connected with it need not wait.
    pub(super) fn part_from_all(&mut self, rank: u32) {
        if !self.options.is_remote {
            return; // connections come as pairs, and end with either end
        }
        let has_met = |one: u32, other: u32| self.ranks[one.max(other) as usize].met.contains(&one.min(other));
        let others = (0..self.ranks.len() as u32).filter(|other| *other != rank && has_met(rank, *other));
        let ranks: Vec<u32> = others.filter(|other| self.ranks[*other as usize].passes_messages()).collect();
        if !ranks.is_empty() {
            self.commands.push(Command::Tell { ranks, message: ToRank::Left { process: rank } });
        }
    }

    /// A process says where another one reaches it.
    pub(super) fn introduce(&mut self, rank: u32, process: u32, listens: Listens) {
        let pair = (rank.min(process), rank.max(process));
        let long = listens.certificate.len() > MOST_CERTIFICATE;
        let is_known = self.ranks.get(process as usize).is_some() && rank != process;
        if long || !is_known {
            return self.on_nonsense(self.now, rank);
        }
        let Some(both) = self.meetings.0.get_mut(&pair) else { return }; // the other has ended meanwhile
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
