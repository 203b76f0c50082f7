//! A simulated interpreter: as the real one fires, answers, gives back and raises, with the time it would take.
//!
//! It is strict: what a manager must not send to it makes the test fail.

use super::integers::{self, Form};
use super::plan::{Fate, Stream};
use crate::ids::{FiringId, ProgramId};
use crate::wire::{FromInterpreter, ToInterpreter, Tokens};
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

/// What an interpreter does on its own.
#[derive(Debug)]
pub enum Act {
    Say(FromInterpreter, Bytes),
    /// User code ends the process.
    Die,
}

/// The pickled code of a stream: its place among the streams.
pub fn code_of(stream: usize) -> Bytes {
    vec![stream as u8].into()
}

pub struct Remote {
    streams: Rc<Vec<Stream>>,
    programs: HashMap<ProgramId, usize>,
    forgotten: HashSet<ProgramId>,
    free_at: Duration,
}

impl Remote {
    pub fn new(streams: Rc<Vec<Stream>>) -> Remote {
        Remote { streams, programs: HashMap::new(), forgotten: HashSet::new(), free_at: Duration::ZERO }
    }

    /// A message arrives; what the interpreter will do about it, and when.
    pub fn take(&mut self, now: Duration, message: ToInterpreter, body: Bytes) -> Vec<(Duration, Act)> {
        match message {
            ToInterpreter::Stage { program, .. } => self.stage(now, program, &body),
            ToInterpreter::Forget { program } => {
                assert!(self.programs.remove(&program).is_some(), "{program:?} was not staged");
                self.forgotten.insert(program);
            }
            ToInterpreter::Beat => {}
            ToInterpreter::Fire { firing, program, instruction, shape, first, count, slice, .. } => {
                let tokens = Tokens::from_wire(shape, body).expect("shapes and bodies fit");
                assert!(count > 0 && first + count <= tokens.count(), "more is to be fired than was sent");
                let numbers = &integers::numbers(&tokens)[first as usize..(first + count) as usize];
                return self.fire(now, firing, program, instruction, numbers, Duration::from_nanos(slice));
            }
        }
        Vec::new()
    }

    fn stage(&mut self, now: Duration, program: ProgramId, code: &Bytes) {
        let stream = usize::from(code[0]);
        assert!(self.programs.insert(program, stream).is_none(), "{program:?} was staged twice");
        assert!(!self.forgotten.contains(&program), "{program:?} was forgotten");
        self.free_at = self.free_at.max(now) + self.streams[stream].staging;
    }

    fn fire(
        &mut self,
        now: Duration,
        firing: FiringId,
        program: ProgramId,
        instruction: u16,
        numbers: &[u64],
        slice: Duration,
    ) -> Vec<(Duration, Act)> {
        let stream = &self.streams[*self.programs.get(&program).expect("staged before it is fired")];
        assert!(instruction < stream.instructions, "no such instruction");
        let began = self.free_at.max(now);
        let mut answers =
            Answers { firing, form: stream.form, now: began, answered: began, results: Vec::new(), acts: Vec::new() };
        for (done, number) in (1..).zip(numbers) {
            let task = integers::task_of(*number);
            answers.now += stream.grain(task, instruction);
            match stream.fate(task, instruction) {
                Fate::Gives => answers.results.push(integers::apply(instruction, *number)),
                Fate::Raises => answers.fail(task),
                Fate::Kills => {
                    answers.acts.push((answers.now, Act::Die));
                    break;
                }
            }
            let over = answers.now - began > slice || done == stream.patience;
            if over || done == numbers.len() || answers.results.len() == stream.piece {
                answers.give();
            }
            if over && done < numbers.len() {
                answers.say(FromInterpreter::Returned { firing }, Bytes::new());
                break;
            }
        }
        self.free_at = answers.now;
        answers.acts
    }
}

/// The answers to one firing.
struct Answers {
    firing: FiringId,
    form: Form,
    now: Duration,
    answered: Duration,
    results: Vec<u64>,
    acts: Vec<(Duration, Act)>,
}

impl Answers {
    fn give(&mut self) {
        let results = std::mem::take(&mut self.results);
        if results.is_empty() {
            return;
        }
        let tokens = integers::tokens(self.form, &results);
        let (firing, shape, busy) = (self.firing, tokens.shape().clone(), self.busy());
        self.say(FromInterpreter::Fired { firing, shape, busy, protection: 0 }, tokens.to_owned_bytes());
    }

    /// The task's number, as a pickled exception would hold it.
    fn fail(&mut self, task: u64) {
        self.give();
        let (firing, busy) = (self.firing, self.busy());
        self.say(FromInterpreter::Failed { firing, busy }, task.to_le_bytes().to_vec().into());
    }

    fn say(&mut self, message: FromInterpreter, body: Bytes) {
        self.acts.push((self.now, Act::Say(message, body)));
    }

    fn busy(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.answered, self.now);
        (self.now - before).as_nanos() as u64
    }
}
