//! A log on this machine's disk.
//!
//! One thread writes. While it waits for the disk, further changes queue up, and it writes all of them with the next commit
//! (group commit). So the more sessions wait, the less each of them costs.

use super::records::{self, Records};
use super::store::{Lasting, Store};
use super::{Log, LogError, Position};
use phalanx_core::space::change::Change;
use phalanx_net::sync::lock;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// The log of one space, in one file. Dropping it writes what is still queued.
pub struct Durable {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

struct Shared {
    store: Store,
    queue: Mutex<Queue>,
    /// Signalled when something is queued, or when the log is closed.
    filled: Condvar,
    /// Signalled when more is stable, or when nothing more will become stable.
    advanced: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Vec<Change>>,
    appended: u64,
    stable: u64,
    closed: bool,
    failed: Option<LogError>,
}

impl Durable {
    /// Opens the file, or creates it in an existing folder. The stored state is passed to `take` as changes, from which the
    /// caller fills an engine. A new space has none; its first change must be `Change::Opened`, which sets its options.
    pub fn open(path: &Path, take: impl FnMut(Change) -> Result<(), LogError>) -> Result<Durable, LogError> {
        Durable::start(Store::open(path)?, take)
    }

    pub(super) fn start(store: Store, take: impl FnMut(Change) -> Result<(), LogError>) -> Result<Durable, LogError> {
        store.read(|reading| records::each(&store, reading, take))?;
        let shared =
            Arc::new(Shared { store, queue: Mutex::default(), filled: Condvar::new(), advanced: Condvar::new() });
        let writing = shared.clone();
        let started = thread::Builder::new().name("phalanx-log".into()).spawn(move || writing.run());
        let writer = started.map_err(|error| LogError::Disk { path: "its thread".into(), why: error.to_string() })?;
        Ok(Durable { shared, writer: Some(writer) })
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.filled.notify_one();
        let _ = self.writer.take().map(JoinHandle::join);
    }
}

impl Log for Durable {
    fn append(&self, changes: Vec<Change>) -> Position {
        let mut queue = lock(&self.shared.queue);
        if changes.is_empty() {
            return Position(queue.appended);
        }
        // The position advances even if the log takes nothing any more. Such a position is never reached.
        queue.appended += 1;
        if queue.failed.is_none() {
            queue.waiting.push(changes);
            self.shared.filled.notify_one();
        }
        Position(queue.appended)
    }

    /// The library limits the size of one value.
    fn most_bytes(&self) -> usize {
        2 << 30
    }

    fn position(&self) -> Position {
        Position(lock(&self.shared.queue).appended)
    }

    fn wait(&self, position: Position) -> Result<(), LogError> {
        let behind = |queue: &mut Queue| queue.stable < position.0 && queue.failed.is_none();
        let waited = self.shared.advanced.wait_while(lock(&self.shared.queue), behind);
        let queue = waited.unwrap_or_else(PoisonError::into_inner);
        match &queue.failed {
            Some(error) if queue.stable < position.0 => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// No other process can serve the space, because the file is locked.
    fn confirm(&self, position: Position) -> Result<(), LogError> {
        self.wait(position)
    }
}

impl Shared {
    fn run(&self) {
        while let Some(groups) = self.next() {
            let written = self.write(&groups);
            let mut queue = lock(&self.queue);
            match written {
                Ok(()) => queue.stable += groups.len() as u64,
                // After a failed write, the contents of the disk are unknown. So nothing is retried.
                Err(error) => queue.failed = Some(error),
            }
            self.advanced.notify_all();
            if queue.failed.is_some() {
                return;
            }
        }
    }

    /// Everything that is queued; `None` once the log is closed and all of it is written.
    fn next(&self) -> Option<Vec<Vec<Change>>> {
        let nothing = |queue: &mut Queue| queue.waiting.is_empty() && !queue.closed;
        let mut queue = self.filled.wait_while(lock(&self.queue), nothing).unwrap_or_else(PoisonError::into_inner);
        let groups = std::mem::take(&mut queue.waiting);
        (!groups.is_empty()).then_some(groups)
    }

    fn write(&self, groups: &[Vec<Change>]) -> Result<(), LogError> {
        self.store.write(Lasting::Now, |writing| {
            let mut records = Records::open(&self.store, writing)?;
            groups.iter().try_for_each(|changes| records.apply(changes))
        })
    }
}
