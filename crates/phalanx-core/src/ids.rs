//! Identifiers as distinct types, so that they cannot be mixed up.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(pub $inner);
    };
}

id!(
    /// An interpreter, numbered by its manager in the order of recruiting. Never reused.
    InterpreterId(u32)
);
id!(
    /// A staged program: the functions of a graph's instructions.
    ProgramId(u32)
);
id!(
    /// One computation of a program over a stream of tasks.
    RunId(u32)
);
id!(
    /// One sending of instructions to one interpreter. Never reused.
    FiringId(u64)
);

id!(
    /// One client's session with a space, numbered by the driver. Never reused.
    SessionId(u64)
);
id!(
    /// A transaction over one or several spaces: a random number, drawn by the client that begins it. A client that
    /// knows it may take part in the transaction.
    TransactionId(u128)
);

/// A task's position in its input stream, from 0.
pub type TaskId = u64;
