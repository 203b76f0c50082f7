//! The nursery: starts the processes of one program together in one cage.
//!
//! Ranks of one machine read each other's memory, which Landlock allows only within one cage. A process can enter a cage and
//! start others in it, but it can neither join the cage of another process nor leave its own. So a process is forked that
//! enters the cage, starts the ranks, and ends. The ranks become its siblings, not its children: they are children of this
//! process, as are those that are not caged.

use crate::cage::Bars;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Attempts to start a program whose file is still busy ("text file busy").
pub const BUSY_TRIES: u32 = 50;
pub const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// A report: the number of a command, and the process that was started for it, or the negative of an error's number.
const REPORT: usize = 8;
/// The number in the report of the nursery itself.
const ITSELF: i32 = -1;
/// The exit status of a process whose program cannot be run.
const NOT_RUN: i32 = 127;

/// Starts the commands in the cage. Returns the number of each process.
///
/// # Errors
///
/// The cage cannot be entered. Beside that, each command has its own error.
pub fn start(bars: &Bars, commands: &mut [Command]) -> io::Result<Vec<io::Result<u32>>> {
    let (reports, report) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: the child only starts the commands, and never returns. It allocates, as the C library allows after a fork.
    let nurse = match unsafe { libc::fork() } {
        // SAFETY: this is the child.
        0 => unsafe { nurse(bars, commands, report.as_raw_fd()) },
        nurse if nurse > 0 => nurse,
        _ => return Err(io::Error::last_os_error()),
    };
    drop(report);
    let outcome = read(reports, commands.len());
    reap(nurse);
    outcome
}

/// Reads the reports until all processes have begun or failed, because each of them closes its end then.
fn read(reports: OwnedFd, count: usize) -> io::Result<Vec<io::Result<u32>>> {
    let mut bytes = Vec::new();
    let mut started: Vec<Option<i32>> = vec![None; count];
    let mut failed: Vec<Option<i32>> = vec![None; count];
    let outcome = File::from(reports).read_to_end(&mut bytes).map(drop);
    let mut itself = outcome;
    for report in bytes.chunks_exact(REPORT) {
        let word = |at: usize| report[at..at + 4].try_into().map_or(0, i32::from_ne_bytes);
        match (usize::try_from(word(0)), word(4)) {
            (Ok(number), process) if process > 0 && number < count => started[number] = Some(process),
            (Ok(number), error) if number < count => failed[number] = Some(-error),
            (_, error) => itself = Err(io::Error::from_raw_os_error(-error)),
        }
    }
    let outcome = |(started, failed): (Option<i32>, Option<i32>)| match (started, failed) {
        (Some(process), None) if itself.is_ok() => Ok(process as u32),
        (process, error) => {
            process.into_iter().for_each(end);
            Err(error.map_or_else(|| io::Error::other("the nursery was ended"), io::Error::from_raw_os_error))
        }
    };
    let outcomes = started.into_iter().zip(failed).map(outcome).collect();
    itself.map(|()| outcomes)
}

/// Ends a process that has not run its program.
fn end(process: i32) {
    // SAFETY: the process is a child that was not waited for, so the number is its own.
    unsafe { libc::kill(process, libc::SIGKILL) };
    reap(process);
}

fn reap(process: i32) {
    // SAFETY: waits for a child that nothing else waits for.
    while unsafe { libc::waitpid(process, std::ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// Enters the cage and starts the commands there.
///
/// # Safety
/// Only to be called right after a fork, in the child.
unsafe fn nurse(bars: &Bars, commands: &mut [Command], report: RawFd) -> ! {
    if let Err(error) = bars.enter() {
        tell(report, ITSELF, -error.raw_os_error().unwrap_or(libc::EIO));
        exit(NOT_RUN);
    }
    for (number, command) in commands.iter_mut().enumerate() {
        // SAFETY: without a stack of its own the new process goes on as after a fork. This process has one thread.
        let process = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD, 0, 0, 0, 0) };
        match process {
            0 => {
                tell(report, number as i32, -run(command).raw_os_error().unwrap_or(libc::EIO));
                exit(NOT_RUN);
            }
            1.. => tell(report, number as i32, process as i32),
            _ => tell(report, number as i32, -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
        }
    }
    exit(0)
}

/// Becomes the program. Returns why that failed.
fn run(command: &mut Command) -> io::Error {
    for _ in 0..BUSY_TRIES {
        let error = command.exec();
        if error.kind() != io::ErrorKind::ExecutableFileBusy {
            return error;
        }
        std::thread::sleep(BUSY_PAUSE);
    }
    command.exec()
}

fn tell(report: RawFd, number: i32, word: i32) {
    let mut bytes = [0; REPORT];
    bytes[..4].copy_from_slice(&number.to_ne_bytes());
    bytes[4..].copy_from_slice(&word.to_ne_bytes());
    // SAFETY: the pipe is open until this process ends or runs its program.
    let report = unsafe { std::os::fd::BorrowedFd::borrow_raw(report) };
    while rustix::io::write(report, &bytes) == Err(Errno::INTR) {}
}

fn exit(status: i32) -> ! {
    // SAFETY: ends this process without the handlers of its parent.
    unsafe { libc::_exit(status) }
}
