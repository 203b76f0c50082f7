//! The memory that the processes of a program on one machine share.
//!
//! ```text
//! | a desk for each process | the channel from process 0 to 0, 0 to 1, … |
//! ```

use super::channel::{Receiver, Sender, channel_bytes};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// What every process of the machine sees of one.
#[repr(C, align(128))]
pub struct Desk {
    /// 1 while it sleeps until its bell rings.
    pub sleeps: AtomicU32,
    /// Its number in the operating system.
    pub process: AtomicU32,
    /// 1 when it sees to it, before it sleeps, that who has agreed needs no order of its own ([`super::order_own`]).
    pub orders: AtomicU32,
    /// The core that it was on when it last spun in vain, plus 1; 0 before.
    pub core: AtomicU32,
}

/// Bytes of the rings of all channels to one process, as far as each may have its least length.
const RINGS: usize = 4 << 20;
/// The longest ring is longer than a core's own cache. So what the receiver reads has often left the sender's cache for one that both
/// cores share, from which it comes at three times the speed.
const LONGEST_RING: usize = 2 << 20;
const SHORTEST_RING: usize = 256 << 10;

/// Bytes of the ring of each channel between this many processes: a power of two.
fn ring_bytes(local: usize) -> usize {
    // Tests fill rings, again and again.
    ring_up_to(if cfg!(test) { SHORTEST_RING } else { LONGEST_RING }, local)
}

fn ring_up_to(longest: usize, local: usize) -> usize {
    let each = RINGS / local.max(1).next_power_of_two();
    each.clamp(SHORTEST_RING, longest)
}

/// The length of the memory for this many processes, in bytes. All of it must be zero at first.
pub fn segment_bytes(local: usize) -> usize {
    (size_of::<Desk>() * local).next_multiple_of(4096) + channel_bytes(ring_bytes(local)) * local * local
}

/// The memory, mapped.
pub struct Segment {
    base: NonNull<u8>,
    local: usize,
}

// SAFETY: everything in it is atomic, or has one writer and one reader who tell each other by atomics.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Maps the file, which must be as long as [`segment_bytes`] says.
    pub fn map(file: BorrowedFd<'_>, local: usize) -> io::Result<Segment> {
        let bytes = segment_bytes(local);
        if rustix::fs::fstat(file)?.st_size < bytes as i64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the shared memory is too short"));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0)? };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at nothing"))?;
        Ok(Segment { base, local })
    }

    /// The desk of a process of this machine.
    #[inline]
    pub fn desk(&self, local: usize) -> &Desk {
        assert!(local < self.local);
        // SAFETY: within the mapping, aligned, and zero is a valid desk.
        unsafe { self.base.cast::<Desk>().add(local).as_ref() }
    }

    /// The sending end of the channel from one process of this machine to another. Only one may exist.
    pub fn sender(&self, from: usize, to: usize) -> Sender {
        Sender::new(self.channel(from, to), ring_bytes(self.local))
    }

    /// The receiving end. Only one may exist.
    pub fn receiver(&self, from: usize, to: usize) -> Receiver {
        Receiver::new(self.channel(from, to), ring_bytes(self.local))
    }

    fn channel(&self, from: usize, to: usize) -> NonNull<u8> {
        assert!(from < self.local && to < self.local);
        let behind = self.local * (self.local - from) - to;
        let offset = segment_bytes(self.local) - channel_bytes(ring_bytes(self.local)) * behind;
        // SAFETY: within the mapping.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length; who has a channel of it has the segment too.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), segment_bytes(self.local)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_processes_have_short_rings() {
        let lengths = [1, 2, 3, 4, 8, 9, 16, 64].map(|local| ring_up_to(LONGEST_RING, local) >> 10);
        assert_eq!(lengths, [2048, 2048, 1024, 1024, 512, 256, 256, 256]);
        let provided = 4 << 20; // by a launcher, for each pair
        assert!((1..100).all(|local| channel_bytes(ring_up_to(LONGEST_RING, local)) + 4096 < provided));
    }
}
