//! How worlds begin, meet, lose processes and end.

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
