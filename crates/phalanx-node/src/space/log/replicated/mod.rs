//! A log that several members keep together, by the consensus library `openraft` (Raft). A majority of them must be reachable
//! for it to advance.
//!
//! One member leads. It fills an engine from the state that the members have agreed on ([`Replicated::lead`]) and serves it.
//! The engine's changes go to the other members before any answer leaves. When the member no longer leads, its engine is
//! discarded, and another member fills its own. Which engine's changes count is decided by the order of the log alone
//! (`Command`), and by no clock.
//!
//! This is the only module that uses asynchronous Rust. The library's tasks share two threads for all spaces of a process.

mod facts;
mod image;
mod leading;
mod links;
mod machine;
mod members;
mod network;
mod seat;
mod storage;
mod types;

pub use leading::Leading;
pub use links::{Kept, Links};
pub(crate) use links::{serve, serve_hub};
pub use members::MEMBERS;
pub use network::{Later, Network};
pub use seat::MemberFile;

use super::LogError;
use super::records::pack;
use super::store::Store;
use bytes::Bytes;
use image::Image;
use machine::Machine;
use network::{Answer, Message, Ways};
use openraft::error::{ClientWriteError, Fatal, ForwardToLeader, RaftError};
use openraft::storage::Snapshot;
use openraft::{Config, Raft, RaftMetrics, ServerState, SnapshotPolicy};
use phalanx_core::space::Replica;
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use storage::Entries;
use tokio::runtime::{Handle, Runtime};
use types::{Command, Types};

/// Target size of a log entry, in bytes. A single larger group still becomes one entry.
const ENTRY: usize = 1 << 20;
/// Largest group, in bytes. It is limited because an entry must reach the other members within one beat. The driver of the
/// engine must give its space options that allow no more; the log splits nothing.
pub const MOST_GROUP: usize = 16 << 20;
const ENTRIES_BETWEEN_SNAPSHOTS: u64 = 5000;
const ENTRIES_KEPT: u64 = 1000;

/// The timing by which members detect that another one is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Interval of the leader's beats. An election begins after a silence of six to eight beats. No wait is longer than twenty
    /// beats.
    pub beat: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing { beat: Duration::from_millis(250) }
    }
}

impl Timing {
    fn patience(self) -> Duration {
        self.beat * 20
    }

    fn config(self) -> Result<Arc<Config>, LogError> {
        let beat = self.beat.as_millis() as u64;
        let config = Config {
            cluster_name: "space".into(),
            heartbeat_interval: beat,
            // After a member has heard the leader, it trusts it for the longest of these timeouts. Only then does it wait for
            // another one.
            election_timeout_min: beat * 2,
            election_timeout_max: beat * 4,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(ENTRIES_BETWEEN_SNAPSHOTS),
            max_in_snapshot_log_to_keep: ENTRIES_KEPT,
            replication_lag_threshold: ENTRIES_BETWEEN_SNAPSHOTS,
            ..Config::default()
        };
        config.validate().map(Arc::new).map_err(|error| LogError::Misfit(error.to_string()))
    }
}

/// The member that leads a space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader {
    /// This member.
    Here,
    /// The member at this address.
    At(String),
    /// No member leads yet, or this one does not know it.
    Unknown,
}

/// This process's member of a replicated space.
pub struct Replicated {
    raft: Raft<Types>,
    machine: Machine,
    /// This member's number.
    member: u64,
    /// The name by which the members refer to their space among each other.
    group: String,
    timing: Timing,
    /// A snapshot that is being received.
    incoming: Mutex<Option<Incoming>>,
}

struct Incoming {
    transfer: u64,
    parts: u64,
    image: Image,
}

impl Replicated {
    /// Takes part as the member of this number, whose file is at `path`. It resumes with what the file says. With a new file it
    /// knows nothing and waits to be told.
    pub fn start(
        member: u64,
        path: &Path,
        timing: Timing,
        network: Arc<dyn Network>,
    ) -> Result<Arc<Replicated>, LogError> {
        Replicated::start_on(member, Store::open(path)?, timing, network)
    }

    pub(super) fn start_on(
        member: u64,
        store: Store,
        timing: Timing,
        network: Arc<dyn Network>,
    ) -> Result<Arc<Replicated>, LogError> {
        let seat = store.read(|reading| seat::seat_in(&store, reading))?;
        let group = seat.map_or(String::new(), |seat| seat.group);
        let store = Arc::new(store);
        let machine = Machine::open(store.clone())?;
        let (config, entries) = (timing.config()?, Entries { store });
        let raft = Raft::new(member, config, Ways(network), entries, machine.clone());
        let raft = wait_for(raft)?.map_err(|error| stopped(&error))?;
        // Answered once the library has read the file. Until then, this member seems to know no others, and to have no vote.
        wait_for(raft.is_initialized())?.map_err(|error| stopped(&error))?;
        Ok(Arc::new(Replicated { raft, machine, member, group, timing, incoming: Mutex::default() }))
    }

    /// Installs the first list of members, by their numbers. Call it at one of them, once. It does nothing if members are
    /// already known.
    pub fn found(&self, members: &BTreeMap<u64, Replica>) -> Result<(), LogError> {
        if wait_for(self.raft.is_initialized())?.map_err(|error| stopped(&error))? {
            return Ok(());
        }
        wait_for(self.raft.initialize(members.clone()))?.map_err(|error| LogError::Misfit(error.to_string()))
    }

    /// The member that leads, as far as this one knows.
    pub fn leader(&self) -> Leader {
        leader_of(&self.raft.metrics().borrow())
    }

    /// Waits until the leader is another than `known`, for `patience` at most.
    pub fn wait_for_leader(&self, known: &Leader, patience: Duration) -> Leader {
        let mut metrics = self.raft.metrics();
        let changed = async {
            let _ = tokio::time::timeout(patience, metrics.wait_for(|metrics| leader_of(metrics) != *known)).await;
        };
        let _ = wait_for(changed);
        self.leader()
    }

    /// Begins to serve, if this member leads. Passes the state to the callback as changes, to fill an engine with, and returns
    /// the log of that engine. Logs begun earlier, here or elsewhere, take nothing more.
    pub fn lead(
        self: &Arc<Self>,
        take: impl FnMut(super::Change) -> Result<(), LogError>,
    ) -> Result<Leading, LogError> {
        let patience = self.timing.patience();
        let written = wait_for(async { tokio::time::timeout(patience, self.raft.client_write(Command::Lead)).await })?;
        let written = written.map_err(|_| LogError::NotLeading { leader: None })?.map_err(refused)?;
        let lead = written.log_id.index;
        self.machine.fill(lead, take)?;
        Ok(Leading::start(self.clone(), lead))
    }

    /// Passes the state to the callback as changes, as far as this member knows it. Others may have changed it meanwhile.
    pub fn read(&self, take: impl FnMut(super::Change) -> Result<(), LogError>) -> Result<(), LogError> {
        let store = &self.machine.store;
        store.read(|reading| super::records::each(store, reading, take))
    }

    /// Why this member takes no part any more, if its file cannot be used.
    pub fn broken(&self) -> Option<String> {
        match &self.raft.metrics().borrow().running_state {
            Err(Fatal::Stopped) | Ok(()) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    /// Whether it takes no part any more because the disk of its file was full.
    pub fn is_full(&self) -> bool {
        self.machine.store.is_full()
    }

    /// Ends this member's part, and closes its file, even if others still hold this value.
    pub fn close(&self) {
        self.stop();
        self.machine.store.close();
    }

    /// Ends this member's part. Its file is released when the last reference to it is dropped.
    pub fn stop(&self) {
        let _ = wait_for(self.raft.shutdown());
    }

    /// Answers a message of another member. The caller must have authenticated the sender. Tasks must use
    /// [`Self::answer_later`] instead.
    pub fn answer(&self, message: &[u8]) -> Bytes {
        wait_for(self.answer_later(message)).unwrap_or_default()
    }

    /// The same, for use in a task.
    pub async fn answer_later(&self, message: &[u8]) -> Bytes {
        let refuse = |why: &dyn ToString| Answer::Refused(why.to_string());
        let answer = match postcard::from_bytes::<(u64, Message)>(message) {
            Err(_) => refuse(&"a message that makes no sense, or of another version of phalanx"),
            Ok((to, _)) if to != self.member => refuse(&"another member had this address, and is gone"),
            Ok((_, Message::Append(request))) => {
                self.raft.append_entries(request).await.map_or_else(|error| refuse(&error), Answer::Append)
            }
            Ok((_, Message::Vote(request))) => {
                self.raft.vote(request).await.map_or_else(|error| refuse(&error), Answer::Vote)
            }
            Ok((_, Message::Piece { transfer, part, piece })) => {
                self.take_piece(transfer, part, &piece).map_or_else(|error| refuse(&error), |()| Answer::Taken)
            }
            Ok((_, Message::Install { transfer, parts, vote, meta })) => {
                let incoming = lock(&self.incoming).take();
                match incoming.filter(|it| (it.transfer, it.parts) == (transfer, parts)) {
                    None => refuse(&"a part of the state is missing"),
                    Some(incoming) => {
                        let snapshot = Snapshot { meta, snapshot: Box::new(incoming.image) };
                        let installed = self.raft.install_full_snapshot(vote, snapshot).await;
                        installed.map_or_else(|error| refuse(&error), Answer::Installed)
                    }
                }
            }
        };
        pack(&answer).into()
    }

    /// Makes a snapshot of the current log and removes the entries that it covers.
    #[cfg(test)]
    pub fn cut_log(&self) {
        let applied = self.raft.metrics().borrow().last_applied.map_or(0, |last| last.index);
        wait_for(async {
            self.raft.trigger().snapshot().await.unwrap();
            let made = self.raft.wait(Some(Duration::from_secs(30)));
            made.metrics(|metrics| metrics.snapshot.map_or(0, |last| last.index) >= applied, "snapshot").await.unwrap();
            self.raft.trigger().purge_log(applied).await.unwrap();
            let purged = self.raft.wait(Some(Duration::from_secs(30)));
            purged.metrics(|metrics| metrics.purged.map_or(0, |last| last.index) >= applied, "purged").await.unwrap();
        })
        .unwrap();
    }

    fn take_piece(&self, transfer: u64, part: u64, piece: &[u8]) -> std::io::Result<()> {
        let mut incoming = lock(&self.incoming);
        if part == 0 {
            *incoming = Some(Incoming { transfer, parts: 0, image: Image::receiving()? });
        }
        match incoming.as_mut().filter(|it| (it.transfer, it.parts) == (transfer, part)) {
            None => Err(std::io::Error::other("a part of another state, or twice the same")),
            Some(incoming) => {
                incoming.parts += 1;
                incoming.image.take(piece)
            }
        }
    }
}

impl Drop for Replicated {
    fn drop(&mut self) {
        let raft = self.raft.clone();
        let end = async move {
            let _ = raft.shutdown().await;
        };
        // A task must not block on other tasks.
        match Handle::try_current() {
            Ok(handle) => drop(handle.spawn(end)),
            Err(_) => drop(wait_for(end)),
        }
    }
}

fn leader_of(metrics: &RaftMetrics<u64, Replica>) -> Leader {
    let address = |leader| metrics.membership_config.membership().get_node(&leader).map(|node| node.address.clone());
    match metrics.current_leader {
        Some(leader) if leader == metrics.id => match metrics.state {
            ServerState::Leader => Leader::Here,
            _ => Leader::Unknown,
        },
        Some(leader) => address(leader).map_or(Leader::Unknown, Leader::At),
        None => Leader::Unknown,
    }
}

/// Translates the error of a write that was not done.
fn refused(error: RaftError<u64, ClientWriteError<u64, Replica>>) -> LogError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => elsewhere(&forward),
        RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => LogError::Misfit(error.to_string()),
        RaftError::Fatal(error) => stopped(&error),
    }
}

fn elsewhere(forward: &ForwardToLeader<u64, Replica>) -> LogError {
    LogError::NotLeading { leader: forward.leader_node.as_ref().map(|node| node.address.clone()) }
}

/// The error after which this member takes no part any more.
fn stopped(error: &Fatal<u64>) -> LogError {
    match error {
        Fatal::Stopped => LogError::Closed,
        other => LogError::Disk { path: "of this member".into(), why: other.to_string() },
    }
}

/// The runtime whose threads run the library's tasks.
fn runtime() -> Result<&'static Runtime, LogError> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("phalanx-replicas").enable_time();
        builder.build().map_err(|error| error.to_string())
    });
    made.as_ref().map_err(|why| LogError::Disk { path: "its threads".into(), why: why.clone() })
}

/// Blocks on the work of tasks. Call it only from a thread outside the runtime.
fn wait_for<F: Future>(work: F) -> Result<F::Output, LogError> {
    runtime().map(|runtime| runtime.block_on(work))
}
