//! One process of a program: started in a group of its own, with a control socket, and ended with all that it started.

use super::shared::Shared;
use crate::interpreter::{end_group, is_stopped, is_zombie};
use phalanx_core::wire::machines::{Exit, Program};
use phalanx_core::wire::ranks::{FromRank, MOST_FROM_RANK, Messages, RANK, Seat, UNIVERSE};
use phalanx_net::socket::Socket;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child as Process, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Bytes read from a control socket at once.
const AT_ONCE: usize = 16 << 10;
/// Bytes that may wait for a process that does not read what it is told.
const MOST_PENDING: usize = 64 << 20;

/// The same, for messages.
const MOST_MESSAGES: usize = 1 << 16;

/// For a program that is busy.
const BUSY_TRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// A living process.
#[derive(Debug)]
pub struct Child {
    pub rank: u32,
    process: Process,
    /// Readable once the process has ended.
    pub ended: Arc<OwnedFd>,
    /// None once it was closed at the other end.
    pub control: Option<OwnedFd>,
    messages: Messages,
    /// What its socket had no room for yet: bytes, and a file that goes with the first of them.
    pending: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    /// For how long it has been stopped.
    still: Duration,
    /// It was for too long, and was ended.
    is_given_up: bool,
}

/// The parent's ends of its standard streams.
#[derive(Debug)]
pub struct Pipes {
    /// For the first rank only; the others read nothing.
    pub input: Option<OwnedFd>,
    pub output: OwnedFd,
    pub error: OwnedFd,
}

impl Child {
    /// Starts the process in a folder; none: where this one is. `seat` lacks the control socket and what is shared.
    pub fn start(
        program: &Program,
        folder: Option<&Path>,
        mut seat: Seat,
        shared: &Shared,
    ) -> io::Result<(Child, Pipes)> {
        let (control, theirs) = Socket::pair()?;
        control.set_blocking(false)?;
        let theirs = OwnedFd::from(theirs);
        seat.control = theirs.as_raw_fd();
        (seat.segment, seat.bytes, seat.bells) = (shared.segment(), shared.bytes, shared.bells());
        let mut command = command(program, folder)?;
        command.env(RANK, seat.to_string());
        let number = seat.base + seat.rank;
        command.stdin(if number == 0 { Stdio::piped() } else { Stdio::null() });
        let inherited = [&[seat.control, seat.segment][..], &seat.bells].concat();
        let parent = rustix::process::getpid();
        // SAFETY: between fork and exec only system calls are made.
        unsafe { command.pre_exec(move || prepare(&inherited, parent)) };
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut process = spawn(&mut command)?;
        let pipes = Pipes {
            input: process.stdin.take().map(OwnedFd::from),
            output: process.stdout.take().expect("is a pipe").into(),
            error: process.stderr.take().expect("is a pipe").into(),
        };
        let pid = Pid::from_raw(process.id() as i32).expect("is no 0");
        let ended = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
            end_group(&mut process);
            drop(process.wait());
        })?;
        let (messages, pending) = (Messages::new(MOST_FROM_RANK), VecDeque::new());
        let control = Some(OwnedFd::from(control));
        let (ended, still, is_given_up) = (Arc::new(ended), Duration::ZERO, false);
        Ok((Child { rank: number, process, ended, control, messages, pending, still, is_given_up }, pipes))
    }

    /// The number of its process group.
    pub fn group(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal to it and to what it started in its group.
    pub fn signal(&self, signal: Signal) {
        let group = Pid::from_raw(self.process.id() as i32).expect("is no 0");
        let _ = rustix::process::kill_process_group(group, signal);
    }

    /// Gives it a message, and a file with it; what does not fit into its socket waits.
    pub fn tell(&mut self, frame: Vec<u8>, file: Option<OwnedFd>) {
        let waiting: usize = self.pending.iter().map(|(bytes, _)| bytes.len()).sum();
        if waiting + frame.len() <= MOST_PENDING && self.pending.len() < MOST_MESSAGES {
            self.pending.push_back((frame, file));
        }
        self.go_on();
    }

    /// Whether something waits for room in its socket.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty() && self.control.is_some()
    }

    /// Writes what the socket takes.
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
                Err(_) => self.pending.clear(), // reading will tell
            }
        }
    }

    /// What it says next; none: nothing for now. An error: what it says is no message.
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

    /// Whether it has ended by itself.
    pub fn has_ended(&self) -> bool {
        is_zombie(&self.process)
    }

    /// Another moment has passed. One that was stopped all the time until its patience is over is ended.
    pub fn note_still(&mut self, passed: Duration, patience: Duration) {
        let is_still = is_stopped(&self.process);
        self.still = if is_still { self.still + passed } else { Duration::ZERO };
        if is_still && self.still >= patience && !self.is_given_up {
            self.is_given_up = true;
            self.signal(Signal::KILL);
        }
    }

    /// Ends what is left of it and its group; how it ended.
    pub fn end(mut self) -> Exit {
        end_group(&mut self.process);
        match self.process.wait() {
            Ok(status) if self.is_given_up && status.signal() == Some(libc::SIGKILL) => {
                Exit::Unseen(format!("it was stopped for {:.1} s, and was ended", self.still.as_secs_f64()))
            }
            Ok(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => Exit::Signal(signal),
                (_, code) => Exit::Code(code.unwrap_or(1)),
            },
            Err(error) => Exit::Unseen(error.to_string()),
        }
    }
}

/// Sends what there is room for, and the file with the first byte.
fn send(to: &OwnedFd, bytes: &[u8], file: Option<&OwnedFd>) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files: Vec<BorrowedFd<'_>> = file.into_iter().map(AsFd::as_fd).collect();
    if !files.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
    }
    sendmsg(to, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)
}

/// A program that was just written is busy for as long as a process has its file open that another thread is starting: a
/// copy of this one, until it becomes its own program.
fn spawn(command: &mut Command) -> io::Result<Process> {
    for _ in 0..BUSY_TRIES {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::sleep(BUSY_PAUSE),
            outcome => return outcome,
        }
    }
    command.spawn()
}

fn command(program: &Program, folder: Option<&Path>) -> io::Result<Command> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let mut words = program.command.iter().map(|word| OsStr::from_bytes(word));
    let mut command = Command::new(words.next().ok_or(io::ErrorKind::InvalidInput)?);
    command.args(words);
    command.env_remove(UNIVERSE); // of a program whose process starts this one
    let variables = program.environment.iter();
    command.envs(variables.map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))));
    let own = program.folder.as_ref().map(|folder| Path::new(OsStr::from_bytes(folder)));
    if let Some(folder) = own.or(folder) {
        command.current_dir(folder);
    }
    Ok(command)
}

/// In the child, before it becomes the program: it takes with it what it shares, and ends when the thread that started it
/// does.
fn prepare(inherited: &[RawFd], parent: Pid) -> io::Result<()> {
    for fd in inherited {
        // SAFETY: the parent holds it open until the child is started.
        fcntl_setfd(unsafe { BorrowedFd::borrow_raw(*fd) }, FdFlags::empty())?;
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    match rustix::process::getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::ErrorKind::BrokenPipe.into()), // it has just ended
    }
}
