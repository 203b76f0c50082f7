//! The state machine: the state that the members agree on, in tables of a member's store beside its log.
//!
//! What is applied becomes durable with the next write of the log. A crash before it undoes both, and the library applies the
//! entries again. There are no snapshot files, because the store can hand out a snapshot of any moment while it goes on.

use super::facts::{LEAD, LIMITS, fact, set};
use super::image::Image;
use super::storage::broken;
use super::types::{Command, Entry, LogId, SnapshotMeta, StorageError, StoredMembership, Types};
use crate::space::log::LogError;
use crate::space::log::records::{self, Records};
use crate::space::log::store::{Lasting, Store};
use openraft::storage::{RaftStateMachine, Snapshot};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use phalanx_core::space::change::{self, Change};
use redb::{ReadTransaction, WriteTransaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const APPLIED: &str = "applied";
const MEMBERSHIP: &str = "membership";
/// The state machine of one member.
#[derive(Clone)]
pub struct Machine {
    pub store: Arc<Store>,
    /// Index of the last applied `Lead`; 0 if there was none.
    pub lead: Arc<AtomicU64>,
}

impl Machine {
    pub fn open(store: Arc<Store>) -> Result<Machine, LogError> {
        let lead = store.read(|reading| fact::<u64>(&store, reading, LEAD))?;
        Ok(Machine { store, lead: Arc::new(AtomicU64::new(lead.unwrap_or(0))) })
    }

    /// Passes the state to `take` as changes, for the engine that leads since `lead`. It is an error if another engine leads by
    /// now.
    pub fn fill(&self, lead: u64, take: impl FnMut(Change) -> Result<(), LogError>) -> Result<(), LogError> {
        self.store.read(|reading| match fact::<u64>(&self.store, reading, LEAD)? == Some(lead) {
            true => records::each(&self.store, reading, take),
            false => Err(LogError::NotLeading { leader: None }),
        })
    }

    fn snapshot(&self) -> Result<Option<Snapshot<Types>>, LogError> {
        let reading = self.store.begin_read()?;
        let Some(applied) = fact::<LogId>(&self.store, &reading, APPLIED)? else { return Ok(None) };
        let meta = SnapshotMeta {
            last_log_id: Some(applied),
            last_membership: fact(&self.store, &reading, MEMBERSHIP)?.unwrap_or_default(),
            snapshot_id: applied.to_string(),
        };
        Ok(Some(Snapshot { meta, snapshot: Box::new(Image::Here(self.store.clone(), Box::new(reading))) }))
    }

    fn apply_all(
        &self,
        writing: &WriteTransaction,
        entries: impl Iterator<Item = Entry>,
    ) -> Result<(Vec<bool>, u64), LogError> {
        let store = &self.store;
        let mut records = Records::open(store, writing)?;
        let (mut happened, mut lead) = (Vec::new(), self.lead.load(Ordering::Acquire));
        let mut last = None;
        for entry in entries {
            last = Some(entry.log_id);
            happened.push(match entry.payload {
                EntryPayload::Blank => true,
                EntryPayload::Membership(membership) => {
                    let membership = StoredMembership::new(Some(entry.log_id), membership);
                    set(store, writing, MEMBERSHIP, &membership)?;
                    true
                }
                EntryPayload::Normal(Command::Lead) => {
                    lead = entry.log_id.index;
                    set(store, writing, LEAD, &lead)?;
                    true
                }
                EntryPayload::Normal(Command::Changes { lead: of, .. }) if of != lead => false,
                EntryPayload::Normal(Command::Changes { changes, .. }) => {
                    let changes = change::decode(&changes, &LIMITS).map_err(|error| store.damaged(error))?;
                    records.apply(&changes)?;
                    true
                }
            });
        }
        last.map_or(Ok(()), |last| set(store, writing, APPLIED, &last))?;
        Ok((happened, lead))
    }

    fn install(&self, meta: &SnapshotMeta, image: Image) -> Result<(), LogError> {
        let store = &self.store;
        let lead = store.write(Lasting::Now, |writing| {
            let mut records = Records::open(store, writing)?;
            records.clear()?;
            let lead = image.read(store, |changes| records.apply(changes))?;
            set(store, writing, LEAD, &lead.unwrap_or(0))?;
            set(store, writing, MEMBERSHIP, &meta.last_membership)?;
            meta.last_log_id.map_or(Ok(()), |last| set(store, writing, APPLIED, &last))?;
            Ok(lead.unwrap_or(0))
        })?;
        self.lead.store(lead, Ordering::Release);
        Ok(())
    }
}

impl RaftSnapshotBuilder<Types> for Machine {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, StorageError> {
        let none = || self.store.damaged("there is nothing applied to make a snapshot of");
        self.snapshot().and_then(|snapshot| snapshot.ok_or_else(none)).map_err(broken)
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Machine;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        let store = &self.store;
        let read = |reading: &ReadTransaction| {
            Ok((fact(store, reading, APPLIED)?, fact(store, reading, MEMBERSHIP)?.unwrap_or_default()))
        };
        store.read(read).map_err(broken)
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<bool>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let applied = self.store.write(Lasting::Later, |writing| self.apply_all(writing, entries.into_iter()));
        let (happened, lead) = applied.map_err(broken)?;
        self.lead.store(lead, Ordering::Release);
        Ok(happened)
    }

    async fn get_snapshot_builder(&mut self) -> Machine {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Image>, StorageError> {
        let room = Image::receiving().map_err(|error| self.store.told(error));
        room.map(Box::new).map_err(broken)
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, image: Box<Image>) -> Result<(), StorageError> {
        let (machine, meta) = (self.clone(), meta.clone());
        let installed = tokio::task::spawn_blocking(move || machine.install(&meta, *image)).await;
        installed.unwrap_or(Err(LogError::Closed)).map_err(broken)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, StorageError> {
        self.snapshot().map_err(broken)
    }
}
