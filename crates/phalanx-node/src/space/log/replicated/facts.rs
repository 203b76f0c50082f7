//! What a member knows beside log and tuples: a table of facts.

use crate::space::log::LogError;
use crate::space::log::records::{pack, unpack};
use crate::space::log::store::Store;
use phalanx_core::space::Limits;
use redb::{ReadTransaction, TableDefinition, TableError, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;

const RAFT: TableDefinition<&str, &[u8]> = TableDefinition::new("raft");
/// The entry since which an engine leads.
pub const LEAD: &str = "lead";
/// What a space's options allow was checked where a tuple was put; here only what would hurt this process.
pub const LIMITS: Limits = Limits { fields: u64::MAX, nesting: 256, bytes: u64::MAX };

/// A fact that was set before.
pub fn fact<T: DeserializeOwned>(store: &Store, reading: &ReadTransaction, key: &str) -> Result<Option<T>, LogError> {
    match reading.open_table(RAFT) {
        Ok(table) => {
            let bytes = table.get(key).map_err(|error| store.told(error))?;
            bytes.map(|bytes| unpack(store, bytes.value())).transpose()
        }
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(store.told(error)),
    }
}

/// Sets a fact.
pub fn set(store: &Store, writing: &WriteTransaction, key: &str, value: &impl Serialize) -> Result<(), LogError> {
    let mut table = writing.open_table(RAFT).map_err(|error| store.told(error))?;
    table.insert(key, &pack(value)[..]).map(drop).map_err(|error| store.told(error))
}
