//! The ranks of one machine. One thread starts them, watches them and carries out commands for them, until the last has ended.

use super::child::{Child, Pipes};
use super::guard::Guard;
use super::prepared::Prepared;
use super::shared::Shared;
use super::streams::Stream;
use crate::cage::Bars;
use crate::keeper::{Ended, Keeper};
use phalanx_core::wire::machines::{Exit, Kind, Part, Program, Source};
use phalanx_core::wire::ranks::{FromRank, Seat};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// An event of the ranks.
#[derive(Debug)]
pub enum Event {
    /// A rank sent the launcher a message.
    Said {
        /// The rank.
        rank: u32,
        /// The message.
        message: FromRank,
    },
    /// A rank sent bytes that are not a message.
    Nonsense {
        /// The rank.
        rank: u32,
    },
    /// A rank has ended.
    Ended {
        /// The rank.
        rank: u32,
        /// How it ended.
        exit: Exit,
    },
}

/// Interval between two checks for stopped processes.
const LOOK: Duration = Duration::from_millis(100);

enum Order {
    Tell { ranks: Vec<u32>, frame: Vec<u8> },
    Give { rank: u32, frame: Vec<u8>, file: OwnedFd },
    Signal { number: i32 },
}

/// Handle of the machine's thread. Dropping it ends every rank.
#[derive(Debug)]
pub struct Machine {
    orders: Sender<Order>,
    wake: Arc<OwnedFd>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The standard streams of the started ranks.
#[derive(Debug)]
pub struct Streams {
    /// The input of rank 0, if it is on this machine.
    pub input: Option<OwnedFd>,
    /// Standard output and standard error of each rank.
    pub outputs: Vec<Stream>,
    /// The numbers of their processes.
    pub processes: Vec<u32>,
}

impl Machine {
    /// Starts the ranks in `folder`; `None`: in this process's folder. Without `bars` they are not caged. A rank that cannot be
    /// started is reported as ended.
    /// `address` is where ranks of other machines reach these. `on_event` is called in the machine's thread.
    pub fn start(
        part: Part,
        folder: Option<PathBuf>,
        bars: Option<Bars>,
        address: Option<IpAddr>,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> io::Result<(Machine, Streams)> {
        let shared = Shared::new(part.count())?;
        // The processes of a cage have a keeper, which is their guard too.
        let guard = bars.is_none().then(Guard::start).transpose()?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (orders, obeyed) = channel();
        let (started, streams) = channel();
        let waking = wake.clone();
        // The children end with the thread that started them. So the thread that starts them must be the one that stays.
        let thread = thread::Builder::new().name("phalanx-ranks".into()).spawn(move || {
            let (children, patience, looked) = (Vec::new(), part.patience, Instant::now());
            let mut watch = Watch {
                children,
                guard,
                keeper: None,
                wake: waking,
                orders: obeyed,
                address,
                patience,
                looked,
                on_event,
            };
            let _ = started.send(watch.start(&part, folder.as_deref(), bars.as_ref(), &shared));
            drop(shared);
            watch.run();
        })?;
        let machine = Machine { orders, wake, thread: Some(thread) };
        let streams = streams.recv().map_err(io::Error::other)?;
        Ok((machine, streams))
    }

    /// Sends ranks a message; `frame` begins with its length.
    pub fn tell(&self, ranks: Vec<u32>, frame: Vec<u8>) {
        self.order(Order::Tell { ranks, frame });
    }

    /// Sends a process a message, with a file descriptor.
    pub fn give(&self, rank: u32, frame: Vec<u8>, file: OwnedFd) {
        self.order(Order::Give { rank, frame, file });
    }

    /// Sends every process a signal.
    pub fn signal(&self, number: i32) {
        self.order(Order::Signal { number });
    }

    fn order(&self, order: Order) {
        let _ = self.orders.send(order);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// State of the machine's thread.
struct Watch<F> {
    children: Vec<Child>,
    guard: Option<Guard>,
    keeper: Option<Arc<Keeper>>,
    wake: Arc<OwnedFd>,
    orders: Receiver<Order>,
    address: Option<IpAddr>,
    /// How long a process may be stopped before it is ended.
    patience: Option<Duration>,
    /// When stopped processes were last looked for.
    looked: Instant,
    on_event: F,
}

impl<F: FnMut(Event)> Watch<F> {
    fn start(&mut self, part: &Part, folder: Option<&Path>, bars: Option<&Bars>, shared: &Shared) -> Streams {
        let mut streams = Streams { input: None, outputs: Vec::new(), processes: Vec::new() };
        let all: Vec<(u32, &Program)> = part.ranks().collect();
        // Processes in one cage start together. Others start one after the other, so that fewer descriptors are open.
        let at_once = if bars.is_some() { all.len().max(1) } else { 1 };
        for ranks in all.chunks(at_once) {
            let prepare = |(rank, program): &(u32, &Program)| {
                Prepared::new(program, folder, self.seat(part, *rank, program), shared, bars)
            };
            let (keeper, outcomes) = Prepared::start(ranks.iter().map(prepare), bars);
            self.keeper = keeper;
            for ((rank, program), outcome) in ranks.iter().zip(outcomes) {
                match outcome.and_then(|(child, pipes)| self.keep(child, pipes)) {
                    Ok((pipes, ended)) => {
                        streams.processes.extend(self.children.last().map(Child::group));
                        streams.input = streams.input.or(pipes.input);
                        let stream = |kind, pipe| Stream::new(Source { rank: *rank, kind }, pipe, ended.clone());
                        streams.outputs.push(stream(Kind::Output, pipes.output));
                        streams.outputs.push(stream(Kind::Error, pipes.error));
                    }
                    Err(error) => {
                        let why = unstarted(program, folder, &error);
                        (self.on_event)(Event::Ended { rank: *rank, exit: Exit::Unstarted(why) });
                    }
                }
            }
        }
        streams
    }

    fn seat(&self, part: &Part, rank: u32, program: &Program) -> Seat {
        let Part { base, size, first, secret, .. } = *part;
        let (app, local, rank, first) = (program.app, part.count(), rank - base, first - base);
        let (address, bells, control, segment, bytes) = (self.address, Vec::new(), 0, 0, 0);
        Seat { rank, size, base, app, control, segment, bytes, bells, first, local, secret, address }
    }

    fn keep(&mut self, child: Child, pipes: Pipes) -> io::Result<(Pipes, Arc<OwnedFd>)> {
        let (group, ended) = (child.group(), child.ended.clone());
        self.children.push(child); // pushed at once, so that the child is ended if anything fails from here on
        self.guard.as_ref().map_or(Ok(()), |guard| guard.add(group))?;
        Ok((pipes, ended))
    }

    fn run(mut self) {
        while !self.children.is_empty() {
            if let Err(error) = self.wait() {
                // This should never happen. The processes are killed so that none is left unwatched.
                self.children.iter().for_each(|child| child.signal(Signal::KILL));
                debug_assert!(false, "{error}");
            }
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            while let Ok(order) = self.orders.try_recv() {
                self.obey(order);
            }
            self.hear_keeper();
            for index in (0..self.children.len()).rev() {
                self.look_at(index);
            }
            self.look_for_still();
        }
    }

    /// Waits until there is something to do.
    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        fds.extend(self.keeper.as_ref().map(|keeper| PollFd::new(keeper, PollFlags::IN)));
        for child in &self.children {
            fds.extend(self.keeper.is_none().then(|| PollFd::new(&child.ended, PollFlags::IN)));
            let wants = if child.has_pending() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            fds.extend(child.control.as_ref().map(|control| PollFd::new(control, wants)));
        }
        let look = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
        match poll(&mut fds, self.patience.map(|_| &look)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Notes which processes have ended, as their keeper says.
    fn hear_keeper(&mut self) {
        let Some(keeper) = self.keeper.clone() else { return };
        let mut note = |ended: Option<&Ended>| self.children.iter_mut().for_each(|child| child.note_end(ended));
        loop {
            match keeper.news() {
                Ok(Some(ended)) => note(Some(&ended)),
                Ok(None) => return,
                Err(_) => return note(None),
            }
        }
    }

    /// Ends processes that were stopped for longer than their patience. Time in which this thread did not run does not count.
    /// So a process that was suspended together with this thread, as with the whole machine, is not lost.
    fn look_for_still(&mut self) {
        let Some(patience) = self.patience else { return };
        let passed = self.looked.elapsed();
        if passed < LOOK {
            return;
        }
        self.looked = Instant::now();
        self.children.iter_mut().for_each(|child| child.note_still(passed.min(LOOK * 2), patience));
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Tell { ranks, frame } => {
                let to = self.children.iter_mut().filter(|child| ranks.contains(&child.rank));
                to.for_each(|child| child.tell(frame.clone(), None));
            }
            Order::Give { rank, frame, file } => {
                if let Some(child) = self.children.iter_mut().find(|child| child.rank == rank) {
                    child.tell(frame, Some(file));
                }
            }
            Order::Signal { number } => {
                let signal = Signal::from_named_raw(number);
                self.children.iter().for_each(|child| signal.into_iter().for_each(|signal| child.signal(signal)));
            }
        }
    }

    /// Handles a child's messages, and then its end if it has ended.
    fn look_at(&mut self, index: usize) {
        let child = &mut self.children[index];
        let (rank, ended) = (child.rank, child.has_ended());
        child.go_on();
        loop {
            match child.hear() {
                Ok(Some(message)) => (self.on_event)(Event::Said { rank, message }),
                Ok(None) => break,
                Err(_) => {
                    child.control = None;
                    (self.on_event)(Event::Nonsense { rank });
                    break;
                }
            }
        }
        if ended {
            let child = self.children.swap_remove(index);
            self.guard.iter().for_each(|guard| guard.forget(child.group()));
            (self.on_event)(Event::Ended { rank, exit: child.end() });
        }
    }
}

/// The message for users about a program that cannot be started in a folder. The system's error does not say which file is
/// missing.
fn unstarted(program: &Program, folder: Option<&Path>, error: &io::Error) -> String {
    let name = program.command.first().map_or("".into(), |name| String::from_utf8_lossy(name));
    let own = program.folder.as_ref().map(|folder| Path::new(OsStr::from_bytes(folder)));
    let is_there = || name.contains('/') && own.or(folder).unwrap_or(Path::new("")).join(&*name).exists();
    match (error.kind(), own) {
        (io::ErrorKind::NotFound, Some(own)) if !own.is_dir() => format!("the folder {} is not found", own.display()),
        (io::ErrorKind::NotFound, _) if is_there() => {
            format!("the interpreter that the program {name} names (#! in its first line) is not found")
        }
        (io::ErrorKind::NotFound, _) => format!("the program {name} is not found"),
        (io::ErrorKind::PermissionDenied, _) => format!("the program {name} may not be executed"),
        _ => format!("the program {name}: {}", explain(error)),
    }
}

/// The message for users about a process that cannot be started.
pub fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE) => "too many open files: raise the limit with ulimit -n".to_owned(),
        _ => error.to_string(),
    }
}
