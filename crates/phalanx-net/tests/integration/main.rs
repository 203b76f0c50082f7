//! Links between two ends of this process, over real sockets.
//!
//! One program for all of these tests, because each program links the whole library, which takes longer than to compile
//! the test.

mod dial;
mod forging;
mod identity;
mod issuers;
mod joining;
mod links;
mod memory;
mod vectors;
