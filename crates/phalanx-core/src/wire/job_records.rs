//! What a hub stores of jobs: a record for each job, and one for each process that was started.

use super::jobs::{Outcome, Spec, State};
use serde::{Deserialize, Serialize};

/// A job, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The user, as the certificate of the link names it that has submitted the job.
    pub user: String,
    /// What was submitted.
    pub spec: Spec,
    /// When, in milliseconds since 1970.
    pub submitted: u64,
    /// Its end. `None`: it has not ended.
    pub end: Option<End>,
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// When, in milliseconds since 1970.
    pub when: u64,
    /// How. Processes that have not ended by themselves have ended so, too.
    pub state: State,
    /// Why, in words.
    pub why: String,
}

/// A process that was started, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// How often it was started.
    pub attempts: u32,
    /// How often its command has failed.
    pub failures: u32,
    /// How often a machine was lost with it, or failed.
    pub losses: u32,
    /// The machine that has it or had it last.
    pub executor: Option<String>,
    /// Where it is now.
    pub stage: Stage,
}

/// Where a process is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// In the queue. The machine that had it last may still bring the result of its run.
    #[default]
    Queued,
    /// At a machine.
    There,
    /// It has ended.
    Ended {
        /// How.
        state: State,
        /// The result of its last run, unless it was lost or canceled.
        outcome: Option<Box<Outcome>>,
        /// Why, in words.
        why: String,
    },
}

/// A change to store. A later change of the same job or process replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobChange {
    /// A job. `None`: it is forgotten.
    Job(u64, Option<Box<Record>>),
    /// A process of a job, by its index. `None`: it is forgotten.
    Process(u64, u32, Option<Box<Process>>),
}
