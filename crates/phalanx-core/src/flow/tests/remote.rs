//! A simulated interpreter. It fires, answers, returns and raises like a real one, with realistic times.
//!
//! It is strict: a message that a manager must not send makes the test fail.

use super::graphs::{self, Gift};
use super::integers::{self, Form};
use super::plan::{Fate, Stream};
use crate::flow::Instruction;
use crate::ids::{FiringId, ProgramId};
use crate::wire::{Follow, FromInterpreter, PAST, Stayed, ToInterpreter, Tokens};
use bytes::Bytes;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// The number of parts sent ahead of an answer with more parts.
const AHEAD: usize = 2;

/// An action of the interpreter itself.
#[derive(Debug)]
pub enum Act {
    Say(FromInterpreter, Bytes),
    /// It has fired a token.
    Step,
    /// User code kills the process.
    Die,
}

/// The pickled code of a stream: the index of the stream.
pub fn code_of(stream: usize) -> Bytes {
    vec![stream as u8].into()
}

pub struct Remote {
    streams: Rc<Vec<Stream>>,
    programs: HashMap<ProgramId, usize>,
    forgotten: HashSet<ProgramId>,
    /// Tokens that came ahead of the next firing.
    ahead: Option<(FiringId, Vec<u64>)>,
    free_at: Duration,
    /// Its slowness: its time as a multiple of the grain.
    slowness: u32,
    /// The firing under way.
    running: Option<Running>,
    /// Firings that have not begun.
    waiting: VecDeque<Running>,
    seen: HashSet<FiringId>,
}

/// A firing and its progress.
struct Running {
    stream: usize,
    path: Vec<u16>,
    /// The tokens that have not begun.
    units: VecDeque<Vec<u64>>,
    begun: usize,
    began: Duration,
    slice: Duration,
    /// After this long on one token it asks to be ended; zero: never.
    timeout: Duration,
    answers: Answers,
}

impl Remote {
    pub fn new(streams: Rc<Vec<Stream>>, slowness: u32) -> Remote {
        let (programs, forgotten, ahead, free_at) = (HashMap::new(), HashSet::new(), None, Duration::ZERO);
        let (running, waiting, seen) = (None, VecDeque::new(), HashSet::new());
        Remote { streams, programs, forgotten, ahead, free_at, slowness, running, waiting, seen }
    }

    /// Handles a message. Returns what the interpreter will do, and when.
    pub fn take(&mut self, now: Duration, message: ToInterpreter, body: Bytes) -> Vec<(Duration, Act)> {
        match message {
            ToInterpreter::Stage { program, .. } => self.stage(now, program, &body),
            ToInterpreter::Forget { program } => {
                assert!(self.programs.remove(&program).is_some(), "{program:?} was not staged");
                self.forgotten.insert(program);
            }
            ToInterpreter::Beat | ToInterpreter::Shown { .. } | ToInterpreter::Delegation => {}
            ToInterpreter::GiveUp { firing } => return self.give_up(now, firing).into_iter().collect(),
            ToInterpreter::Cancel { firing, token } => return self.cancel(now, firing, token),
            ToInterpreter::Ahead { firing, shape, .. } => {
                let tokens = Tokens::from_wire(shape, body).expect("shapes and bodies fit");
                let (of, ahead) = self.ahead.get_or_insert((firing, Vec::new()));
                assert_eq!(*of, firing, "what comes ahead is of another firing");
                ahead.extend(integers::numbers(&tokens));
            }
            ToInterpreter::Fire {
                firing,
                program,
                instruction,
                shape,
                first,
                count,
                slice,
                timeout,
                groups,
                follow,
                ..
            } => {
                let tokens = Tokens::from_wire(shape, body).expect("shapes and bodies fit");
                assert!(first + count <= tokens.count(), "more is to be fired than was sent");
                let numbers = &integers::numbers(&tokens)[first as usize..(first + count) as usize];
                let (ahead_of, mut all) = self.ahead.take().unwrap_or((firing, Vec::new()));
                assert_eq!(ahead_of, firing, "what came ahead was of another firing");
                all.extend_from_slice(numbers);
                let path: Vec<u16> =
                    std::iter::once(instruction).chain(follow.iter().map(|it: &Follow| it.instruction)).collect();
                let (units, times) = (units(&all, &groups), [slice, timeout].map(Duration::from_nanos));
                return self.fire(now, firing, program, path, units, times);
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
        path: Vec<u16>,
        units: VecDeque<Vec<u64>>,
        [slice, timeout]: [Duration; 2],
    ) -> Vec<(Duration, Act)> {
        assert!(!units.is_empty(), "nothing is to be fired");
        assert!(self.seen.insert(firing), "{firing:?} was sent twice");
        let number = *self.programs.get(&program).expect("staged before it is fired");
        let stream = &self.streams[number];
        assert!(path.iter().all(|instruction| *instruction < stream.instructions), "no such instruction");
        let mut answers = Answers::new(firing, stream.form, now);
        answers.sends_ahead = stream.piece < usize::MAX;
        let running = Running { stream: number, path, units, begun: 0, began: now, slice, timeout, answers };
        self.waiting.push_back(running);
        self.begin_next(now)
    }

    /// Begins the next firing if none is under way.
    fn begin_next(&mut self, now: Duration) -> Vec<(Duration, Act)> {
        if self.running.is_some() {
            return Vec::new();
        }
        let Some(mut next) = self.waiting.pop_front() else { return Vec::new() };
        let began = self.free_at.max(now);
        (next.began, next.answers.now, next.answers.answered) = (began, began, began);
        self.running = Some(next);
        self.begin_token()
    }

    /// The time and the effect of firing the next token.
    fn begin_token(&mut self) -> Vec<(Duration, Act)> {
        let Some(mut running) = self.running.take() else { return Vec::new() };
        let unit = running.units.pop_front().expect("a token is left");
        running.begun += 1;
        let began = running.answers.now;
        let lives = self.fire_one(&self.streams[running.stream], &running.path, &unit, &mut running.answers);
        let mut acts = std::mem::take(&mut running.answers.acts);
        if !running.timeout.is_zero() && running.answers.now > began + running.timeout {
            let (firing, token) = (running.answers.firing, running.begun as u32 - 1);
            acts.push((began + running.timeout, Act::Say(FromInterpreter::Stop { firing, token }, Bytes::new())));
        }
        acts.push((running.answers.now, if lives { Act::Step } else { Act::Die }));
        self.free_at = running.answers.now;
        self.running = Some(running);
        acts
    }

    /// The token under way is done: answers, and begins the next one.
    pub fn step(&mut self, now: Duration) -> Vec<(Duration, Act)> {
        let Some(running) = &mut self.running else { return Vec::new() };
        let stream = &self.streams[running.stream];
        let over = now - running.began > running.slice || running.begun == stream.patience;
        let is_done = running.units.is_empty();
        if over || is_done || running.answers.results.len() >= stream.piece {
            running.answers.give();
        }
        if over && !is_done {
            running.answers.give_back(running.begun);
        }
        let mut acts = std::mem::take(&mut running.answers.acts);
        if over || is_done {
            self.running = None;
            acts.extend(self.begin_next(now));
        } else {
            acts.extend(self.begin_token());
        }
        acts
    }

    /// Returns what has not begun, and asks to be ended if it is at the cancelled token.
    fn cancel(&mut self, now: Duration, firing: FiringId, token: u32) -> Vec<(Duration, Act)> {
        let mut acts: Vec<_> = self.give_up(now, firing).into_iter().collect();
        let running = self.running.as_ref().filter(|it| it.answers.firing == firing);
        if let Some(at) = running.map(|it| it.begun as u32 - 1).filter(|at| token == u32::MAX || token == *at) {
            acts.push((now, Act::Say(FromInterpreter::Stop { firing, token: at }, Bytes::new())));
        }
        acts
    }

    /// Returns the tokens of a firing that have not begun. A firing that is over was answered already.
    fn give_up(&mut self, now: Duration, firing: FiringId) -> Option<(Duration, Act)> {
        assert!(self.seen.contains(&firing), "{firing:?} was never sent");
        let kept = match &mut self.running {
            Some(running) if running.answers.firing == firing => {
                let left = std::mem::take(&mut running.units);
                (!left.is_empty()).then_some(running.begun)?
            }
            _ => {
                let place = self.waiting.iter().position(|it| it.answers.firing == firing)?;
                self.waiting.remove(place);
                0
            }
        };
        Some((now, Act::Say(FromInterpreter::Returned { firing, kept: kept as u32 }, Bytes::new())))
    }

    /// Fires the instructions of the path as long as their output is heavy. Returns whether the interpreter lives.
    fn fire_one(&self, stream: &Stream, path: &[u16], unit: &[u64], answers: &mut Answers) -> bool {
        let task = unit.first().map(|number| integers::task_of(*number));
        let heavy = task.is_some_and(|task| stream.is_heavy(task));
        let (mut unit, mut stayed) = (unit.to_vec(), Vec::new());
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
                    stayed.push(Stayed { bytes: 1 << 20, busy: answers.busy() });
                    continue;
                }
                Fate::Gives => match &stream.graph {
                    Some(graph) => answers.take(stayed, instruction, graph.instruction(instruction), &unit),
                    None => answers.add(stayed, None, vec![integers::apply(instruction, unit[0])]),
                },
            }
            break;
        }
        true
    }
}

/// The units of firing: groups of these sizes, or one token at a time.
fn units(mut numbers: &[u64], groups: &[u32]) -> VecDeque<Vec<u64>> {
    if groups.is_empty() {
        return numbers.chunks(1).map(<[u64]>::to_vec).collect();
    }
    let mut units = VecDeque::new();
    for size in groups {
        let (unit, rest) = numbers.split_at(*size as usize);
        numbers = rest;
        units.push_back(unit.to_vec());
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
    /// For each token, if the instruction branches.
    ways: Vec<u32>,
    /// The stayed outputs of the tokens to be answered next. All of these tokens have equally many.
    stayed: Vec<Stayed>,
    /// The time of the last instruction for them.
    busy: u64,
    /// An interpreter that answers in pieces also splits the parts of one token.
    sends_ahead: bool,
    acts: Vec<(Duration, Act)>,
}

impl Answers {
    fn new(firing: FiringId, form: Form, now: Duration) -> Answers {
        let (results, ways, stayed, acts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Answers { firing, form, now, answered: now, results, ways, stayed, busy: 0, sends_ahead: false, acts }
    }

    /// The output of a graph's instruction. If there are many parts, some are sent ahead.
    fn take(&mut self, stayed: Vec<Stayed>, number: u16, instruction: &Instruction, unit: &[u64]) {
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
        self.add(stayed, instruction.branches().then_some(way), tokens);
    }

    /// Adds a token with these stayed outputs to the answer. An answer only holds tokens with equally many.
    fn add(&mut self, stayed: Vec<Stayed>, way: Option<u32>, tokens: Vec<u64>) {
        if stayed.len() != self.stayed.len() {
            self.give();
            self.stayed = vec![Stayed { bytes: 0, busy: 0 }; stayed.len()];
        }
        for (sum, stayed) in self.stayed.iter_mut().zip(stayed) {
            (sum.bytes, sum.busy) = (sum.bytes + stayed.bytes, sum.busy + stayed.busy);
        }
        self.busy += self.busy();
        self.results.extend(tokens);
        self.ways.extend(way);
    }

    fn give(&mut self) {
        let results = std::mem::take(&mut self.results);
        let ways = std::mem::take(&mut self.ways);
        if results.is_empty() && ways.is_empty() {
            return;
        }
        let tokens = integers::tokens(self.form, &results);
        let (firing, shape, busy) = (self.firing, tokens.shape().clone(), std::mem::take(&mut self.busy));
        let stayed = std::mem::take(&mut self.stayed);
        self.say(FromInterpreter::Fired { firing, shape, ways, stayed, busy, protection: 0 }, tokens.to_owned_bytes());
    }

    /// The task's number, as a pickled exception would hold it.
    fn fail(&mut self, task: u64) {
        self.give();
        let (firing, busy) = (self.firing, self.busy());
        self.say(FromInterpreter::Failed { firing, busy }, task.to_le_bytes().to_vec().into());
    }

    fn give_back(&mut self, kept: usize) {
        self.say(FromInterpreter::Returned { firing: self.firing, kept: kept as u32 }, Bytes::new());
    }

    fn say(&mut self, message: FromInterpreter, body: Bytes) {
        self.acts.push((self.now, Act::Say(message, body)));
    }

    fn busy(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.answered, self.now);
        (self.now - before).as_nanos() as u64
    }
}
