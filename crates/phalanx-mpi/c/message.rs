//! What the chapters on messages share: buffers and statuses.

use super::argument::{Number, OutStatus, count};
use super::failure::Result;
use crate::abi::{self, MPI_Datatype, MPI_Status};
use phalanx_mpi::constants::MPI_SUCCESS;
use phalanx_mpi::objects::buffer::Buffer;
use phalanx_mpi::objects::datatype::Datatype;
use phalanx_mpi::operations::quick::Passed;
use phalanx_mpi::process::engine::{EMPTY, Status};
use std::ffi::c_void;

/// `buf`, `count` and `datatype`.
#[inline]
pub fn buffer(start: *const c_void, elements: impl Number, datatype: MPI_Datatype) -> Result<Buffer> {
    let elements = count(elements, "count")?;
    Ok(Buffer::new(start.cast_mut().cast(), elements, Datatype::of(datatype.id())?)?)
}

/// The same, of which nothing is looked at yet.
#[inline]
pub fn passed(start: *const c_void, elements: impl Number, datatype: MPI_Datatype) -> Passed {
    Passed { start: start.cast_mut().cast(), count: elements.wide(), datatype: datatype.id() }
}

/// Fills a status, but for its error, which only calls that complete several requests say.
pub fn fill(status: OutStatus, with: &Status) {
    if let Some(status) = status.get() {
        fill_one(status, with);
    }
}

pub fn fill_one(status: &mut MPI_Status, with: &Status) {
    status.source = abi::RANK.to_c(with.source);
    status.tag = abi::TAG.to_c(with.tag);
    status.set_bytes(with.bytes);
    status.set_cancelled(with.cancelled);
}

/// The status of what was neither sent nor received.
pub fn fill_empty(status: OutStatus) {
    if let Some(status) = status.get() {
        fill_one(status, &EMPTY);
        status.error = abi::ERROR.to_c(MPI_SUCCESS);
    }
}

/// The code of a request's failure, in canonical numbers.
pub fn code(status: &Status) -> i32 {
    status.error.map_or(MPI_SUCCESS, |class| class as i32)
}
