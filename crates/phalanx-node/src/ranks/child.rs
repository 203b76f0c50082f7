//! One process of a program: started in a process group of its own with a control socket, and ended together with all that it
//! started.

use crate::ending::is_stopped;
use crate::interpreter::{end_group, is_zombie};
use crate::keeper::{Begun, Ended, Keeper};
use phalanx_core::wire::machines::Exit;
use phalanx_core::wire::ranks::{FromRank, MOST_FROM_RANK, Messages};
use phalanx_net::socket::Socket;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, Signal};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

/// Bytes read from a control socket at once.
const AT_ONCE: usize = 16 << 10;
/// Most bytes that wait for a process that does not read its control socket.
const MOST_PENDING: usize = 64 << 20;

/// Most messages that wait for such a process.
const MOST_MESSAGES: usize = 1 << 16;

/// A living process.
#[derive(Debug)]
pub struct Child {
    pub rank: u32,
    /// The process, which only this value or the keeper waits for.
    process: u32,
    /// `None`: the process is a child of this one.
    keeper: Option<Arc<Keeper>>,
    /// How the process ended, once the keeper has said so.
    exit: Option<Exit>,
    /// A pidfd: readable once the process has ended.
    pub ended: Arc<OwnedFd>,
    /// The control socket; `None` once the other end has closed it.
    pub control: Option<OwnedFd>,
    messages: Messages,
    /// What the socket had no room for yet: bytes, and a file descriptor that goes with the first of them.
    pending: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    /// How long the process has been stopped.
    still: Duration,
    /// Whether the process was ended because it was stopped for too long.
    is_given_up: bool,
}

/// The parent's ends of the process's standard streams.
#[derive(Debug)]
pub struct Pipes {
    /// Only for the first rank; the others read nothing.
    pub input: Option<OwnedFd>,
    pub output: OwnedFd,
    pub error: OwnedFd,
}

impl Child {
    /// A process that has just been started.
    pub fn of(rank: u32, (process, ended): Begun, control: Socket, keeper: Option<Arc<Keeper>>) -> Child {
        let (messages, pending) = (Messages::new(MOST_FROM_RANK), VecDeque::new());
        let control = Some(OwnedFd::from(control));
        let (ended, still, is_given_up, exit) = (Arc::new(ended), Duration::ZERO, false, None);
        Child { rank, process, keeper, exit, ended, control, messages, pending, still, is_given_up }
    }

    /// The number of its process group.
    pub fn group(&self) -> u32 {
        self.process
    }

    /// Sends a signal to the whole process group.
    pub fn signal(&self, signal: Signal) {
        if let Some(keeper) = &self.keeper {
            return keeper.signal(self.process, signal.as_raw());
        }
        let group = Pid::from_raw(self.process as i32).expect("is no 0");
        let _ = rustix::process::kill_process_group(group, signal);
    }

    /// Sends the process a message, with a file descriptor if there is one. What does not fit into the socket waits.
    pub fn tell(&mut self, frame: Vec<u8>, file: Option<OwnedFd>) {
        let waiting: usize = self.pending.iter().map(|(bytes, _)| bytes.len()).sum();
        if waiting + frame.len() <= MOST_PENDING && self.pending.len() < MOST_MESSAGES {
            self.pending.push_back((frame, file));
        }
        self.go_on();
    }

    /// Whether something waits for room in the socket.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty() && self.control.is_some()
    }

    /// Writes as much of the waiting messages as the socket takes.
    pub fn go_on(&mut self) {
        while let (Some(control), Some((bytes, file))) = (&self.control, self.pending.front_mut()) {
            match send(control, bytes, file.as_ref()) {
                Ok(count) if count == bytes.len() => drop(self.pending.pop_front()),
                Ok(count) => {
                    bytes.drain(..count);
                    *file = None;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.pending.clear(), // reading the socket will report the error
            }
        }
    }

    /// The next message of the process; `None`: there is none at the moment. An error: it sent something that is no message.
    pub fn hear(&mut self) -> io::Result<Option<FromRank>> {
        loop {
            if let Some(message) = self.messages.take().map_err(io::Error::other)? {
                return Ok(Some(message));
            }
            let Some(control) = &self.control else { return Ok(None) };
            let mut bytes = [0; AT_ONCE];
            match rustix::io::read(control, &mut bytes) {
                Ok(0) => self.control = None,
                Ok(count) => self.messages.feed(&bytes[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(_) => self.control = None,
            }
        }
    }

    /// Whether the process has ended by itself.
    pub fn has_ended(&self) -> bool {
        match self.keeper {
            Some(_) => self.exit.is_some(),
            None => is_zombie(self.process),
        }
    }

    /// Takes what the keeper says about the end of this process or another one. `None`: the keeper is gone.
    pub fn note_end(&mut self, ended: Option<&Ended>) {
        match ended {
            Some(ended) if ended.process == self.process => self.exit = Some(exit(ended.status)),
            None if self.exit.is_none() => self.exit = Some(Exit::Unseen("its keeper was ended".to_owned())),
            _ => {}
        }
    }

    /// Counts time that has passed. A process that was stopped for all of `patience` is ended.
    pub fn note_still(&mut self, passed: Duration, patience: Duration) {
        let is_still = is_stopped(self.process);
        self.still = if is_still { self.still + passed } else { Duration::ZERO };
        if is_still && self.still >= patience && !self.is_given_up {
            self.is_given_up = true;
            self.signal(Signal::KILL);
        }
    }

    /// Ends the process and what is left of its group. Returns how it ended.
    pub fn end(self) -> Exit {
        let reason = self.keeper.as_ref().and_then(|keeper| keeper.reason());
        let ended = self.exit.unwrap_or_else(|| {
            end_group(self.process);
            wait(self.process).map_or_else(|error| Exit::Unseen(error.to_string()), exit)
        });
        match ended {
            Exit::Signal(libc::SIGKILL) if self.is_given_up => {
                Exit::Unseen(format!("it was stopped for {:.1} s, and was ended", self.still.as_secs_f64()))
            }
            Exit::Signal(libc::SIGKILL) => reason.map_or(ended, Exit::Unseen),
            ended => ended,
        }
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.signal(), status.code()) {
        (Some(signal), _) => Exit::Signal(signal),
        (_, code) => Exit::Code(code.unwrap_or(1)),
    }
}

/// Sends as many bytes as there is room for. The file descriptor goes with the first byte.
fn send(to: &OwnedFd, bytes: &[u8], file: Option<&OwnedFd>) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files: Vec<BorrowedFd<'_>> = file.into_iter().map(AsFd::as_fd).collect();
    if !files.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
    }
    sendmsg(to, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)
}

/// Waits for a process that was not waited for yet.
fn wait(process: u32) -> io::Result<ExitStatus> {
    let mut status = 0;
    loop {
        // SAFETY: `status` lives as long as the call; the process is a child that was not waited for.
        if unsafe { libc::waitpid(process as libc::pid_t, &raw mut status, 0) } >= 0 {
            return Ok(ExitStatus::from_raw(status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
