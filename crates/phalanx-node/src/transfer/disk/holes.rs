//! Holes of sparse files, as the file system reports them.

use std::fs::File;

/// Whether these bytes of a file lie in a hole. Call this only for a file whose holes [`are_known`].
#[cfg(target_os = "linux")]
pub fn is_hole(file: &File, offset: u64, length: u64) -> bool {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(data) => data >= offset.saturating_add(length),
        Err(error) => error == rustix::io::Errno::NXIO, // a hole up to the end
    }
}

#[cfg(not(target_os = "linux"))]
pub fn is_hole(_: &File, _: u64, _: u64) -> bool {
    false
}

/// Whether the file system's report on the holes of a file can be trusted.
///
/// Some file systems have reported a hole where data was written but not on the disk yet (ZFS before 2.2.2, old ext4 and
/// Btrfs). So the file is synced first. If the file changed within the last minute, only file systems are trusted that also
/// look at data in memory. A change from now on is noticed when the file is checked at its end.
#[cfg(target_os = "linux")]
pub fn are_known(file: &File) -> bool {
    rustix::fs::fdatasync(file).is_ok() && (is_settled(file) || is_of_known_system(file))
}

#[cfg(not(target_os = "linux"))]
pub fn are_known(_: &File) -> bool {
    false
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::time::{SystemTime, UNIX_EPOCH};

    /// Seconds after which the file system itself has written data to the disk: Linux begins after 30 s, ZFS after 5 s.
    const SETTLED: i64 = 60;
    /// ext4, XFS, Btrfs, tmpfs.
    const KNOWN: [i64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994];

    pub fn is_settled(file: &File) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
        file.metadata().is_ok_and(|found| is_old(now, found.ctime()))
    }

    /// A time in the future does not count as old, because the clock was wrong then or is wrong now.
    fn is_old(now: i64, changed: i64) -> bool {
        now.saturating_sub(changed) > SETTLED
    }

    #[allow(clippy::unnecessary_cast, reason = "the type of it differs between processors")]
    pub fn is_of_known_system(file: &File) -> bool {
        rustix::fs::fstatfs(file).is_ok_and(|found| is_known(found.f_type as i64))
    }

    fn is_known(kind: i64) -> bool {
        KNOWN.contains(&kind)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::transfer::system;

        #[test]
        fn holes_are_found_and_data_that_is_not_on_the_disk_yet_is_none() {
            let file = tempfile::tempfile().expect("a file");
            file.set_len(1 << 20).expect("is set");
            system::write_at(&file, b"data", 512 << 10).expect("is written");
            if !is_of_known_system(&file) {
                return; // the temporary folder may be on another file system
            }
            assert!(are_known(&file));
            assert!(!is_hole(&file, 512 << 10, 4096) && !is_hole(&file, 0, 1 << 20));
            assert!(!is_hole(&file, 500 << 10, 100 << 10));
            assert!(is_hole(&file, 600 << 10, 4096), "behind all data");
            assert!(is_hole(&file, 0, 4096));
        }

        #[test]
        fn only_old_files_count_on_any_file_system() {
            assert!(is_old(1000, 939));
            for changed in [940, 1000, 2000, i64::MAX] {
                assert!(!is_old(1000, changed), "{changed}");
            }
            assert!(is_old(i64::MAX, i64::MIN) && is_known(0xef53) && !is_known(0x2fc1_2fc1), "ZFS is not known");
        }
    }
}

#[cfg(target_os = "linux")]
use linux::{is_of_known_system, is_settled};
