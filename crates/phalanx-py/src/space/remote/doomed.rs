//! Transactions that can only be aborted: something was asked in them, and no answer came in time. The server may still do it,
//! and nobody would have what was taken.

use crate::errors::raise;
use phalanx_core::ids::TransactionId;
use phalanx_net::sync::lock;
use pyo3::prelude::*;
use std::collections::HashSet;
use std::sync::Mutex;

#[derive(Default)]
pub(super) struct Doomed(Mutex<HashSet<TransactionId>>);

impl Doomed {
    pub(super) fn add(&self, transaction: TransactionId) {
        lock(&self.0).insert(transaction);
    }

    /// To be asked before a transaction commits, or promises to.
    pub(super) fn check(&self, transaction: TransactionId) -> PyResult<()> {
        if !lock(&self.0).contains(&transaction) {
            return Ok(());
        }
        let why =
            "a server did not answer in time in this transaction, and may have taken something: it can only be aborted";
        Err(raise("TransactionError", why))
    }

    /// Forgets a transaction that ends; whether it was doomed.
    pub(super) fn remove(&self, transaction: TransactionId) -> bool {
        lock(&self.0).remove(&transaction)
    }
}
