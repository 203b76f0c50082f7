//! A process of a program before it is started: its command, with its control socket and the ends of its standard streams.

use super::child::{Child, Pipes};
use super::shared::Shared;
use crate::cage::Bars;
use crate::interpreter::end_group;
use crate::keeper::{BUSY_PAUSE, BUSY_TRIES, Begun, Keeper};
use phalanx_core::wire::machines::Program;
use phalanx_core::wire::ranks::{RANK, Seat, UNIVERSE};
use phalanx_net::socket::Socket;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// What came of starting a process.
pub type Started = io::Result<(Child, Pipes)>;

/// A process that can be started.
#[derive(Debug)]
pub struct Prepared {
    rank: u32,
    command: Command,
    control: Socket,
    pipes: Pipes,
    /// The other end of the control socket, which the process inherits.
    theirs: OwnedFd,
}

impl Prepared {
    /// Prepares the process in `folder`; `None`: in this process's folder. `seat` has neither the control socket nor the shared
    /// memory yet.
    pub fn new(
        program: &Program,
        folder: Option<&Path>,
        mut seat: Seat,
        shared: &Shared,
        bars: Option<&Bars>,
    ) -> io::Result<Prepared> {
        let (control, theirs) = Socket::pair()?;
        control.set_blocking(false)?;
        let theirs = OwnedFd::from(theirs);
        seat.control = theirs.as_raw_fd();
        (seat.segment, seat.bytes, seat.bells) = (shared.segment(), shared.bytes, shared.bells());
        let mut command = command(program, folder, bars)?;
        command.env(RANK, seat.to_string());
        let rank = seat.base + seat.rank;
        let inherited = [&[seat.control, seat.segment][..], &seat.bells].concat();
        // SAFETY: between fork and exec only system calls are made.
        unsafe { command.pre_exec(move || inherit(&inherited)) };
        if bars.is_none() {
            let parent = rustix::process::getpid();
            // SAFETY: as above.
            unsafe { command.pre_exec(move || end_with(parent)) };
        }
        let input = (rank == 0).then(|| pipe_with(PipeFlags::CLOEXEC)).transpose()?;
        let (input_end, input) = input.unzip();
        let (output, output_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (error, error_end) = pipe_with(PipeFlags::CLOEXEC)?;
        if let Some(bars) = bars {
            [Some(&output_end), Some(&error_end), input_end.as_ref()]
                .into_iter()
                .flatten()
                .try_for_each(|end| bars.hand_over(end))?;
        }
        command.stdin(input_end.map_or_else(Stdio::null, Stdio::from));
        command.stdout(output_end).stderr(error_end).process_group(0);
        Ok(Prepared { rank, command, control, pipes: Pipes { input, output, error }, theirs })
    }

    /// Starts the processes, in the cage if there is one; their keeper then, and the outcome of each. If one cannot be prepared,
    /// none is started.
    pub fn start(
        prepared: impl ExactSizeIterator<Item = io::Result<Prepared>>,
        bars: Option<&Bars>,
    ) -> (Option<Arc<Keeper>>, Vec<Started>) {
        let count = prepared.len();
        let prepared: Vec<Prepared> = match prepared.collect() {
            Ok(prepared) => prepared,
            Err(error) => return (None, all_failed(count, &error)),
        };
        let (mut commands, rest): (Vec<_>, Vec<_>) =
            prepared.into_iter().map(|it| (it.command, (it.rank, it.control, it.pipes, it.theirs))).unzip();
        let (keeper, started) = match bars.map(|bars| Keeper::start(bars, &mut commands)) {
            None => (None, commands.iter_mut().map(spawn).collect()),
            Some(Ok((keeper, begun))) => (Some(Arc::new(keeper)), begun),
            Some(Err(error)) => (None, all_failed(count, &error)),
        };
        let begun = |(started, (rank, control, pipes, _)): (io::Result<Begun>, _)| {
            Ok((Child::of(rank, started?, control, keeper.clone()), pipes))
        };
        let outcomes = started.into_iter().zip(rest).map(begun).collect();
        (keeper, outcomes)
    }
}

fn all_failed<T>(count: usize, error: &io::Error) -> Vec<io::Result<T>> {
    (0..count).map(|_| Err(io::Error::new(error.kind(), error.to_string()))).collect()
}

/// Starts the program, and retries while its file is busy. A file that was just written stays busy while another thread starts
/// a process: the forked copy holds the file open until it calls exec.
fn spawn(command: &mut Command) -> io::Result<Begun> {
    for _ in 0..BUSY_TRIES {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::sleep(BUSY_PAUSE),
            outcome => return outcome.and_then(begun),
        }
    }
    command.spawn().and_then(begun)
}

fn begun(mut child: std::process::Child) -> io::Result<Begun> {
    let pid = Pid::from_child(&child);
    let ended = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
        end_group(child.id());
        drop(child.wait());
    })?;
    Ok((child.id(), ended))
}

fn command(program: &Program, folder: Option<&Path>, bars: Option<&Bars>) -> io::Result<Command> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let mut words = program.command.iter().map(|word| OsStr::from_bytes(word));
    let mut command = Command::new(words.next().ok_or(io::ErrorKind::InvalidInput)?);
    command.args(words);
    bars.into_iter().for_each(|bars| bars.furnish(&mut command));
    command.env_remove(UNIVERSE); // the variable belongs to the program whose process starts this one
    let variables = program.environment.iter();
    command.envs(variables.map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))));
    let own = program.folder.as_ref().map(|folder| Path::new(OsStr::from_bytes(folder)));
    if let Some(folder) = own.or(folder) {
        command.current_dir(folder);
    }
    Ok(command)
}

/// Runs in the child before exec: lets it inherit the shared descriptors.
fn inherit(inherited: &[RawFd]) -> io::Result<()> {
    for fd in inherited {
        // SAFETY: the parent holds it open until the child is started.
        fcntl_setfd(unsafe { BorrowedFd::borrow_raw(*fd) }, FdFlags::empty())?;
    }
    Ok(())
}

/// Runs in the child before exec: makes it end together with the thread that started it.
fn end_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    match rustix::process::getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::ErrorKind::BrokenPipe.into()), // the parent has just ended
    }
}
