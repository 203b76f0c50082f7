//! What the user asked for.

use super::output::Look;
use phalanx_core::level::{Level, Policy};
use phalanx_core::spmd::Limit;
use phalanx_net::address::Address;
use phalanx_net::identity::Member;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// A program to be started.
#[derive(Debug, Clone)]
pub struct Job {
    pub programs: Vec<Block>,
    /// For every process, beside those of the process that starts it.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    pub look: Look,
    pub keep_going: bool,
    /// None: this machine.
    pub hosts: Option<Hosts>,
    /// On this machine: each rank is treated as one on a machine of its own, with links of this level to the others.
    pub apart: Option<Level>,
    /// What every host gets.
    pub files: Vec<Staged>,
    /// Of a BSP program.
    pub checkpoints: Option<Checkpoints>,
    /// Whether rank 0 reads this process's standard input.
    pub input: bool,
    /// A process that stands still for so long is lost; none: it may.
    pub patience: Option<Duration>,
}

/// A BSP program is started again after a loss where it makes checkpoints.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoints {
    /// Supersteps from one to the next; none: the program says.
    pub every: Option<u32>,
    /// How often it is started again without a new checkpoint in between.
    pub restarts: u32,
    /// How slow a machine may be; a slower one is left. None: that is not looked at.
    pub move_slow: Option<Limit>,
}

/// Some processes of one program.
#[derive(Debug, Clone)]
pub struct Block {
    /// None, for one of the blocks: as many as there are places.
    pub processes: Option<u32>,
    pub command: Vec<Vec<u8>>,
    /// Where it runs; none: where this process does, or, on executors, where its files are.
    pub folder: Option<Vec<u8>>,
}

/// Why a program cannot be started.
#[derive(Debug, Error)]
pub enum LaunchError {
    #[error("the program cannot be started: {0}")]
    Start(#[from] io::Error),
    #[error("{0}")]
    Hosts(String),
}

/// The executors that the user named, and how the user's machine deals with them.
#[derive(Debug, Clone)]
pub struct Hosts {
    pub addresses: Vec<Address>,
    pub member: Member,
    /// The user's program that starts this one, whose places it shares.
    pub program: [u8; 16],
    pub policy: Policy,
    /// At most so many ranks on each.
    pub most: Option<u32>,
}

/// A file that goes to every machine: the name it gets there, and where it is here.
#[derive(Debug, Clone)]
pub struct Staged {
    pub name: String,
    pub path: PathBuf,
}
