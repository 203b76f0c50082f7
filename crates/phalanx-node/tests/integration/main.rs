//! Executors and servers over real sockets, with peers that do not keep to the protocol.
//!
//! One program for all of these tests, because each program links the whole library, which takes longer than to compile
//! the test.

mod delegations;
mod executor;
mod files;
mod hub;
mod hubs;
mod lending;
mod liars;
mod neighbours;
mod news;
mod preambles;
mod ranks;
mod spaces;
mod transfer;

use phalanx_node::executor::Options;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// The options of an executor that serves everybody, and has one place, no spaces and no folders.
fn options() -> Options {
    Options { capacity: 1, command: vec!["true".into()], python: "3.11".into(), ..Options::default() }
}

/// The next line of a log with this text.
fn next_line(log: &Receiver<String>, text: &str) -> String {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let line = log.recv_timeout(until.saturating_duration_since(Instant::now())).expect("the log has such a line");
        if line.contains(text) {
            return line;
        }
    }
}
