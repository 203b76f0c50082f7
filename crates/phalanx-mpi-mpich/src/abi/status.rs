//! `MPI_Status`.

use std::ffi::c_int;

/// See [`crate::c::status`].
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct MPI_Status {
    low: c_int,
    /// The lowest bit says whether it was cancelled.
    high_and_cancelled: c_int,
    pub source: c_int,
    pub tag: c_int,
    pub error: c_int,
}

impl MPI_Status {
    /// Bytes received.
    pub fn bytes(&self) -> u64 {
        self.low as u32 as u64 | ((self.high_and_cancelled as u32 >> 1) as u64) << 32
    }

    pub fn set_bytes(&mut self, bytes: u64) {
        self.low = bytes as c_int;
        self.high_and_cancelled = ((bytes >> 32) as c_int) << 1 | self.high_and_cancelled & 1;
    }

    pub fn cancelled(&self) -> bool {
        self.high_and_cancelled & 1 != 0
    }

    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.high_and_cancelled = self.high_and_cancelled & !1 | cancelled as c_int;
    }
}
