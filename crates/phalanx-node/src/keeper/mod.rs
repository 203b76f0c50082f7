//! The keeper of a program: a process that starts the program's processes in their cage, and ends all that they leave.
//!
//! The keeper is a fork of this process, and the parent of the program's processes. It adopts descendants whose own parents
//! have ended (`PR_SET_CHILD_SUBREAPER`). So a process that forks twice and begins a session of its own is still the keeper's.
//! When the program has ended, when its [`Keeper`] is dropped, or when this process ends, even by `kill -9`, the keeper kills
//! all of them, waits until none is left, and ends.

mod crowd;
pub mod niceness;
mod nursery;
mod watch;

pub use nursery::{BUSY_PAUSE, BUSY_TRIES};
pub use watch::close_all_but;

use crate::cage::Bars;
use crate::cgroups::Group;
use crate::ending;
use crate::limits::{Limiter, Reason};
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

/// Bytes of a message to the keeper: a process, and a signal for its group. Without a signal: the process is one of the
/// program's. Without both: all were named.
const ORDER: usize = 8;
/// Bytes of a message of the keeper: a process of the program, its wait status, its peak resident size in kilobytes, and the processor
/// time of it and of all that it has waited for, in microseconds.
const NEWS: usize = 24;

/// How long a keeper has to end a program. One that takes longer waits for a file system that does not answer, in which it changes a
/// mode, or a process of the program does.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause before further processes are looked for.
const AGAIN: Duration = Duration::from_millis(10);

/// The keeper of a program. Dropping it ends the program.
#[derive(Debug)]
pub struct Keeper {
    socket: Arc<OwnedFd>,
    process: Pid,
    is_over: bool,
    /// Why the program was ended for others, or for a limit.
    reason: Reason,
    /// Dropped after the program has ended, which removes it. `None`: the kernel bounds nothing here.
    group: Option<(Arc<Limiter>, Group)>,
}

/// How a process of the program ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// The process.
    pub process: u32,
    /// Its exit status.
    pub status: ExitStatus,
    /// Its peak resident size in bytes.
    pub resident: u64,
    /// The processor time of it and of all that it has waited for.
    pub cpu: Duration,
}

/// A process of the program that has begun: its number, and a descriptor that is readable once it has ended.
pub type Begun = (u32, OwnedFd);

impl Keeper {
    /// Starts the commands in the cage. Returns what came of each. Where the account has hardly a process left, its largest program is ended
    /// first.
    ///
    /// # Errors
    ///
    /// The cage cannot be entered, or no process can be started.
    pub fn start(bars: &Bars, commands: &mut [Command]) -> io::Result<(Keeper, Vec<io::Result<Begun>>)> {
        let account = bars.account().unwrap_or_else(|| geteuid().as_raw());
        // The kernel does not bound the processes of root.
        if let Some(most) = bars.processes().filter(|_| account != 0) {
            crowd::make_room(account, most);
        }
        let limiter = bars.limiter();
        let group = limiter.map(|limiter| limiter.group(commands.len())).transpose()?.flatten();
        let entries = group.as_ref().map_or_else(Vec::new, Group::entries);
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let (reports, report) = nursery::pipe()?;
        let programs = Vec::with_capacity(commands.len()); // allocated before the fork, because the keeper must not allocate
        // SAFETY: the child never returns. It allocates, as the C library allows after a fork, only to start the commands.
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
            limiter.watch(process, &socket, bars.folders(), commands.len(), reason.clone());
        }
        let group = limiter.cloned().zip(group);
        let keeper = Keeper { socket, process, is_over: false, reason, group };
        let started = nursery::read(reports, commands.len())?;
        // The keeper reaps nothing before it is told to go on, so that each number still is that of the process.
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

    /// For people: why the program was ended for others, or for a limit. `None`: it was not.
    pub fn reason(&self) -> Option<String> {
        self.reason.words().or_else(|| self.group.as_ref().and_then(|(limiter, group)| limiter.why(group)))
    }

    /// Sends a signal to the process group of a process of the program, if the process has not ended.
    pub fn signal(&self, process: u32, signal: i32) {
        self.order(process, signal);
    }

    /// Whether a process has ended, or the keeper.
    pub fn has_news(&self) -> bool {
        is_readable(&self.socket, Instant::now())
    }

    /// The next process that has ended; `None`: no other one has ended yet.
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

    /// Ends the program, and returns when nothing of it is left, or nothing that can be ended. Returns the processes whose end was not
    /// reported before.
    pub fn end(&mut self) -> Vec<Ended> {
        self.end_within(PATIENCE)
    }

    /// Begins to end the program, and waits for nothing. [`Keeper::end`] must follow.
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

    /// Kills what the keeper keeps, and then the keeper, which is stopped meanwhile: it reaps nothing, so that the numbers of its children
    /// are theirs.
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

/// Whether something can be read before this time, or the other side has ended.
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
