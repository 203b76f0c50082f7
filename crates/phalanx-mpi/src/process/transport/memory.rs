//! Reading another process's memory: one copy instead of two, where the operating system has it and allows it.

/// Whether it is tried at all.
pub const CAN_READ_MEMORY: bool = cfg!(target_os = "linux");

/// Copies memory of another process; false where that is not allowed, or is not there.
///
/// # Safety
/// `to` may be written for `length` bytes.
#[cfg(target_os = "linux")]
pub unsafe fn read_memory(process: u32, address: u64, to: *mut u8, length: usize) -> bool {
    let mut done = 0;
    while done < length {
        let here = libc::iovec { iov_base: to.wrapping_add(done).cast(), iov_len: length - done };
        let there = libc::iovec { iov_base: (address as usize + done) as *mut _, iov_len: length - done };
        // SAFETY: the caller lends the memory; the other process's is checked by the system.
        let count = unsafe { libc::process_vm_readv(process as i32, &here, 1, &there, 1, 0) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => done += count,
            _ => return false,
        }
    }
    true
}

/// Elsewhere all data goes through the channel.
///
/// # Safety
/// None.
#[cfg(not(target_os = "linux"))]
pub unsafe fn read_memory(_: u32, _: u64, _: *mut u8, _: usize) -> bool {
    false
}
