//! A member's single values ("facts"), kept beside its log and its tuples.

use crate::space::log::LogError;
use crate::space::log::records::{pack, unpack};
use crate::space::log::store::Store;
use phalanx_core::space::Limits;
use redb::{ReadTransaction, TableDefinition, TableError, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;

const RAFT: TableDefinition<&str, &[u8]> = TableDefinition::new("raft");
/// Index of the log entry since which the current engine leads.
pub const LEAD: &str = "lead";
/// The space's options were checked when a tuple was put. These limits only keep a message from harming this process.
pub const LIMITS: Limits = Limits { fields: u64::MAX, nesting: 256, bytes: u64::MAX };

/// Reads a fact that was set before.
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
