//! One run of a process: its folder, its commands, and its end.

use super::captured::Captured;
use super::{Shared, Task};
use crate::cage::{Bars, Shown, View};
use crate::keeper::{Ended, Keeper};
use crate::metering::Metered;
use crate::scratch::Folder;
use phalanx_core::wire::hub::What;
use phalanx_core::wire::jobs::{Command as Words, Content, Exit, LONGEST_WHY, Outcome, Run, Spec, Stream, ToHubJobs};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The executor reports the start of a run only if the run takes longer than this, so that short runs cost no extra message.
const NOTEWORTHY: Duration = Duration::from_millis(100);
/// Longest wait between two checks of the time limit.
const LOOK: Duration = Duration::from_secs(1);
/// Bytes read from a stream at once.
const AT_ONCE: usize = 64 << 10;

/// The state of a run that other threads see.
pub struct Running {
    pub run: Run,
    /// The user's name in the pool that all grids share.
    pub user: String,
    /// The places that the run takes.
    pub places: u32,
    captured: [Captured; 2],
    is_stopped: AtomicBool,
    /// Whether the run has its places.
    pub is_placed: AtomicBool,
    /// An eventfd, readable once the run must end.
    stop: Option<OwnedFd>,
}

/// Why a run has no result of its commands.
pub enum Failure {
    /// The user must change the job.
    User(String),
    /// The run may succeed at another machine.
    Machine(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Machine(error.to_string())
    }
}

/// Resources that the commands of a run have used.
#[derive(Default)]
struct Used {
    cpu: Duration,
    memory: u64,
}

impl Running {
    pub fn new(run: Run, user: String, places: u32) -> Arc<Running> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC).ok();
        Arc::new(Running {
            run,
            user,
            places,
            captured: Default::default(),
            is_stopped: AtomicBool::new(false),
            is_placed: AtomicBool::new(false),
            stop,
        })
    }

    /// Ends the run.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        if let Some(stop) = &self.stop {
            let _ = rustix::io::write(stop, &1u64.to_ne_bytes());
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    pub fn captured(&self, stream: Stream) -> &Captured {
        &self.captured[stream as usize]
    }
}

impl Shared {
    /// Runs a process, and sends its results to the hub.
    pub fn run(&self, task: &Task, running: &Running) -> Outcome {
        let (began, mut used) = (now(), Used::default());
        let mut outcome = Outcome {
            exit: Exit::Code(0),
            stdout: Content::default(),
            stderr: Content::default(),
            dropped: 0,
            outputs: Vec::new(),
            began,
            ended: began,
            cpu: 0,
            memory: 0,
        };
        let done = self.run_in_folder(task, running, &mut used, &mut outcome);
        outcome.exit = match done {
            Ok(exit) => exit,
            Err(Failure::User(why)) => Exit::Unstarted(shortened(why)),
            Err(Failure::Machine(why)) => Exit::Broken(shortened(why)),
        };
        (outcome.cpu, outcome.memory) = (used.cpu.as_micros() as u64, used.memory);
        outcome
    }

    fn run_in_folder(
        &self,
        task: &Task,
        running: &Running,
        used: &mut Used,
        outcome: &mut Outcome,
    ) -> Result<Exit, Failure> {
        let folder = Folder::of(self.settings.cage.account_of(&task.user)?)?;
        self.stage(task, running, &folder)?;
        let view = view(&task.spec, &folder)?;
        let bars = self.settings.cage.around_view(Some(folder.path()), folder.account(), folder.memory(), &[], view)?;
        outcome.began = now();
        let until = task.spec.time_limit.map(|limit| Instant::now() + Duration::from_secs(limit.into()));
        let done = self.run_commands(task, running, (&folder, &bars), until, used);
        outcome.ended = now();
        if running.is_stopped() || matches!(done, Err(Failure::Machine(_))) {
            return done;
        }
        // A program that was ended for a limit has a log and outputs, too.
        self.bring_streams(task, running, outcome)?;
        match self.bring_outputs(task, running, &folder) {
            Ok(outputs) => outcome.outputs = outputs,
            // The error of the command says more than an error about outputs that it has not written.
            Err(Failure::User(_)) if !matches!(done, Ok(Exit::Code(0))) => {}
            Err(failure) => return Err(failure),
        }
        done
    }

    /// Runs the commands one after the other, up to the first that fails.
    fn run_commands(
        &self,
        task: &Task,
        running: &Running,
        within: (&Folder, &Bars),
        until: Option<Instant>,
        used: &mut Used,
    ) -> Result<Exit, Failure> {
        let mut exit = Exit::Code(0);
        for words in &task.spec.commands {
            exit = self.run_command(task, running, within, words, until, used)?;
            if exit != Exit::Code(0) {
                break;
            }
        }
        Ok(exit)
    }

    /// Runs one command until all its descendants have ended.
    fn run_command(
        &self,
        task: &Task,
        running: &Running,
        (folder, bars): (&Folder, &Bars),
        words: &Words,
        until: Option<Instant>,
        used: &mut Used,
    ) -> Result<Exit, Failure> {
        let (output, output_end) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        let (error, error_end) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        bars.hand_over(&output_end)?;
        bars.hand_over(&error_end)?;
        let mut command = self.command(task, words, bars)?;
        match &words.stdin {
            None => drop(command.stdin(Stdio::null())),
            Some(name) => {
                let file = folder.read(name).map_err(|error| Failure::User(format!("the input {name}: {error}")))?;
                command.stdin(file);
            }
        }
        command.stdout(output_end).stderr(error_end).process_group(0);
        let mut commands = [command];
        let (keeper, begun) = Keeper::start_with(bars, &mut commands, running.places as usize)?;
        drop(commands); // because they hold the writing ends of the pipes
        if let Some(Err(error)) = begun.first() {
            return Err(match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput => {
                    Failure::User(unstarted(&words.words[0], error))
                }
                _ if error.raw_os_error() == Some(libc::ENOEXEC) => Failure::User(format!(
                    "the program {} has no format that this machine runs: does its first line name an interpreter (#!)?",
                    words.words[0]
                )),
                _ => Failure::Machine(error.to_string()),
            });
        }
        let processes = begun.iter().flatten().map(|(process, _)| *process).collect();
        let metered = self.settings.meter.begin_at(&running.user, What::Jobs, processes, running.places);
        self.watch(running, keeper, [output, error], until, used, &metered)
    }

    fn command(&self, task: &Task, words: &Words, bars: &Bars) -> Result<Command, Failure> {
        let first = words.words.first().map(String::as_str).unwrap_or_default();
        let mut command = match first {
            "python" | "python3" => Command::new(&self.settings.python),
            "phalanx" => own_phalanx(&self.settings.python),
            _ => Command::new(first),
        };
        command.args(&words.words[1..]);
        bars.furnish(&mut command);
        command.envs(self.settings.environment.iter().map(|(name, value)| (name, value)));
        let Spec { first, last, .. } = *task.spec;
        let Run { job, index, attempt } = task.run;
        for (name, value) in [
            ("PHALANX_JOB", job),
            ("PHALANX_INDEX", index.into()),
            ("PHALANX_FIRST", first.into()),
            ("PHALANX_LAST", last.into()),
            ("PHALANX_COUNT", task.spec.count().into()),
            ("PHALANX_ATTEMPT", attempt.into()),
            ("PHALANX_PLACES", task.spec.places_each().into()),
        ] {
            command.env(name, value.to_string());
        }
        command.envs(words.environment.iter().map(|(name, value)| (name, value)));
        if let (Some(own), Some(folder)) = (&words.folder, bars.folder()) {
            command.current_dir(folder.join(own));
        }
        Ok(command)
    }

    /// Captures the streams of the process until no descendant is left. Ends the process at its time limit, or when the run is stopped.
    fn watch(
        &self,
        running: &Running,
        mut keeper: Keeper,
        streams: [OwnedFd; 2],
        until: Option<Instant>,
        used: &mut Used,
        metered: &Metered,
    ) -> Result<Exit, Failure> {
        let (mut streams, mut buffer) = (streams.map(Some), vec![0; AT_ONCE]);
        let (mut noted, mut ended, mut is_late) = (Some(Instant::now() + NOTEWORTHY), None, false);
        while ended.is_none() {
            let now = Instant::now();
            if noted.is_some_and(|when| when <= now) {
                noted = None;
                self.say(ToHubJobs::Began { runs: vec![running.run] });
            }
            is_late = until.is_some_and(|until| until <= now);
            if is_late || running.is_stopped() {
                metered.look();
                ended = keeper.end().into_iter().next();
                break;
            }
            let next = [noted, until].into_iter().flatten().min();
            wait(&keeper, &streams, running, next.map_or(LOOK, |next| next - now).min(LOOK))?;
            streams.iter_mut().zip(&running.captured).for_each(|(stream, to)| read(stream, to, &mut buffer, false));
            if keeper.has_news() {
                ended = keeper.news().map_err(|_| Failure::Machine("its keeper was ended".to_owned()))?;
            }
        }
        let (reason, met) = (keeper.reason(), keeper.met(running.places.into()));
        drop(keeper); // waits until no descendant is left, so that the streams are complete
        streams.iter_mut().zip(&running.captured).for_each(|(stream, to)| read(stream, to, &mut buffer, true));
        let Some(Ended { status, resident, cpu, .. }) = ended else {
            return Ok(if is_late { Exit::Late } else { Exit::Signal(libc::SIGKILL) });
        };
        if let Some(met) = met.filter(|_| !status.success()) {
            running.captured(Stream::Error).add(format!("phalanx: {met}\n").as_bytes());
        }
        metered.tell(cpu);
        (used.memory, used.cpu) = (used.memory.max(resident), used.cpu + cpu);
        match (is_late, reason) {
            (true, _) => Ok(Exit::Late),
            (false, Some(why)) => Err(Failure::User(why)),
            (false, None) => Ok(exit(status)),
        }
    }
}

/// The command `phalanx` of this machine. The file beside Python takes precedence, because `-m` would import modules from the folder of the
/// process in place of Python's own.
fn own_phalanx(python: &str) -> Command {
    let beside = Path::new(python).with_file_name("phalanx");
    if beside.is_file() {
        return Command::new(beside);
    }
    let mut command = Command::new(python);
    command.args(["-m", "phalanx"]);
    command
}

/// The view of a job that sees private folders at other paths. `None`: the job has no such folders.
fn view(spec: &Spec, folder: &Folder) -> Result<Option<View>, Failure> {
    if spec.shown.is_empty() {
        return Ok(None);
    }
    let shown = |(at, folder): &(String, String)| Shown { at: at.into(), folder: folder.into() };
    let shown: Vec<Shown> = spec.shown.iter().map(shown).collect();
    View::new(folder.path(), &shown, folder.account()).map(Some).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Failure::User(error.to_string()),
        _ => Failure::Machine(error.to_string()),
    })
}

/// Waits for bytes, for the end of the process, for a stop of the run, or for the timeout.
fn wait(keeper: &Keeper, streams: &[Option<OwnedFd>; 2], running: &Running, most: Duration) -> io::Result<()> {
    let mut fds = vec![PollFd::from_borrowed_fd(keeper.as_fd(), PollFlags::IN)];
    fds.extend(running.stop.iter().map(|stop| PollFd::new(stop, PollFlags::IN)));
    fds.extend(streams.iter().flatten().map(|stream| PollFd::new(stream, PollFlags::IN)));
    match poll(&mut fds, Timespec::try_from(most).ok().as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads the available bytes. `until_end`: reads to the end, because all writers have ended.
fn read(stream: &mut Option<OwnedFd>, to: &Captured, buffer: &mut [u8], until_end: bool) {
    while let Some(pipe) = stream {
        let is_ready = poll(&mut [PollFd::new(&*pipe, PollFlags::IN)], Some(&Timespec::default()));
        if is_ready != Ok(1) {
            // Another process that is just starting may hold a copy of the writing end for a moment.
            if until_end {
                *stream = None;
            }
            return;
        }
        match rustix::io::read(&*pipe, &mut *buffer) {
            Ok(count) if count > 0 => to.add(&buffer[..count]),
            Err(rustix::io::Errno::INTR) => {}
            _ => *stream = None,
        }
        if !until_end {
            return;
        }
    }
}

/// The reason for which a program cannot run, in words. The system's error does not name the missing file.
fn unstarted(program: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if program.contains('/') => format!(
            "the program {program}, or the interpreter in its first line (#!), is not found: was it given with --files?"
        ),
        io::ErrorKind::NotFound => {
            format!("the program {program} is not found on this machine (phalanx submit --needs software={program})")
        }
        io::ErrorKind::PermissionDenied => format!("the program {program} may not be executed"),
        _ => format!("the program {program}: {error}"),
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.signal(), status.code()) {
        (Some(signal), _) => Exit::Signal(signal),
        (_, code) => Exit::Code(code.unwrap_or(1)),
    }
}

/// Truncates a text for people to the length that messages allow.
fn shortened(mut why: String) -> String {
    let most = LONGEST_WHY.min(why.len());
    why.truncate((0..=most).rev().find(|at| why.is_char_boundary(*at)).unwrap_or_default());
    why
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
