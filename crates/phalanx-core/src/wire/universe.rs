//! Requests of running processes to their launcher: to start more processes, and for ports where they find each other.
//!
//! All processes that one launcher ever starts are numbered together, in its *universe*. Processes that are started
//! together are a *world*, which is their MPI_COMM_WORLD. Messages refer to processes by their number in the universe.

use serde::{Deserialize, Serialize};

/// Limit on the name of a port or a service, in bytes.
pub const MOST_PORT_NAME: usize = 255;

/// The processes of one side of an intercommunicator, in the order of their ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// A context chosen by the first process of the side. No other process can choose the same.
    pub context: u64,
    /// Their numbers in the universe.
    pub processes: Vec<u32>,
}

/// Some processes of one program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// How many processes.
    pub processes: u32,
    /// The program and its arguments.
    pub command: Vec<Vec<u8>>,
    /// Where it runs.
    pub folder: Vec<u8>,
    /// The name or address of the executor that must have all of them; `None`: any.
    pub host: Option<String>,
}

/// Ascending numbers of processes, as runs: the first number and the length of each run. Most groups are a single run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Members(Vec<(u32, u32)>);

impl Members {
    /// From ascending numbers.
    pub fn of(numbers: &[u32]) -> Members {
        let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
        Members(runs.map(|run| (run[0], run.len() as u32)).collect())
    }

    /// The numbers. `None` if they do not ascend, or if there are more than `most`.
    pub fn list(&self, most: usize) -> Option<Vec<u32>> {
        let (mut all, mut next) = (Vec::new(), 0);
        for (first, count) in &self.0 {
            let end = first.checked_add(*count).filter(|_| *first >= next && *count > 0)?;
            if *count as usize > most - all.len() {
                return None;
            }
            all.extend(*first..end);
            next = end;
        }
        Some(all)
    }
}

/// One process's contribution to an agreement of a communicator (ULFM, MPIX_Comm_agree and MPIX_Comm_shrink).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ballot {
    /// The context of the communicator.
    pub context: u64,
    /// Which of the communicator's agreements this is.
    pub turn: u32,
    /// All processes of the communicator.
    pub members: Members,
    /// Whether the call is MPIX_Comm_shrink and not MPIX_Comm_agree. All processes must make the same call.
    pub shrinks: bool,
    /// Bits. The result is the bitwise AND over all processes.
    pub flag: i32,
    /// Lost processes that the program has acknowledged at this process.
    pub acknowledged: Vec<u32>,
    /// Processes that this one has lost the connection to.
    pub unreachable: Vec<u32>,
    /// A context chosen by this process. No other process can choose the same.
    pub offer: u64,
    /// Whether messages of the communicator are protected like marked data, as far as this process knows.
    pub secured: bool,
}

/// A question of a process. Each gets one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Question {
    /// Start a world with these parents (MPI_Comm_spawn_multiple).
    Spawn { parents: Side, programs: Vec<Wanted> },
    /// The asking process has chosen a name that cannot be guessed.
    OpenPort { port: String },
    /// Nothing can connect to the port any more.
    ClosePort { port: String },
    /// Give a port the name of a service.
    Publish { service: String, port: String },
    /// Take the name of a service away.
    Unpublish { service: String },
    /// The port of a service.
    Lookup { service: String },
    /// Wait at a port until the other side connects.
    Accept { port: String, side: Side },
    /// Wait until the other side accepts at the port.
    Connect { port: String, side: Side },
    /// Agree with the remaining processes of a communicator.
    Agree(Ballot),
}

/// What the launcher answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Answer {
    /// The question is settled.
    Done,
    /// The port of a service.
    Port(String),
    /// The other side: the processes that accepted or connected, or that were started.
    Side(Side),
    /// The request is refused.
    Refused { why: Refusal, text: String },
    /// The result of an agreement, the same for all: the bits that all have set; the lost members in ascending order;
    /// whether one of these was not acknowledged by all; the context chosen by the first remaining process; and whether
    /// any process said that the communicator is protected.
    Agreed { flag: i32, lost: Vec<u32>, unacknowledged: bool, offer: u64, secured: bool },
    /// Some processes could not be started, given by their places in the request. All others of the request were ended.
    NotSpawned { text: String, failed: Vec<u32> },
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Processes could not be started.
    Spawn,
    /// There is no such port.
    Port,
    /// No such service was published.
    Service,
    /// The name is taken, or too long.
    Name,
    /// The two sides have a process in common.
    Sides,
    /// A limit is reached.
    Full,
    /// The asking process is not a member of the agreement, or its question differs from the others'.
    Members,
    /// The others go on without the asking process.
    Excluded,
    /// The asking process has left the program.
    Left,
}
