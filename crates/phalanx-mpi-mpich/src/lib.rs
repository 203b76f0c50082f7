//! `libmpi.so.12`: MPI for C programs, with the binary interface of MPICH.
//!
//! The functions are the same for both interfaces, and written once, in `phalanx-mpi/c`; `abi` has what differs.

// Names are C's.
#![allow(non_camel_case_types, non_upper_case_globals)]
#![cfg_attr(test, allow(dead_code, unused_imports, reason = "the tests are of `abi` alone"))]
// How many arguments a function has, the standard says; sets of numbers convert to and from C.
#![allow(clippy::too_many_arguments, clippy::wrong_self_convention)]

mod abi;
// The tests are of `abi` alone: the functions are tested by programs that call them.
#[cfg(not(test))]
#[macro_use]
#[path = "../../phalanx-mpi/c/mod.rs"]
mod c;
#[cfg(not(test))]
mod fortran;
#[cfg(not(test))]
mod removed;
