//! Jobs: any command, run for a user on machines of a grid, with its inputs and outputs. What a job is, and what users, the hub and
//! executors say about it.
//!
//! The words for states are those of the GA4GH Task Execution Service (TES 1.1). All messages are headers. Bytes of files travel over
//! links of their own ([`ToContent`]), because they may be many.

use super::MAX_CONTROL_BODY;
use crate::needs::Needs;
use serde::{Deserialize, Serialize};

/// Most bytes of a content that is part of a message. A small output needs no request of its own for that, and the hub no file.
pub const MOST_HERE: usize = 512;
/// Most bytes of one piece of a content.
pub const PIECE: usize = MAX_CONTROL_BODY as usize;
/// Most bytes of one content.
pub const MOST_BYTES: u64 = 1 << 40;
/// Most bytes of the end of a log that an executor tells while the process runs.
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
    /// The bytes themselves, [`MOST_HERE`] at most.
    Here(Vec<u8>),
    /// The hub keeps them.
    Kept {
        /// Their digest.
        digest: Digest,
        /// How many there are.
        bytes: u64,
    },
}

impl Content {
    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        match self {
            Content::Here(bytes) => bytes.len() as u64,
            Content::Kept { bytes, .. } => *bytes,
        }
    }

    /// Whether it has an acceptable length.
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
    /// Whether it may be executed.
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
    /// The folder in which it runs, below that of the process. `None`: that of the process.
    pub folder: Option<String>,
    /// The input that it reads as its standard input. `None`: nothing.
    pub stdin: Option<String>,
}

/// What a user submits: one process, or an array of processes that differ in their index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Random bytes of the user's end. The same request again, because its answer was lost, is the same job.
    pub key: [u8; 16],
    /// What the user calls it. May be empty.
    pub name: String,
    /// What each process runs, one after the other.
    pub commands: Vec<Command>,
    /// The first index.
    pub first: u32,
    /// The last index.
    pub last: u32,
    /// The files that each process finds in its folder.
    pub inputs: Vec<File>,
    /// Patterns (globs) of the files that are brought back from each process.
    pub outputs: Vec<String>,
    /// Absolute paths at which each process sees folders of its own, and the names of these folders in its folder.
    pub shown: Vec<(String, String)>,
    /// What a machine needs.
    pub needs: Needs,
    /// The jobs that must be complete before this one begins.
    pub after: Vec<u64>,
    /// How often a process that has failed is run again.
    pub retries: u32,
    /// Jobs with a higher number come first.
    pub priority: i32,
    /// How many seconds one run may take. `None`: any.
    pub time_limit: Option<u32>,
    /// When the job is ended if it has not ended, in milliseconds since 1970.
    pub deadline: Option<u64>,
    /// How many places each process takes, all at one machine. 0 counts as 1, so that a request without the field makes sense.
    pub places: u32,
}

impl Spec {
    /// The number of processes.
    pub fn count(&self) -> u32 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }

    /// How many places each process takes at a machine, at least one.
    pub fn places_each(&self) -> u32 {
        self.places.max(1)
    }
}

/// How a job or a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// It waits: for a place, for a machine that meets its needs, or for other jobs.
    Queued,
    /// A machine has it, and fetches its inputs.
    Initializing,
    /// It runs.
    Running,
    /// It has ended with exit status 0.
    Complete,
    /// The user's command has failed.
    ExecutorError,
    /// A machine has failed, or the grid.
    SystemError,
    /// The user has canceled it, or its deadline has passed, or a job failed that it waited for.
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

    /// Whether nothing changes any more.
    pub fn is_over(self) -> bool {
        !matches!(self, State::Queued | State::Initializing | State::Running)
    }
}

/// One run of one process of a job. A process that is run again has another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Run {
    /// The job.
    pub job: u64,
    /// The index of the process.
    pub index: u32,
    /// How often the process was started, with this run.
    pub attempt: u32,
}

/// How a run has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It took longer than its time limit.
    Late,
    /// The command cannot be run, or an output cannot be brought back. The user's to change.
    Unstarted(String),
    /// The machine has failed. Another one may do better.
    Broken(String),
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it has ended.
    pub exit: Exit,
    /// What it has written to its standard output.
    pub stdout: Content,
    /// What it has written to its standard error.
    pub stderr: Content,
    /// How many bytes of both were dropped, because they were too many.
    pub dropped: u64,
    /// The files that its patterns have found.
    pub outputs: Vec<File>,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
    /// The processor time of it and all that it has waited for, in microseconds.
    pub cpu: u64,
    /// The most memory of its largest process, in bytes.
    pub memory: u64,
}

impl Outcome {
    /// Whether it has an acceptable length.
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

/// How many processes of a job are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Those that wait.
    pub queued: u32,
    /// Those that a machine has.
    pub running: u32,
    /// Those that are complete.
    pub complete: u32,
    /// Those whose command has failed.
    pub failed: u32,
    /// Those that machines have lost too often.
    pub lost: u32,
    /// Those that were canceled.
    pub canceled: u32,
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its number.
    pub id: u64,
    /// The user.
    pub user: String,
    /// What the user calls it.
    pub name: String,
    /// The words of its first command, shortened.
    pub command: Vec<String>,
    /// Its first index.
    pub first: u32,
    /// Its last index.
    pub last: u32,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted: u64,
    /// When it has ended.
    pub ended: Option<u64>,
    /// How it is.
    pub state: State,
    /// How its processes are.
    pub counts: Counts,
    /// Its priority.
    pub priority: i32,
    /// Why it waits or has ended so, in words. May be empty.
    pub why: String,
}

/// A process of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Its index.
    pub index: u32,
    /// How it is.
    pub state: State,
    /// The machine that has it or had it last.
    pub executor: Option<String>,
    /// How often it was started.
    pub attempts: u32,
    /// How often a machine was lost with it.
    pub losses: u32,
    /// Its result.
    pub outcome: Option<Outcome>,
    /// Why it is so, in words. May be empty.
    pub why: String,
}

/// A message about jobs to a hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum ToHubJobs {
    /// A user submits a job.
    Submit { spec: Box<Spec> },
    /// A user asks for the jobs before the one of this number, the newest first; an owner for those of all users.
    List { before: Option<u64>, all: bool },
    /// A user asks for a job.
    Show { job: u64 },
    /// A user asks for the processes of a job after the one with this index.
    Processes { job: u64, after: Option<u32> },
    /// A user cancels a job, or one process of it.
    Cancel { job: u64, index: Option<u32> },
    /// A user wants a job that has ended to be forgotten, with its outputs.
    Forget { job: u64 },
    /// A user asks for what a process has written, from this byte on.
    Log { job: u64, index: u32, stream: Stream, from: u64 },
    /// An executor takes jobs. It has so many places for them, with those that jobs take, and these runs, of which some may have ended.
    Here { room: u32, runs: Vec<Run> },
    /// An executor has so many places for jobs, together with those that jobs take.
    Room { room: u32 },
    /// These runs have begun.
    Began { runs: Vec<Run> },
    /// These runs have ended. The executor repeats this until they are counted.
    Ran { ends: Vec<(Run, Outcome)> },
    /// The executor has not begun these runs and does not, because it has no place for them. `refuses`: because it does not accept the
    /// user.
    Back { runs: Vec<Run>, refuses: bool },
    /// An executor answers [`FromHubJobs::Tail`]. The body has the bytes. `is_running`: more may follow.
    Tail { ticket: u64, is_running: bool },
}

/// A message about jobs from a hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum FromHubJobs {
    /// The job has this number.
    Submitted { job: u64 },
    /// Jobs. `goes_on`: there are more after the last one.
    List { rows: Vec<JobRow>, goes_on: bool },
    /// A job, and what was submitted.
    Shown { row: Box<JobRow>, spec: Box<Spec> },
    /// Processes of a job. `goes_on`: there are more after the last one.
    Processes { rows: Vec<ProcessRow>, goes_on: bool },
    /// So many processes were canceled.
    Canceled { processes: u32 },
    /// The job is forgotten.
    Forgotten,
    /// What a process has written. `content`: it has ended, and this is all of it. Otherwise the body has what it has written from the
    /// asked byte on, and `is_running` says whether more may follow.
    Log { content: Option<Content>, is_running: bool },
    /// To an executor: run these processes of a job, by index and attempt.
    Run { user: String, job: u64, spec: Box<Spec>, runs: Vec<(u32, u32)> },
    /// To an executor: end these runs. Their results do not count.
    Stop { runs: Vec<Run> },
    /// To an executor: these runs are counted, or do not count. It forgets them.
    Counted { runs: Vec<Run> },
    /// To an executor: bring the contents of these results again.
    Lacks { runs: Vec<Run> },
    /// To an executor: what has this run written to a stream, from this byte on?
    Tail { ticket: u64, run: Run, stream: Stream, from: u64 },
}

/// A message over a link for contents, to a hub. Contents are apart for each user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum ToContent {
    /// Which of these contents of a user does the hub lack?
    Lacking { user: String, digests: Vec<Digest> },
    /// A content of so many bytes follows, in pieces. The hub answers where to begin.
    Put { user: String, digest: Digest, bytes: u64 },
    /// The body has the next bytes.
    Piece,
    /// The bytes of a content from this one on, as many as fit into a piece.
    Get { user: String, digest: Digest, from: u64 },
}

/// A message over a link for contents, from a hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum FromContent {
    /// The hub lacks these.
    Lacking { digests: Vec<Digest> },
    /// The next piece begins at this byte. With all bytes: the hub has the content.
    From { byte: u64 },
    /// The body has the bytes that were asked for.
    Piece,
    /// The request is refused.
    Refused { reason: String },
}
