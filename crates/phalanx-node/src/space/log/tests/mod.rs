//! Tests of what survives: on disks that lose writes that were not synced, and at members that are cut off.

mod crash;
mod damage;
mod disk;
mod history;
mod killed;
mod linear;
mod links;
mod members;
mod state;
mod wire;

use super::durable::Durable;
use super::{Log, LogError};
use phalanx_core::space::change::{Change, Record};
use phalanx_core::space::{Tuple, Value};
use std::collections::BTreeMap;

/// A change that puts a tuple with this text.
fn put(number: u64, text: &str) -> Change {
    Change::Put { number, record: Record::of(Tuple::of(&[Value::Str(text.into()), Value::Int(number as i64)])) }
}

fn gone(number: u64) -> Change {
    Change::Gone { number }
}

fn ignore(_: Change) -> Result<(), LogError> {
    Ok(())
}

/// The tuples of a state by number, as it is handed out.
fn tuples(changes: &[Change]) -> BTreeMap<u64, Tuple> {
    let of = |change: &Change| match change {
        Change::Put { number, record } => Some((*number, record.tuple.clone())),
        _ => None,
    };
    changes.iter().filter_map(of).collect()
}

/// A program of changes. Group `n` puts tuple `n`. From the tenth group on, it also takes the tuple put nine groups before.
fn group(n: u64) -> Vec<Change> {
    let text = "x".repeat(n as usize % 7 * 300);
    let mut changes = vec![put(n, &text)];
    if n >= 9 {
        changes.push(gone(n - 9));
    }
    changes
}

/// The numbers of the tuples that are there after `groups` groups.
fn numbers_after(groups: u64) -> Vec<u64> {
    (groups.saturating_sub(9)..groups).collect()
}
