//! Forwards an interpreter's standard output and error to its manager.
//!
//! Both streams are pipes, so that output of C libraries and child processes is included. The interpreter itself reads the
//! pipes and sends the output over its data link, because what a task prints is the user's data. A thread that needs no Python
//! reads them. Before every answer, the answering thread reads what is left, so that a result never overtakes what was printed
//! before it.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;
