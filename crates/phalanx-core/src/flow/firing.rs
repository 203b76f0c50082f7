//! Fires work at interpreters with room.

use super::gather::Bulk;
use super::interpreter::{Firing, Interpreter, Race};
use super::pace::SLICE;
use super::repository::{Queue, Work};
use super::{Engine, marks};
use crate::event::{Command, Fact};
use crate::ids::{FiringId, InterpreterId};
use crate::wire::{Follow, ToInterpreter, Tokens};
use std::collections::VecDeque;
use std::time::Duration;

impl Engine {
    /// Gives fireable work to interpreters with room, the least busy first.
    pub(super) fn fire(&mut self, now: Duration) {
        while let Some((id, queue)) = self.choose(now) {
            let (runs, programs) = (&self.runs, &self.programs);
            let batch = |work: &Work| programs[&runs[&work.run].program].batch(work.instruction);
            // Work of up to twice the batch is fired as a whole, because an estimate that is off by less than that is
            // not worth a cut. A batch of one is always kept.
            let Some(work) = self.repository.take(queue, |work| match batch(work) {
                batch if batch == 1 || work.count > batch.saturating_mul(2) => batch,
                _ => work.count,
            }) else {
                return;
            };
            if self.runs[&work.run].groups.is_none() {
                self.fire_at(now, id, work, VecDeque::new());
            } else if let Some((work, more)) = self.collect(work) {
                self.fire_at(now, id, work, more);
            }
        }
    }

    /// The first fireable work for which an interpreter has room, and the least busy one that has what it needs. Work that
    /// waits keeps the interpreters that can fire it for itself.
    fn choose(&self, now: Duration) -> Option<(InterpreterId, Queue)> {
        let mut waiting: Vec<u16> = Vec::new();
        for next in self.repository.firsts() {
            let is_kept = |it: &Interpreter| waiting.iter().any(|needs| it.suits(*needs));
            let free = self.interpreters.iter().filter(|(_, it)| !is_kept(it));
            // Work without needs goes to interpreters that can do nothing else, so that the others stay free.
            let room = free.filter_map(|(id, it)| Some((it.room(now, next)?, it.meets.len(), *id)));
            let chosen = room.min().filter(|(busy, _, id)| {
                // Otherwise the first interpreter to become free takes it.
                *busy <= SLICE || !self.is_another_free_before(now, *id, *busy, next.needs)
            });
            match chosen {
                Some((_, _, id)) => return Some((id, next.queue())),
                None if next.needs == 0 => return None, // every interpreter can fire it
                None => waiting.push(next.needs),
            }
        }
        None
    }

    pub(super) fn fire_at(&mut self, now: Duration, id: InterpreterId, work: Work, more: VecDeque<Work>) -> FiringId {
        let program_id = self.runs[&work.run].program;
        let program = &self.programs[&program_id];
        let interpreter = self.interpreters.get_mut(&id).expect("chosen among the interpreters");
        let stages = interpreter.staged.insert(program_id);
        if stages {
            let message = ToInterpreter::Stage { program: program_id, mark: program.marks.of_code() };
            self.commands.push_back(Command::Send { to: id, message, body: vec![program.code.clone()] });
        }
        let marked = program.marks.of(work.instruction);
        // Suspect work may kill its interpreter, so it is fired one instruction at a time.
        let follow = if work.is_suspect() { Vec::new() } else { program.follow(work.instruction) };
        let mark =
            |number: &u16| Follow { instruction: *number, gives: marks::of_tokens(program.marks.of(*number).gives) };
        let firing = FiringId(self.next_firing);
        self.next_firing += 1;
        let Bulk { tokens, first, count, groups, ahead } = match program.graph.is_chain() {
            true => Bulk::of_chain(&work),
            false => Bulk::of_graph(&work, &more),
        };
        let bytes = tokens.bytes() + ahead.iter().map(Tokens::bytes).sum::<u64>();
        for tokens in ahead {
            let takes = marks::of_tokens(marked.takes);
            let message = ToInterpreter::Ahead { firing, shape: tokens.shape().clone(), takes };
            self.commands.push_back(Command::Send { to: id, message, body: tokens.body() });
        }
        self.commands.push_back(Command::Send {
            to: id,
            message: ToInterpreter::Fire {
                firing,
                program: program_id,
                instruction: work.instruction,
                shape: tokens.shape().clone(),
                first,
                count,
                slice: SLICE.as_nanos() as u64,
                timeout: program.options(work.instruction).timeout_on_wire(),
                groups,
                takes: marks::of_tokens(marked.takes),
                gives: marks::of_tokens(marked.gives),
                follow: follow.iter().map(mark).collect(),
            },
            body: tokens.body(),
        });
        let (run, instruction) = (work.run, work.instruction);
        let tasks = work.count + more.iter().map(|work| work.count).sum::<u32>();
        interpreter.add(Firing {
            id: firing,
            more,
            follow,
            ahead: Vec::new(),
            bytes,
            // The time of the code's imports is unknown, and such a firing shows nothing about the network.
            estimate: program.estimate(instruction, tasks).filter(|_| !stages),
            sent: now,
            busy: Duration::ZERO,
            answered: 0,
            alone: interpreter.in_flight.is_empty() && !stages,
            stages,
            race: Race::Alone,
            asked_back: None,
            stop_at: None,
            work,
        });
        self.record(Fact::Fired { interpreter: id, run, instruction, tasks, bytes });
        firing
    }
}
