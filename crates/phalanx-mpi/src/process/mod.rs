//! The process among those of its program: how it moves messages, waits and makes progress.
//!
//! Low to high:
//!
//! - [`transport`] carries frames, and [`engine`] matches sends with receives;
//! - [`world`] says who the process is, and has the engine and whatever progress looks at;
//! - [`hold`] lends the engine to one thread at a time, and [`tasks`] go on beside the program;
//! - [`progress`] moves all of that and waits, and [`blocking`] is work that its caller waits for.
//!
//! Nothing here knows communicators. What attends to the launcher and to losses, in [`crate::universe`], is handed in when the
//! process joins its program.

pub mod blocking;
pub(crate) mod control;
pub(crate) mod cores;
pub(crate) mod elsewhere;
pub(crate) mod encounters;
pub mod engine;
pub(crate) mod here;
pub mod hold;
pub mod life;
pub mod losses;
pub mod progress;
pub mod service;
pub mod slices;
pub mod tasks;
pub mod transport;
pub(crate) mod turn;
pub(crate) mod wait;
pub mod world;
