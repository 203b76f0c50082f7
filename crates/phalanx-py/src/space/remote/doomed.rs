//! Doomed transactions, which can only be aborted. A request in them got no answer in time. The server may still carry it out,
//! and a tuple that it takes would be lost.

use crate::errors::raise;
use phalanx_core::ids::TransactionId;
use phalanx_net::sync::lock;
use pyo3::prelude::*;
use std::collections::HashSet;
use std::sync::Mutex;

#[derive(Default)]
pub(super) struct Doomed(Mutex<HashSet<TransactionId>>);

impl Doomed {
    /// Called when a request got no answer in time. `takes`: the transaction under which it takes tuples, if there is one.
    pub(super) fn add(&self, takes: Option<TransactionId>) {
        if let Some(transaction) = takes {
            lock(&self.0).insert(transaction);
        }
    }

    /// Call this before a transaction commits or is prepared.
    pub(super) fn check(&self, transaction: TransactionId) -> PyResult<()> {
        if !lock(&self.0).contains(&transaction) {
            return Ok(());
        }
        let why =
            "a server did not answer in time in this transaction, and may have taken something: it can only be aborted";
        Err(raise("TransactionError", why))
    }

    /// Removes a transaction that ends. Returns whether it was doomed.
    pub(super) fn remove(&self, transaction: TransactionId) -> bool {
        lock(&self.0).remove(&transaction)
    }
}
