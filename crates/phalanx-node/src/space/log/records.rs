//! The state that the changes add up to, in tables of a store. An engine is filled from it, and a snapshot is made of it.

use super::LogError;
use super::store::Store;
use bytes::Bytes;
use phalanx_core::ids::TransactionId;
use phalanx_core::space::change::{Change, Prepared, Record};
use phalanx_core::space::{Limits, MOST_ENDED, Options, Past};
use redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, Table, TableDefinition, TableError,
    WriteTransaction,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

const TUPLES: TableDefinition<u64, &[u8]> = TableDefinition::new("tuples");
const PREPARED: TableDefinition<u128, &[u8]> = TableDefinition::new("prepared");
/// For a prepared transaction: the other space that decides its outcome.
const LEFT_TO: TableDefinition<u128, &[u8]> = TableDefinition::new("left to");
/// What is remembered of each client. `ENDED` holds how the last transactions ended, in the order in which they did.
const CLIENTS: TableDefinition<u128, &[u8]> = TableDefinition::new("clients");
const ENDED: TableDefinition<u64, &[u8]> = TableDefinition::new("ended");
const SPACE: TableDefinition<&str, &[u8]> = TableDefinition::new("space");
const OPTIONS: &str = "options";
const NEXT: &str = "next";
const CARD: &str = "card";
const IDENTITY: &str = "identity";

/// The tables during a write transaction.
pub struct Records<'a> {
    store: &'a Store,
    tuples: Table<'a, u64, &'static [u8]>,
    prepared: Table<'a, u128, &'static [u8]>,
    left_to: Table<'a, u128, &'static [u8]>,
    clients: Table<'a, u128, &'static [u8]>,
    ended: Table<'a, u64, &'static [u8]>,
    space: Table<'a, &'static str, &'static [u8]>,
    next: u64,
}

impl<'a> Records<'a> {
    pub fn open(store: &'a Store, writing: &'a WriteTransaction) -> Result<Records<'a>, LogError> {
        let told = |error: TableError| store.told(error);
        let space = writing.open_table(SPACE).map_err(told)?;
        let next = space.get(NEXT).map_err(|error| store.told(error))?.map(|next| unpack(store, next.value()));
        let next = next.transpose()?.unwrap_or(0);
        let tuples = writing.open_table(TUPLES).map_err(told)?;
        let prepared = writing.open_table(PREPARED).map_err(told)?;
        let left_to = writing.open_table(LEFT_TO).map_err(told)?;
        let clients = writing.open_table(CLIENTS).map_err(told)?;
        let ended = writing.open_table(ENDED).map_err(told)?;
        Ok(Records { store, tuples, prepared, left_to, clients, ended, space, next })
    }

    /// Applies changes in order. After an error, the caller must abandon the whole commit.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), LogError> {
        let before = self.next;
        changes.iter().try_for_each(|change| self.apply_one(change))?;
        if self.next != before {
            let next = pack(&self.next);
            self.space.insert(NEXT, &next[..]).map_err(|error| self.store.told(error))?;
        }
        Ok(())
    }

    fn apply_one(&mut self, change: &Change) -> Result<(), LogError> {
        match change {
            Change::Opened { options } => {
                let there = self.space.insert(OPTIONS, &pack(options)[..]).map_err(|error| self.store.told(error))?;
                fits(there.is_none(), || "the space is opened a second time".into())
            }
            Change::Numbered { next } => {
                self.next = self.next.max(*next);
                Ok(())
            }
            Change::Put { number, record } => self.put(*number, record),
            Change::Gone { number } => self.remove(*number),
            Change::Taken { number, taker } => self.alter(*number, |record| record.taker = Some(*taker)),
            Change::Back { number } => self.alter(*number, |record| record.taker = None),
            Change::Expires { number, expires } => self.alter(*number, |record| record.expires = *expires),
            Change::Prepared { transaction, prepared } => {
                let last = prepared.puts.iter().map(|(number, _)| number + 1).max();
                self.next = self.next.max(last.unwrap_or(0));
                let bytes = pack(prepared);
                let there = self.prepared.insert(transaction.0, &bytes[..]).map_err(|error| self.store.told(error))?;
                fits(there.is_none(), || "a transaction is prepared twice".into())
            }
            Change::Card { card } => {
                self.space.insert(CARD, &card[..]).map(drop).map_err(|error| self.store.told(error))
            }
            Change::Identity { identity } => {
                let bytes = pack(identity);
                self.space.insert(IDENTITY, &bytes[..]).map(drop).map_err(|error| self.store.told(error))
            }
            Change::LeftTo { transaction, coordinator, since } => {
                let bytes = pack(&(coordinator, since));
                let there = self.left_to.insert(transaction.0, &bytes[..]).map_err(|error| self.store.told(error))?;
                fits(there.is_none(), || "a transaction is left to two".into())
            }
            Change::Ended { transaction, committed } => {
                self.end(*transaction, *committed)?;
                self.has_ended(*transaction, *committed)
            }
            Change::HasEnded { transaction, committed } => self.has_ended(*transaction, *committed),
            Change::Client { client, past } => self.remember(*client, past),
            Change::Forgotten { client } => {
                let there = self.clients.remove(client).map_err(|error| self.store.told(error))?;
                fits(there.is_some(), || "a client is forgotten that nobody knows".into())
            }
            Change::Done { once, outcome } => {
                let there = self.clients.get(once.client).map_err(|error| self.store.told(error))?;
                let bytes = there.map(|bytes| bytes.value().to_vec());
                let bytes = bytes.ok_or_else(|| LogError::Misfit("a client's request of whom nobody knows".into()))?;
                let mut past: Past = unpack(self.store, &bytes)?;
                past.remember(once, *outcome);
                self.remember(once.client, &past)
            }
        }
    }

    fn put(&mut self, number: u64, record: &Record) -> Result<(), LogError> {
        self.next = self.next.max(number.saturating_add(1));
        let there = self.tuples.insert(number, &pack(record)[..]).map_err(|error| self.store.told(error))?;
        fits(there.is_none(), || format!("there is already a tuple {number}"))
    }

    fn remove(&mut self, number: u64) -> Result<(), LogError> {
        let there = self.tuples.remove(number).map_err(|error| self.store.told(error))?;
        fits(there.is_some(), || format!("there is no tuple {number}"))
    }

    fn alter(&mut self, number: u64, how: impl FnOnce(&mut Record)) -> Result<(), LogError> {
        let there =
            self.tuples.get(number).map_err(|error| self.store.told(error))?.map(|bytes| bytes.value().to_vec());
        let bytes = there.ok_or_else(|| LogError::Misfit(format!("there is no tuple {number}")))?;
        let mut record: Record = unpack(self.store, &bytes)?;
        how(&mut record);
        self.tuples.insert(number, &pack(&record)[..]).map(drop).map_err(|error| self.store.told(error))
    }

    fn end(&mut self, transaction: TransactionId, committed: bool) -> Result<(), LogError> {
        self.left_to.remove(transaction.0).map_err(|error| self.store.told(error))?;
        let there = self.prepared.remove(transaction.0).map_err(|error| self.store.told(error))?;
        let bytes = there.map(|bytes| bytes.value().to_vec());
        let bytes = bytes.ok_or_else(|| LogError::Misfit("a transaction ends that is not prepared".into()))?;
        if !committed {
            return Ok(());
        }
        let prepared: Prepared = unpack(self.store, &bytes)?;
        prepared.takes.iter().try_for_each(|number| self.remove(*number))?;
        prepared.puts.iter().try_for_each(|(number, record)| self.put(*number, record))
    }

    fn remember(&mut self, client: u128, past: &Past) -> Result<(), LogError> {
        self.clients.insert(client, &pack(past)[..]).map(drop).map_err(|error| self.store.told(error))
    }

    /// Keeps as many ended transactions as an engine remembers.
    fn has_ended(&mut self, transaction: TransactionId, committed: bool) -> Result<(), LogError> {
        let told = |error| self.store.told(error);
        let last = self.ended.last().map_err(told)?.map_or(0, |(last, _)| last.value());
        self.ended.insert(last + 1, &pack(&(transaction, committed))[..]).map_err(told)?;
        if self.ended.len().map_err(told)? > MOST_ENDED as u64 {
            self.ended.pop_first().map_err(told)?;
        }
        Ok(())
    }

    /// Empties the tables, to hold another state.
    pub fn clear(&mut self) -> Result<(), LogError> {
        let told = |error| self.store.told(error);
        self.tuples.retain(|_, _| false).map_err(told)?;
        self.prepared.retain(|_, _| false).map_err(told)?;
        self.left_to.retain(|_, _| false).map_err(told)?;
        self.clients.retain(|_, _| false).map_err(told)?;
        self.ended.retain(|_, _| false).map_err(told)?;
        self.space.retain(|_, _| false).map_err(told)?;
        self.next = 0;
        Ok(())
    }
}

/// Passes the state to the callback as changes, each valid by itself. A new store has none.
pub fn each(
    store: &Store,
    reading: &ReadTransaction,
    mut take: impl FnMut(Change) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let Some(space) = table(store, reading.open_table(SPACE))? else { return Ok(()) };
    let fact = |key| space.get(key).map_err(|error| store.told(error));
    let mut limits = Limits::default();
    if let Some(options) = fact(OPTIONS)? {
        let options: Box<Options> = unpack(store, options.value())?;
        limits = Limits { fields: options.most_fields, nesting: options.most_nesting, bytes: options.most_tuple_bytes };
        take(Change::Opened { options })?;
    }
    if let Some(identity) = fact(IDENTITY)? {
        take(Change::Identity { identity: unpack(store, identity.value())? })?;
    }
    if let Some(card) = fact(CARD)? {
        take(Change::Card { card: Bytes::copy_from_slice(card.value()) })?;
    }
    for entry in rows(store, table(store, reading.open_table(TUPLES))?)? {
        let (number, bytes) = entry.map_err(|error| store.told(error))?;
        let record: Record = unpack(store, bytes.value())?;
        record.check(&limits).map_err(|error| store.damaged(error))?;
        take(Change::Put { number: number.value(), record })?;
    }
    for entry in rows(store, table(store, reading.open_table(PREPARED))?)? {
        let (transaction, bytes) = entry.map_err(|error| store.told(error))?;
        let prepared: Prepared = unpack(store, bytes.value())?;
        prepared.check(&limits).map_err(|error| store.damaged(error))?;
        take(Change::Prepared { transaction: TransactionId(transaction.value()), prepared })?;
    }
    for entry in rows(store, table(store, reading.open_table(LEFT_TO))?)? {
        let (transaction, bytes) = entry.map_err(|error| store.told(error))?;
        let (coordinator, since) = unpack(store, bytes.value())?;
        take(Change::LeftTo { transaction: TransactionId(transaction.value()), coordinator, since })?;
    }
    for entry in rows(store, table(store, reading.open_table(CLIENTS))?)? {
        let (client, bytes) = entry.map_err(|error| store.told(error))?;
        take(Change::Client { client: client.value(), past: unpack(store, bytes.value())? })?;
    }
    for entry in rows(store, table(store, reading.open_table(ENDED))?)? {
        let (_, bytes) = entry.map_err(|error| store.told(error))?;
        let (transaction, committed) = unpack(store, bytes.value())?;
        take(Change::HasEnded { transaction, committed })?;
    }
    match fact(NEXT)? {
        Some(next) => take(Change::Numbered { next: unpack(store, next.value())? }),
        None => Ok(()),
    }
}

fn table<T>(store: &Store, opened: Result<T, TableError>) -> Result<Option<T>, LogError> {
    match opened {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(store.told(error)),
    }
}

type Rows<K> = redb::Range<'static, K, &'static [u8]>;

fn rows<K: redb::Key + 'static>(
    store: &Store,
    table: Option<ReadOnlyTable<K, &'static [u8]>>,
) -> Result<impl Iterator<Item = <Rows<K> as Iterator>::Item>, LogError> {
    let rows = table.map(|table| table.range::<K::SelfType<'_>>(..)).transpose();
    Ok(rows.map_err(|error| store.told(error))?.into_iter().flatten())
}

/// A value as bytes.
pub fn pack(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("it has no map and no length that is unknown")
}

/// Decodes a value. Undecodable bytes mean that the store is damaged.
pub fn unpack<T: DeserializeOwned>(store: &Store, bytes: &[u8]) -> Result<T, LogError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(store.damaged("a record that makes no sense")),
    }
}

fn fits(it: bool, otherwise: impl FnOnce() -> String) -> Result<(), LogError> {
    if it { Ok(()) } else { Err(LogError::Misfit(otherwise())) }
}
