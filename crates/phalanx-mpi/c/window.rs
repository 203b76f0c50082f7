//! One-sided communication (MPI 5.0, chapter 12).

use super::call::{Result, fail};
use crate::abi::MPI_Win;
use phalanx_mpi::error::Class;

/// The number of a window.
pub fn exists(win: MPI_Win) -> Result<u32> {
    fail(Class::Win, format!("win {:#x} is no window, or was freed", win.id()))
}
