//! Segments as their sender sees them, and memory mappings.

use super::LONG;
use crate::copy::copy;
use bytes::Bytes;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A multiple of every system's page size. The word is in this many bytes behind the bodies' memory.
pub(super) const PAGE: usize = 64 << 10;
/// These seals fix the length of a segment for good.
pub(super) const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

const TAKEN: u32 = 0; // the value of fresh memory
const FREE: u32 = 1;
/// The receiver no longer uses it, but a process that was forked off the receiver may.
const ABANDONED: u32 = 2;

/// Mapped memory.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: an address that stays valid as long as the value; what is done with it is up to the owner.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub fn new(
        file: BorrowedFd<'_>,
        offset: usize,
        length: usize,
        rights: ProtFlags,
        flags: MapFlags,
    ) -> io::Result<Mapping> {
        // SAFETY: a new mapping, at an address that the system chooses.
        let base = unsafe { mmap(std::ptr::null_mut(), length, rights, flags, file, offset as u64)? };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at nothing"))?;
        Ok(Mapping { base, length })
    }

    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Gives advice to the system that discards the contents of the first `length` bytes.
    pub fn drop_pages(&self, length: usize, advice: Advice) {
        // SAFETY: within the mapping; the owner calls this only when no reader of it is left.
        let _ = unsafe { madvise(self.base.as_ptr().cast(), length.min(self.length), advice) };
    }

    /// The word at this offset, which says whether the segment is free.
    pub fn word(&self, offset: usize) -> Word<'_> {
        assert!(offset + size_of::<AtomicU32>() <= self.length);
        // SAFETY: within the mapping, aligned since offsets are multiples of a page, and used as an atomic by both ends.
        Word(unsafe { self.base.add(offset).cast::<AtomicU32>().as_ref() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference into it is left.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// The word that says whether a segment may be filled again.
pub(super) struct Word<'a>(&'a AtomicU32);

impl Word<'_> {
    pub fn is_free(&self) -> bool {
        self.0.load(Ordering::Acquire) == FREE
    }

    pub fn is_abandoned(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ABANDONED
    }

    pub fn set_abandoned(&self) {
        self.0.store(ABANDONED, Ordering::Relaxed);
    }

    pub fn set_taken(&self) {
        self.0.store(TAKEN, Ordering::Relaxed);
    }

    pub fn set_free(&self) {
        self.0.store(FREE, Ordering::Release);
    }
}

/// A segment, seen from the end that fills it.
#[derive(Debug)]
pub(super) struct Segment {
    memory: Mapping,
    capacity: usize,
}

impl Segment {
    /// Makes a segment with this body, and the file to pass to the receiver.
    pub fn new(body: &[Bytes]) -> io::Result<(Segment, OwnedFd)> {
        let length: usize = body.iter().map(Bytes::len).sum();
        let capacity = length.next_multiple_of(LONG);
        let mut file = File::from(memfd_create("phalanx-body", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        ftruncate(&file, (capacity + PAGE) as u64)?;
        // Written to the file instead of copied into a mapping. This avoids a page fault per page, and a lack of memory
        // is an error instead of a signal.
        body.iter().try_for_each(|piece| file.write_all(piece))?;
        let file = OwnedFd::from(file);
        fcntl_add_seals(&file, SEALS)?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let memory = Mapping::new(std::os::fd::AsFd::as_fd(&file), 0, capacity + PAGE, rights, MapFlags::SHARED)?;
        Ok((Segment { memory, capacity }, file))
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether the receiver has dropped the body.
    pub fn is_free(&self) -> bool {
        self.memory.word(self.capacity).is_free()
    }

    /// Whether the segment will never become free.
    pub fn is_abandoned(&self) -> bool {
        self.memory.word(self.capacity).is_abandoned()
    }

    /// Replaces the body of a free segment. The new body must fit.
    pub fn fill(&self, body: &[Bytes]) {
        self.memory.word(self.capacity).set_taken();
        let mut at = 0;
        for piece in body {
            assert!(at + piece.len() <= self.capacity);
            // SAFETY: within the mapping. The receiver has said that its user looks at it no longer.
            unsafe { copy(piece.as_ptr(), self.memory.base().add(at), piece.len()) };
            at += piece.len();
        }
    }

    /// Returns a free segment's memory to the system, for both ends.
    pub fn empty(&self) {
        self.memory.drop_pages(self.capacity + PAGE, Advice::LinuxRemove);
    }

    /// Drops the pages from this process's mapping, so that they count as memory of the receiver only.
    pub fn look_away(&self) {
        self.memory.drop_pages(self.capacity, Advice::LinuxDontNeed); // the file keeps what the mapping drops
    }

    /// The body, of a segment that was never passed to the peer.
    pub fn body(&self, length: usize) -> &[u8] {
        // SAFETY: within the mapping; no other process has this segment.
        unsafe { std::slice::from_raw_parts(self.memory.base(), length.min(self.capacity)) }
    }
}
