//! A job: what the user asked to be started.

use super::output::Look;
use crate::dialler::Dialler;
use phalanx_core::level::{Level, Policy};
use phalanx_core::spmd::Limit;
use phalanx_net::address::Address;
use phalanx_net::identity::Scope;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// A program to be started.
#[derive(Debug, Clone)]
pub struct Job {
    /// The programs. Ranks are numbered through all of them.
    pub programs: Vec<Block>,
    /// Environment variables for every process, beside those of the process that starts it.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// How output is shown.
    pub look: Look,
    /// Whether the others go on when a process is lost or fails.
    pub keep_going: bool,
    /// The executors to run on; `None`: this machine.
    pub hosts: Option<Hosts>,
    /// Treats each rank on this machine as if it were on a machine of its own, with links of this level to the others.
    pub apart: Option<Level>,
    /// Files that every host gets.
    pub files: Vec<Staged>,
    /// Checkpoints, for a BSP program.
    pub checkpoints: Option<Checkpoints>,
    /// The program saves files of its own, from which it is restarted after a loss.
    pub survive: Option<Survive>,
    /// Whether rank 0 reads this process's standard input.
    pub input: bool,
    /// A process that is stopped for this long counts as lost. `None`: it may stay stopped.
    pub patience: Option<Duration>,
}

/// How a BSP program that makes checkpoints is restarted after a loss.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoints {
    /// Number of supersteps from one checkpoint to the next; `None`: the program decides.
    pub every: Option<u32>,
    /// Most restarts without a new checkpoint in between.
    pub restarts: u32,
    /// How slow a machine may be. The program leaves a slower one. `None`: speed is not checked.
    pub move_slow: Option<Limit>,
}

/// How a program that saves files of its own is restarted after a loss.
#[derive(Debug, Clone)]
pub struct Survive {
    /// Most restarts without a new checkpoint in between.
    pub restarts: u32,
    /// Where the checkpoints are kept, and a program that was ended goes on from. `None`: a folder that is removed with the
    /// program.
    pub folder: Option<PathBuf>,
}

/// A block: processes that run the same program.
#[derive(Debug, Clone)]
pub struct Block {
    /// Number of processes. `None`, allowed in one block: as many as there are free places.
    pub processes: Option<u32>,
    /// The program and its arguments, as bytes, because arguments need not be UTF-8.
    pub command: Vec<Vec<u8>>,
    /// The folder to run in. `None`: this process's folder or, on executors, the folder with the files.
    pub folder: Option<Vec<u8>>,
}

/// Why a program cannot be started.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// A process, a pipe or shared memory could not be made.
    #[error("the program cannot be started: {0}")]
    Start(#[from] io::Error),
    /// The executors cannot run the program.
    #[error("{0}")]
    Hosts(String),
    /// Another member answers than the one that is expected.
    #[error("{0}")]
    Unexpected(String),
}

/// The executors that the user named, and the settings for reaching them.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// The addresses of the executors.
    pub addresses: Vec<Address>,
    /// The user's identity, and whom it expects.
    pub dialler: Dialler,
    /// The user's program that starts this one. The two share the user's places.
    pub program: [u8; 16],
    /// The user's policy for links.
    pub policy: Policy,
    /// Most ranks on each executor.
    pub most: Option<u32>,
    /// What the ranks may use in the user's name.
    pub scope: Scope,
    /// How a program that survives losses finds executors that were not there at its start.
    pub newcomers: Option<Newcomers>,
}

/// Finds the executors that there are now, and whom the user expects there. `None`: nothing is known of them.
pub type Find = dyn Fn() -> Option<(Vec<Address>, Dialler)> + Send + Sync;

/// See [`Find`].
#[derive(Clone)]
pub struct Newcomers(pub Arc<Find>);

impl fmt::Debug for Newcomers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Newcomers")
    }
}

/// A file that goes to every machine: its name there, and its path here.
#[derive(Debug, Clone)]
pub struct Staged {
    /// The name in the folder of the program there.
    pub name: String,
    /// The path here.
    pub path: PathBuf,
}
