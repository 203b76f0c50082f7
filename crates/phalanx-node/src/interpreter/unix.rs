//! An interpreter's process on unix systems: it leads a process group, and inherits its end of the tether as standard input.

use crate::ending::{self, Before};
use phalanx_net::socket::Socket;
use std::io;
use std::process::{Child, Command, Stdio};

/// What the interpreter is given after its start. It has inherited its end of the tether.
pub(super) struct Passenger;

/// The interpreter's process, a child of this one.
#[derive(Debug)]
pub(super) struct Spawned(Child);

impl Spawned {
    pub fn start(mut command: Command) -> io::Result<Spawned> {
        command.spawn().map(Spawned)
    }

    pub fn take_on(&mut self, Passenger: Passenger) -> io::Result<()> {
        Ok(())
    }

    pub fn number(&self) -> u32 {
        self.0.id()
    }

    pub fn has_ended(&self) -> bool {
        is_zombie(self.0.id())
    }

    pub fn begin_end(&self) {
        end_group(self.0.id());
    }

    /// Ends the interpreter and what it has started. Returns how it ended.
    pub fn end(&self, before: Before) -> String {
        end_group(self.0.id());
        ending::wait(&self.0, before)
    }
}

/// Makes an end of the tether the standard input of the command.
pub(super) fn tether(command: &mut Command, child_end: Socket) -> Passenger {
    command.stdin(stdio(child_end));
    apart_from_terminal(command);
    Passenger
}

/// Passes the interpreter a connection.
pub(super) fn pass(tether: &Socket, data: &Socket, _: u32) -> io::Result<()> {
    tether.send_socket(data)
}

fn stdio(socket: Socket) -> Stdio {
    Stdio::from(std::os::fd::OwnedFd::from(socket))
}

/// Moves the child to a process group of its own. A Ctrl-C at the terminal is meant for the user's program, which then ends its
/// interpreters.
fn apart_from_terminal(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

/// Whether the child has ended. It is not reaped, so that its process group number stays reserved.
pub(crate) fn is_zombie(child: u32) -> bool {
    // SAFETY: all zeroes is a value of this plain structure, which the system fills in.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` lives as long as the call; the process id is that of our child.
    let waited = unsafe { libc::waitid(libc::P_PID, child as libc::id_t, &raw mut info, options) };
    // SAFETY: filled in by waitid; zero if the child has not ended.
    waited == 0 && unsafe { info.si_pid() } != 0
}

/// Kills the child and every process in its group.
pub(crate) fn end_group(child: u32) {
    // SAFETY: sends signals; the child was not reaped yet, so the number still belongs to it.
    unsafe {
        libc::kill(-(child as libc::pid_t), libc::SIGKILL);
        libc::kill(child as libc::pid_t, libc::SIGKILL);
    }
}

/// Takes over the socket that is this process's standard input. User code that reads standard input finds it at its end.
pub(super) fn take_tether() -> io::Result<Socket> {
    use std::os::fd::{AsFd, AsRawFd};
    let tether = std::io::stdin().as_fd().try_clone_to_owned()?;
    let nothing = std::fs::File::open("/dev/null")?;
    // SAFETY: both are open descriptors.
    if unsafe { libc::dup2(nothing.as_raw_fd(), 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let tether = Socket::from(tether);
    // The executor is root where the interpreter has an account of its user's own.
    match tether.peer_is_same_user_or_root()? {
        true => Ok(tether),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "started by another user")),
    }
}

/// Ends this process and everything that it has started at once. Exit handlers of the user's libraries do not run.
pub fn end_process(status: i32) -> ! {
    // SAFETY: kills the process group that this process was started to lead, or only the process if it leads none.
    unsafe {
        if libc::getpgrp() == libc::getpid() {
            libc::kill(0, libc::SIGKILL);
        }
        libc::_exit(status)
    }
}
