//! A program from its start to its exit code: events of its machines go to the engine, whose commands are carried out.

use super::child::Program;
use super::input;
use super::machine::{Event, Machine, Part, Streams};
use super::output::{Look, Output};
use super::streams;
use phalanx_core::launch::{Command, Launch, Options};
use phalanx_core::level::{Level, Levels};
use phalanx_core::wire::ranks::{MOST_RANKS, frame};
use phalanx_net::identity::random_token;
use phalanx_net::sync::lock;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// For output that nobody takes, once the user wanted the end.
const DRAIN: Duration = Duration::from_millis(500);

/// What the user asked for.
#[derive(Debug, Clone, Default)]
pub struct Job {
    pub programs: Vec<Block>,
    /// For every process, beside this process' own.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    pub look: Look,
    pub keep_going: bool,
}

/// Some processes of one program.
#[derive(Debug, Clone)]
pub struct Block {
    pub processes: u32,
    pub command: Vec<Vec<u8>>,
}

/// A running program; dropping it ends it.
#[derive(Debug)]
pub struct Launcher {
    happenings: Sender<Happening>,
    code: Arc<Code>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Code {
    is: Mutex<Option<i32>>,
    known: Condvar,
}

enum Happening {
    Event(Event),
    /// Of standard output, by whom it is read.
    OutputFailed(io::Error),
    /// All output of a machine has been written.
    Drained,
    /// The user wants the end, or something passed on.
    Signal(i32),
}

impl Launcher {
    /// Starts a program on this machine.
    pub fn start(job: Job) -> io::Result<Launcher> {
        let (happenings, happened) = channel();
        let programs = programs(&job)?;
        let troubles = happenings.clone();
        let on_trouble = move |error: &io::Error| drop(troubles.send(Happening::OutputFailed(copy(error))));
        let output = Output::new(job.look, programs.len() as u32, Box::new(on_trouble))?;
        let count = programs.len();
        let part = Part { size: count as u32, first: 0, secret: new_secret(), programs };
        let machines = vec![rustix::system::uname().nodename().to_string_lossy().into_owned()];
        let levels = vec![vec![Levels::all(Level::Clear)]];
        let options = Options { machines, machine_of: vec![0; count], levels, keep_going: job.keep_going };
        let events = happenings.clone();
        let (machine, streams) = Machine::start(part, move |event| drop(events.send(Happening::Event(event))))?;
        let stop = attach(streams, &output, happenings.clone())?;
        let (code, launch, began) = (Arc::new(Code::default()), Launch::new(options), Instant::now());
        let interrupted = false;
        let run = Run { launch, machine, output, happened, began, interrupted, _stop: stop };
        let to = code.clone();
        let work = move || to.set(run.to_end());
        let thread = thread::Builder::new().name("phalanx-launcher".into()).spawn(work)?;
        Ok(Launcher { happenings, code, thread: Some(thread) })
    }

    /// The exit code, once all has ended and all output is written; waits for it up to `patience`.
    pub fn wait(&self, patience: Duration) -> Option<i32> {
        let waits = |code: &mut Option<i32>| code.is_none();
        let waited = self.code.known.wait_timeout_while(lock(&self.code.is), patience, waits);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// This process was sent a signal: those that end it end the program, the others are passed on.
    pub fn signal(&self, number: i32) {
        let _ = self.happenings.send(Happening::Signal(number));
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        if self.wait(Duration::ZERO).is_none() {
            self.signal(libc::SIGKILL);
            self.signal(libc::SIGKILL);
        }
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

impl Code {
    fn set(&self, code: i32) {
        *lock(&self.is) = Some(code);
        self.known.notify_all();
    }
}

/// What the launcher's thread has.
struct Run {
    launch: Launch,
    machine: Machine,
    output: Output,
    happened: Receiver<Happening>,
    began: Instant,
    interrupted: bool,
    /// Closed at the end, which stops the reading of standard input.
    _stop: OwnedFd,
}

impl Run {
    fn to_end(mut self) -> i32 {
        let (mut code, mut drained) = (None, false);
        let mut last = None;
        loop {
            match (code, drained) {
                (Some(code), true) => return code,
                (Some(code), false) if last.is_some_and(|last| Instant::now() >= last) => return code,
                _ => {}
            }
            let due = self.launch.deadline().filter(|_| code.is_none()).map(|due| self.began + due);
            match self.next(due.or(last)) {
                Some(Happening::Drained) => drained = true,
                Some(happening) => self.take(happening),
                None => self.launch.on_time(self.began.elapsed()),
            }
            for command in self.launch.take() {
                code = code.or(self.obey(command));
            }
            if self.interrupted && code.is_some() {
                last.get_or_insert(Instant::now() + DRAIN);
            }
        }
    }

    /// What happens until then.
    fn next(&self, until: Option<Instant>) -> Option<Happening> {
        let Some(until) = until else { return self.happened.recv().ok() };
        match self.happened.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(happening) => Some(happening),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn take(&mut self, happening: Happening) {
        let now = self.began.elapsed();
        match happening {
            Happening::Event(Event::Said { rank, message }) => self.launch.on_message(now, rank, message),
            Happening::Event(Event::Nonsense { rank }) => self.launch.on_nonsense(now, rank),
            Happening::Event(Event::Ended { rank, exit }) => self.launch.on_end(now, rank, &exit),
            // Whoever read the output has seen enough.
            Happening::OutputFailed(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.launch.on_interrupt(now, libc::SIGPIPE);
            }
            Happening::OutputFailed(error) => {
                self.launch.on_trouble(now, format!("the output cannot be written: {error}"), 1);
            }
            Happening::Signal(number) if matches!(number, libc::SIGUSR1 | libc::SIGUSR2) => {
                self.machine.signal(number);
            }
            Happening::Signal(number) => {
                self.interrupted = true;
                self.launch.on_interrupt(now, number);
            }
            Happening::Drained => {}
        }
    }

    /// The exit code, where it is known.
    fn obey(&mut self, command: Command) -> Option<i32> {
        match command {
            Command::Tell { ranks, message } => self.machine.tell(ranks, frame(&message)),
            Command::Signal { number } => self.machine.signal(number),
            Command::Say(text) => self.output.say(&text),
            Command::Finish { code } => return Some(code),
        }
        None
    }
}

/// Standard input goes to rank 0, all output to the user. What stops the former when it is dropped.
fn attach(streams: Streams, output: &Output, happenings: Sender<Happening>) -> io::Result<OwnedFd> {
    let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
    if let Some(to) = streams.input {
        input::pump(stopped, move |bytes| write_all(&to, bytes))?;
    }
    let output = output.clone();
    let read = move || {
        if let Err(error) = streams::pump(streams.outputs, output) {
            let _ = happenings.send(Happening::OutputFailed(error));
        }
        let _ = happenings.send(Happening::Drained);
    };
    thread::Builder::new().name("phalanx-output".into()).spawn(read)?;
    Ok(stop)
}

/// Whether somebody still reads it.
fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

/// One for each rank.
fn programs(job: &Job) -> io::Result<Vec<Program>> {
    let count: u64 = job.programs.iter().map(|block| u64::from(block.processes)).sum();
    if !(1..=u64::from(MOST_RANKS)).contains(&count) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{count} processes are not 1 to {MOST_RANKS}"),
        ));
    }
    let program = |(app, block): (u32, &Block)| {
        let (command, environment) = (block.command.clone(), job.environment.clone());
        std::iter::repeat_n(Program { app, command, environment, directory: None }, block.processes as usize)
    };
    Ok((0..).zip(&job.programs).flat_map(program).collect())
}

fn new_secret() -> [u8; 32] {
    let mut secret = [0; 32];
    secret.chunks_exact_mut(16).for_each(|half| half.copy_from_slice(&random_token()));
    secret
}

fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}
