//! MPI's C functions, written once for both binary interfaces: each crate that has one includes this folder as a module
//! beside its own `abi`, in whose types and conversions everything here is said. What the functions mean is in
//! `phalanx_mpi`; here is only how C says it.
//!
//! One file per chapter. To add a function: declare it in its chapter with [`mpi!`], and in `functions.h`.

#[macro_use]
pub mod call;
pub mod argument;
pub mod attribute;
mod collective;
mod comm;
mod contents;
pub mod datatype;
mod dynamic;
mod elements;
mod environment;
mod errhandler;
pub mod failure;
mod failures;
mod file;
mod file_access;
pub mod generalized;
mod group;
mod handle;
mod info;
mod interface;
mod message;
mod op;
mod pack;
mod partitioned;
mod point;
mod request;
mod session;
mod status;
mod tool;
mod topology;
mod window;
mod window_access;
