//! Executors and servers over real sockets, with peers that do not keep to the protocol.
//!
//! One program for all of these tests, because each program links the whole library, which takes longer than to compile
//! the test.

mod delegations;
mod executor;
mod files;
mod liars;
mod news;
mod preambles;
mod ranks;
mod spaces;
mod transfer;

use phalanx_node::executor::Options;

/// The options of an executor that serves everybody, and has one place, no spaces and no folders.
fn options() -> Options {
    Options { capacity: 1, command: vec!["true".into()], python: "3.11".into(), ..Options::default() }
}
