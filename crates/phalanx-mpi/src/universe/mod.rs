//! How worlds begin, meet, lose processes and end (MPI 5.0, chapter 11).
//!
//! The launcher knows all processes that it has started. `attending` hears it, whenever progress finds that it is time:
//! answers go to `questions`, connections to `meeting`, losses to [`losing`].

pub(crate) mod attending;
pub mod dynamic;
pub mod failures;
pub mod joining;
pub mod leaving;
pub mod losing;
mod meeting;
pub mod parents;
mod questions;
pub mod session;
