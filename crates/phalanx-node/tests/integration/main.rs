//! Executors and servers over real sockets, with peers that do not keep to the protocol.
//!
//! One program for all of these tests, because each program links the whole library, which takes longer than to compile
//! the test.

mod executor;
mod files;
mod liars;
mod preambles;
mod ranks;
mod spaces;
mod transfer;

use phalanx_core::level::Policy;
use phalanx_node::cage::Cage;
use phalanx_node::executor::Options;
use phalanx_node::transfer::Exports;

/// The options of an executor that serves everybody, and has one place, no spaces and no folders.
fn options() -> Options {
    Options {
        capacity: 1,
        accepted: Vec::new(),
        command: vec!["true".into()],
        python: "3.11".into(),
        policy: Policy::default(),
        spaces: None,
        exports: Exports::default(),
        environment: Vec::new(),
        cage: Cage::default(),
    }
}
