//! Handles the answers of interpreters.

use super::Engine;
use super::forward::Given;
use super::interpreter::Race;
use super::repository::Work;
use crate::error::WireError;
use crate::event::{Cause, Command, Fact, Outcome};
use crate::ids::{FiringId, InterpreterId};
use crate::wire::{FromInterpreter, Stayed, Tokens};
use bytes::Bytes;
use std::time::Duration;

impl Engine {
    pub(super) fn on_message(&mut self, now: Duration, id: InterpreterId, message: FromInterpreter, body: Bytes) {
        if !self.interpreters.contains_key(&id) {
            return; // lost before: its work has been fired elsewhere
        }
        self.on_heard(now, id);
        let understood = match message {
            FromInterpreter::Ready { .. } => Err(WireError::UnexpectedAnswer),
            FromInterpreter::Beat | FromInterpreter::Printed { .. } => Ok(()),
            FromInterpreter::Attacked => {
                self.commands.push_back(Command::Dismiss { id });
                self.on_lost(now, id, Cause::Attacked);
                Ok(())
            }
            FromInterpreter::Ahead { firing, shape } => {
                Tokens::from_wire(shape, body).and_then(|tokens| self.on_ahead(id, firing, tokens))
            }
            FromInterpreter::Fired { firing, shape, ways, stayed, busy, protection } => {
                let given = Tokens::from_wire(shape, body).map(|tokens| Given { ways, stayed, tokens });
                given.and_then(|given| self.on_fired(now, id, firing, given, busy, protection))
            }
            FromInterpreter::Failed { firing, busy } => {
                self.on_failed(now, id, firing, body, Duration::from_nanos(busy))
            }
            FromInterpreter::Returned { firing, kept } => self.on_returned(now, id, firing, kept),
            FromInterpreter::Stop { firing, token } => self.on_stop(now, id, firing, token),
        };
        if let Err(error) = understood {
            self.commands.push_back(Command::Dismiss { id });
            self.on_lost(now, id, Cause::Protocol { what: error.to_string() });
        }
    }

    /// Results have arrived: they become tokens of the next instruction, or leave the program.
    pub(super) fn on_fired(
        &mut self,
        now: Duration,
        id: InterpreterId,
        firing: FiringId,
        given: Given,
        busy: u64,
        protection: u64,
    ) -> Result<(), WireError> {
        let (ahead, followed) = self.check_given(id, firing, &given)?;
        let (tasks, bytes) = (given.tasks(), given.tokens.bytes() + ahead.iter().map(Tokens::bytes).sum::<u64>());
        let whole = given.stayed.iter().fold(busy, |whole, stayed| whole.saturating_add(stayed.busy));
        let (mut works, race) = self.answered(now, id, firing, tasks, Duration::from_nanos(whole))?;
        let run = works[0].run;
        if race == Race::Lost {
            let busy = whole;
            self.record(Fact::Dropped { interpreter: id, run, tasks, bytes, busy, protection });
            self.fire(now);
            return Ok(());
        }
        self.win(race);
        self.on_stayed(id, tasks, &mut works, &followed, &given.stayed);
        let (instruction, duration) = (works[0].instruction, Duration::from_nanos(busy));
        self.record(Fact::Answered { interpreter: id, run, instruction, tasks, bytes, busy, protection });
        let Some(open) = self.runs.get(&run) else {
            self.fire(now);
            return Ok(());
        };
        let program = self.programs.get_mut(&open.program).expect("programs outlive their runs");
        let pace = &mut program.paces[usize::from(instruction)];
        if let Some(interpreter) = self.interpreters.get_mut(&id) {
            interpreter.compared(pace.ratio(tasks, duration));
        }
        pace.measured(tasks, duration, bytes);
        if open.groups.is_some() {
            self.give(&works, ahead, given)?;
        } else {
            self.pass_on(&works[0], given.tokens, bytes);
        }
        self.fire(now);
        Ok(())
    }

    /// The output of `tasks` tasks stayed at the interpreter, and the following instructions were fired on it. `works`
    /// now belongs to the last of these.
    pub(super) fn on_stayed(
        &mut self,
        id: InterpreterId,
        tasks: u32,
        works: &mut [Work],
        followed: &[u16],
        stayed: &[Stayed],
    ) {
        let (run, mut instruction) = (works[0].run, works[0].instruction);
        for (next, Stayed { bytes, busy }) in followed.iter().zip(stayed.iter().copied()) {
            self.record(Fact::Stayed { interpreter: id, run, instruction, bytes, busy });
            if let Some(program) = self.runs.get(&run).and_then(|run| self.programs.get_mut(&run.program)) {
                program.paces[usize::from(instruction)].stayed(tasks, Duration::from_nanos(busy), bytes);
            }
            instruction = *next;
        }
        works.iter_mut().for_each(|work| work.instruction = instruction);
    }

    /// Passes the output of a chain's instruction on to the next one, or out of the program.
    pub(super) fn pass_on(&mut self, work: &Work, tokens: Tokens, bytes: u64) {
        let program = self.programs.get_mut(&self.runs[&work.run].program).expect("programs outlive their runs");
        match program.graph.next(work.instruction) {
            Some(next) => {
                program.paces[usize::from(next)].weighed(tokens.count(), bytes);
                let work = program.work(work.run, next, work.task, tokens);
                self.put_aside_cancelled(work, |engine, work| engine.repository.prepend(work));
            }
            None => self.settle(work.run, work.task, Outcome::Results { first: work.task, tokens }),
        }
    }

    pub(super) fn on_failed(
        &mut self,
        now: Duration,
        id: InterpreterId,
        firing: FiringId,
        error: Bytes,
        busy: Duration,
    ) -> Result<(), WireError> {
        let (works, race) = self.answered(now, id, firing, 1, busy)?;
        if race == Race::Lost {
            self.fire(now);
            return Ok(());
        }
        self.win(race);
        let by = self.interpreters[&id].name.clone();
        if let Some(task) = self.tried_enough(&works[0]).then(|| self.task_of(&works[0])).flatten() {
            self.record(Fact::Raised { interpreter: id, run: works[0].run, task });
            self.settle(works[0].run, task, Outcome::Raised { task, error, by });
        }
        self.fire(now);
        Ok(())
    }

    /// The interpreter has returned all but the first `kept` tasks of a firing, without having begun them. Answers sent
    /// earlier have already arrived.
    pub(super) fn on_returned(
        &mut self,
        now: Duration,
        id: InterpreterId,
        firing: FiringId,
        kept: u32,
    ) -> Result<(), WireError> {
        let interpreter = self.interpreters.get_mut(&id).expect("messages of others were dropped");
        let place = interpreter.in_flight.iter().position(|other| other.id == firing);
        let place = place.ok_or(WireError::UnexpectedAnswer)?;
        let (tasks, race) = (interpreter.in_flight[place].tasks(), interpreter.in_flight[place].race);
        let begun = kept.checked_sub(interpreter.in_flight[place].answered).filter(|begun| *begun < tasks);
        let (works, race) = match (place, begun.ok_or(WireError::UnexpectedAnswer)?) {
            (0, 0) => self.answered(now, id, firing, tasks, Duration::ZERO)?,
            (0, begun) => (interpreter.take_back_behind(begun), race),
            (_, 0) => interpreter.take_back(place).ok_or(WireError::UnexpectedAnswer)?,
            _ => return Err(WireError::UnexpectedAnswer),
        };
        self.record(Fact::Returned { interpreter: id, tasks: works.iter().map(|work| work.count).sum() });
        self.hand_back(race, works.into_iter(), Engine::give_back);
        if let Race::Against(..) = race {
            self.set_race(id, firing, Race::Lost); // the other firing has all of it
        }
        self.fire(now);
        Ok(())
    }

    /// Removes the next `tasks` tasks from the firing, which must be first in flight and hold that many. If it was in a
    /// race, it has won.
    pub(super) fn answered(
        &mut self,
        now: Duration,
        id: InterpreterId,
        firing: FiringId,
        tasks: u32,
        busy: Duration,
    ) -> Result<(Vec<Work>, Race), WireError> {
        let interpreter = self.interpreters.get_mut(&id).expect("messages of others were dropped");
        let head = interpreter.in_flight.front_mut().filter(|head| head.id == firing && head.tasks() >= tasks);
        let head = head.filter(|_| tasks > 0).ok_or(WireError::UnexpectedAnswer)?;
        head.busy += busy;
        head.answered += tasks;
        head.ahead.clear();
        let (works, race) = (head.split_off(tasks), head.race);
        if race != Race::Lost {
            head.race = Race::Alone;
        }
        if head.work.count == 0 {
            let spent = interpreter.complete(now);
            if let Some(run) = self.runs.get_mut(&works[0].run).filter(|_| race != Race::Lost) {
                run.spent += spent;
            }
        }
        Ok((works, race))
    }
}
