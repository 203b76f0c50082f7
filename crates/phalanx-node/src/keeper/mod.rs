//! The keeper of a program: a process that starts the program's processes in their cage, and ends all their descendants.
//!
//! The keeper is a fork of this process, and the parent of the program's processes. It adopts orphaned descendants
//! (`PR_SET_CHILD_SUBREAPER`). So it also keeps a daemon, which forks twice and begins its own session. The keeper kills all descendants
//! when the program has ended, when its [`Keeper`] is dropped, or when this process ends, even by `kill -9`. It waits until none is left,
//! and ends.

mod crowd;
pub mod niceness;
mod nursery;
mod watch;

pub use nursery::{BUSY_PAUSE, BUSY_TRIES};
pub use watch::close_all_but;

use crate::cage::Bars;
use crate::cgroups::Group;
use crate::ending;
use crate::limits::{Limiter, Program, Reason, Why};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};
use rustix::net::{recv, send, shutdown, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, geteuid, kill_process, pidfd_open, waitpid};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a message to the keeper: a process, and a signal for its process group. Signal 0 names a process of the program. Process 0 with
/// signal 0 ends the list of processes.
const ORDER: usize = 8;
/// Bytes of a message of the keeper: a process of the program, its wait status, its peak resident size in kilobytes, and its processor time
/// in microseconds. The time includes that of children for which the process has waited.
const NEWS: usize = 24;

/// Timeout for a keeper that ends a program. A keeper takes longer only if a file system does not answer the keeper's change of a mode, or
/// a process of the program.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause before the next search for processes.
const AGAIN: Duration = Duration::from_millis(10);

/// The keeper of a program. Dropping it ends the program.
#[derive(Debug)]
pub struct Keeper {
    socket: Arc<OwnedFd>,
    process: Pid,
    is_over: bool,
    /// The reason, if the program was ended to make room for others, or for a limit.
    reason: Reason,
    /// The control group. It is removed when it is dropped, after the end of the program. `None`: the system has no control groups for this
    /// account.
    group: Option<(Arc<Limiter>, Group)>,
    /// The bytes of memory that its user lets it have. `None`: what the machine gives.
    memory: Option<u64>,
}

/// The end of a process of the program.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// The process.
    pub process: u32,
    /// Its exit status.
    pub status: ExitStatus,
    /// Its peak resident size in bytes.
    pub resident: u64,
    /// The processor time of the process, and of children for which it has waited.
    pub cpu: Duration,
}

/// A started process of the program: its number, and a descriptor (pidfd) that is readable once the process has ended.
pub type Begun = (u32, OwnedFd);

impl Keeper {
    /// Starts the commands in the cage. Returns the outcome of each. If the account has almost reached its limit of processes, its largest
    /// program is ended first.
    ///
    /// # Errors
    ///
    /// The cage cannot be entered, or no process can be started.
    pub fn start(bars: &Bars, commands: &mut [Command]) -> io::Result<(Keeper, Vec<io::Result<Begun>>)> {
        let places = commands.len();
        Keeper::start_with(bars, commands, places)
    }

    /// The same for a program that has so many places, and so many parts of what the owner gives.
    ///
    /// # Errors
    ///
    /// As for [`Keeper::start`].
    pub fn start_with(
        bars: &Bars,
        commands: &mut [Command],
        places: usize,
    ) -> io::Result<(Keeper, Vec<io::Result<Begun>>)> {
        let account = bars.account().unwrap_or_else(|| geteuid().as_raw());
        // The kernel does not limit the processes of root.
        if let Some(most) = bars.processes().filter(|_| account != 0) {
            crowd::make_room(account, most);
        }
        let (limiter, memory) = (bars.limiter(), bars.memory_of_user());
        let group = limiter.map(|limiter| limiter.group(places, memory)).transpose()?.flatten();
        let entries = group.as_ref().map_or_else(Vec::new, Group::entries);
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let (reports, report) = nursery::pipe()?;
        let programs = Vec::with_capacity(commands.len()); // allocated before the fork, because the keeper must not allocate
        // SAFETY: the child never returns. It allocates only to start the commands, which the C library allows after a fork.
        let process = match unsafe { libc::fork() } {
            // SAFETY: this is the child.
            0 => unsafe { watch::keep(theirs.as_raw_fd(), programs, bars, &entries, commands, report.as_raw_fd()) },
            process => Pid::from_raw(process).filter(|_| process > 0).ok_or_else(io::Error::last_os_error)?,
        };
        drop((theirs, report));
        let socket = Arc::new(socket);
        let reason = Reason::default();
        crowd::note(process, &socket, account, reason.clone());
        if let Some(limiter) = limiter {
            let (keeper, socket, folders) = (process, Arc::downgrade(&socket), bars.folders());
            limiter.watch(Program { keeper, socket, folders, places: places as u64, memory, reason: reason.clone() });
        }
        let group = limiter.cloned().zip(group);
        let keeper = Keeper { socket, process, is_over: false, reason, group, memory };
        let started = nursery::read(reports, commands.len())?;
        // The keeper reaps no process before the order to go on, so that no number is reused before its pidfd is open.
        let begun = |started: io::Result<u32>| {
            let process = started?;
            let ended = pidfd_open(to_pid(process).ok_or(io::ErrorKind::InvalidInput)?, PidfdFlags::empty())?;
            keeper.order(process, 0);
            Ok((process, ended))
        };
        let begun = started.into_iter().map(begun).collect();
        keeper.order(0, 0);
        Ok((keeper, begun))
    }

    /// The reason, for people, if the program was ended to make room for others, or for a limit. `None`: it was not.
    pub fn reason(&self) -> Option<String> {
        self.why().map(Why::words)
    }

    /// The same, with whose limit it was.
    pub fn why(&self) -> Option<Why> {
        let of_kernel = || self.group.as_ref().and_then(|(limiter, group)| limiter.why(group, self.memory));
        self.reason.why().or_else(of_kernel)
    }

    /// For people: a limit that the program has met, and that has not ended it. `None`: there is none.
    pub fn met(&self, places: u64) -> Option<String> {
        self.group.as_ref().and_then(|(limiter, group)| limiter.met(group, places))
    }

    /// Sends a signal to the process group of a process of the program, if the process has not ended.
    pub fn signal(&self, process: u32, signal: i32) {
        self.order(process, signal);
    }

    /// Whether a process or the keeper has ended.
    pub fn has_news(&self) -> bool {
        is_readable(&self.socket, Instant::now())
    }

    /// The next process that has ended. `None`: no other process has ended yet.
    ///
    /// # Errors
    ///
    /// The keeper itself has ended.
    pub fn news(&self) -> io::Result<Option<Ended>> {
        match self.receive(RecvFlags::DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// Ends the program. Waits until no process is left that can be ended. Returns the processes whose end was not reported before.
    pub fn end(&mut self) -> Vec<Ended> {
        self.end_within(PATIENCE)
    }

    /// Begins to end the program, without waiting. [`Keeper::end`] must follow.
    pub fn begin_end(&self) {
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    fn end_within(&mut self, patience: Duration) -> Vec<Ended> {
        self.begin_end();
        let until = Instant::now() + patience;
        let mut ended = Vec::new();
        while is_readable(&self.socket, until) {
            match self.receive(RecvFlags::DONTWAIT) {
                Ok(process) => ended.push(process),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        self.reap(until);
        if !self.is_over {
            let until = Instant::now() + patience;
            self.kill(until);
            self.reap(until);
        }
        self.is_over = true;
        ended
    }

    /// Waits for the end of the keeper.
    fn reap(&mut self, until: Instant) {
        // Without a descriptor there is no timeout, and `waitpid` blocks until the keeper ends.
        let has_ended = || pidfd_open(self.process, PidfdFlags::empty()).map_or(true, |it| is_readable(it, until));
        while !self.is_over && has_ended() {
            self.is_over = !matches!(waitpid(Some(self.process), WaitOptions::empty()), Err(Errno::INTR));
        }
    }

    /// Kills the keeper's descendants, and then the keeper. The keeper is stopped (SIGSTOP) meanwhile. So it reaps no child, and no number
    /// is reused.
    fn kill(&self, until: Instant) {
        let _ = kill_process(self.process, Signal::STOP);
        // Children of a killed process become children of the keeper, so the loop kills them next.
        while Instant::now() < until {
            let left: Vec<Pid> = ending::children(self.number(), self.number())
                .filter(|it| ending::lives(*it))
                .filter_map(to_pid)
                .collect();
            if left.is_empty() {
                break;
            }
            for process in left {
                let _ = kill_process(process, Signal::KILL);
            }
            std::thread::sleep(AGAIN);
        }
        let _ = kill_process(self.process, Signal::KILL);
    }

    /// The number of the keeper's process.
    fn number(&self) -> u32 {
        self.process.as_raw_nonzero().get() as u32
    }

    fn order(&self, process: u32, signal: i32) {
        let mut bytes = [0; ORDER];
        bytes[..4].copy_from_slice(&process.to_ne_bytes());
        bytes[4..].copy_from_slice(&signal.to_ne_bytes());
        while send(&self.socket, &bytes, SendFlags::NOSIGNAL) == Err(Errno::INTR) {}
    }

    fn receive(&self, flags: RecvFlags) -> io::Result<Ended> {
        let mut bytes = [0; NEWS];
        let (_, count) = loop {
            match recv(&self.socket, &mut bytes, flags) {
                Err(Errno::INTR) => {}
                outcome => break outcome?,
            }
        };
        if count != NEWS {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the keeper of the program was ended"));
        }
        let word = |at: usize| bytes[at..at + 4].try_into().map_or(0, i32::from_ne_bytes);
        let long = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
        let (resident, cpu) = (long(8) << 10, Duration::from_micros(long(16)));
        Ok(Ended { process: word(0) as u32, status: ExitStatus::from_raw(word(4)), resident, cpu })
    }
}

impl AsFd for Keeper {
    /// Readable when there is news.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.is_over {
            self.end();
        }
    }
}

/// Waits until this time for bytes to read, or for the end of the other side. Returns whether either has come.
fn is_readable(descriptor: impl AsFd, until: Instant) -> bool {
    loop {
        let patience = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], patience.as_ref()) {
            Err(Errno::INTR) => {}
            outcome => return outcome.is_ok_and(|ready| ready > 0),
        }
    }
}

fn to_pid(process: u32) -> Option<Pid> {
    Pid::from_raw(process as i32)
}

#[cfg(test)]
mod tests;
