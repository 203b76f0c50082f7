//! What differs between operating systems: names as bytes, permission bits, positioned reads and writes, locks.

use cap_std::fs::{Dir, DirEntry, FileType};
use phalanx_net::file_lock::{Kind as Lock, try_lock};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Identifies a file and its version: device, inode number, and the time of its last status change in seconds and
/// nanoseconds. Zeros where the system has none.
pub type Identity = (u64, u64, i64, i64);

/// Adds the path to an error.
pub fn about(path: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Converts a time to seconds since 1970, and nanoseconds.
pub fn to_time(time: SystemTime) -> (i64, u32) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let part = u32::from(before.subsec_nanos() > 0);
            (-(before.as_secs() as i64) - i64::from(part), part * 1_000_000_000 - before.subsec_nanos())
        }
    }
}

/// Converts a peer's time. A time that this system cannot represent becomes 1970.
pub fn from_time((seconds, nanoseconds): (i64, u32)) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let at = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    at.and_then(|at| at.checked_add(Duration::from_nanos(nanoseconds.into()))).unwrap_or(UNIX_EPOCH)
}

/// Whether an entry of a folder is a folder itself, and no link.
pub fn is_folder(one: &DirEntry) -> bool {
    is_folder_by(one.file_type(), || one.metadata())
}

/// Some file systems do not say in their lists what kind an entry is. Then its metadata is read.
fn is_folder_by(told: io::Result<FileType>, look: impl FnOnce() -> io::Result<cap_std::fs::Metadata>) -> bool {
    match told {
        Ok(kind) if kind.is_dir() => true,
        Ok(kind) if kind.is_file() || kind.is_symlink() => false,
        _ => look().is_ok_and(|it| it.is_dir()),
    }
}

/// Sets the modification time of an entry of a folder. If the entry is a link, sets the link's time.
#[cfg(unix)]
pub fn set_time(folder: &Dir, name: &Path, (seconds, nanoseconds): (i64, u32)) -> io::Result<()> {
    use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_OMIT, utimensat};
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let last_modification = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
    Ok(utimensat(folder, name, &Timestamps { last_access, last_modification }, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(not(unix))]
pub fn set_time(folder: &Dir, name: &Path, time: (i64, u32)) -> io::Result<()> {
    use cap_fs_ext::{DirExt, SystemTimeSpec};
    if time.0 < 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "times before 1970 are not set on this system"));
    }
    let time = cap_std::time::SystemTime::from_std(from_time(time));
    folder.set_symlink_times(name, None, Some(SystemTimeSpec::Absolute(time)))
}

/// Renames a file in its folder. It is an error if the new name exists.
pub fn rename_new(folder: &Dir, old: &OsStr, new: &OsStr) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(folder, old, folder, new, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(error) if error == rustix::io::Errno::EXIST => return Err(error.into()),
            Err(_) => {} // not every file system supports it
        }
    }
    folder.hard_link(old, folder, new)?;
    folder.remove_file(old)
}

/// Why a file does not replace a device, a pipe or a socket.
pub const SPECIAL: &str =
    "a device, a pipe or a socket is there, which no copy replaces (copy to - and redirect that to write into it)";

/// Whether it is neither a file, nor a folder, nor a link. Other programs that open it by its name expect more than bytes.
pub fn is_special(found: &cap_std::fs::Metadata) -> bool {
    !(found.is_file() || found.is_dir() || found.is_symlink())
}

/// An error if the name belongs to a device, a pipe or a socket.
pub fn check_place(folder: &Dir, name: &OsStr) -> io::Result<()> {
    match folder.symlink_metadata(name) {
        Ok(found) if is_special(&found) => Err(io::Error::other(SPECIAL)),
        _ => Ok(()),
    }
}

/// The modification time of a file; 1970 if the system does not say.
pub fn modified(metadata: &Metadata) -> (i64, u32) {
    metadata.modified().map_or((0, 0), to_time)
}

/// Assumed limit of open files, if the system does not report one.
const USUAL_OPEN: usize = 1024;

/// Most files that this process may have open.
#[cfg(unix)]
pub fn most_open() -> usize {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    most.map_or(USUAL_OPEN, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

#[cfg(not(unix))]
pub fn most_open() -> usize {
    USUAL_OPEN
}

/// The umask of this process, if it is known. The system call that returns it would also change it for a moment.
#[cfg(target_os = "linux")]
pub fn mask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(mask.trim(), 8).ok()
}

#[cfg(not(target_os = "linux"))]
pub fn mask() -> Option<u32> {
    None
}

/// Lowers the priority of the calling thread.
#[cfg(target_os = "linux")]
pub fn give_way() {
    const NICE: i32 = 10;
    let _ = rustix::process::nice(NICE); // on Linux, it applies to one thread
}

#[cfg(not(target_os = "linux"))]
pub fn give_way() {}

/// Takes an exclusive lock. Returns false if another writer holds a lock. Replaces a lock that this open file holds
/// already.
pub fn lock(file: &File) -> io::Result<bool> {
    try_lock(file, Lock::Exclusive)
}

/// Takes a shared lock. Returns false if another writer holds an exclusive lock.
pub fn lock_shared(file: &File) -> io::Result<bool> {
    try_lock(file, Lock::Shared)
}

/// Zeroes bytes of a file. They occupy no space on the disk if the file system can punch holes.
pub fn clear(file: &File, offset: u64, length: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(file, flags, offset, length.into()).is_ok() {
            return Ok(());
        }
    }
    write_at(file, &vec![0; length as usize], offset)
}

#[cfg(unix)]
mod unix {
    use super::*;
    use cap_std::fs::{MetadataExt as _, OpenOptions};
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::os::unix::fs::{FileExt, MetadataExt as _, PermissionsExt};

    /// The bytes of a name, as they travel.
    pub fn to_bytes(name: &std::ffi::OsStr) -> Vec<u8> {
        name.as_bytes().to_vec()
    }

    /// The name with these bytes. Fails if this system cannot have it.
    pub fn from_bytes(name: Vec<u8>) -> io::Result<OsString> {
        Ok(OsString::from_vec(name))
    }

    /// The same without a copy of the bytes.
    pub fn as_name(name: &[u8]) -> io::Result<&OsStr> {
        Ok(OsStr::from_bytes(name))
    }

    /// An error if a file of this name would be something else on this system.
    pub fn check_name(_: &OsStr) -> io::Result<()> {
        Ok(())
    }

    pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        file.read_exact_at(buffer, offset)
    }

    pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    /// Sets the permission bits. The setuid, setgid and sticky bits are never copied.
    pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
        file.set_permissions(std::fs::Permissions::from_mode(mode & 0o777))
    }

    /// Sets the permission bits of a file in a folder, if they differ.
    pub fn fit_mode(folder: &Dir, name: &OsStr, found: &cap_std::fs::Metadata, wanted: Option<u32>) -> io::Result<()> {
        use cap_std::fs::PermissionsExt;
        match wanted.map(|wanted| wanted & 0o777) {
            Some(wanted) if mode(found) != Some(wanted) => {
                folder.set_permissions(name, cap_std::fs::Permissions::from_mode(wanted))
            }
            _ => Ok(()),
        }
    }

    /// The permission bits, if the system has them.
    pub fn mode(metadata: &cap_std::fs::Metadata) -> Option<u32> {
        use cap_std::fs::PermissionsExt;
        Some(metadata.permissions().mode() & 0o777)
    }

    /// Whether a name in a folder still belongs to this open file. No link is followed.
    pub fn is_at(file: &File, folder: &Dir, name: &std::ffi::OsStr) -> io::Result<bool> {
        let file = file.metadata()?;
        match folder.symlink_metadata(name) {
            Ok(there) => Ok((there.dev(), there.ino()) == (file.dev(), file.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a file belongs to this user and has no other name.
    pub fn is_own(file: &Metadata) -> bool {
        file.is_file() && file.nlink() == 1 && file.uid() == rustix::process::geteuid().as_raw()
    }

    /// Whether only its owner may read and write a file.
    pub fn is_private(file: &Metadata) -> bool {
        file.mode() & 0o777 == 0o600
    }

    /// When contents, name, owner or mode of a file last changed.
    pub fn changed(file: &Metadata) -> Option<SystemTime> {
        Some(from_time((file.ctime(), u32::try_from(file.ctime_nsec()).ok()?)))
    }

    /// Whether a file occupies less space than its length, because it has holes or is compressed.
    pub fn may_be_sparse(file: &cap_std::fs::Metadata) -> bool {
        file.blocks().saturating_mul(512) < file.len()
    }

    /// Makes opening a pipe return at once, without waiting for its other end.
    pub fn at_once(how: &mut OpenOptions) {
        use cap_std::fs::OpenOptionsExt;
        how.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }

    /// The identity of a file and its version.
    pub fn identity(file: &cap_std::fs::Metadata) -> Identity {
        (file.dev(), file.ino(), file.ctime(), file.ctime_nsec())
    }
}

#[cfg(unix)]
pub use unix::*;

#[cfg(windows)]
mod windows;

#[cfg(windows)]
pub use windows::*;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_list_does_not_say_is_looked_at() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("folder")).expect("is made");
        std::fs::write(folder.path().join("file"), "").expect("is written");
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
        let look = |name: &str| is_folder_by(Ok(FileType::unknown()), || dir.symlink_metadata(name));
        assert!(look("folder") && !look("file"));
    }

    #[test]
    fn times_survive_also_those_before_1970() {
        for time in [(0, 0), (1_700_000_000, 999_999_999), (-1, 0), (-1, 500_000_000), (-5, 1)] {
            assert_eq!(to_time(from_time(time)), time);
        }
        for far in [i64::MIN, i64::MAX] {
            from_time((far, 999_999_999)); // must not panic
        }
    }
}
