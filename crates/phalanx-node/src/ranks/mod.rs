//! Message passing programs: their processes, called ranks, are started, watched and ended (paper 001, sections 4.2 and 4.3).
//!
//! [`machine`] has the ranks of one machine, [`launcher`] a whole program.

pub mod child;
mod guard;
mod input;
pub mod launcher;
pub mod machine;
pub mod output;
mod shared;
pub mod streams;
