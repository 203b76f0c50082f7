//! How worlds begin, meet, lose processes and end.

pub mod dynamic;
pub mod failures;
pub mod launcher;
pub mod leaving;
pub mod losses;
mod meeting;
pub mod session;
