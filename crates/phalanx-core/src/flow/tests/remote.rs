//! A simulated interpreter: as the real one fires, answers, gives back and raises, with the time it would take.
//!
//! It is strict: what a manager must not send to it makes the test fail.

use super::graphs::{self, Gift};
use super::integers::{self, Form};
use super::plan::{Fate, Stream};
use crate::flow::Instruction;
use crate::ids::{FiringId, ProgramId};
use crate::wire::{Follow, FromInterpreter, PAST, Stayed, ToInterpreter, Tokens};
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

/// So many parts go ahead of an answer that holds more.
const AHEAD: usize = 2;

/// What an interpreter does on its own.
#[derive(Debug)]
pub enum Act {
    Say(FromInterpreter, Bytes),
    /// User code ends the process.
    Die(FiringId),
}

/// The pickled code of a stream: its place among the streams.
pub fn code_of(stream: usize) -> Bytes {
    vec![stream as u8].into()
}

pub struct Remote {
    streams: Rc<Vec<Stream>>,
    programs: HashMap<ProgramId, usize>,
    forgotten: HashSet<ProgramId>,
    /// What came ahead of the next firing.
    ahead: Option<(FiringId, Vec<u64>)>,
    free_at: Duration,
    /// How many times a grain it takes.
    slowness: u32,
    /// When each firing begins.
    begins: HashMap<FiringId, Duration>,
    /// Firings that were given back before they began.
    given_up: HashSet<FiringId>,
}

impl Remote {
    pub fn new(streams: Rc<Vec<Stream>>, slowness: u32) -> Remote {
        let (programs, forgotten, ahead, free_at) = (HashMap::new(), HashSet::new(), None, Duration::ZERO);
        let (begins, given_up) = (HashMap::new(), HashSet::new());
        Remote { streams, programs, forgotten, ahead, free_at, slowness, begins, given_up }
    }

    /// Whether it really does what it planned: what was given back is not done. That it is given back is said once.
    pub fn does(&self, now: Duration, act: &Act) -> bool {
        let firing = match act {
            Act::Die(firing) => firing,
            Act::Say(
                FromInterpreter::Fired { firing, .. }
                | FromInterpreter::Failed { firing, .. }
                | FromInterpreter::Ahead { firing, .. }
                | FromInterpreter::Returned { firing },
                _,
            ) => firing,
            Act::Say(..) => return true,
        };
        !self.given_up.contains(firing) || now < self.begins[firing]
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
            ToInterpreter::GiveUp { firing } => {
                if now < *self.begins.get(&firing).expect("a firing that was sent") && self.given_up.insert(firing) {
                    return vec![(now, Act::Say(FromInterpreter::Returned { firing }, Bytes::new()))];
                }
            }
            ToInterpreter::Ahead { firing, shape, .. } => {
                let tokens = Tokens::from_wire(shape, body).expect("shapes and bodies fit");
                let (of, ahead) = self.ahead.get_or_insert((firing, Vec::new()));
                assert_eq!(*of, firing, "what comes ahead is of another firing");
                ahead.extend(integers::numbers(&tokens));
            }
            ToInterpreter::Fire {
                firing, program, instruction, shape, first, count, slice, groups, follow, ..
            } => {
                let tokens = Tokens::from_wire(shape, body).expect("shapes and bodies fit");
                assert!(first + count <= tokens.count(), "more is to be fired than was sent");
                let numbers = &integers::numbers(&tokens)[first as usize..(first + count) as usize];
                let (ahead_of, mut all) = self.ahead.take().unwrap_or((firing, Vec::new()));
                assert_eq!(ahead_of, firing, "what came ahead was of another firing");
                all.extend_from_slice(numbers);
                let path: Vec<u16> =
                    std::iter::once(instruction).chain(follow.iter().map(|it: &Follow| it.instruction)).collect();
                let slice = Duration::from_nanos(slice);
                return self.fire(now, firing, program, &path, &units(&all, &groups), slice);
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
        path: &[u16],
        units: &[&[u64]],
        slice: Duration,
    ) -> Vec<(Duration, Act)> {
        assert!(!units.is_empty(), "nothing is to be fired");
        let stream = &self.streams[*self.programs.get(&program).expect("staged before it is fired")];
        assert!(path.iter().all(|instruction| *instruction < stream.instructions), "no such instruction");
        let began = self.free_at.max(now);
        self.begins.insert(firing, began);
        let mut answers = Answers::new(firing, stream.form, began);
        answers.sends_ahead = stream.piece < usize::MAX;
        for (done, unit) in (1..).zip(units) {
            if !self.fire_one(stream, path, unit, &mut answers) {
                answers.acts.push((answers.now, Act::Die(firing)));
                break;
            }
            let over = answers.now - began > slice || done == stream.patience;
            if over || done == units.len() || answers.results.len() >= stream.piece {
                answers.give();
            }
            if over && done < units.len() {
                answers.say(FromInterpreter::Returned { firing }, Bytes::new());
                break;
            }
        }
        self.free_at = answers.now;
        answers.acts
    }

    /// Fires the instructions of the path as long as what they give is heavy; whether it lives.
    fn fire_one(&self, stream: &Stream, path: &[u16], unit: &[u64], answers: &mut Answers) -> bool {
        let task = unit.first().map(|number| integers::task_of(*number));
        let heavy = task.is_some_and(|task| stream.is_heavy(task));
        let mut unit = unit.to_vec();
        for (place, instruction) in (1..).zip(path.iter().copied()) {
            answers.now += stream.grain(task.unwrap_or_default(), instruction) * self.slowness;
            match task.map_or(Fate::Gives, |task| stream.fate(task, instruction)) {
                Fate::Raises => answers.fail(task.unwrap_or_default()),
                Fate::Kills => return false,
                Fate::Gives if heavy && place < path.len() => {
                    unit = vec![match &stream.graph {
                        Some(graph) => graphs::only(instruction, graph.instruction(instruction), &unit),
                        None => integers::apply(instruction, unit[0]),
                    }];
                    answers.stay();
                    continue;
                }
                Fate::Gives => match &stream.graph {
                    Some(graph) => answers.take(instruction, graph.instruction(instruction), &unit),
                    None => answers.results.push(integers::apply(instruction, unit[0])),
                },
            }
            break;
        }
        if heavy {
            answers.give();
        }
        true
    }
}

/// What is to be fired together: groups of these sizes, or one token at a time.
fn units<'a>(mut numbers: &'a [u64], groups: &[u32]) -> Vec<&'a [u64]> {
    if groups.is_empty() {
        return numbers.chunks(1).collect();
    }
    let mut units = Vec::new();
    for size in groups {
        let (unit, rest) = numbers.split_at(*size as usize);
        numbers = rest;
        units.push(unit);
    }
    assert!(numbers.is_empty(), "groups do not add up to what was sent");
    units
}

/// The answers to one firing.
struct Answers {
    firing: FiringId,
    form: Form,
    now: Duration,
    answered: Duration,
    results: Vec<u64>,
    /// For each token of an instruction that branches.
    ways: Vec<u32>,
    /// What the token that is next to be answered was before.
    stayed: Vec<Stayed>,
    /// Who answers in pieces does so also within the parts of one token.
    sends_ahead: bool,
    acts: Vec<(Duration, Act)>,
}

impl Answers {
    fn new(firing: FiringId, form: Form, now: Duration) -> Answers {
        let (results, ways, stayed, acts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Answers { firing, form, now, answered: now, results, ways, stayed, sends_ahead: false, acts }
    }

    /// What an instruction of a graph makes of its tokens; of many parts, some go ahead.
    fn take(&mut self, number: u16, instruction: &Instruction, unit: &[u64]) {
        let (way, mut tokens) = match graphs::fire(number, instruction, unit) {
            Gift::Past(token) => (PAST, vec![token]),
            Gift::On(tokens) => (tokens.len() as u32, tokens),
        };
        if self.sends_ahead && instruction.splits.is_some() && tokens.len() > AHEAD {
            self.give();
            let ahead = integers::tokens(self.form, &tokens[..AHEAD]);
            let (firing, shape) = (self.firing, ahead.shape().clone());
            self.say(FromInterpreter::Ahead { firing, shape }, ahead.to_owned_bytes());
            tokens.drain(..AHEAD);
        }
        self.results.extend(tokens);
        self.ways.extend(instruction.branches().then_some(way));
    }

    /// What an instruction gave stays; what came of earlier tokens is said first.
    fn stay(&mut self) {
        self.give();
        let stayed = Stayed { bytes: 1 << 20, busy: self.busy() };
        self.stayed.push(stayed);
    }

    fn give(&mut self) {
        let results = std::mem::take(&mut self.results);
        let ways = std::mem::take(&mut self.ways);
        if results.is_empty() && ways.is_empty() {
            return;
        }
        let tokens = integers::tokens(self.form, &results);
        let (firing, shape, busy) = (self.firing, tokens.shape().clone(), self.busy());
        let stayed = std::mem::take(&mut self.stayed);
        self.say(FromInterpreter::Fired { firing, shape, ways, stayed, busy, protection: 0 }, tokens.to_owned_bytes());
    }

    /// The task's number, as a pickled exception would hold it.
    fn fail(&mut self, task: u64) {
        self.give();
        self.stayed.clear();
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
