//! What lasts, on disks that lose what they had not promised to keep, and at members that are cut off.

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

/// The numbers and tuples of a state, as it is handed out.
fn tuples(changes: &[Change]) -> BTreeMap<u64, Tuple> {
    let of = |change: &Change| match change {
        Change::Put { number, record } => Some((*number, record.tuple.clone())),
        _ => None,
    };
    changes.iter().filter_map(of).collect()
}

/// A program of changes: group `n` puts tuple `n`, and from the tenth on takes the one put nine before, in one group.
fn group(n: u64) -> Vec<Change> {
    let text = "x".repeat(n as usize % 7 * 300);
    let mut changes = vec![put(n, &text)];
    if n >= 9 {
        changes.push(gone(n - 9));
    }
    changes
}

/// The numbers that are there after so many groups.
fn numbers_after(groups: u64) -> Vec<u64> {
    (groups.saturating_sub(9)..groups).collect()
}
