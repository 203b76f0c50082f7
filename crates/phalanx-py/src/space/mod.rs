//! Tuple spaces for `phalanx/space`: converts values and templates both ways, and offers the engine in this process.

mod array;
mod classes;
mod codec;
mod decode;
mod encode;
mod engine;
mod info;
mod local;
mod options;
mod remote;
mod sealing;
mod server;
mod template;
mod waiting;
mod whole;

pub use codec::{decode_fields, encode_fields};
pub use local::{LocalSpace, space_was_forked};
#[cfg(unix)]
pub use options::to_duration;
pub use remote::{RemoteSpace, end_spaces};
pub use sealing::{SealedTuple, SealingKey};
pub use server::{Serving, SpaceServer};
pub use whole::split_fields;

use crate::errors::raise;
use phalanx_core::error::{EncodingError, SpaceError};
use phalanx_core::space::{Coordinator, Isolation, put_record};
use pyo3::prelude::*;

/// The encoded head of a record: an instance of these classes with this many fields.
#[pyfunction]
pub fn record_head(classes: Vec<String>, fields: usize) -> Vec<u8> {
    let mut head = Vec::new();
    put_record(&mut head, &classes, fields);
    head
}

/// The space that decides a transaction: the addresses of its servers, its name there, its identity, and whether it is durable.
pub type Decider = (Vec<String>, String, u128, bool);

/// Converts it for the engine.
pub fn to_coordinator((places, space, identity, durable): Decider) -> Coordinator {
    Coordinator { places, space, identity, durable }
}

/// The isolation level of a transaction.
pub fn to_isolation(repeatable: bool) -> Isolation {
    if repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted }
}

/// The exception for bytes or values that cannot be in a tuple.
pub fn wrong(error: EncodingError) -> PyErr {
    raise("SpaceError", error)
}

/// The exception for an error of a space.
pub fn failed(error: SpaceError) -> PyErr {
    let class = match &error {
        SpaceError::Full { .. } => "SpaceFullError",
        SpaceError::NoTransaction | SpaceError::Prepared => "TransactionError",
        SpaceError::ReadChanged => "TransactionConflictError",
        SpaceError::TimedOut => "SpaceTimeoutError",
        SpaceError::Forbidden(_) => "AccessError",
        SpaceError::Uncertain(_) => "SpaceLostError",
        SpaceError::Elsewhere { .. } => "SpaceMovedError",
        SpaceError::UnknownClient => "SpaceForgottenError",
        SpaceError::Cancelled => return raise("SpaceError", "this space is closed"),
        _ => "SpaceError",
    };
    raise(class, error)
}
