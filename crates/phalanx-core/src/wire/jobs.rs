//! Jobs: any command, run for a user on machines of a grid, with its inputs and outputs. This module has the specification of a job, and
//! the messages between users, the hub and executors.
//!
//! The words for states are those of the GA4GH Task Execution Service (TES 1.1). All messages are headers. Bytes of files travel over
//! separate links ([`ToContent`]), because there may be many.

use super::MAX_CONTROL_BODY;
use crate::needs::Needs;
use serde::{Deserialize, Serialize};

/// Most bytes of a content that is part of a message. So a small output needs no separate request, and no file at the hub.
pub const MOST_HERE: usize = 512;
/// Most bytes of one piece of a content.
pub const PIECE: usize = MAX_CONTROL_BODY as usize;
/// Most bytes of one content.
pub const MOST_BYTES: u64 = 1 << 40;
/// Most bytes of a log that an executor sends in one answer while the process runs.
pub const MOST_TAIL: usize = PIECE;
/// Most outputs of a process, and most inputs of a job.
pub const MOST_FILES: usize = 1000;
/// Most folders that a process sees at other paths.
pub const MOST_SHOWN: usize = 64;
/// Most bytes of an encoded [`Spec`].
pub const LONGEST_SPEC: usize = 256 << 10;
/// Longest text for people, in bytes.
pub const LONGEST_WHY: usize = 500;
/// Longest name of a file, in bytes.
pub const LONGEST_NAME: usize = 1000;
/// Most runs in one message.
pub const MOST_RUNS: usize = 1000;

/// The BLAKE3 digest of a content.
pub type Digest = [u8; 32];

/// The bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Content {
    /// The bytes inline, [`MOST_HERE`] at most.
    Here(Vec<u8>),
    /// The hub keeps the bytes.
    Kept {
        /// Their digest.
        digest: Digest,
        /// Their number.
        bytes: u64,
    },
}

impl Content {
    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Content::Here(bytes) => bytes.len() as u64,
            Content::Kept { bytes, .. } => *bytes,
        }
    }

    /// Whether the content is no longer than its kind allows.
    pub fn is_short(&self) -> bool {
        match self {
            Content::Here(bytes) => bytes.len() <= MOST_HERE,
            Content::Kept { bytes, .. } => *bytes <= MOST_BYTES,
        }
    }
}

impl Default for Content {
    fn default() -> Content {
        Content::Here(Vec::new())
    }
}

/// A file: an input of a job, or an output of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its name in the folder of the process, with `/` between folders.
    pub name: String,
    /// Its bytes.
    pub content: Content,
    /// Whether it is executable.
    pub executable: bool,
}

/// One of the commands of a job, which run one after the other in the same folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables beside those of the cage.
    pub environment: Vec<(String, String)>,
    /// The working directory, below the folder of the process. `None`: the folder of the process.
    pub folder: Option<String>,
    /// The input file that the command reads as its standard input. `None`: the standard input is empty.
    pub stdin: Option<String>,
}

/// The specification of a job: one process, or an array of processes that differ in their index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Random bytes chosen by the client (an idempotency key). A retry of a request, after its answer was lost, names the same job.
    pub key: [u8; 16],
    /// A name for people. May be empty.
    pub name: String,
    /// The commands that each process runs, one after the other.
    pub commands: Vec<Command>,
    /// The first index.
    pub first: u32,
    /// The last index.
    pub last: u32,
    /// The files that each process finds in its folder.
    pub inputs: Vec<File>,
    /// Patterns (globs) of the output files of each process.
    pub outputs: Vec<String>,
    /// Absolute paths at which each process sees private folders, and the names of these folders inside its folder.
    pub shown: Vec<(String, String)>,
    /// The needs that a machine must meet.
    pub needs: Needs,
    /// The jobs that must be complete before this one begins.
    pub after: Vec<u64>,
    /// The number of retries of a failed process.
    pub retries: u32,
    /// Jobs with a higher number come first.
    pub priority: i32,
    /// The longest time that one run may take, in seconds. `None`: no limit.
    pub time_limit: Option<u32>,
    /// The time at which the hub cancels the job if it has not ended, in milliseconds since 1970.
    pub deadline: Option<u64>,
    /// The places of each process, all at one machine. 0 counts as 1, so that a request without the field is valid.
    pub places: u32,
}

impl Spec {
    /// The number of processes.
    pub fn count(&self) -> u32 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }

    /// The places that each process takes at a machine, at least one.
    pub fn places_each(&self) -> u32 {
        self.places.max(1)
    }
}

/// The state of a job or a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// It waits: for a place, for a machine that meets its needs, or for other jobs.
    Queued,
    /// A machine has it and fetches its inputs.
    Initializing,
    /// It runs.
    Running,
    /// The job or process has ended with exit status 0.
    Complete,
    /// The user's command has failed.
    ExecutorError,
    /// A machine has failed, or the grid.
    SystemError,
    /// The user has canceled it, its deadline has passed, or a job failed that it waited for.
    Canceled,
}

impl State {
    /// The word of TES.
    pub fn word(self) -> &'static str {
        match self {
            State::Queued => "QUEUED",
            State::Initializing => "INITIALIZING",
            State::Running => "RUNNING",
            State::Complete => "COMPLETE",
            State::ExecutorError => "EXECUTOR_ERROR",
            State::SystemError => "SYSTEM_ERROR",
            State::Canceled => "CANCELED",
        }
    }

    /// Whether the state is final.
    pub fn is_over(self) -> bool {
        !matches!(self, State::Queued | State::Initializing | State::Running)
    }
}

/// One run of one process of a job. Each retry of the process has another attempt number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Run {
    /// The job.
    pub job: u64,
    /// The index of the process.
    pub index: u32,
    /// The number of starts of the process, including this run.
    pub attempt: u32,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It took longer than its time limit.
    Late,
    /// The command cannot be run, or an output cannot be brought back. The user must change the job.
    Unstarted(String),
    /// The machine has failed. The run may succeed at another machine.
    Broken(String),
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The end of the run.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: Content,
    /// Its standard error.
    pub stderr: Content,
    /// The bytes of both that were dropped beyond the limit.
    pub dropped: u64,
    /// The files that match the patterns for outputs.
    pub outputs: Vec<File>,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
    /// Processor time of its processes, in microseconds. A child counts only if its parent has waited for it.
    pub cpu: u64,
    /// The most memory of its largest process, in bytes.
    pub memory: u64,
}

impl Outcome {
    /// Whether the text, the contents and the number of outputs are within their limits.
    pub fn is_short(&self) -> bool {
        let why = match &self.exit {
            Exit::Unstarted(why) | Exit::Broken(why) => why.len(),
            _ => 0,
        };
        let are_short = self.outputs.iter().all(|it| it.content.is_short() && is_inside(&it.name));
        why <= LONGEST_WHY
            && self.stdout.is_short()
            && self.stderr.is_short()
            && self.outputs.len() <= MOST_FILES
            && are_short
    }

    /// The contents that the hub must have.
    pub fn contents(&self) -> impl Iterator<Item = &Content> {
        [&self.stdout, &self.stderr].into_iter().chain(self.outputs.iter().map(|it| &it.content))
    }
}

/// Whether a name stays in the folder of the process.
pub fn is_inside(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with('/')
        && !name.contains(['\0', '\\'])
        && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// A standard stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

/// The number of processes of a job in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Waiting processes.
    pub queued: u32,
    /// Processes that a machine has.
    pub running: u32,
    /// Complete processes.
    pub complete: u32,
    /// Processes whose command has failed.
    pub failed: u32,
    /// Processes that were lost with machines too often.
    pub lost: u32,
    /// Canceled processes.
    pub canceled: u32,
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its number.
    pub id: u64,
    /// The user.
    pub user: String,
    /// The user's name for it.
    pub name: String,
    /// The words of its first command, shortened.
    pub command: Vec<String>,
    /// Its first index.
    pub first: u32,
    /// Its last index.
    pub last: u32,
    /// The time of its submission, in milliseconds since 1970.
    pub submitted: u64,
    /// The time of its end.
    pub ended: Option<u64>,
    /// Its state.
    pub state: State,
    /// The states of its processes.
    pub counts: Counts,
    /// Its priority.
    pub priority: i32,
    /// The reason for its state, in words. May be empty.
    pub why: String,
}

/// A process of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Its index.
    pub index: u32,
    /// Its state.
    pub state: State,
    /// The machine that has it, or had it last.
    pub executor: Option<String>,
    /// The number of its starts.
    pub attempts: u32,
    /// The number of machines that were lost with it.
    pub losses: u32,
    /// Its result.
    pub outcome: Option<Outcome>,
    /// The reason for its state, in words. May be empty.
    pub why: String,
}

/// A message about jobs to a hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum ToHubJobs {
    /// A user submits a job.
    Submit { spec: Box<Spec> },
    /// A user asks for jobs below the number `before`, the newest first. `all`: an owner asks for the jobs of all users.
    List { before: Option<u64>, all: bool },
    /// A user asks for a job.
    Show { job: u64 },
    /// A user asks for the processes of a job after the index `after`.
    Processes { job: u64, after: Option<u32> },
    /// A user cancels a job, or one process of it.
    Cancel { job: u64, index: Option<u32> },
    /// A user asks the hub to forget an ended job, with its outputs.
    Forget { job: u64 },
    /// A user asks for the log of a process, from the byte `from` on.
    Log { job: u64, index: u32, stream: Stream, from: u64 },
    /// An executor takes jobs. `room`: its places for jobs, including those in use. `runs`: its runs, of which some may have ended.
    Here { room: u32, runs: Vec<Run> },
    /// An executor has `room` places for jobs, including those in use.
    Room { room: u32 },
    /// These runs have begun.
    Began { runs: Vec<Run> },
    /// These runs have ended. The executor repeats the message until the hub has counted them.
    Ran { ends: Vec<(Run, Outcome)> },
    /// The executor returns runs that it has not begun, because it has no place for them. `refuses`: it does not accept the user.
    Back { runs: Vec<Run>, refuses: bool },
    /// An executor answers [`FromHubJobs::Tail`]. The body has the bytes. `is_running`: more may follow.
    Tail { ticket: u64, is_running: bool },
}

/// A message about jobs from a hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum FromHubJobs {
    /// The hub has accepted the job under this number.
    Submitted { job: u64 },
    /// Jobs. `goes_on`: there are more after the last one.
    List { rows: Vec<JobRow>, goes_on: bool },
    /// A job, and its specification.
    Shown { row: Box<JobRow>, spec: Box<Spec> },
    /// Processes of a job. `goes_on`: there are more after the last one.
    Processes { rows: Vec<ProcessRow>, goes_on: bool },
    /// The hub has canceled this number of processes.
    Canceled { processes: u32 },
    /// The job is forgotten.
    Forgotten,
    /// The log of a process. `content`: the process has ended, and this is its whole log. Otherwise the body has the log from the requested
    /// byte on. `is_running`: more may follow.
    Log { content: Option<Content>, is_running: bool },
    /// To an executor: run these processes of a job. `runs`: index and attempt of each.
    Run { user: String, job: u64, spec: Box<Spec>, runs: Vec<(u32, u32)> },
    /// To an executor: end these runs. Their results do not count.
    Stop { runs: Vec<Run> },
    /// To an executor: forget these runs, because the hub has counted or rejected them.
    Counted { runs: Vec<Run> },
    /// To an executor: send the contents of these results again.
    Lacks { runs: Vec<Run> },
    /// To an executor: send the log of this run's stream, from the byte `from` on.
    Tail { ticket: u64, run: Run, stream: Stream, from: u64 },
}

/// A message over a link for contents, to a hub. Each user has separate contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum ToContent {
    /// Asks which of these contents of a user the hub lacks.
    Lacking { user: String, digests: Vec<Digest> },
    /// A content of `bytes` bytes follows, in pieces. The hub answers with the byte at which to begin.
    Put { user: String, digest: Digest, bytes: u64 },
    /// The body has the next bytes.
    Piece,
    /// Asks for the bytes of a content from the byte `from` on, as many as fit into a piece.
    Get { user: String, digest: Digest, from: u64 },
}

/// A message over a link for contents, from a hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum FromContent {
    /// The hub lacks these contents.
    Lacking { digests: Vec<Digest> },
    /// The next piece begins at this byte. If it equals the length, the hub has the whole content.
    From { byte: u64 },
    /// The body has the requested bytes.
    Piece,
    /// The hub refuses the request.
    Refused { reason: String },
}
