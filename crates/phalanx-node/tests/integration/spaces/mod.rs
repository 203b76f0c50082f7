//! A server of spaces and its clients, in one process over real sockets.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

pub mod common;
mod hostile;
mod rights;
mod shares;
mod sharing;
mod slow;
