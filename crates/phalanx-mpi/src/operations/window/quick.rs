//! Operations of predefined datatypes on mapped memory, on their shortest way: they take no lock of this process, and count no
//! references. Whatever is unusual about a call is left to the others, also what is wrong with it.

use super::direct::copy_any;
use super::memory::Memory;
use super::{KIND, MADE, Part, Window};
use crate::constants::{MPI_NO_OP, MPI_REPLACE};
use crate::error::Result;
use crate::objects::datatype::Datatype;
use crate::objects::datatype::kind::Family::{Address, Byte, FortranInteger, Integer, Logical};
use crate::objects::handle::place_of;
use crate::objects::op::Predefined;
use crate::operations::quick::Passed;
use crate::process::life;
use crate::process::world::is_fork;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, fence};

/// Windows that calls find without a lock: those with the first handles.
const SLOTS: usize = 64;
static WINDOWS: [Slot; SLOTS] =
    [const { Slot { window: AtomicPtr::new(std::ptr::null_mut()), users: AtomicU32::new(0) } }; SLOTS];

struct Slot {
    window: AtomicPtr<Window>,
    /// Calls that may use it.
    users: AtomicU32,
}

/// A window that is used by a call, which is over before the window ends. The call is counted where another thread could end the
/// window meanwhile.
struct Used(Option<&'static Slot>, &'static Window);

/// The elements of a target as a program passes them.
#[derive(Clone, Copy)]
pub struct Spot {
    /// The rank of the target.
    pub rank: i32,
    /// The displacement in its part, in its units.
    pub displacement: i64,
    /// The number of elements.
    pub count: i64,
    /// The handle of the datatype.
    pub datatype: u32,
}

/// What [`super::state::Epochs`] allow, for those who do not lock it.
#[derive(Debug)]
pub(super) struct Open {
    pub fenced: AtomicBool,
    pub all: AtomicBool,
    /// By rank.
    targets: Vec<Target>,
}

/// All that a call needs to know of a target, in one place.
#[derive(Debug)]
struct Target {
    part: Part,
    /// This process has mapped the part, and its owner was not lost.
    reached: AtomicBool,
    locked: AtomicBool,
}

impl Open {
    pub fn new(parts: &[Part], memory: &Memory) -> Open {
        let is_mapped = |rank| matches!(memory, Memory::Mapped(mapping) if mapping.number(rank).is_some());
        let target = |(rank, part): (usize, &Part)| Target {
            part: *part,
            reached: AtomicBool::new(is_mapped(rank)),
            locked: AtomicBool::new(false),
        };
        let targets = parts.iter().enumerate().map(target).collect();
        Open { fenced: AtomicBool::new(false), all: AtomicBool::new(false), targets }
    }

    /// A rank is locked from now on, or is not.
    pub fn set_locked(&self, rank: usize, locked: bool) {
        self.targets[rank].locked.store(locked, Ordering::Relaxed);
    }

    /// A rank was lost.
    pub fn lose(&self, rank: usize) {
        self.targets[rank].reached.store(false, Ordering::Relaxed);
    }

    /// Whether a target's part is mapped, and its owner lives.
    #[inline]
    pub fn reaches(&self, rank: usize) -> bool {
        self.targets[rank].reached.load(Ordering::Relaxed)
    }

    /// A target whose part is mapped, and whose owner lives.
    #[inline]
    fn target(&self, rank: i32) -> Option<&Target> {
        let target = self.targets.get(usize::try_from(rank).ok()?)?;
        target.reached.load(Ordering::Relaxed).then_some(target)
    }

    #[inline]
    fn is_passive(&self, target: &Target) -> bool {
        target.locked.load(Ordering::Relaxed) || self.all.load(Ordering::Relaxed)
    }
}

#[inline(always)]
fn slot(handle: u32) -> Option<&'static Slot> {
    WINDOWS.get(place_of(handle, KIND)?)
}

/// Lets calls find a window that has this handle.
pub(super) fn show(handle: u32, window: *const Window) {
    if let Some(slot) = slot(handle) {
        slot.window.store(window.cast_mut(), Ordering::SeqCst);
    }
}

/// Ends a handle, once no call uses the window any more that has found it so.
pub(super) fn forget(handle: u32) -> Option<Arc<Window>> {
    if let Some(slot) = slot(handle) {
        slot.window.store(std::ptr::null_mut(), Ordering::SeqCst);
        while slot.users.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
    MADE.take(handle)
}

impl Used {
    #[inline(always)]
    fn of(handle: u32) -> Option<Used> {
        if is_fork() {
            return None; // the other way says that a fork has no part in the program
        }
        let slot = slot(handle)?;
        let counted = life::is_concurrent().then_some(slot);
        counted.inspect(|slot| _ = slot.users.fetch_add(1, Ordering::SeqCst));
        // SAFETY: the window has its handle until nobody uses the slot, or this is the only thread that calls.
        let window = unsafe { slot.window.load(Ordering::SeqCst).as_ref() };
        if window.is_none() {
            counted.inspect(|slot| _ = slot.users.fetch_sub(1, Ordering::Release));
        }
        Some(Used(counted, window?))
    }

    /// Where a spot begins, if this process has mapped it and may access it now.
    #[inline(always)]
    fn at(&self, spot: &Spot, bytes: usize) -> Option<*mut u8> {
        let open = &self.open;
        let target = open.target(spot.rank)?;
        if self.comm.is_revoked() || !(open.is_passive(target) || open.fenced.load(Ordering::Relaxed)) {
            return None;
        }
        let Part { base, size, unit } = target.part;
        let begin = usize::try_from(spot.displacement).ok()?.checked_mul(unit)?;
        let is_inside = bytes > 0 && begin.checked_add(bytes)? <= size;
        is_inside.then(|| std::ptr::with_exposed_provenance_mut(base + begin))
    }
}

impl Deref for Used {
    type Target = Window;

    #[inline]
    fn deref(&self) -> &Window {
        self.1
    }
}

impl Drop for Used {
    #[inline]
    fn drop(&mut self) {
        self.0.inspect(|slot| _ = slot.users.fetch_sub(1, Ordering::Release));
    }
}

impl Spot {
    /// Bytes of its elements; None where they are not in one run, of a predefined datatype.
    #[inline]
    fn bytes(&self) -> Option<usize> {
        let start = std::ptr::NonNull::dangling().as_ptr();
        Passed { start, count: self.count, datatype: self.datatype }.bytes(usize::MAX)
    }

    /// The same, if an origin has as many.
    #[inline(always)]
    fn bytes_with(&self, origin: &Passed) -> Option<usize> {
        let bytes = origin.bytes(usize::MAX)?;
        let is_same = (origin.count, origin.datatype) == (self.count, self.datatype);
        (is_same || self.bytes() == Some(bytes)).then_some(bytes)
    }
}

/// MPI_Put. False when nothing was done, here and below.
#[inline]
pub fn put(origin: Passed, spot: Spot, window: u32) -> bool {
    let done = || {
        let bytes = spot.bytes_with(&origin)?;
        let window = Used::of(window)?;
        // SAFETY: within the part, which is mapped as long as there is the window; the program lends the origin.
        unsafe { copy_any(origin.start, window.at(&spot, bytes)?, bytes) };
        window.note_direct();
        Some(())
    };
    done().is_some()
}

/// MPI_Get.
#[inline]
pub fn get(origin: Passed, spot: Spot, window: u32) -> bool {
    let done = || {
        let bytes = spot.bytes_with(&origin)?;
        let window = Used::of(window)?;
        // SAFETY: as in `put`.
        unsafe { copy_any(window.at(&spot, bytes)?, origin.start, bytes) };
        window.note_direct();
        Some(())
    };
    done().is_some()
}

/// MPI_Accumulate; with a result of as many elements MPI_Get_accumulate and MPI_Fetch_and_op.
#[inline]
pub fn accumulate(origin: Passed, result: Option<*mut u8>, spot: Spot, op: u32, window: u32) -> bool {
    let done = || {
        let bytes = spot.bytes()?;
        let datatype = Datatype::predefined_at(spot.datatype)?;
        let function = match op {
            MPI_NO_OP | MPI_REPLACE => None,
            _ => Some(Predefined::of(op)?.for_kind(datatype.basic()?).ok()?),
        };
        let has_origin = op == MPI_NO_OP || (origin.datatype == spot.datatype && origin.bytes(usize::MAX)? == bytes);
        let window = Used::of(window)?;
        let target = window.at(&spot, bytes)?;
        if !has_origin || result.is_some_and(<*mut u8>::is_null) {
            return None;
        }
        let guard = window.guard(spot.rank as usize).ok()??;
        // SAFETY: as in `put`; the function is for this datatype, of which both have as many.
        unsafe {
            if let Some(result) = result {
                copy_any(target, result, bytes);
            }
            match function {
                Some(function) => function(origin.start, target, bytes / datatype.size()),
                None if op == MPI_REPLACE => copy_any(origin.start, target, bytes),
                None => {}
            }
        }
        drop(guard);
        window.note_direct();
        Some(())
    };
    done().is_some()
}

/// MPI_Compare_and_swap, of one element.
#[inline]
pub fn compare_and_swap(new: Passed, compared: Passed, result: Passed, spot: Spot, window: u32) -> bool {
    let (new, compared, result) = (new.start, compared.start, result.start);
    let done = || {
        let bytes = spot.bytes()?;
        let family = Datatype::predefined_at(spot.datatype)?.basic()?.family;
        let is_allowed = matches!(family, Integer | FortranInteger | Logical | Byte | Address);
        let window = Used::of(window)?;
        let target = window.at(&spot, bytes)?;
        if !is_allowed || new.is_null() || compared.is_null() || result.is_null() {
            return None;
        }
        let guard = window.guard(spot.rank as usize).ok()??;
        // SAFETY: as in `put`, of one element each.
        unsafe {
            copy_any(target, result, bytes);
            let there = std::slice::from_raw_parts(target, bytes);
            if there == std::slice::from_raw_parts(compared, bytes) {
                copy_any(new, target, bytes);
            }
        }
        drop(guard);
        window.note_direct();
        Some(())
    };
    done().is_some()
}

/// MPI_Win_lock.
#[inline]
pub fn lock(exclusive: bool, rank: i32, window: u32) -> bool {
    let done = || {
        let window = Used::of(window)?;
        window.open.target(rank)?;
        window.lock_now(exclusive, rank as usize).then(|| window.note_direct())
    };
    done().is_some()
}

/// MPI_Win_unlock.
#[inline]
pub fn unlock(rank: i32, window: u32) -> bool {
    let done = || {
        let window = Used::of(window)?;
        window.open.target(rank)?;
        window.unlock_now(rank as usize).then_some(())
    };
    done().is_some()
}

/// MPI_Win_flush.
#[inline]
pub fn flush(rank: i32, window: u32) -> bool {
    let done = || {
        let window = Used::of(window)?;
        let target = window.open.target(rank)?;
        if window.comm.is_revoked() || !window.open.is_passive(target) {
            return None;
        }
        fence(Ordering::SeqCst);
        window.note_direct();
        Some(())
    };
    done().is_some()
}

/// MPI_Win_fence, between processes of one machine; None when nothing was done.
#[inline]
pub fn fence_all(assert: i32, window: u32) -> Option<Result<()>> {
    let window = Used::of(window)?;
    window.fence_now(assert)
}
