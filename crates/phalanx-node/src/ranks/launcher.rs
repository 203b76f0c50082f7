//! A program from its start to its exit code: events of its machines go to the engine, whose commands are carried out.

use super::happening::Happening;
use super::job::{Job, LaunchError};
use super::machine::Event;
use super::output::Output;
use super::site::Site;
use super::starting::Starting;
use phalanx_core::launch::{Command, Launch};
use phalanx_net::sync::lock;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// For output that nobody takes, once the user wanted the end.
const DRAIN: Duration = Duration::from_millis(500);

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

impl Launcher {
    /// Starts a program. Takes as long as it takes to reach its machines and to send the files.
    pub fn start(job: Job) -> Result<Launcher, LaunchError> {
        let (happenings, happened) = channel();
        let troubles = happenings.clone();
        let on_trouble = move |error: &io::Error| drop(troubles.send(Happening::OutputFailed(copy(error))));
        let output = Output::new(job.look.clone(), Box::new(on_trouble));
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        let starting = Starting { job, output: output.clone(), happenings: happenings.clone(), stopped };
        let (options, sites) = starting.run()?;
        let (code, machine_of) = (Arc::new(Code::default()), options.machine_of.clone());
        let (launch, began) = (Launch::new(options), Instant::now());
        let run = Run { launch, sites, machine_of, output, happened, began, interrupted: false, _stop: stop };
        let to = code.clone();
        let work = move || to.set(run.finish());
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
    sites: Vec<Site>,
    machine_of: Vec<usize>,
    output: Output,
    happened: Receiver<Happening>,
    began: Instant,
    interrupted: bool,
    /// Closed at the end, which stops the reading of standard input.
    _stop: OwnedFd,
}

impl Run {
    fn finish(mut self) -> i32 {
        let (mut code, mut undrained, mut last) = (None, self.sites.len(), None);
        loop {
            if let Some(code) = code.filter(|_| undrained == 0 || last.is_some_and(|last| Instant::now() >= last)) {
                self.output.say_rest();
                return code;
            }
            let due = self.launch.deadline().filter(|_| code.is_none()).map(|due| self.began + due);
            match self.next(due.or(last)) {
                Some(Happening::Drained) => undrained = undrained.saturating_sub(1),
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
        self.happened.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
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
                self.sites.iter().for_each(|site| site.signal(number));
            }
            Happening::Gone { machine, why } => self.launch.on_machine_gone(now, machine, &why),
            Happening::Trouble(what) => self.launch.on_trouble(now, what, 1),
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
            Command::Tell { ranks, message } => {
                let first = ranks.first().map(|rank| self.machine_of[*rank as usize]);
                first.into_iter().for_each(|machine| self.sites[machine].tell(ranks.clone(), message.clone()));
            }
            Command::Signal { number } => self.sites.iter().for_each(|site| site.signal(number)),
            Command::Say(text) => self.output.say(&text),
            Command::Finish { code } => return Some(code),
        }
        None
    }
}

fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}
