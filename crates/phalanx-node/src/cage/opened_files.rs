//! Files of a process, as its keeper opens and names them. This module makes system calls only, and allocates nothing.

use libc::{c_int, pid_t};
use std::ffi::CStr;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Longest path that the kernel takes, with the zero at its end.
pub const PATH: usize = libc::PATH_MAX as usize;
const PAGE: usize = 4096;

/// The path of an open file, as the system names it.
pub fn path_of<'a>(file: &OwnedFd, buffer: &'a mut [u8; PATH]) -> io::Result<&'a [u8]> {
    let mut name = [0; 64];
    // SAFETY: both buffers live as long as the call.
    let count = unsafe { libc::readlink(link_to(file, &mut name).as_ptr(), buffer.as_mut_ptr().cast(), PATH) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    Ok(&buffer[..count])
}

/// Whether a path is one of these folders, or beneath one. A truncated path could be another path.
pub fn is_beneath(path: &[u8], folders: &[PathBuf]) -> bool {
    let beneath = |it: &PathBuf| {
        let it = it.as_os_str().as_bytes();
        path.strip_prefix(it).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    };
    path.len() < PATH && folders.iter().any(beneath)
}

/// Whether an open file is in one of these folders.
pub fn is_in(file: &OwnedFd, folders: &[PathBuf]) -> bool {
    path_of(file, &mut [0; PATH]).is_ok_and(|path| is_beneath(path, folders))
}

/// The name of an open file in `/proc`.
pub fn link_to<'a>(file: &OwnedFd, buffer: &'a mut [u8]) -> &'a CStr {
    written(buffer, format_args!("/proc/self/fd/{}\0", file.as_raw_fd()))
}

/// Formats a text that ends with a zero byte into a buffer.
pub fn written<'a>(buffer: &'a mut [u8], text: std::fmt::Arguments<'_>) -> &'a CStr {
    let mut rest = &mut *buffer;
    let _ = rest.write_fmt(text);
    CStr::from_bytes_until_nul(buffer).unwrap_or_default()
}

/// Opens a file as a reference only (`O_PATH`). This process has chosen the path.
fn open(folder: c_int, path: &CStr, flags: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the path ends with a zero and lives as long as the call, which makes the descriptor.
    match unsafe { libc::openat(folder, path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC | flags) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the call has made it.
        file => Ok(unsafe { OwnedFd::from_raw_fd(file) }),
    }
}

/// Opens a file as a reference only, by a path of another process. The path may contain no magic link of `/proc`, because the kernel may
/// let this process follow a link that it refuses to the other process.
pub fn open_for(folder: c_int, path: &CStr, flags: c_int) -> io::Result<OwnedFd> {
    // SAFETY: all zeroes are values of this plain structure.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_CLOEXEC | flags) as u64;
    how.resolve = libc::RESOLVE_NO_MAGICLINKS;
    // SAFETY: the path ends with a zero; it and the structure live as long as the call, which makes the descriptor.
    let file =
        unsafe { libc::syscall(libc::SYS_openat2, folder, path.as_ptr(), &raw const how, size_of::<libc::open_how>()) };
    match file {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the call has made it.
        file => Ok(unsafe { OwnedFd::from_raw_fd(file as RawFd) }),
    }
}

/// Opens the file behind a descriptor of a process.
pub fn open_own(process: pid_t, number: c_int) -> io::Result<OwnedFd> {
    let opened = open(libc::AT_FDCWD, written(&mut [0; 64], format_args!("/proc/{process}/fd/{number}\0")), 0);
    opened.map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound { io::Error::from_raw_os_error(libc::EBADF) } else { error }
    })
}

/// Opens the file that a path means to a process.
pub fn open_named(process: pid_t, folder: c_int, path: &CStr, flags: c_int) -> io::Result<OwnedFd> {
    if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let base = || match folder {
        libc::AT_FDCWD => open(libc::AT_FDCWD, written(&mut [0; 64], format_args!("/proc/{process}/cwd\0")), 0),
        number => open_own(process, number),
    };
    if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        return base();
    }
    if let Some(number) = descriptor(path.to_bytes()) {
        return open_own(process, number);
    }
    let follow = if flags & libc::AT_SYMLINK_NOFOLLOW != 0 { libc::O_NOFOLLOW } else { 0 };
    match path.to_bytes().first() {
        Some(b'/') => open_for(libc::AT_FDCWD, path, follow),
        _ => open_for(base()?.as_raw_fd(), path, follow),
    }
}

/// The descriptor in a path like `/proc/self/fd/N`. The C library uses such paths to change modes without following links.
fn descriptor(path: &[u8]) -> Option<c_int> {
    let folders = [&b"/proc/self/fd/"[..], b"/proc/thread-self/fd/", b"/dev/fd/"];
    let number = folders.iter().find_map(|folder| path.strip_prefix(*folder))?;
    let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(number).ok().filter(|_| is_number)?.parse().ok()
}

/// Fills the buffer from the memory of a process, or fails.
pub fn read_bytes(process: pid_t, at: u64, buffer: &mut [u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: the kernel writes into the buffer only, and checks the addresses of the other process.
    match unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) } {
        -1 => Err(io::Error::last_os_error()),
        count if count as usize == buffer.len() => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}

/// Reads a path from the memory of a process.
pub fn read_path(process: pid_t, at: u64, buffer: &mut [u8; PATH]) -> io::Result<&CStr> {
    let mut count = 0;
    while count < PATH {
        // Reads page by page, because the next page may not be mapped.
        let from = (at as usize).wrapping_add(count);
        let most = (PATH - count).min(PAGE - from % PAGE);
        let local = libc::iovec { iov_base: buffer[count..].as_mut_ptr().cast(), iov_len: most };
        let remote = libc::iovec { iov_base: from as *mut libc::c_void, iov_len: most };
        // SAFETY: the kernel writes at most `most` bytes to the buffer, and checks the addresses of the other process.
        let read = unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
        if read <= 0 {
            return Err(io::Error::last_os_error());
        }
        let end = count + read as usize;
        if buffer[count..end].contains(&0) {
            return CStr::from_bytes_until_nul(buffer).map_err(io::Error::other);
        }
        count = end;
    }
    Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}
