//! `libmpi_abi.so.1`: MPI for C programs, with the standard's binary interface (MPI 5.0, chapter 20).
//!
//! The functions are the same for both interfaces, and written once, in `phalanx-mpi/c`; `abi` has what differs.

// Names are C's.
#![allow(non_camel_case_types, non_upper_case_globals)]
// How many arguments a function has, the standard says; sets of numbers convert to and from C.
#![allow(clippy::too_many_arguments, clippy::wrong_self_convention)]

mod abi;
#[path = "../../phalanx-mpi/c/mod.rs"]
mod c;
