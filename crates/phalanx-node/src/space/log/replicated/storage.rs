//! The library's log, in tables of a member's store.
#![expect(clippy::result_large_err, reason = "the error is the library's")]

use super::facts::{fact, set};
use super::types::{Entry, LogId, StorageError, Types, Vote};
use crate::space::log::LogError;
use crate::space::log::records::{pack, unpack};
use crate::space::log::store::{Lasting, Store};
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{AnyError, ErrorSubject, ErrorVerb, LogState, OptionalSend, RaftLogReader, StorageIOError};
use redb::{ReadableTable, TableDefinition, TableError, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

const ENTRIES: TableDefinition<u64, &[u8]> = TableDefinition::new("entries");
const VOTE: &str = "vote";
const PURGED: &str = "purged";
const COMMITTED: &str = "committed";
/// Target size of the entries sent with one message, in bytes. A single larger entry is sent alone.
const MOST_BYTES: usize = 1 << 20;

/// The log of a member.
#[derive(Clone)]
pub struct Entries {
    pub store: Arc<Store>,
}

/// Wraps an error of the store for the library, which then stops this member.
pub fn broken(error: LogError) -> StorageError {
    StorageIOError::new(ErrorSubject::Store, ErrorVerb::Write, AnyError::new(&error)).into()
}

impl Entries {
    fn fact<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StorageError> {
        self.store.read(|reading| fact(&self.store, reading, key)).map_err(broken)
    }

    fn set(&self, key: &str, value: &impl Serialize, lasting: Lasting) -> Result<(), StorageError> {
        self.store.write(lasting, |writing| set(&self.store, writing, key, value)).map_err(broken)
    }

    /// The entries of a range, up to `most` bytes together; at least one if the range has any.
    fn range(&self, range: impl RangeBounds<u64>, most: usize) -> Result<Vec<Entry>, LogError> {
        let store = &self.store;
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        store.read(|reading| {
            let table = match reading.open_table(ENTRIES) {
                Ok(table) => table,
                Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
                Err(error) => return Err(store.told(error)),
            };
            let (mut entries, mut bytes) = (Vec::new(), 0);
            for row in table.range::<u64>(range).map_err(|error| store.told(error))? {
                let (_, entry) = row.map_err(|error| store.told(error))?;
                bytes += entry.value().len();
                if bytes > most && !entries.is_empty() {
                    break;
                }
                entries.push(unpack(store, entry.value())?);
            }
            Ok(entries)
        })
    }

    fn remove(&self, range: (Bound<u64>, Bound<u64>), purged: Option<LogId>) -> Result<(), StorageError> {
        let store = &self.store;
        let remove = |writing: &WriteTransaction| {
            let mut table = writing.open_table(ENTRIES).map_err(|error| store.told(error))?;
            table.retain_in::<u64, _>(range, |_, _| false).map_err(|error| store.told(error))?;
            purged.map_or(Ok(()), |purged| set(store, writing, PURGED, &purged))
        };
        store.write(Lasting::Now, remove).map_err(broken)
    }

    fn last(&self) -> Result<Option<LogId>, LogError> {
        let store = &self.store;
        store.read(|reading| match reading.open_table(ENTRIES) {
            Ok(table) => {
                let last = table.last().map_err(|error| store.told(error))?;
                last.map(|(_, entry)| unpack::<Entry>(store, entry.value()).map(|entry| entry.log_id)).transpose()
            }
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(store.told(error)),
        })
    }
}

impl RaftLogReader<Types> for Entries {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        self.range(range, usize::MAX).map_err(broken)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, StorageError> {
        self.range(start..end, MOST_BYTES).map_err(broken)
    }
}

impl RaftLogStorage<Types> for Entries {
    type LogReader = Entries;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError> {
        let last_purged_log_id = self.fact(PURGED)?;
        let last_log_id = self.last().map_err(broken)?.or(last_purged_log_id);
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Entries {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        self.set(VOTE, vote, Lasting::Now)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        self.fact(VOTE)
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        self.set(COMMITTED, &committed, Lasting::Later)
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        Ok(self.fact::<Option<LogId>>(COMMITTED)?.flatten())
    }

    async fn append<I>(&mut self, entries: I, flushed: LogFlushed<Types>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let store = &self.store;
        let insert = |writing: &WriteTransaction| {
            let mut table = writing.open_table(ENTRIES).map_err(|error| store.told(error))?;
            for entry in entries {
                table.insert(entry.log_id.index, &pack(&entry)[..]).map_err(|error| store.told(error))?;
            }
            Ok(())
        };
        store.write(Lasting::Now, insert).map_err(broken)?;
        flushed.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId) -> Result<(), StorageError> {
        self.remove((Bound::Included(from.index), Bound::Unbounded), None)
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), StorageError> {
        self.remove((Bound::Unbounded, Bound::Included(upto.index)), Some(upto))
    }
}
