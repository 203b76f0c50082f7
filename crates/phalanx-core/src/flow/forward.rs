//! Routes the tokens of a graph: the output of an instruction goes to its targets.

use super::Engine;
use super::graph::{Instruction, Takes, Target};
use super::groups::Groups;
use super::pace::{MOST_TOKENS, average};
use super::program::Program;
use super::repository::Work;
use crate::error::WireError;
use crate::event::Outcome;
use crate::ids::{FiringId, InterpreterId, RunId, TaskId};
use crate::wire::{PAST, Stayed, Tokens};
use std::time::Duration;

/// Limit on the parts of one token. More are an error of the program, which interpreters report.
pub const MOST_PARTS: u32 = 1 << 20;
/// Limit on the bytes that an interpreter may send ahead of an answer. The interpreter stops a program at half of it.
const MOST_BYTES_AHEAD: u64 = 1 << 31;
/// Parts stored together in one piece of work. The trade-off: taking a few out of a piece costs a look at all of its
/// parts.
const PIECE: u32 = 1024;

/// The output of a firing, as the interpreter reports it.
#[derive(Debug)]
pub struct Given {
    /// If the instruction branches: for each token, the number of outputs, or that it leaves early.
    pub ways: Vec<u32>,
    /// Output of the earlier instructions that the interpreter fired one after the other on the same tasks.
    pub stayed: Vec<Stayed>,
    pub tokens: Tokens,
}

impl Given {
    /// The number of tasks of the firing that this answers.
    pub fn tasks(&self) -> u32 {
        if self.ways.is_empty() { self.tokens.count() } else { self.ways.len() as u32 }
    }
}

/// Tokens with the same targets.
struct Parcel<'a> {
    targets: &'a [Target],
    fan: u16,
    first: u64,
    tokens: Tokens,
}

impl Engine {
    /// Parts of the output of the firing's next token, sent ahead of its answer.
    pub(super) fn on_ahead(&mut self, id: InterpreterId, firing: FiringId, parts: Tokens) -> Result<(), WireError> {
        let interpreter = self.interpreters.get_mut(&id).expect("messages of others were dropped");
        let head = interpreter.in_flight.front_mut().filter(|head| head.id == firing);
        let head = head.ok_or(WireError::UnexpectedAnswer)?;
        let Some(run) = self.runs.get(&head.work.run) else { return Ok(()) };
        let graph = &self.programs[&run.program].graph;
        let mut numbers = std::iter::once(&head.work.instruction).chain(&head.follow);
        let splits = numbers.any(|number| graph.instruction(*number).splits.is_some());
        let (count, bytes) = head.ahead.iter().fold((parts.count(), parts.bytes()), |(count, bytes), piece| {
            (count.saturating_add(piece.count()), bytes.saturating_add(piece.bytes()))
        });
        if !splits
            || !parts.is_separate()
            || parts.count() == 0
            || count > MOST_PARTS + MOST_TOKENS
            || bytes > MOST_BYTES_AHEAD
        {
            return Err(WireError::UnexpectedAnswer);
        }
        head.ahead.push(parts);
        Ok(())
    }

    /// Refuses output that the instruction cannot have given. Also checks the parts sent ahead, and the instructions
    /// fired on output that stayed.
    pub(super) fn check_given(
        &mut self,
        id: InterpreterId,
        firing: FiringId,
        given: &Given,
    ) -> Result<(Vec<Tokens>, Vec<u16>), WireError> {
        let interpreter = self.interpreters.get_mut(&id).expect("messages of others were dropped");
        let head = interpreter.in_flight.front_mut().filter(|head| head.id == firing);
        let head = head.ok_or(WireError::UnexpectedAnswer)?;
        let ahead = std::mem::take(&mut head.ahead);
        let followed = head.follow.get(..given.stayed.len()).ok_or(WireError::UnexpectedAnswer)?.to_vec();
        let Some(run) = self.runs.get(&head.work.run) else { return Ok((ahead, followed)) };
        let graph = &self.programs[&run.program].graph;
        let sent = ahead.iter().map(Tokens::count).sum::<u32>().saturating_add(given.tokens.count());
        let fits = match graph.instruction(*followed.last().unwrap_or(&head.work.instruction)) {
            _ if graph.is_chain() => given.ways.is_empty(),
            it if it.branches() => given.tokens.is_separate() && fit(it, &given.ways, sent),
            _ => given.tokens.is_separate() && given.ways.is_empty() && ahead.is_empty(),
        };
        if fits { Ok((ahead, followed)) } else { Err(WireError::UnexpectedAnswer) }
    }

    /// Feeds tasks of the stream into a graph.
    pub(super) fn feed_graph(&mut self, now: Duration, run_id: RunId, tasks: Tokens) -> Result<(), WireError> {
        if !tasks.is_separate() {
            return Err(WireError::Lengths);
        }
        let Some(run) = self.runs.get_mut(&run_id) else { return Ok(()) };
        let first = run.feed(now, tasks.count());
        if let Some(groups) = &mut run.groups {
            groups.open(first, tasks.count());
        }
        let entry = self.programs[&run.program].graph.entry().to_vec();
        let mut works = Vec::new();
        self.forward(run_id, &Parcel { targets: &entry, fan: 0, first, tokens: tasks }, &mut works)?;
        works.into_iter().for_each(|work| self.repository.append(work));
        Ok(())
    }

    /// Routes the output of the tokens of `works`.
    pub(super) fn give(&mut self, works: &[Work], ahead: Vec<Tokens>, given: Given) -> Result<(), WireError> {
        let (run, number) = (works[0].run, works[0].instruction);
        let instruction = self.programs[&self.runs[&run].program].graph.instruction(number).clone();
        let mut new = Vec::new();
        if given.ways.is_empty() {
            let pieces = given.tokens.cut(works.iter().map(|work| work.count))?;
            for (work, tokens) in works.iter().zip(pieces) {
                let parcel = Parcel { targets: &instruction.on, fan: instruction.fan, first: work.task, tokens };
                let before = new.len();
                self.forward(run, &parcel, &mut new)?;
                rank(&mut new[before..], instruction.fan, work.task, work);
            }
        } else {
            let tokens = Tokens::concat(&ahead.into_iter().chain([given.tokens]).collect::<Vec<_>>());
            let pieces = tokens.cut(given.ways.iter().map(|way| if *way == PAST { 1 } else { *way }))?;
            let numbers_of = |work: &Work| work.task..work.task + u64::from(work.count);
            let numbers = works.iter().flat_map(|work| numbers_of(work).map(move |number| (number, work)));
            for (((first, work), way), tokens) in numbers.zip(&given.ways).zip(pieces) {
                let before = new.len();
                let targets = if *way == PAST { &instruction.past } else { &instruction.on };
                let parcel = Parcel { targets, fan: instruction.fan, first, tokens };
                match instruction.splits.filter(|_| *way != PAST) {
                    Some(fan) => self.split(run, fan, parcel, &mut new)?,
                    None => self.forward(run, &parcel, &mut new)?,
                }
                rank(&mut new[before..], instruction.fan, first, work);
            }
        }
        new.sort_by_key(|work| work.instruction); // so that work that can travel together is adjacent
        self.repository.insert(new, false);
        Ok(())
    }

    /// The parts of a token become a group.
    fn split(&mut self, run_id: RunId, fan: u16, whole: Parcel<'_>, new: &mut Vec<Work>) -> Result<(), WireError> {
        let (program, groups) = self.program_and_groups(run_id);
        let Parcel { targets, first: of, tokens, .. } = whole;
        let size = tokens.count();
        let parts = &mut program.parts[usize::from(fan)];
        *parts = average(*parts, f64::from(size));
        if groups.task_of(whole.fan, of).is_none() {
            return Ok(());
        }
        if size == 0 {
            new.push(program.group(run_id, program.graph.join(fan), of, tokens));
            return Ok(());
        }
        let mut first = groups.split(fan, of, size, tokens.bytes());
        let sizes = (0..size).step_by(PIECE as usize).map(|start| PIECE.min(size - start));
        for tokens in tokens.cut(sizes)? {
            let next = first + u64::from(tokens.count());
            self.forward(run_id, &Parcel { targets, fan, first, tokens }, new)?;
            first = next;
        }
        Ok(())
    }

    /// Sends tokens to all their targets, as far as they are still wanted. Work that becomes fireable is added to
    /// `new`.
    fn forward(&mut self, run: RunId, parcel: &Parcel<'_>, new: &mut Vec<Work>) -> Result<(), WireError> {
        let (_, groups) = self.program_and_groups(run);
        let living = groups.living(parcel.fan, parcel.first, parcel.tokens.count());
        for (first, count) in living {
            let before = (first - parcel.first) as u32;
            let tokens = parcel.tokens.slice(before, count).0;
            for target in parcel.targets {
                self.forward_to(run, *target, first, tokens.clone(), new)?;
            }
        }
        Ok(())
    }

    fn forward_to(
        &mut self,
        run: RunId,
        target: Target,
        first: u64,
        tokens: Tokens,
        new: &mut Vec<Work>,
    ) -> Result<(), WireError> {
        let (program, groups) = self.program_and_groups(run);
        let Target::Instruction { instruction, slot } = target else {
            groups.close(first, tokens.count());
            self.settle(run, first, Outcome::Results { first, tokens });
            return Ok(());
        };
        let number = usize::from(instruction);
        match program.graph.instruction(instruction).takes {
            Takes::Token => {
                program.paces[number].weighed(tokens.count(), tokens.bytes());
                new.push(program.work(run, instruction, first, tokens));
            }
            Takes::Parts { fan } => {
                if let Some((of, parts)) = groups.put_part(fan, first, tokens) {
                    program.paces[number].weighed(1, parts.bytes());
                    new.push(program.group(run, instruction, of, parts));
                }
            }
            Takes::Inputs { .. } => {
                for (of, token) in (first..).zip(tokens.cut((0..tokens.count()).map(|_| 1))?) {
                    if let Some(inputs) = groups.put_input(instruction, slot, of, token) {
                        program.paces[number].weighed(1, inputs.bytes());
                        new.push(program.group(run, instruction, of, inputs));
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the task that the work belongs to, and returns it. What is left of it is no longer wanted. `None`: the task
    /// had ended before.
    pub(super) fn task_of(&mut self, work: &Work) -> Option<TaskId> {
        let run = self.runs.get_mut(&work.run)?;
        let Some(groups) = &mut run.groups else { return Some(work.task) };
        let fan = self.programs[&run.program].graph.instruction(work.instruction).fan;
        let task = groups.task_of(fan, work.task)?;
        groups.drop_task(task);
        Some(task)
    }

    pub(super) fn program_and_groups(&mut self, run: RunId) -> (&mut Program, &mut Groups) {
        let run = self.runs.get_mut(&run).expect("what is closed has no work");
        let program = self.programs.get_mut(&run.program).expect("programs outlive their runs");
        (program, run.groups.as_mut().expect("a graph's run has groups"))
    }
}

/// Work that came from token `number` of `work` belongs to the same task.
fn rank(new: &mut [Work], fan: u16, number: u64, work: &Work) {
    new.iter_mut().for_each(|new| new.rank = if fan == 0 { number } else { work.rank });
}

/// Whether a branching instruction can have given `sent` tokens in these ways.
fn fit(instruction: &Instruction, ways: &[u32], sent: u32) -> bool {
    let possible = |way: u32| match way {
        PAST => !instruction.past.is_empty(),
        parts => instruction.splits.is_some() && parts <= MOST_PARTS || parts == 1,
    };
    let tokens = |way: u32| if way == PAST { 1 } else { u64::from(way) };
    ways.iter().all(|way| possible(*way)) && ways.iter().map(|way| tokens(*way)).sum::<u64>() == u64::from(sent)
}
