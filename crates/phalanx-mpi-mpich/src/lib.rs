//! `libmpi.so.12`: MPI for C programs, with the binary interface of MPICH.
//!
//! The functions are the same for both interfaces, and written once, in `phalanx-mpi/c`; `abi` has what differs.

// Names are C's.
#![allow(non_camel_case_types, non_upper_case_globals)]
// Functions use what they need of the interface.
#![allow(dead_code)]
// How many arguments a function has, the standard says; sets of numbers convert to and from C.
#![allow(clippy::too_many_arguments, clippy::wrong_self_convention)]

mod abi;
#[path = "../../phalanx-mpi/c/mod.rs"]
mod c;
