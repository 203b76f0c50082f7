//! Worlds: processes that are started together. The first world is that of the command line. Others are spawned by
//! running processes (MPI 5.0, 11.8), which are their parents.

use super::ports::{Asker, End as PortEnd, refuse};
use super::{Command, End, Launch, Phase, Rank};
use crate::wire::ranks::{MOST_RANKS, ToRank};
use crate::wire::universe::{Answer, Question, Refusal, Side, Wanted};
use std::ops::Range;

/// Limit on live spawned processes. It protects the machine from a program that spawns without end.
pub const MOST_SPAWNED: u32 = 512;
/// Limit on the name or address of a machine, in bytes.
const MOST_HOST: usize = 256;

/// Processes that were started together.
#[derive(Debug)]
pub(super) struct World {
    pub ranks: Range<u32>,
    /// The number of these that have not ended.
    pub living: u32,
    pub state: State,
    /// Whether its MPI_COMM_WORLD is revoked, for processes that join later.
    pub revoked: bool,
}

#[derive(Debug)]
pub(super) enum State {
    Begun,
    /// Not all processes have joined yet. Holds the question that waits for this.
    Spawning {
        asker: Asker,
        parents: Side,
    },
    /// One process did not join, so the others are ended.
    Failed,
}

impl Launch {
    /// A question of a process. It is answered now or later.
    pub(super) fn answer(&mut self, asker: Asker, question: Question) {
        if !self.ranks[asker.rank as usize].passes_messages() {
            return self.reply(asker, refuse(Refusal::Left, "this process has left (MPI_Finalize)".to_owned()));
        }
        let replies = match question {
            Question::Spawn { parents, programs } => return self.spawn(asker, parents, programs),
            Question::Agree(ballot) => return self.vote(asker, ballot),
            Question::ClosePort { port } => self.ports.close(asker, &port),
            Question::Accept { port, side } => self.ports.meet(asker, PortEnd::Accepts, &port, side),
            Question::Connect { port, side } => self.ports.meet(asker, PortEnd::Connects, &port, side),
            Question::OpenPort { port } => vec![(asker, self.ports.open(asker.rank, port))],
            Question::Publish { service, port } => vec![(asker, self.ports.publish(asker.rank, service, port))],
            Question::Unpublish { service } => vec![(asker, self.ports.unpublish(&service))],
            Question::Lookup { service } => vec![(asker, self.ports.look_up(&service))],
        };
        replies.into_iter().for_each(|(asker, answer)| self.reply(asker, answer));
    }

    pub(super) fn reply(&mut self, asker: Asker, answer: Answer) {
        let message = ToRank::Answer { number: asker.number, answer };
        self.commands.push(Command::Tell { ranks: vec![asker.rank], message });
    }

    fn spawn(&mut self, asker: Asker, parents: Side, programs: Vec<Wanted>) {
        if let Err(text) = self.may_spawn(&parents, &programs) {
            return self.reply(asker, refuse(Refusal::Spawn, text));
        }
        let first = self.ranks.len() as u32;
        let ranks = first..first + programs.iter().map(|program| program.processes).sum::<u32>();
        let (world, machine) = (self.worlds.len(), self.options.machines.len());
        let name = if self.options.is_remote { "an executor" } else { &self.options.machines[0] };
        self.options.machines.push(name.to_owned());
        self.options.host_of.push(0);
        for _ in ranks.clone() {
            self.options.machine_of.push(machine);
            self.ranks.push(Rank { world, ..Rank::default() });
        }
        let living = ranks.len() as u32;
        self.living += living;
        self.worlds.push(World {
            ranks: ranks.clone(),
            living,
            state: State::Spawning { asker, parents },
            revoked: false,
        });
        self.commands.push(Command::Start { machine, ranks, programs });
    }

    fn may_spawn(&self, parents: &Side, programs: &[Wanted]) -> Result<(), String> {
        if let Some(why) = &self.options.fixed {
            return Err(why.clone());
        }
        if self.ending.is_some() {
            return Err("the program is being ended".to_owned());
        }
        let asked: u64 = programs.iter().map(|program| u64::from(program.processes)).sum();
        let living = u64::from(self.living - self.worlds[0].living);
        if asked == 0 || programs.iter().any(|program| program.command.is_empty()) {
            return Err("no process is asked for".to_owned());
        }
        let is_long = |host: &String| host.len() > MOST_HOST;
        if programs.len() as u64 > MOST_SPAWNED.into() || programs.iter().flat_map(|it| &it.host).any(is_long) {
            return Err(format!("more than {MOST_SPAWNED} programs, or a host of more than {MOST_HOST} bytes"));
        }
        if let Some(named) = programs.iter().flat_map(|program| &program.host).find(|it| !self.may_have(it)) {
            return Err(format!(
                "no executor is called {named}: all of the program is on {}",
                self.options.machines[0]
            ));
        }
        if asked + living > MOST_SPAWNED.into() {
            return Err(format!("{asked} processes, with the {living} that live, are more than {MOST_SPAWNED}"));
        }
        if asked + self.ranks.len() as u64 > MOST_RANKS.into() {
            return Err(format!(
                "a program has at most {MOST_RANKS} processes in its life, and had {}",
                self.ranks.len()
            ));
        }
        match parents.processes.iter().all(|process| (*process as usize) < self.ranks.len()) {
            true => Ok(()),
            false => Err("the parents are not of this program".to_owned()),
        }
    }

    /// Whether the program may use that machine. Only the driver knows which executors there are.
    fn may_have(&self, named: &str) -> bool {
        self.options.is_remote || named == "localhost" || named == self.options.machines[0]
    }

    /// A process of a spawned world has joined, and is told its parents. If the world is on several machines, all its
    /// processes are told when all have joined. Then the asking parent also gets its answer.
    pub(super) fn greet(&mut self, rank: u32) {
        let number = self.ranks[rank as usize].world;
        let World { ranks, state: State::Spawning { asker, parents }, .. } = &self.worlds[number] else { return };
        let (asker, born, ranks) = (*asker, ToRank::Born { parents: parents.clone() }, ranks.clone());
        let (is_spread, all) = (self.machines_of(number).len() > 1, self.all_joined(number));
        if !is_spread {
            self.commands.push(Command::Tell { ranks: vec![rank], message: born });
        } else if all && self.ending.is_none() {
            self.tell_table(number); // they wait for the table first
            let tell = |rank| Command::Tell { ranks: vec![rank], message: born.clone() };
            self.commands.extend(ranks.clone().map(tell));
        }
        if all {
            self.worlds[number].state = State::Begun;
            self.reply(asker, Answer::Side(Side { context: 0, processes: ranks.collect() }));
        }
    }

    /// Handles the end of a process whose world is not complete. `how`: its fault, if any. Returns false only if the
    /// world is complete, so that the end counts as usual. The first process that ends too early makes the spawn fail.
    pub(super) fn fail_to_spawn(&mut self, rank: u32, how: Option<&str>) -> bool {
        let Rank { world: number, phase, .. } = self.ranks[rank as usize];
        let World { ranks, state, .. } = &mut self.worlds[number];
        match state {
            State::Begun => return false,
            State::Failed => return true,
            State::Spawning { .. } if how.is_none() && phase == Phase::Finalized => return true,
            State::Spawning { asker, .. } => {
                let (asker, place) = (*asker, rank - ranks.start);
                *state = State::Failed;
                let text = format!("process {place} of {} {}", ranks.len(), how.unwrap_or("ended without MPI_Init"));
                self.reply(asker, Answer::NotSpawned { text, failed: vec![place] });
            }
        }
        self.end_world(number);
        true
    }

    /// A process has joined a world that may have been given up before it was started.
    pub(super) fn end_late(&mut self, rank: u32) {
        if matches!(self.worlds[self.ranks[rank as usize].world].state, State::Failed) {
            self.commands.push(Command::End { machine: self.options.machine_of[rank as usize] });
        }
    }

    /// Kills the processes of a world.
    fn end_world(&mut self, number: usize) {
        let end = |machine| Command::End { machine };
        self.commands.extend(self.machines_of(number).into_iter().map(end));
    }

    /// A process has left or ended. Nothing waits for it any more, and its own waiting ends.
    pub(super) fn leave(&mut self, rank: u32) {
        self.ports.leave(rank).into_iter().for_each(|(asker, answer)| self.reply(asker, answer));
        for number in 0..self.worlds.len() {
            if matches!(self.worlds[number].state, State::Spawning { asker, .. } if asker.rank == rank) {
                self.worlds[number].state = State::Failed;
                self.end_world(number);
            }
        }
    }

    /// Connects two processes of different worlds. Both may ask; only the first request counts.
    pub(super) fn meet(&mut self, one: u32, other: u32) {
        let Some(its) = self.ranks.get(other as usize) else { return self.on_nonsense(self.now, one) };
        if its.phase == Phase::Finalized || its.end == Some(End::Well) {
            let message = ToRank::Left { process: other };
            return self.commands.push(Command::Tell { ranks: vec![one], message });
        }
        let is_ready = |rank: u32| {
            let rank = &self.ranks[rank as usize];
            rank.passes_messages() && matches!(self.worlds[rank.world].state, State::Begun)
        };
        let apart = self.ranks[one as usize].world != its.world;
        if !apart || !is_ready(one) || !is_ready(other) {
            return; // a process that is not ready asks, or is asked for, later; losses were announced
        }
        if self.ranks[one.max(other) as usize].met.insert(one.min(other)) {
            match self.options.is_remote {
                true => self.ask_where(one, other),
                false => self.commands.push(Command::Meet { one, other }),
            }
        }
    }

    /// Whether the process belongs to a world that is still being spawned.
    pub(super) fn is_spawning(&self, rank: u32) -> bool {
        let state = self.ranks.get(rank as usize).map(|it| &self.worlds[it.world].state);
        matches!(state, Some(State::Spawning { .. }))
    }

    /// The process's name for people, if its world was spawned.
    pub(super) fn spawned_name(&self, rank: u32) -> Option<String> {
        let number = self.ranks[rank as usize].world;
        let place = rank - self.worlds[number].ranks.start;
        (number > 0).then(|| format!("rank {place} of spawned world {number}"))
    }
}
