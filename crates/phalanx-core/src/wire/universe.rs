//! What processes ask their launcher for once they run: more processes, and ports at which they find each other.
//!
//! All processes that one launcher ever starts have one numbering, that of its *universe*; those that are started together
//! are a *world*, which is their MPI_COMM_WORLD. Messages name processes by their numbers.

use serde::{Deserialize, Serialize};

/// Longest name of a port or a service, in bytes.
pub const MOST_PORT_NAME: usize = 255;

/// Processes that are to be the one side of an intercommunicator, in the order of their ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// A context that its first process has chosen; nobody else can.
    pub context: u64,
    pub processes: Vec<u32>,
}

/// Some processes of one program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub processes: u32,
    /// The program and its arguments.
    pub command: Vec<Vec<u8>>,
    /// Where it runs.
    pub folder: Vec<u8>,
    /// The executor that is to have all of them, by its name or address; none: any.
    pub host: Option<String>,
}

/// Numbers of processes in ascending order, as runs: the first of each, and how many follow each other. Most groups are one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Members(Vec<(u32, u32)>);

impl Members {
    /// Of numbers that ascend.
    pub fn of(numbers: &[u32]) -> Members {
        let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
        Members(runs.map(|run| (run[0], run.len() as u32)).collect())
    }

    /// The numbers; None where they do not ascend, or are more than `most`.
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

/// What one process says in an agreement of a communicator's processes (ULFM, MPIX_Comm_agree and MPIX_Comm_shrink).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ballot {
    /// The communicator, and which of its agreements this is.
    pub context: u64,
    pub turn: u32,
    /// All processes of the communicator.
    pub members: Members,
    /// Whether this is MPIX_Comm_shrink, and not MPIX_Comm_agree: all have to make the same call.
    pub shrinks: bool,
    /// Bits, of which those stay that all have set.
    pub flag: i32,
    /// Lost processes that the program has acknowledged here.
    pub acknowledged: Vec<u32>,
    /// Processes that this one has no connection with any more.
    pub unreachable: Vec<u32>,
    /// A context that this process has chosen; nobody else can.
    pub offer: u64,
    /// What is sent in the communicator is protected as marked data is, as far as this process knows.
    pub secured: bool,
}

/// What a process asks; every question gets one answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Start a world with these parents (MPI_Comm_spawn_multiple).
    Spawn {
        parents: Side,
        programs: Vec<Wanted>,
    },
    /// The name was chosen by who asks, so that nobody can guess it.
    OpenPort {
        port: String,
    },
    ClosePort {
        port: String,
    },
    Publish {
        service: String,
        port: String,
    },
    Unpublish {
        service: String,
    },
    Lookup {
        service: String,
    },
    /// Wait at a port until a side connects to it.
    Accept {
        port: String,
        side: Side,
    },
    Connect {
        port: String,
        side: Side,
    },
    /// Agree with all others of a communicator that are left.
    Agree(Ballot),
}

/// What the launcher answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Done,
    /// The port of a service.
    Port(String),
    /// The other side: who accepted or connected, or the processes that were started.
    Side(Side),
    Refused {
        why: Refusal,
        text: String,
    },
    /// What all agree on, the same for all: the bits that all have set; the members that are lost, ascending, and whether
    /// there is one that not all have acknowledged; the context that the first one who is left has chosen, and whether one
    /// of them has said that the communicator is protected.
    Agreed {
        flag: i32,
        lost: Vec<u32>,
        unacknowledged: bool,
        offer: u64,
        secured: bool,
    },
    /// Some processes cannot be started, by their places among those asked for; none is left of the others.
    NotSpawned {
        text: String,
        failed: Vec<u32>,
    },
}

/// Why something is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// No processes are started.
    Spawn,
    /// There is no such port.
    Port,
    /// No such service was published.
    Service,
    /// The name is taken, or too long.
    Name,
    /// The two sides have a process in common.
    Sides,
    /// There are too many.
    Full,
    /// An agreement is not of who asks, or not what others ask.
    Members,
    /// The others go on without who asks.
    Excluded,
    /// Who asks has left the program.
    Left,
}
