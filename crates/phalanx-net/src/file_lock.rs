//! Locks of open files between processes of one machine. A lock ends with the file, at the latest with its process.

use std::fs::File;
use std::io;

/// The processes that may lock the file meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any number of processes with shared locks.
    Shared,
    /// No process.
    Exclusive,
}

/// Locks the file, unless another process has a lock that excludes it. Replaces a lock that this open file has already. Returns whether
/// the file is locked.
///
/// # Errors
/// The system cannot lock the file.
pub fn try_lock(file: &File, kind: Kind) -> io::Result<bool> {
    system::try_lock(file, kind)
}

/// Unlocks the file now. A process that is forked meanwhile has the file open too, so that closing it here would not release the lock.
pub fn unlock(file: &File) {
    system::unlock(file);
}

#[cfg(unix)]
mod system {
    use super::Kind;
    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;
    use std::fs::File;
    use std::io;

    pub fn try_lock(file: &File, kind: Kind) -> io::Result<bool> {
        let how = match kind {
            Kind::Shared => FlockOperation::NonBlockingLockShared,
            Kind::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        match flock(file, how) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub fn unlock(file: &File) {
        let _ = flock(file, FlockOperation::Unlock);
    }
}

#[cfg(windows)]
mod system {
    use super::Kind;
    use std::fs::File;
    use std::io;
    use std::os::windows::io::AsRawHandle;
    use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION};
    use windows_sys::Win32::Storage::FileSystem::{
        LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, UnlockFileEx,
    };
    use windows_sys::Win32::System::IO::OVERLAPPED;

    /// The system lets no other process read or write a locked byte, so the lock is on one that no file has.
    const PLACE: u64 = i64::MAX as u64 - 1;

    fn place() -> OVERLAPPED {
        let mut place = OVERLAPPED::default();
        place.Anonymous.Anonymous.Offset = PLACE as u32;
        place.Anonymous.Anonymous.OffsetHigh = (PLACE >> 32) as u32;
        place
    }

    pub fn try_lock(file: &File, kind: Kind) -> io::Result<bool> {
        unlock(file); // a second lock of the same file would wait for the first one
        let exclusive = if kind == Kind::Exclusive { LOCKFILE_EXCLUSIVE_LOCK } else { 0 };
        let mut place = place();
        // SAFETY: the file is open, and the place lives as long as the call, which waits for nothing.
        let locked =
            unsafe { LockFileEx(file.as_raw_handle(), exclusive | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &raw mut place) };
        if locked != 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error().map(|code| code as u32) {
            Some(ERROR_LOCK_VIOLATION | ERROR_IO_PENDING) => Ok(false),
            _ => Err(error),
        }
    }

    pub fn unlock(file: &File) {
        let mut place = place();
        // SAFETY: the file is open, and the place lives as long as the call.
        unsafe { UnlockFileEx(file.as_raw_handle(), 0, 1, 0, &raw mut place) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_excludes_others_and_no_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let (one, other) = (open(), open());
        assert!(try_lock(&one, Kind::Exclusive).unwrap());
        assert!(try_lock(&one, Kind::Exclusive).unwrap(), "it is this file's own");
        assert!(!try_lock(&other, Kind::Exclusive).unwrap() && !try_lock(&other, Kind::Shared).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        unlock(&one);
        assert!(try_lock(&one, Kind::Shared).unwrap() && try_lock(&other, Kind::Shared).unwrap());
        drop(one);
        assert!(try_lock(&other, Kind::Exclusive).unwrap());
    }
}
