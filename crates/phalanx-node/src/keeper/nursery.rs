//! The nursery: starts the processes of one program together in one cage.
//!
//! Ranks of one machine read each other's memory, which Landlock allows only within one cage. A process can enter a cage and start others
//! in it. It can neither join the cage of another process nor leave its own. So the keeper forks a process that enters the cage, starts the
//! program's other processes, and becomes the last of them. These are its siblings (`CLONE_PARENT`), because the keeper must be the parent
//! of all.

use crate::cage::Bars;
use crate::cgroups::Group;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Retries to start a program whose file is still busy ("text file busy"), and the pause between two.
pub const BUSY_TRIES: u32 = 50;
pub const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Bytes of a report: the number of a command, and its process or a negative errno.
const REPORT: usize = 8;
/// The number in the report of the nursery itself.
const ITSELF: i32 = -1;
/// The exit status of a process whose program cannot be run.
const NOT_RUN: i32 = 127;

/// The pipe for reports: the end to read, and the end to write.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// Reads the reports until all processes have begun or failed. The pipe ends then, because each process closes its writing end. Returns the
/// number of each process.
///
/// # Errors
///
/// The nursery cannot enter the cage. Besides, each command has its own error.
pub fn read(reports: OwnedFd, count: usize) -> io::Result<Vec<io::Result<u32>>> {
    let mut bytes = Vec::new();
    File::from(reports).read_to_end(&mut bytes)?;
    let ended = || Err(io::Error::other("the nursery was ended"));
    let mut outcomes: Vec<io::Result<u32>> = (0..count).map(|_| ended()).collect();
    for report in bytes.chunks_exact(REPORT) {
        let word = |at: usize| report[at..at + 4].try_into().map_or(0, i32::from_ne_bytes);
        let outcome = match word(4) {
            process if process > 0 => Ok(process as u32),
            error => Err(io::Error::from_raw_os_error(-error)),
        };
        match usize::try_from(word(0)).ok().filter(|number| *number < count) {
            // an error takes precedence over the process that reports it
            Some(number)
                if outcome.is_err() || outcomes[number].as_ref().is_err_and(|it| it.raw_os_error().is_none()) =>
            {
                outcomes[number] = outcome;
            }
            Some(_) => {}
            None => return Err(outcome.err().unwrap_or_else(|| io::ErrorKind::InvalidData.into())),
        }
    }
    Ok(outcomes)
}

/// Enters the groups and the cage, sends the gate to the keeper, starts the commands, and reports each of them.
///
/// # Safety
///
/// Only to be called right after a fork, in the child of `keeper`.
pub unsafe fn nurse(
    bars: &Bars,
    groups: &[BorrowedFd<'_>],
    commands: &mut [Command],
    report: RawFd,
    gate: OwnedFd,
    keeper: i32,
) -> ! {
    // The groups come first, because only the executor's account can enter them.
    if let Err(error) = Group::enter(groups).and_then(|()| bars.enter()).and_then(|()| bars.enter_gate(gate.as_fd())) {
        refuse(report, error);
        exit(NOT_RUN);
    }
    drop(gate);
    let last = commands.len().saturating_sub(1);
    for (number, command) in commands.iter_mut().enumerate() {
        let flags = libc::CLONE_PARENT | libc::SIGCHLD;
        let process = match number == last {
            true => 0, // this process itself
            // SAFETY: without a new stack, the call behaves like a fork. This process has one thread.
            false => unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) },
        };
        match process {
            0 => {
                tell(report, number as i32, std::process::id() as i32);
                tell(report, number as i32, failed(run(command, keeper)));
                exit(NOT_RUN);
            }
            1.. => {} // reports itself
            _ => tell(report, number as i32, failed(io::Error::last_os_error())),
        }
    }
    exit(0)
}

/// Becomes the program, which ends with the keeper. Returns the error if that fails.
fn run(command: &mut Command, keeper: i32) -> io::Error {
    let tied = set_parent_process_death_signal(Some(Signal::KILL));
    if tied.is_err() || getppid().is_none_or(|parent| parent.as_raw_nonzero().get() != keeper) {
        return io::Error::from_raw_os_error(libc::ECHILD); // the keeper has just ended
    }
    for _ in 0..BUSY_TRIES {
        let error = command.exec();
        if error.kind() != io::ErrorKind::ExecutableFileBusy {
            return error;
        }
        std::thread::sleep(BUSY_PAUSE);
    }
    command.exec()
}

/// The negative errno for a report.
fn failed(error: io::Error) -> i32 {
    -error.raw_os_error().unwrap_or(libc::EIO)
}

fn tell(report: RawFd, number: i32, word: i32) {
    let mut bytes = [0; REPORT];
    bytes[..4].copy_from_slice(&number.to_ne_bytes());
    bytes[4..].copy_from_slice(&word.to_ne_bytes());
    // SAFETY: the pipe is open until this process ends or runs its program.
    let report = unsafe { std::os::fd::BorrowedFd::borrow_raw(report) };
    while rustix::io::write(report, &bytes) == Err(Errno::INTR) {}
}

/// Reports that no command can be started.
pub fn refuse(report: RawFd, error: io::Error) {
    tell(report, ITSELF, failed(error));
}

/// Ends this process.
pub fn exit(status: i32) -> ! {
    // SAFETY: ends this process without the handlers of its parent.
    unsafe { libc::_exit(status) }
}
