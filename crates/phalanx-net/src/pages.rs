//! Memory of this process alone, of many megabytes at a time.
//!
//! The C library maps 32 MB and more anew for each use, and then every page of 4 KB is a fault: 60 ms for 100 MB on a virtual
//! machine, where the copy itself takes 10. Asked for in pages of 2 MB it is a tenth of that.

#[cfg(target_os = "linux")]
use std::ptr::null_mut;

/// New memory; null where there is none.
#[cfg(target_os = "linux")]
pub(crate) fn obtain(length: usize) -> *mut u8 {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the system chooses.
    let Ok(base) = (unsafe { mmap_anonymous(null_mut(), length, rights, MapFlags::PRIVATE) }) else {
        return null_mut();
    };
    // SAFETY: advice that changes no content, for the mapping just made.
    let _ = unsafe { madvise(base, length, Advice::LinuxHugepage) };
    base.cast()
}

/// The same memory, longer and perhaps elsewhere; null where there is none.
///
/// # Safety
/// `base` is from [`obtain`], of `old` bytes, and is not used any more unless this gives null.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn enlarge(base: *mut u8, old: usize, new: usize) -> *mut u8 {
    use rustix::mm::{MremapFlags, mremap};
    // SAFETY: as the caller promises.
    unsafe { mremap(base.cast(), old, new, MremapFlags::MAYMOVE) }.map_or(null_mut(), <*mut _>::cast)
}

/// Gives it back.
///
/// # Safety
/// `base` is from [`obtain`], of `length` bytes, and is not used any more.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn release(base: *mut u8, length: usize) {
    // SAFETY: as the caller promises.
    let _ = unsafe { rustix::mm::munmap(base.cast(), length) };
}

#[cfg(not(target_os = "linux"))]
use std::alloc::{Layout, alloc, dealloc, realloc};

#[cfg(not(target_os = "linux"))]
fn layout(length: usize) -> Layout {
    Layout::from_size_align(length, phalanx_core::wire::ALIGNMENT).expect("bounded by MAX_BODY")
}

/// New memory; null where there is none.
#[cfg(not(target_os = "linux"))]
pub(crate) fn obtain(length: usize) -> *mut u8 {
    // SAFETY: the length is not zero: it is that of many megabytes.
    unsafe { alloc(layout(length)) }
}

/// The same memory, longer and perhaps elsewhere; null where there is none.
///
/// # Safety
/// `base` is from [`obtain`], of `old` bytes, and is not used any more unless this gives null.
#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn enlarge(base: *mut u8, old: usize, new: usize) -> *mut u8 {
    // SAFETY: as the caller promises.
    unsafe { realloc(base, layout(old), new) }
}

/// Gives it back.
///
/// # Safety
/// `base` is from [`obtain`], of `length` bytes, and is not used any more.
#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn release(base: *mut u8, length: usize) {
    // SAFETY: as the caller promises.
    unsafe { dealloc(base, layout(length)) }
}
