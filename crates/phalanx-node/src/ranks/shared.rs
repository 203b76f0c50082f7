//! What the ranks of one machine share: memory, and a doorbell for each. Neither has a name that could stay behind.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Between two ranks; memory that nobody touches costs nothing.
const BYTES_OF_A_PAIR: u64 = 4 << 20;

/// Inherited by every rank of the machine.
#[derive(Debug)]
pub struct Shared {
    segment: OwnedFd,
    pub bytes: u64,
    bells: Vec<OwnedFd>,
}

impl Shared {
    /// For so many ranks.
    pub fn new(local: u32) -> io::Result<Shared> {
        let bytes = BYTES_OF_A_PAIR * u64::from(local) * u64::from(local);
        let segment = memfd_create("phalanx-ranks", MemfdFlags::CLOEXEC)?;
        ftruncate(&segment, bytes)?;
        let bell = |_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bells = (0..local).map(bell).collect::<Result<_, _>>()?;
        Ok(Shared { segment, bytes, bells })
    }

    pub fn segment(&self) -> RawFd {
        self.segment.as_raw_fd()
    }

    /// In the order of the ranks.
    pub fn bells(&self) -> Vec<RawFd> {
        self.bells.iter().map(AsRawFd::as_raw_fd).collect()
    }
}
