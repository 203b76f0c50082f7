//! The link of an interpreter to its manager. Messages are read while the user's code runs, and answers leave with their
//! marks.
//!
//! Two threads read the link. The link's own thread needs no Python, so the interpreter sends beats and gives tokens back
//! however long the user's code holds the GIL. While Python waits for a message, Python's thread reads itself, which saves a
//! thread switch.

mod clock;
mod inbox;
mod marks;

#[cfg(test)]
mod tests;

use crate::interpreter::{self, Begin, end_process};
use crate::printing::Printing;
use crate::turn::Running;
use bytes::Bytes;
use clock::Clock;
use inbox::Inbox;
use marks::Marks;
use phalanx_core::ids::{FiringId, ProgramId};
use phalanx_core::level::Mark;
use phalanx_core::wire::{FromInterpreter, Stayed, ToInterpreter, Tokens, encode};
use phalanx_net::link::{Link, LinkError, Reader};
use phalanx_net::sync::lock;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which an interpreter sends beats.
const BEAT: Duration = Duration::from_millis(300);
/// After this long without a task, unused memory is freed.
const IDLE: Duration = Duration::from_millis(400);
/// A manager that is silent for this long is considered gone: its machine was cut off or switched off.
const SILENCE: Duration = Duration::from_secs(30);

/// The process's standard output and error, as far as the link has to do with them.
pub trait Output: Send + Sync {
    /// From now on, output travels at no lower level than this mark's.
    fn raise(&self, mark: Mark);

    /// Sends what was printed before an answer.
    fn drain(&self);

    /// The manager has shown `bytes` more.
    fn shown(&self, bytes: u32);
}

impl Output for Printing {
    fn raise(&self, mark: Mark) {
        Printing::raise(self, mark);
    }

    fn drain(&self) {
        Printing::drain(self);
    }

    fn shown(&self, bytes: u32) {
        Printing::shown(self, bytes);
    }
}

/// A message that the interpreter acts on.
#[derive(Debug)]
pub enum Incoming {
    /// The code of a program.
    Stage {
        /// The program.
        program: ProgramId,
        /// The pickled tuple of its functions.
        code: Bytes,
    },
    /// The program is not fired again.
    Forget {
        /// The program.
        program: ProgramId,
    },
    /// Tokens of the firing that comes next.
    Ahead {
        /// The firing.
        firing: FiringId,
        /// Its first tokens, or the next ones.
        tokens: Tokens,
    },
    /// Fire an instruction.
    Fire(Firing),
}

/// A firing, as [`ToInterpreter::Fire`] describes it.
#[derive(Debug)]
pub struct Firing {
    /// The firing's number.
    pub firing: FiringId,
    /// The program.
    pub program: ProgramId,
    /// The instruction of the program.
    pub instruction: u16,
    /// The tokens of the message.
    pub tokens: Tokens,
    /// The first token to fire.
    pub first: u32,
    /// The number of tokens to fire.
    pub count: u32,
    /// After this long, tokens that were not begun are given back.
    pub slice: Duration,
    /// Sizes of the groups of tokens to fire on; empty: each token alone.
    pub groups: Vec<u32>,
    /// The instructions that may follow on a heavy output.
    pub follow: Vec<u16>,
}

/// Why an interpreter ends.
#[derive(Debug)]
pub enum Ending {
    /// The link has failed. An interpreter is of no use without its link.
    Link(LinkError),
    /// The manager has been silent for too long.
    Silent,
    /// The manager has sent something that is no message.
    Garbage,
}

impl Ending {
    /// Ends the process. After an attack on the link, the manager is told, so that the task is not blamed.
    pub fn end_process(&self, link: &Link) -> ! {
        if matches!(self, Ending::Link(error) if error.is_attack()) {
            link.queue(Mark::None, encode(&FromInterpreter::Attacked, 0), Vec::new());
            link.flush();
        }
        end_process(i32::from(matches!(self, Ending::Garbage)))
    }
}

impl From<LinkError> for Ending {
    fn from(error: LinkError) -> Ending {
        Ending::Link(error)
    }
}

impl From<io::Error> for Ending {
    fn from(error: io::Error) -> Ending {
        Ending::Link(error.into())
    }
}

/// The only link of an interpreter process, as the thread that runs the user's code uses it.
pub struct InterpreterLink {
    link: Arc<Link>,
    inbox: Arc<Inbox>,
    output: Arc<dyn Output>,
    marks: Mutex<Marks>,
    /// Set once a firing has a timeout.
    clock: OnceLock<Clock>,
    /// The number of this process. It tells it from a fork made by the user's code.
    pid: u32,
}

impl InterpreterLink {
    /// Waits for the parent's first message and for the data link, and reports that the interpreter is ready.
    ///
    /// # Errors
    ///
    /// If this process was not started by an executor or a manager, or the link cannot be made. The process ends if its
    /// manager goes meanwhile.
    pub fn begin() -> io::Result<(Begin, InterpreterLink)> {
        let (begin, link, reader, printing) = interpreter::begin().or_else(left_alone)?;
        let own = InterpreterLink::new(link.clone(), reader, printing);
        let (attended, inbox) = (link.clone(), own.inbox.clone());
        thread::Builder::new().name("phalanx-link".into()).spawn(move || {
            let ending = attend(&attended, &inbox, SILENCE);
            ending.end_process(&attended);
        })?;
        let ready = encode(&FromInterpreter::Ready { pid: own.pid }, 0);
        own.must(link.send(Mark::None, ready, Vec::new()).map_err(Ending::from));
        Ok((begin, own))
    }

    fn new(link: Arc<Link>, reader: Reader, output: Arc<dyn Output>) -> InterpreterLink {
        let inbox = Arc::new(Inbox::new(reader, output.clone()));
        let (marks, clock) = (Mutex::default(), OnceLock::new());
        InterpreterLink { link, inbox, output, marks, clock, pid: std::process::id() }
    }

    /// The next message, once there is one. The process ends if its link does.
    pub fn next(&self) -> Incoming {
        self.end_fork();
        self.must(self.try_next())
    }

    fn try_next(&self) -> Result<Incoming, Ending> {
        loop {
            let (message, body) = self.wait()?;
            if let Some(incoming) = self.accept(message, body)? {
                return Ok(incoming);
            }
        }
    }

    fn wait(&self) -> Result<(ToInterpreter, Bytes), Ending> {
        if let Some(message) = self.inbox.pop() {
            return Ok(message);
        }
        self.link.listen(false)?;
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
            reader.poll_soon(BEAT, &mut |frame| self.inbox.push(&self.link, frame))?;
            self.inbox.check()?;
        };
        self.link.listen(true)?;
        Ok(message)
    }

    /// What the interpreter does with a message; `None`: nothing.
    fn accept(&self, message: ToInterpreter, body: Bytes) -> Result<Option<Incoming>, Ending> {
        let tokens = |shape, body| Tokens::from_wire(shape, body).map_err(|_| Ending::Garbage);
        Ok(Some(match message {
            ToInterpreter::Beat
            | ToInterpreter::GiveUp { .. }
            | ToInterpreter::Cancel { .. }
            | ToInterpreter::Shown { .. }
            | ToInterpreter::Delegation => return Ok(None),
            ToInterpreter::Stage { program, mark } => {
                self.output.raise(mark);
                lock(&self.marks).stage(program, mark);
                Incoming::Stage { program, code: body }
            }
            ToInterpreter::Forget { program } => {
                lock(&self.marks).forget(program);
                Incoming::Forget { program }
            }
            ToInterpreter::Ahead { firing, shape, .. } => Incoming::Ahead { firing, tokens: tokens(shape, body)? },
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
                takes,
                gives,
                follow,
            } => {
                let fails = lock(&self.marks).begin(program, takes, gives, &follow, self.link.levels());
                self.output.raise(fails);
                if timeout > 0 {
                    self.begin_clock(Duration::from_nanos(timeout));
                }
                let (tokens, slice) = (tokens(shape, body)?, Duration::from_nanos(slice));
                let follow = follow.iter().map(|it| it.instruction).collect();
                Incoming::Fire(Firing { firing, program, instruction, tokens, first, count, slice, groups, follow })
            }
        }))
    }

    /// Watches the time of a firing's tokens. Without a thread for it, there are no timeouts, and that is no reason to fail.
    fn begin_clock(&self, timeout: Duration) {
        if self.clock.get().is_none()
            && let Ok(clock) = Clock::start(self.link.clone(), self.inbox.clone())
        {
            let _ = self.clock.set(clock);
        }
        if let Some(clock) = self.clock.get() {
            clock.begin(timeout);
        }
    }

    /// Stops the clock of the token that is being fired, because it is answered. Returns its firing, and how long it ran.
    fn pause_clock(&self) -> Option<(Running, Duration)> {
        self.clock.get()?;
        let running = self.inbox.running()?;
        let ran = running.pause();
        Some((running, ran))
    }

    /// Sends the results of the firing's next tokens, with the mark of the last instruction that was fired on them. `busy` is
    /// in nanoseconds; `ways` and `stayed` are as in [`FromInterpreter::Fired`].
    ///
    /// # Errors
    ///
    /// If the link has ended.
    pub fn fired(
        &self,
        firing: FiringId,
        results: &Tokens,
        ways: Vec<u32>,
        stayed: Vec<Stayed>,
        busy: u64,
    ) -> Result<(), LinkError> {
        self.pause_clock();
        let spent = self.link.counters().levels.iter().map(|spent| spent.protection.load(Ordering::Relaxed));
        let (protection, shape) = (spent.sum(), results.shape().clone());
        let gives = lock(&self.marks).given(stayed.len());
        self.send(gives, &FromInterpreter::Fired { firing, shape, ways, stayed, busy, protection }, results)
    }

    /// Sends parts of the firing's next token before its answer, after `stayed` tokens have stayed.
    ///
    /// # Errors
    ///
    /// If the link has ended.
    pub fn ahead(&self, firing: FiringId, parts: &Tokens, stayed: usize) -> Result<(), LinkError> {
        let paused = self.pause_clock();
        let gives = lock(&self.marks).given(stayed);
        let sent = self.send(gives, &FromInterpreter::Ahead { firing, shape: parts.shape().clone() }, parts);
        if let Some((running, ran)) = paused {
            running.resume(ran);
        }
        sent
    }

    fn send(&self, gives: Mark, message: &FromInterpreter, tokens: &Tokens) -> Result<(), LinkError> {
        self.end_fork();
        self.output.drain();
        self.link.send(gives, encode(message, tokens.bytes()), tokens.body())?;
        self.link.settle(); // waits until the arrays are sent, because the next firing may change them
        Ok(())
    }

    /// Reports that the firing's next token raised an exception. `error` is the pickled exception.
    ///
    /// # Errors
    ///
    /// If the link has ended.
    pub fn failed(&self, firing: FiringId, error: Vec<u8>, busy: u64) -> Result<(), LinkError> {
        self.end_fork();
        self.pause_clock();
        let start = encode(&FromInterpreter::Failed { firing, busy }, error.len() as u64);
        let fails = lock(&self.marks).fails();
        self.output.drain();
        self.link.send(fails, start, vec![error.into()])
    }

    /// The firing that the interpreter works on.
    pub fn running(&self) -> Option<Running> {
        self.inbox.running()
    }

    /// Ends the firing. Returns it and how many of its tokens are kept, if others were not begun: those are to be given back.
    pub fn end_firing(&self) -> Option<(FiringId, u32)> {
        self.end_fork();
        self.inbox.end_firing()
    }

    /// Gives the tokens of a firing back that were not begun. `kept`: how many of its tokens are kept.
    ///
    /// # Errors
    ///
    /// If the link has ended.
    pub fn give_back(&self, firing: FiringId, kept: u32) -> Result<(), LinkError> {
        self.link.send(Mark::None, encode(&FromInterpreter::Returned { firing, kept }, 0), Vec::new())
    }

    /// Ends this process if it is a fork made by user code that returned into the interpreter. A fork must not answer.
    fn end_fork(&self) {
        if std::process::id() != self.pid {
            end_process(0);
        }
    }

    fn must<T>(&self, outcome: Result<T, Ending>) -> T {
        outcome.unwrap_or_else(|ending| ending.end_process(&self.link))
    }
}

/// The link's thread. It reads while Python does not, writes what the socket did not take at once, and sends beats. Returns
/// why the interpreter is to end: its link has ended, or the manager has been silent for `silence`.
fn attend(link: &Link, inbox: &Inbox, silence: Duration) -> Ending {
    let (mut last_beat, mut last_look, mut silent, mut received) = (Instant::now(), Instant::now(), Duration::ZERO, 0);
    loop {
        let read = match link.wait(BEAT) {
            Ok(true) => inbox.read_if_free(link),
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
        if let Err(ending) = read {
            return ending;
        }
        if silent > silence {
            return Ending::Silent;
        }
        if now - last_beat >= BEAT {
            last_beat = now;
            link.queue_ahead(encode(&FromInterpreter::Beat, 0));
            link.flush_heads();
            link.trim();
        }
    }
}

/// Ends the process without a traceback if the manager goes while the interpreter begins. This is ordinary, and the
/// executor's owner need not see it.
fn left_alone<T>(error: io::Error) -> io::Result<T> {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => end_process(1),
        _ => Err(error),
    }
}
