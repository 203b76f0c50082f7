//! Files (MPI 5.0, chapter 14).

use super::call::{Result, fail};
use crate::abi::MPI_File;
use phalanx_mpi::error::Class;

/// The number of a file.
pub fn exists(file: MPI_File) -> Result<u32> {
    fail(Class::File, format!("file {:#x} is no file, or was closed", file.id()))
}
