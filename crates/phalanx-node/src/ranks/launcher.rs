//! The launcher: runs a program from its start to its exit code. Its machines' events go to the engine, and the launcher
//! carries out the engine's commands.

use super::again::Again;
use super::happening::{Happening, Teller};
use super::job::{Checkpoints, Job, LaunchError};
use super::machine::{Event, explain};
use super::more::More;
use super::output::Output;
use super::site::Site;
use super::starting::{Known, Starting, placed};
use phalanx_core::launch::{Command, Launch, Options};
use phalanx_core::wire::machines::Exit;
use phalanx_core::wire::ranks::{CHECKPOINT_EVERY, MOVE_SLOW, ToRank};
use phalanx_core::wire::universe::Wanted;
use phalanx_net::socket::Socket;
use phalanx_net::sync::lock;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for output to be written after the user asked for the end.
const DRAIN: Duration = Duration::from_millis(500);
/// Most lines of the launcher that a report keeps.
const MOST_SAID: usize = 100;

/// A running program. Dropping it ends the program.
#[derive(Debug)]
pub struct Launcher {
    happenings: Teller,
    code: Arc<Code>,
    report: Arc<Mutex<Report>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What is known of a program, during its run and afterwards.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The machine's name for each rank that the program began with.
    pub machines: Vec<String>,
    /// How processes ended, in the order of their ends.
    pub ends: Vec<(u32, Exit)>,
    /// The first lines that the launcher printed.
    pub said: Vec<String>,
}

impl Report {
    fn begin(&mut self, options: &Options) {
        self.machines = options.machine_of.iter().map(|machine| options.machines[*machine].clone()).collect();
        self.ends.clear();
    }

    fn say(&mut self, text: &str) {
        if self.said.len() < MOST_SAID {
            self.said.push(text.to_owned());
        }
    }
}

#[derive(Debug, Default)]
struct Code {
    is: Mutex<Option<i32>>,
    known: Condvar,
}

impl Launcher {
    /// Starts a program. Returns after its machines were reached and the files were sent.
    pub fn start(mut job: Job) -> Result<Launcher, LaunchError> {
        let (to, happened) = channel();
        let mut happenings = Teller { to, start: 0, parcels: None };
        let troubles = happenings.clone();
        let on_trouble = move |error: &io::Error| {
            troubles.send(Happening::OutputFailed(copy(error)));
        };
        let output = Output::new(job.look.clone(), Box::new(on_trouble));
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        let input = job.input;
        if let Some(Checkpoints { every, move_slow, .. }) = job.checkpoints {
            let told = every.map(|every| (CHECKPOINT_EVERY, every.to_string()));
            let told = told.into_iter().chain(move_slow.map(|limit| (MOVE_SLOW, limit.to_string())));
            job.environment.extend(told.map(|(name, value)| (name.into(), value.into_bytes())));
        }
        let (program, stopped) = (Arc::new(Known::new(&job)?), input.then_some(stopped));
        if let Some(store) = program.store.clone() {
            let (parcels, taken) = channel();
            happenings.parcels = Some(parcels);
            thread::Builder::new().name("phalanx-store".into()).spawn(move || store.write(&taken))?;
        }
        let (environment, known) = (job.environment.clone(), program.clone());
        let more = More {
            environment,
            output: output.clone(),
            happenings: happenings.clone(),
            program: known,
            kept: Arc::default(),
        };
        let first = Starting {
            job,
            output,
            happenings: happenings.clone(),
            stopped,
            size: None,
            placed: Vec::new(),
            left: Vec::new(),
            returns: false,
            lost: Vec::new(),
            is_quiet: false,
            program,
        };
        let mut again = first.again();
        let known = again.program.clone();
        let (options, sites) = first.run().inspect_err(|_| drop(known.end(1)))?; // a new folder for checkpoints goes
        again.size = Some(options.machine_of.len() as u32);
        again.placed = placed(&options, &sites);
        let (code, machine_of) = (Arc::new(Code::default()), options.machine_of.clone());
        let report = Arc::new(Mutex::new(Report::default()));
        lock(&report).begin(&options);
        let run = Run {
            report: report.clone(),
            launch: Launch::new(options),
            undrained: sites.len(),
            sites: sites.into_iter().map(Some).collect(),
            machine_of,
            more,
            again: Again::new(again),
            anew: None,
            happened,
            began: Instant::now(),
            interrupted: false,
            _stop: stop,
        };
        let to = code.clone();
        let work = move || to.set(run.finish());
        let thread = thread::Builder::new().name("phalanx-launcher".into()).spawn(work)?;
        Ok(Launcher { happenings, code, report, thread: Some(thread) })
    }

    /// The exit code, once all processes have ended and all output is written. Waits for up to `patience`.
    pub fn wait(&self, patience: Duration) -> Option<i32> {
        let waits = |code: &mut Option<i32>| code.is_none();
        let waited = self.code.known.wait_timeout_while(lock(&self.code.is), patience, waits);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// What is known of the program so far.
    pub fn report(&self) -> Report {
        lock(&self.report).clone()
    }

    /// Handles a signal to this process. Signals that end a process end the program; others are passed on to it.
    pub fn signal(&self, number: i32) {
        self.happenings.send(Happening::Signal(number));
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

/// How a program is restarted.
enum Anew {
    /// Without some machines, and moved off another one.
    Elsewhere { without: Vec<usize>, leave: Option<usize> },
    /// On the machines where it was.
    There,
}

/// State of the launcher's thread.
struct Run {
    report: Arc<Mutex<Report>>,
    launch: Launch,
    /// The machines by number; `None` once all processes that a machine will ever have had have ended.
    sites: Vec<Option<Site>>,
    machine_of: Vec<usize>,
    more: More,
    again: Again,
    /// The restart that follows once all output is written.
    anew: Option<Anew>,
    happened: Receiver<(u32, Happening)>,
    began: Instant,
    interrupted: bool,
    /// Number of machines whose output has not ended.
    undrained: usize,
    /// Closing this at the end stops the reading of standard input.
    _stop: OwnedFd,
}

impl Run {
    fn finish(mut self) -> i32 {
        let (mut code, mut last) = (None, None);
        loop {
            if let Some(code) = code.filter(|_| self.undrained == 0 || last.is_some_and(|last| Instant::now() >= last))
            {
                self.more.program.end(code).into_iter().for_each(|text| self.say(&text));
                self.more.output.say_rest();
                return code;
            }
            if let Some(anew) = self.anew.take_if(|_| self.undrained == 0 && code.is_none()) {
                self.start_again(&anew);
            }
            let due = self.launch.deadline().filter(|_| code.is_none()).map(|due| self.began + due);
            match self.next(due.or(last)) {
                Some(Happening::Restarted) => self.take_over(),
                Some(happening) => self.take(happening),
                None => self.launch.on_time(self.began.elapsed()),
            }
            let mut commands = self.launch.take();
            while !commands.is_empty() {
                for command in commands {
                    code = code.or(self.obey(command));
                }
                commands = self.launch.take(); // some commands are answered at once
            }
            if self.interrupted && code.is_some() {
                last.get_or_insert(Instant::now() + DRAIN);
            }
        }
    }

    /// The next happening, unless `until` comes first.
    fn next(&mut self, until: Option<Instant>) -> Option<Happening> {
        loop {
            if let Some(happening) = self.again.take_early() {
                return Some(happening);
            }
            let (start, happening) = match until {
                None => self.happened.recv().ok()?,
                Some(until) => self.happened.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?,
            };
            if let Some(happening) = self.again.sort(start, happening) {
                return Some(happening);
            }
        }
    }

    fn start_again(&mut self, anew: &Anew) {
        self.more.program.executors.get().inspect(|executors| executors.end(false));
        let sites: Vec<Site> = std::mem::take(&mut self.sites).into_iter().flatten().collect();
        let begun = match anew {
            Anew::Elsewhere { without, leave } => self.again.begin(without, *leave, sites),
            Anew::There => self.again.go_back(),
        };
        if let Err(error) = begun {
            self.cannot_go_on(&error.to_string());
        }
    }

    fn take_over(&mut self) {
        match self.again.take() {
            Some(Ok((options, sites))) => {
                (self.machine_of, self.undrained) = (options.machine_of.clone(), sites.len());
                self.sites = sites.into_iter().map(Some).collect();
                lock(&self.report).begin(&options);
                self.launch.on_restarted(self.began.elapsed(), options);
            }
            Some(Err(error)) => self.launch.on_not_restarted(self.began.elapsed(), &error.to_string()),
            None => {}
        }
    }

    fn cannot_go_on(&mut self, why: &str) {
        self.launch.on_trouble(self.began.elapsed(), format!("the program cannot go on: {why}"), 1);
    }

    fn take(&mut self, happening: Happening) {
        let now = self.began.elapsed();
        match happening {
            Happening::Event(Event::Said { rank, message }) => self.launch.on_message(now, rank, message),
            Happening::Event(Event::Nonsense { rank }) => self.launch.on_nonsense(now, rank),
            Happening::Event(Event::Ended { rank, exit }) => {
                lock(&self.report).ends.push((rank, exit.clone()));
                self.launch.on_end(now, rank, &exit);
            }
            // The reader of the output has closed the pipe, because it has seen enough.
            Happening::OutputFailed(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.launch.on_interrupt(now, libc::SIGPIPE);
            }
            Happening::OutputFailed(error) => {
                self.launch.on_trouble(now, format!("the output cannot be written: {error}"), 1);
            }
            Happening::Signal(number) if matches!(number, libc::SIGUSR1 | libc::SIGUSR2) => {
                self.sites.iter().flatten().for_each(|site| site.signal(number));
            }
            Happening::Gone { machine, why } => self.launch.on_machine_gone(now, machine, &why),
            Happening::Trouble(what) => self.launch.on_trouble(now, what, 1),
            Happening::Signal(number) => {
                self.interrupted = true;
                self.launch.on_interrupt(now, number);
            }
            Happening::Drained => self.undrained = self.undrained.saturating_sub(1),
            Happening::Placed { ranks } => self.on_placed(ranks),
            Happening::Places { machine, found } => self.launch.on_places(now, machine, found),
            Happening::Completed { rank, step } => self.launch.on_completed(now, rank, step),
            Happening::Fetched { machine, step, outcome } => self.launch.on_fetched(now, machine, step, outcome),
            Happening::Restarted => {}
        }
    }

    fn say(&self, text: &str) {
        lock(&self.report).say(text);
        self.more.output.say(text);
    }

    /// Carries out a command. Returns the exit code, if it is known.
    fn obey(&mut self, command: Command) -> Option<i32> {
        match command {
            Command::Tell { ranks, message } => {
                let first = ranks.first().map(|rank| self.machine_of[*rank as usize]);
                let site = first.and_then(|machine| self.sites[machine].as_ref());
                site.into_iter().for_each(|site| site.tell(ranks.clone(), message.clone()));
            }
            Command::Signal { number } => {
                self.more.program.executors.get().inspect(|executors| executors.end(true));
                self.sites.iter().flatten().for_each(|site| site.signal(number));
            }
            Command::Start { machine, ranks, programs } => self.start(machine, ranks, programs),
            Command::Meet { one, other } => self.meet(one, other),
            Command::End { machine } => {
                self.sites[machine].iter().for_each(|site| site.signal(libc::SIGKILL));
            }
            Command::Forget { machine } => match &self.sites[machine] {
                Some(Site::There(host)) => host.forget(), // its output may still be arriving
                _ => self.sites[machine] = None,
            },
            Command::Say(text) => self.say(&text),
            Command::Seek { machine, places } => {
                let site = self.sites[machine].as_ref();
                site.into_iter().for_each(|site| self.again.seek(machine, site, places));
            }
            Command::Restart { without, leave } => self.anew = Some(Anew::Elsewhere { without, leave }),
            Command::Return => self.anew = Some(Anew::There),
            Command::Fetch { step } => self.fetch(step),
            Command::Keep { step } => self.keep(step),
            Command::Release { step } => self.sites.iter().flatten().for_each(|site| site.release(step)),
            Command::Finish { code } => return Some(code),
        }
        None
    }
}

impl Run {
    /// Asks the machines for their ranks' files of a step.
    fn fetch(&mut self, step: u64) {
        let Some(store) = &self.more.program.store else { return };
        if let Err(error) = store.begin(step, self.again.starts()) {
            return self.launch.on_kept(self.began.elapsed(), step, Err(error.to_string()));
        }
        self.sites.iter().flatten().for_each(|site| site.fetch(step));
    }

    /// Makes a checkpoint of them.
    fn keep(&mut self, step: u64) {
        let Some(store) = &self.more.program.store else { return };
        let kept = store.keep(step, self.machine_of.len() as u32);
        self.launch.on_kept(self.began.elapsed(), step, kept);
    }

    /// Starts a spawned world. A failure is reported as the end of its processes.
    fn start(&mut self, machine: usize, ranks: Range<u32>, programs: Vec<Wanted>) {
        debug_assert_eq!(machine, self.sites.len());
        self.machine_of.extend(ranks.clone().map(|_| machine));
        let started = self.more.start(ranks.clone(), programs);
        if let Err(error) = &started {
            ranks.for_each(|rank| self.more.report_unstarted(rank, explain(error)));
        }
        let site = started.ok().flatten();
        self.undrained += usize::from(site.is_some());
        self.sites.push(site);
    }

    /// Handles the answer whether executors have room for a world.
    fn on_placed(&mut self, ranks: Range<u32>) {
        let kept = match self.more.take_kept(&ranks) {
            Ok(kept) => kept,
            Err(why) => return ranks.for_each(|rank| self.more.report_unstarted(rank, why.clone())),
        };
        let (places, levels) = (kept.places.clone(), kept.levels.clone());
        let mut rank = ranks.start as usize;
        for (place, host) in places.iter().zip(&kept.hosts) {
            let machine = self.sites.len();
            self.undrained += usize::from(host.set_number(machine));
            self.machine_of[rank..rank + place.processes as usize].fill(machine);
            rank += place.processes as usize;
            self.sites.push(Some(Site::There(host.clone())));
        }
        // If no process waits for the world any more, its places are released.
        let wanted = self.launch.on_placed(self.began.elapsed(), ranks.clone(), places, levels);
        let started =
            if wanted { self.more.start_there(ranks.clone(), kept) } else { Err(io::ErrorKind::Interrupted.into()) };
        if let Err(error) = started {
            ranks.for_each(|rank| self.more.report_unstarted(rank, explain(&error)));
        }
    }

    /// Connects two processes. A process that gets no connection waits until it hears that the other one is gone.
    fn meet(&mut self, one: u32, other: u32) {
        match Socket::pair() {
            Ok((here, there)) => {
                for (rank, process, end) in [(one, other, here), (other, one, there)] {
                    if let Some(site) = &self.sites[self.machine_of[rank as usize]] {
                        site.give(rank, &ToRank::Met { process }, OwnedFd::from(end));
                    }
                }
            }
            Err(error) => {
                let why = format!("processes cannot be connected: {error}: raise the limit with ulimit -n?");
                self.launch.on_trouble(self.began.elapsed(), why, 1);
            }
        }
    }
}

fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}
