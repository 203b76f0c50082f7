//! The interpreter process for `phalanx/_interpreter.py`. Its link is read by a thread that never needs the GIL. So the
//! interpreter keeps sending beats, however long the user's code holds the GIL.

use crate::buffers::{Region, release};
use crate::tokens::{Packed, from_python, to_python};
use crate::turn::Turn;
use bytes::Bytes;
use phalanx_core::ids::{FiringId, ProgramId};
use phalanx_core::level::{Levels, Mark};
use phalanx_core::wire::{Follow, FromInterpreter, HEAVY, PAST, Stayed, ToInterpreter, Tokens, decode, encode};
use phalanx_net::frames::Frame;
use phalanx_net::link::{Link, LinkError, Reader};
use phalanx_net::sync::lock;
use phalanx_node::interpreter::{begin, end_process};
use phalanx_node::printing::Printing;
use phalanx_node::turn::Running;
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Interval at which an interpreter sends beats.
const BEAT: Duration = Duration::from_millis(300);
/// After this long without a task, unused memory is freed.
const IDLE: Duration = Duration::from_millis(400);
/// A manager that is silent for this long is considered gone: its machine was cut off or switched off.
const SILENCE: Duration = Duration::from_secs(30);

/// Messages that have arrived and were not taken yet, and the reading half of the link. The link's thread reads while the
/// user's code runs. While Python waits for a message, Python's thread reads itself, which saves a thread switch.
struct Inbox {
    queue: Mutex<Queue>,
    reader: Mutex<Reader>,
    printing: Arc<Printing>,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<(ToInterpreter, Bytes)>,
    /// A firing of which Python has some tokens already, and how many.
    ahead: Option<(FiringId, u32)>,
    /// The firing that Python works on.
    running: Option<Running>,
}

/// The marks of the current firing.
struct Marks {
    /// The mark of each staged program's code.
    code: HashMap<ProgramId, Mark>,
    gives: Mark,
    /// For each instruction that may follow, the mark of what it gives.
    follow: Vec<Mark>,
    /// The mark of an exception. It is the strongest of all, because an exception shows what the function took, what it would
    /// have given, and lines of its code.
    fails: Mark,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks { code: HashMap::new(), gives: Mark::None, follow: Vec::new(), fails: Mark::None }
    }
}

impl Marks {
    fn begin(&mut self, program: ProgramId, takes: Mark, gives: Mark, follow: &[Follow], levels: Levels) {
        let code = self.code.get(&program).copied().unwrap_or(Mark::None);
        self.follow = follow.iter().map(|it| it.gives).collect();
        let all = [takes, gives, code].into_iter().chain(self.follow.iter().copied());
        (self.gives, self.fails) = (gives, all.max_by_key(|mark| levels.of(*mark)).unwrap_or(gives));
    }

    /// The mark of the answer after `stayed` tokens have stayed.
    fn given(&self, stayed: usize) -> Mark {
        if stayed == 0 { self.gives } else { self.follow.get(stayed - 1).copied().unwrap_or(self.fails) }
    }
}

/// The process's only link, as Python uses it.
#[pyclass(frozen)]
pub struct Interpreter {
    link: Arc<Link>,
    inbox: Arc<Inbox>,
    /// The name of this machine.
    #[pyo3(get)]
    machine: String,
    /// The folders of the user's modules.
    #[pyo3(get)]
    path: Vec<String>,
    marks: Mutex<Marks>,
    /// The number of this process. It tells it from a fork made by the user's code.
    pid: u32,
}

#[pymethods]
impl Interpreter {
    /// A token of at least this many bytes stays here if an instruction follows.
    #[classattr]
    const HEAVY: u64 = HEAVY;

    /// Waits for the parent's first message, and for the data link.
    #[staticmethod]
    fn begin(py: Python<'_>) -> PyResult<Interpreter> {
        let (begin, link, reader, printing) = py.detach(|| begin().or_else(left_alone))?;
        let inbox = Arc::new(Inbox { queue: Mutex::default(), reader: Mutex::new(reader), printing });
        let (reading, alive) = (inbox.clone(), link.clone());
        std::thread::Builder::new().name("phalanx-link".into()).spawn(move || attend(&alive, &reading))?;
        link.send(Mark::None, encode(&FromInterpreter::Ready { pid: std::process::id() }, 0), Vec::new())
            .unwrap_or_else(|error| end_with_link(&link, &error));
        Ok(Interpreter {
            link,
            inbox,
            machine: begin.machine,
            path: begin.path,
            marks: Mutex::default(),
            pid: std::process::id(),
        })
    }

    /// The next message: `("stage", program, code)`, `("forget", program)`, `("ahead", firing, tokens)` or
    /// `("fire", program, firing, instruction, first, slice in seconds, tokens, count, groups, instructions that follow)`.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loop {
            self.end_copy();
            release(py); // also while no message comes
            let (message, body) = py.detach(|| self.wait());
            release(py);
            return Ok(match message {
                ToInterpreter::Beat | ToInterpreter::GiveUp { .. } | ToInterpreter::Shown { .. } => continue,
                ToInterpreter::Stage { program, mark } => {
                    self.inbox.printing.raise(mark);
                    lock(&self.marks).code.insert(program, mark);
                    ("stage", program.0, Bound::new(py, Region::new(body))?).into_pyobject(py)?.into_any()
                }
                ToInterpreter::Forget { program } => {
                    lock(&self.marks).code.remove(&program);
                    ("forget", program.0).into_pyobject(py)?.into_any()
                }
                ToInterpreter::Ahead { firing, shape, .. } => {
                    let Ok(tokens) = Tokens::from_wire(shape, body) else { end_process(1) };
                    ("ahead", firing.0, to_python(py, tokens)?).into_pyobject(py)?.into_any()
                }
                ToInterpreter::Fire {
                    firing,
                    program,
                    instruction,
                    shape,
                    first,
                    count,
                    slice,
                    groups,
                    takes,
                    gives,
                    follow,
                } => {
                    let mut marks = lock(&self.marks);
                    marks.begin(program, takes, gives, &follow, self.link.levels());
                    self.inbox.printing.raise(marks.fails);
                    drop(marks);
                    let Ok(tokens) = Tokens::from_wire(shape, body) else { end_process(1) };
                    let slice = Duration::from_nanos(slice).as_secs_f64();
                    let tokens = to_python(py, tokens)?;
                    let follow: Vec<u16> = follow.iter().map(|it| it.instruction).collect();
                    ("fire", program.0, firing.0, instruction, first, slice, tokens, count, groups, follow)
                        .into_pyobject(py)?
                        .into_any()
                }
            });
        }
    }

    /// Sends the results of the firing's next tokens. `busy` is in nanoseconds. `ways`: for each token of an instruction that
    /// branches, how many tokens it gives; `None`: it leaves. `stayed`: bytes and nanoseconds of the tokens that stayed before.
    #[pyo3(signature = (firing, results, ways, busy, stayed=Vec::new()))]
    fn fired(
        &self,
        py: Python<'_>,
        firing: u64,
        results: Packed,
        ways: Vec<Option<u32>>,
        busy: u64,
        stayed: Vec<(u64, u64)>,
    ) -> PyResult<()> {
        release(py);
        let tokens = from_python(py, results)?;
        let spent = self.link.counters().levels.iter().map(|spent| spent.protection.load(Ordering::Relaxed));
        let protection = spent.sum();
        let shape = tokens.shape().clone();
        let ways = ways.into_iter().map(|way| way.unwrap_or(PAST)).collect();
        let gives = lock(&self.marks).given(stayed.len());
        let stayed = stayed.into_iter().map(|(bytes, busy)| Stayed { bytes, busy }).collect();
        let message = FromInterpreter::Fired { firing: FiringId(firing), shape, ways, stayed, busy, protection };
        self.send(py, gives, &message, &tokens)
    }

    /// Sends parts of the firing's next token before its answer. `stayed` tokens of it stayed before.
    #[pyo3(signature = (firing, parts, stayed=0))]
    fn ahead(&self, py: Python<'_>, firing: u64, parts: Packed, stayed: usize) -> PyResult<()> {
        release(py);
        let tokens = from_python(py, parts)?;
        let message = FromInterpreter::Ahead { firing: FiringId(firing), shape: tokens.shape().clone() };
        let gives = lock(&self.marks).given(stayed);
        self.send(py, gives, &message, &tokens)
    }

    /// Reports that the firing's next token raised an exception. `error` is the pickled exception.
    fn failed(&self, py: Python<'_>, firing: u64, error: Vec<u8>, busy: u64) -> PyResult<()> {
        self.end_copy();
        let message = FromInterpreter::Failed { firing: FiringId(firing), busy };
        let bytes = error.len() as u64;
        let fails = lock(&self.marks).fails;
        py.detach(|| {
            self.inbox.printing.drain();
            self.link.send(fails, encode(&message, bytes), vec![error.into()])
        })
        .map_err(ended)
    }

    /// An iterator over the tokens of the current firing, taken from the iterator `objects` for `slice` seconds. It omits the
    /// tokens that the link's thread gives back meanwhile.
    fn turn(&self, objects: Py<PyIterator>, slice: f64) -> PyResult<Turn> {
        let running = lock(&self.inbox.queue).running.clone();
        let running = running.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("nothing is to be fired"))?;
        Ok(Turn::new(running, objects, Duration::try_from_secs_f64(slice).unwrap_or(Duration::MAX)))
    }

    /// Ends the firing. Its tokens that were not begun are given back.
    fn end_turn(&self, py: Python<'_>) -> PyResult<()> {
        self.end_copy();
        let running = lock(&self.inbox.queue).running.take();
        let given_back = running.and_then(|running| Some((running.firing, running.give_back()?)));
        let Some((firing, kept)) = given_back else { return Ok(()) };
        let message = FromInterpreter::Returned { firing, kept };
        py.detach(|| self.link.send(Mark::None, encode(&message, 0), Vec::new())).map_err(ended)
    }
}

impl Interpreter {
    /// Ends this process if it is a fork made by user code that returned into the interpreter. A fork must not answer.
    fn end_copy(&self) {
        if std::process::id() != self.pid {
            end_process(0);
        }
    }

    fn send(&self, py: Python<'_>, gives: Mark, message: &FromInterpreter, tokens: &Tokens) -> PyResult<()> {
        self.end_copy();
        py.detach(|| {
            self.inbox.printing.drain();
            self.link.send(gives, encode(message, tokens.bytes()), tokens.body())?;
            self.link.settle(); // waits until the arrays are sent, because the next firing may change them
            Ok(())
        })
        .map_err(ended)
    }

    fn wait(&self) -> (ToInterpreter, Bytes) {
        if let Some(message) = self.inbox.pop() {
            return message;
        }
        self.must(self.link.listen(false).map_err(LinkError::from));
        let (began, mut has_trimmed) = (Instant::now(), false);
        let message = loop {
            let mut reader = lock(&self.inbox.reader);
            // Messages are pushed under the reader's lock. So none can have come unseen once this thread holds it.
            if let Some(message) = self.inbox.pop() {
                break message;
            }
            if !has_trimmed && began.elapsed() >= IDLE {
                has_trimmed = true;
                phalanx_net::memory::give_back();
            }
            self.must(reader.poll_soon(BEAT, &mut |frame| self.inbox.push(&self.link, frame)));
        };
        self.must(self.link.listen(true).map_err(LinkError::from));
        message
    }

    /// Ends the process if the link has failed, because an interpreter is of no use without its link.
    fn must<T>(&self, outcome: Result<T, LinkError>) -> T {
        outcome.unwrap_or_else(|error| end_with_link(&self.link, &error))
    }
}

impl Inbox {
    fn pop(&self) -> Option<(ToInterpreter, Bytes)> {
        let mut queue = lock(&self.queue);
        let message = queue.messages.pop_front()?;
        let before = queue.ahead.map_or(0, |(_, tokens)| tokens);
        match &message.0 {
            ToInterpreter::Ahead { firing, shape, .. } => {
                queue.ahead = Some((*firing, before.saturating_add(shape.count())));
            }
            ToInterpreter::Fire { firing, count, groups, .. } => {
                let tokens = if groups.is_empty() { before.saturating_add(*count) } else { groups.len() as u32 };
                (queue.ahead, queue.running) = (None, Some(Running::new(*firing, tokens)));
            }
            _ => {}
        }
        Some(message)
    }

    /// Queues a message. The queue is bounded, because the manager bounds what it sends ahead of the answers. A request to give
    /// tokens back is answered at once, however long the user's code runs.
    fn push(&self, link: &Link, frame: Frame) {
        let Ok(message) = decode(&frame.header) else { end_process(1) };
        match message {
            ToInterpreter::GiveUp { firing } => self.give_back(link, firing),
            ToInterpreter::Beat => {}
            ToInterpreter::Shown { bytes } => self.printing.shown(bytes),
            message => lock(&self.queue).messages.push_back((message, frame.body)),
        }
    }

    fn give_back(&self, link: &Link, firing: FiringId) {
        // The lock is held so that this is sent before the next firing's answer.
        let mut queue = lock(&self.queue);
        if let Some(kept) = queue.take_back(firing) {
            link.queue(Mark::None, encode(&FromInterpreter::Returned { firing, kept }, 0), Vec::new());
            drop(queue);
            link.flush();
        }
    }
}

impl Queue {
    /// Takes back the tokens of a firing that were not begun. Returns how many of its tokens are kept. `None`: there is nothing
    /// to take back.
    fn take_back(&mut self, wanted: FiringId) -> Option<u32> {
        if let Some(running) = self.running.as_ref().filter(|running| running.firing == wanted) {
            return running.give_back();
        }
        if self.ahead.is_some_and(|(firing, _)| firing == wanted) {
            return None; // about to begin: Python has its first tokens already
        }
        let waiting = self.messages.len();
        self.messages.retain(|(message, _)| match message {
            ToInterpreter::Ahead { firing, .. } | ToInterpreter::Fire { firing, .. } => *firing != wanted,
            _ => true,
        });
        (self.messages.len() < waiting).then_some(0)
    }
}

/// The link's thread. It reads while Python does not, writes what the socket did not take at once, and sends beats. It ends the
/// process when the link ends or the manager is silent.
fn attend(link: &Link, inbox: &Inbox) {
    let (mut last_beat, mut last_look, mut silent, mut received) = (Instant::now(), Instant::now(), Duration::ZERO, 0);
    loop {
        let read = match link.wait(BEAT) {
            // If Python's thread is reading already, there is nothing to do here.
            Ok(true) => inbox
                .reader
                .try_lock()
                .map_or(Ok(()), |mut reader| reader.read_all(&mut |frame| inbox.push(link, frame))),
            Ok(false) => Ok(()),
            Err(error) => Err(error.into()),
        };
        let now = Instant::now();
        let so_far = link.counters().received.load(Ordering::Relaxed);
        // After starvation or a stop, this thread looks late. The lost time must not count as silence of the manager.
        silent += (now - std::mem::replace(&mut last_look, now)).min(BEAT * 2);
        if std::mem::replace(&mut received, so_far) != so_far {
            silent = Duration::ZERO;
        }
        if let Err(error) = read {
            end_with_link(link, &error);
        }
        if silent > SILENCE {
            end_process(0);
        }
        if now - last_beat >= BEAT {
            last_beat = now;
            link.queue_ahead(encode(&FromInterpreter::Beat, 0));
            link.flush_heads();
            link.trim();
        }
    }
}

/// Ends the process. After an attack on the link, the manager is told, so that the task is not blamed.
fn end_with_link(link: &Link, error: &LinkError) -> ! {
    if error.is_attack() {
        link.queue(Mark::None, encode(&FromInterpreter::Attacked, 0), Vec::new());
        link.flush();
    }
    end_process(0)
}

/// Ends the process without a traceback if the manager goes while the interpreter begins. This is ordinary, and the executor's
/// owner need not see it.
fn left_alone<T>(error: io::Error) -> io::Result<T> {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => end_process(1),
        _ => Err(error),
    }
}

fn ended(error: LinkError) -> PyErr {
    pyo3::exceptions::PyConnectionError::new_err(error.to_string())
}
