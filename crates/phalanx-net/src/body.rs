//! Memory for the body of an arriving frame.

use crate::copy::copy;
use crate::pages::{enlarge, obtain, release};
use crate::sync::lock;
use bytes::Bytes;
use phalanx_core::wire::ALIGNMENT;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Mutex;

/// Memory allocated because of the length that the peer announces. Beyond it, the memory at most doubles what has
/// arrived.
const FIRST: usize = 64 << 20;

/// Sizes of bodies whose memory is pooled. Fresh pages cost as much as the copy into them.
const POOLED: std::ops::RangeInclusive<usize> = 128 << 10..=8 << 20;
const MOST_POOLED: usize = 16 << 20;

/// Longer bodies get their own mapping from the system.
const fn is_mapped(capacity: usize) -> bool {
    capacity > *POOLED.end()
}

const _: () = assert!(is_mapped(FIRST), "what grows is mapped");

#[derive(Default)]
struct Pool {
    /// Addresses and capacities.
    free: Vec<(usize, usize)>,
    bytes: usize,
    /// The smallest number of free entries since the last trim. That many were not needed.
    idle: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { free: Vec::new(), bytes: 0, idle: 0 });

impl Pool {
    /// Takes memory of at least `capacity` bytes, and at most twice that.
    fn take(&mut self, capacity: usize) -> Option<(usize, usize)> {
        let fits = |entry: &(usize, usize)| (capacity..=capacity.saturating_mul(2)).contains(&entry.1);
        let index = self.free.iter().rposition(fits)?;
        let entry = self.free.remove(index);
        self.bytes -= entry.1;
        self.idle = self.idle.min(self.free.len());
        Some(entry)
    }

    /// Keeps the memory if the pool has room. Returns whether it does.
    fn put(&mut self, address: usize, capacity: usize) -> bool {
        let keeps = POOLED.contains(&capacity) && self.bytes + capacity <= MOST_POOLED;
        if keeps {
            self.free.push((address, capacity));
            self.bytes += capacity;
        }
        keeps
    }
}

/// Frees pooled memory that no body has needed since the last call. Should be called about once a second.
pub fn trim() {
    let mut pool = pool();
    let idle = pool.idle.min(pool.free.len());
    let unused: Vec<_> = pool.free.drain(..idle).collect();
    pool.bytes -= unused.iter().map(|(_, capacity)| capacity).sum::<usize>();
    pool.idle = pool.free.len();
    drop(pool);
    for (address, capacity) in unused {
        // SAFETY: the pool holds only unused memory, with its capacity.
        unsafe { dealloc(address as *mut u8, layout_of(capacity)) }
    }
}

fn layout_of(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGNMENT).expect("was valid when allocated")
}

fn pool() -> std::sync::MutexGuard<'static, Pool> {
    lock(&POOL)
}

/// A buffer filled from the front, aligned so that an array can be used in place. A socket is read straight into it,
/// without copying or zeroing.
#[derive(Debug)]
pub struct Body {
    memory: NonNull<u8>,
    capacity: usize,
    filled: usize,
    expected: usize,
}

// SAFETY: the memory is owned by this value alone.
unsafe impl Send for Body {}
// SAFETY: a shared body is only read.
unsafe impl Sync for Body {}

impl Body {
    /// Room for `expected` bytes.
    pub fn new(expected: usize) -> Body {
        let mut body = Body { memory: NonNull::dangling(), capacity: 0, filled: 0, expected };
        let pooled = if POOLED.contains(&expected) { pool().take(expected) } else { None };
        match pooled {
            Some((address, capacity)) => {
                body.memory = NonNull::new(address as *mut u8).expect("only allocated memory is pooled");
                body.capacity = capacity;
            }
            None => body.grow(expected.min(FIRST)),
        }
        body
    }

    /// Bytes still to come.
    pub fn missing(&self) -> usize {
        self.expected - self.filled
    }

    /// The memory for the next bytes. Empty only if no bytes are missing.
    pub fn spare(&mut self) -> &mut [MaybeUninit<u8>] {
        if self.filled == self.capacity && self.missing() > 0 {
            self.grow(self.expected.min(self.capacity.saturating_mul(2)));
        }
        let room = self.capacity.min(self.expected) - self.filled;
        // SAFETY: filled .. capacity is allocated, owned, and may be uninitialized.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(self.filled).cast(), room) }
    }

    /// Like [`Body::spare`], but at least `least` bytes. `None`: fewer are missing.
    pub fn room(&mut self, least: usize) -> Option<&mut [MaybeUninit<u8>]> {
        if self.missing() < least {
            return None;
        }
        if self.capacity - self.filled < least {
            self.grow(self.expected.min(self.capacity.saturating_mul(2).max(self.filled + least)));
        }
        Some(self.spare())
    }

    /// Declares the first `count` bytes of [`Body::spare`] as written.
    ///
    /// # Safety
    /// They must be initialized.
    pub unsafe fn advance(&mut self, count: usize) {
        assert!(count <= self.capacity.min(self.expected) - self.filled);
        self.filled += count;
    }

    /// Copies missing bytes from `bytes`. Returns how many were taken.
    pub fn take_from(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && self.missing() > 0 {
            let spare = self.spare();
            let count = spare.len().min(bytes.len() - taken);
            let source = &bytes[taken..taken + count];
            // SAFETY: `spare` has room for `count` bytes, which are written before they count as filled.
            unsafe {
                copy(source.as_ptr(), spare.as_mut_ptr().cast(), count);
                self.advance(count);
            }
            taken += count;
        }
        taken
    }

    /// The finished body.
    pub fn into_bytes(self) -> Bytes {
        if self.filled == 0 { Bytes::new() } else { Bytes::from_owner(self) }
    }

    fn grow(&mut self, capacity: usize) {
        if capacity <= self.capacity {
            return;
        }
        let layout = layout_of(capacity);
        // SAFETY: sizes are not zero, and what there is was obtained so: what begins short never grows.
        let memory = unsafe {
            match self.capacity {
                0 if is_mapped(capacity) => obtain(capacity),
                0 => alloc(layout),
                _ => enlarge(self.memory.as_ptr(), self.capacity, capacity),
            }
        };
        self.memory = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
        self.capacity = capacity;
    }
}

/// A copy. If it is large, its memory comes from the pool.
pub fn copy_of(bytes: &[u8]) -> Bytes {
    let mut body = Body::new(bytes.len());
    body.take_from(bytes);
    body.into_bytes()
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the first `filled` bytes are initialized.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.filled) }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        match self.capacity {
            0 => {}
            // SAFETY: obtained with this length, and not used any more.
            capacity if is_mapped(capacity) => unsafe { release(self.memory.as_ptr(), capacity) },
            capacity if pool().put(self.memory.as_ptr() as usize, capacity) => {}
            // SAFETY: allocated with this layout.
            capacity => unsafe { dealloc(self.memory.as_ptr(), layout_of(capacity)) },
        }
    }
}
