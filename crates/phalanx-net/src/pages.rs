//! Private memory of many megabytes at a time.
//!
//! The C library maps blocks of 32 MB and more anew for each use, and each page of 4 KB then costs a page fault. That
//! is 60 ms for 100 MB on a virtual machine, where the copy itself takes 10 ms. With pages of 2 MB it is a tenth of
//! that.

#[cfg(target_os = "linux")]
use std::ptr::null_mut;

/// Allocates memory. Null if there is none.
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

/// Grows the memory, perhaps at another address. Null if there is none.
///
/// # Safety
/// `base` is from [`obtain`], has `old` bytes, and is not used afterwards, unless this returns null.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn enlarge(base: *mut u8, old: usize, new: usize) -> *mut u8 {
    use rustix::mm::{MremapFlags, mremap};
    // SAFETY: as the caller promises.
    unsafe { mremap(base.cast(), old, new, MremapFlags::MAYMOVE) }.map_or(null_mut(), <*mut _>::cast)
}

/// Frees the memory.
///
/// # Safety
/// `base` is from [`obtain`], has `length` bytes, and is not used afterwards.
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

/// Allocates memory. Null if there is none.
#[cfg(not(target_os = "linux"))]
pub(crate) fn obtain(length: usize) -> *mut u8 {
    // SAFETY: the length is not zero: it is that of many megabytes.
    unsafe { alloc(layout(length)) }
}

/// Grows the memory, perhaps at another address. Null if there is none.
///
/// # Safety
/// `base` is from [`obtain`], has `old` bytes, and is not used afterwards, unless this returns null.
#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn enlarge(base: *mut u8, old: usize, new: usize) -> *mut u8 {
    // SAFETY: as the caller promises.
    unsafe { realloc(base, layout(old), new) }
}

/// Frees the memory.
///
/// # Safety
/// `base` is from [`obtain`], has `length` bytes, and is not used afterwards.
#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn release(base: *mut u8, length: usize) {
    // SAFETY: as the caller promises.
    unsafe { dealloc(base, layout(length)) }
}
