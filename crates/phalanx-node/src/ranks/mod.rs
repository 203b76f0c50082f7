//! Message passing programs: their processes, called ranks, are started, watched and ended (paper 001, sections 4.2 and 4.3).
//!
//! [`machine`] manages the ranks of one machine. [`launcher`] runs a whole program, on this machine or on executors
//! ([`serve`]).

mod again;
mod at_once;
mod child;
mod claim;
mod delegated_file;
mod delegating;
mod executors;
mod guard;
mod happening;
mod hosts;
mod input;
pub mod job;
pub mod launcher;
pub mod machine;
mod more;
pub mod output;
mod placement;
mod prepared;
mod saving;
pub mod serve;
mod shared;
mod site;
mod starting;
mod store;
pub mod streams;
