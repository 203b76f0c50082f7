//! Message passing: MPI and BSP processes over one core (paper 001, 4.2), independent of any C interface.
//!
//! The two C interfaces, the standard one and MPICH's, are crates of their own that translate handles and constants;
//! everything here speaks the numbers of the standard one (MPI 5.0, appendix A).
//!
//! The wings stand one above the other: [`process`], [`objects`], [`operations`], [`universe`], [`bsp`].

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::disallowed_types, reason = "tests put links onto plain sockets"))]

pub mod bsp;
pub mod constants;
pub mod error;
pub mod objects;
pub mod operations;
pub mod process;
pub mod universe;
