//! Names of things, as numbers that cannot be mixed up.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(pub $inner);
    };
}

id!(
    /// An interpreter, numbered by its manager in the order of recruiting; never used twice.
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
    /// One sending of instructions to one interpreter; never used twice.
    FiringId(u64)
);

id!(
    /// One client's conversation with a space; never used twice. Numbered by the driver.
    SessionId(u64)
);
id!(
    /// A transaction, over one space or several: random, drawn by who begins it. Who knows it may take part in it.
    TransactionId(u128)
);

/// A task's place in its input stream, from 0.
pub type TaskId = u64;
