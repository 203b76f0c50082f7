//! What the ranks of one machine share: memory, and a doorbell for each rank. Neither has a name in the file system, so neither
//! can be left behind.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Shared memory for each pair of ranks, in bytes. Pages that are never touched cost nothing.
const BYTES_OF_A_PAIR: u64 = 4 << 20;

/// The shared descriptors, inherited by every rank of the machine.
#[derive(Debug)]
pub struct Shared {
    segment: OwnedFd,
    pub bytes: u64,
    bells: Vec<OwnedFd>,
}

impl Shared {
    /// Creates them for `local` ranks.
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

    /// The doorbells, in the order of the ranks.
    pub fn bells(&self) -> Vec<RawFd> {
        self.bells.iter().map(AsRawFd::as_raw_fd).collect()
    }
}
