//! The log of the engine that leads the space.

use super::types::Command;
use super::{ENTRY, MOST_GROUP, Replicated, elsewhere, refused, runtime, stopped};
use crate::space::log::{Log, LogError, Position};
use openraft::error::{CheckIsLeaderError, RaftError};
use phalanx_core::space::change::{self, Change};
use phalanx_core::space::{Joining, Keepers};
use phalanx_net::sync::lock;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Pause before the members are asked again whether this member leads, when a message about it was lost.
const RETRY: Duration = Duration::from_millis(5);

/// The log from `Replicated::lead` until another engine leads, or until most members are out of reach. Then every wait ends
/// with an error, and the engine must be discarded.
pub struct Leading {
    shared: Arc<Shared>,
}

struct Shared {
    replicated: Arc<Replicated>,
    /// Index of the log entry since which this engine leads.
    lead: u64,
    queue: Mutex<Queue>,
    /// Notified when something is queued to be written.
    filled: Notify,
    /// Notified when a reader asks whether this engine still leads.
    asked: Notify,
    advanced: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Vec<Change>>,
    appended: u64,
    stable: u64,
    /// How many times readers asked whether this engine still leads, and up to which of these the answer is known.
    asked: u64,
    confirmed: u64,
    closed: bool,
    failed: Option<LogError>,
}

impl Leading {
    pub(super) fn start(replicated: Arc<Replicated>, lead: u64) -> Leading {
        let shared = Arc::new(Shared {
            replicated,
            lead,
            queue: Mutex::default(),
            filled: Notify::new(),
            asked: Notify::new(),
            advanced: Condvar::new(),
        });
        if let Ok(runtime) = runtime() {
            runtime.spawn(shared.clone().write());
            runtime.spawn(shared.clone().confirm());
        }
        Leading { shared }
    }

    fn wait_while(&self, behind: impl Fn(&Queue) -> bool) -> Result<(), LogError> {
        let waits = |queue: &mut Queue| behind(queue) && queue.failed.is_none();
        let waited = self.shared.advanced.wait_while(lock(&self.shared.queue), waits);
        let queue = waited.unwrap_or_else(PoisonError::into_inner);
        match &queue.failed {
            Some(error) if behind(&queue) => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.filled.notify_one();
        self.shared.asked.notify_one();
    }
}

impl Log for Leading {
    fn append(&self, changes: Vec<Change>) -> Position {
        let size = size(&changes);
        let mut queue = lock(&self.shared.queue);
        if changes.is_empty() {
            return Position(queue.appended);
        }
        // The position advances even if the log takes nothing any more. Such a position is never reached.
        queue.appended += 1;
        if size > MOST_GROUP {
            queue.failed.get_or_insert(LogError::Misfit(format!("more than {MOST_GROUP} bytes change at once")));
            self.shared.advanced.notify_all();
        }
        if queue.failed.is_none() {
            queue.waiting.push_back(changes);
            self.shared.filled.notify_one();
        }
        Position(queue.appended)
    }

    fn most_bytes(&self) -> usize {
        MOST_GROUP
    }

    fn position(&self) -> Position {
        Position(lock(&self.shared.queue).appended)
    }

    /// Changes that count were agreed on behind this engine's `Lead`, while it led. So no other engine can have served
    /// meanwhile.
    fn wait(&self, position: Position) -> Result<(), LogError> {
        self.wait_while(|queue| queue.stable < position.0)
    }

    /// Asks a majority of the members, once for all waiting readers (Raft's read index).
    fn confirm(&self, position: Position) -> Result<(), LogError> {
        let ticket = {
            let mut queue = lock(&self.shared.queue);
            queue.asked += 1;
            queue.asked
        };
        self.shared.asked.notify_one();
        self.wait_while(|queue| queue.confirmed < ticket || queue.stable < position.0)
    }

    fn keepers(&self) -> Option<Keepers> {
        Some(self.shared.replicated.keepers())
    }

    fn change_members(&self, add: &[Joining], remove: &[String]) -> Result<(), LogError> {
        let add = add.iter().map(|joining| (joining.number, joining.replica.clone())).collect();
        self.shared.replicated.change_members(&add, remove)
    }
}

impl Shared {
    /// Writes one entry at a time. While it is on its way, further changes queue up for the next one.
    async fn write(self: Arc<Shared>) {
        while let Some((groups, changes)) = self.next().await {
            let command = Command::Changes { lead: self.lead, changes: change::encode(&changes).into() };
            let written = self.in_time(self.replicated.raft.client_write(command)).await;
            let outcome = match written {
                Ok(Ok(written)) if written.data => Ok(()),
                Ok(Ok(_)) => Err(LogError::NotLeading { leader: None }),
                Ok(Err(error)) => Err(refused(error)),
                Err(error) => Err(error),
            };
            self.advance(outcome, |queue| queue.stable += groups);
        }
    }

    async fn next(&self) -> Option<(u64, Vec<Change>)> {
        loop {
            {
                let mut queue = lock(&self.queue);
                if queue.closed || queue.failed.is_some() {
                    return None;
                }
                let (mut groups, mut changes, mut bytes) = (0, Vec::new(), 0);
                while let Some(group) = queue.waiting.front() {
                    bytes += size(group);
                    if groups > 0 && bytes > ENTRY {
                        break;
                    }
                    groups += 1;
                    changes.extend(queue.waiting.pop_front().unwrap_or_default());
                }
                if groups > 0 {
                    return Some((groups, changes));
                }
            }
            self.filled.notified().await;
        }
    }

    async fn confirm(self: Arc<Shared>) {
        loop {
            let (asked, confirmed) = {
                let queue = lock(&self.queue);
                if queue.closed || queue.failed.is_some() {
                    return;
                }
                (queue.asked, queue.confirmed)
            };
            if asked == confirmed {
                self.asked.notified().await;
                continue;
            }
            let outcome = self.in_time(self.still_leads()).await.and_then(|still| still);
            self.advance(outcome, |queue| queue.confirmed = asked);
        }
    }

    /// Checks that this member leads, that a majority confirms it, and that no other engine has led since. Messages may be
    /// lost, so it asks again when too few members answered.
    async fn still_leads(&self) -> Result<(), LogError> {
        loop {
            match self.replicated.raft.ensure_linearizable().await {
                Ok(_) if self.replicated.machine.lead.load(Ordering::Acquire) == self.lead => return Ok(()),
                Ok(_) => return Err(LogError::NotLeading { leader: None }),
                Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(forward))) => {
                    return Err(elsewhere(&forward));
                }
                Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_))) => sleep(RETRY).await,
                Err(RaftError::Fatal(error)) => return Err(stopped(&error)),
            }
        }
    }

    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, LogError> {
        let patience = self.replicated.timing.patience();
        timeout(patience, work).await.map_err(|_| LogError::NotLeading { leader: None })
    }

    fn advance(&self, outcome: Result<(), LogError>, how: impl FnOnce(&mut Queue)) {
        let mut queue = lock(&self.queue);
        match outcome {
            Ok(()) => how(&mut queue),
            Err(error) => {
                queue.failed.get_or_insert(error);
                queue.waiting.clear();
            }
        }
        self.advanced.notify_all();
    }
}

fn size(changes: &[Change]) -> usize {
    changes.iter().map(Change::size).sum()
}
