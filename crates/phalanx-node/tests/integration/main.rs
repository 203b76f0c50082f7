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
