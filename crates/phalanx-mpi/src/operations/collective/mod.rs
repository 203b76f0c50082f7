//! Collective operations (MPI 5.0, chapter 6), as straight-line code over sends and receives: each is an `async fn` on
//! packed bytes. A blocking call works on it until it is done, a non-blocking one makes it a task.
//!
//! [`operations`] has them as programs call them, with counts and datatypes.

pub mod across;
mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod buffer;
mod call;
mod dissemination;
mod gather;
mod levels;
mod neighbours;
pub mod operations;
mod reduce;
mod reducer;
mod run;
mod scan;
mod short;
mod span;
#[cfg(test)]
pub(crate) mod tests;
mod words;

pub use alltoall::alltoall;
pub use barrier::barrier;
pub use buffer::{Argument, Shape};
pub use call::Call;
pub use levels::{bcast, reduce};
pub use reducer::Reducer;
pub use run::{Operation, begin, persistent, run};
pub use scan::Scan;
pub use short::{meet_now, short_allgather, short_allreduce, short_alltoall, short_barrier, short_bcast, short_reduce};
pub use span::{Blocks, Scratch, Span};
pub use words::{everybody_says, everyone, packed, tell_all, unpacked, zeroed};
