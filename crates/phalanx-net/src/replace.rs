//! Small files that several processes replace: identities, lists of certificates, known members.
//!
//! A process takes the lock of the file's folder, reads what is there, and replaces the file in one step. So no process replaces
//! newer contents by older ones, and a reader never finds half of a file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use zeroize::Zeroizing;

/// Name of the lock. It is a file of its own, because the files that it protects are replaced.
const LOCK: &str = ".phalanx.lock";
/// How long to wait for another process that writes in the folder. A write takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// A file that no other process replaces while this lives.
#[derive(Debug)]
pub struct Locked {
    path: PathBuf,
    /// `None`: another account has made the lock. A file that cannot be written would be worse than one without a lock.
    lock: Option<File>,
}

/// A process that is forked meanwhile has the lock's file open too, so that closing the file here would not release the lock.
#[cfg(unix)]
impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.lock.as_ref().map(|lock| rustix::fs::flock(lock, rustix::fs::FlockOperation::Unlock));
    }
}

impl Locked {
    /// Waits until no other process writes in the folder of the file. If the path is a link, the file is the one that it leads to.
    ///
    /// # Errors
    /// The folder cannot be written, or another process holds its lock for too long.
    pub fn wait(path: &Path) -> io::Result<Locked> {
        Locked::wait_for(path, PATIENCE)
    }

    /// The same, for processes that hold the lock for longer.
    ///
    /// # Errors
    /// As [`Locked::wait`].
    pub fn wait_for(path: &Path, patience: Duration) -> io::Result<Locked> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let lock = match private().create(true).open(path.with_file_name(LOCK)) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(Locked { path, lock: None }),
            lock => lock?,
        };
        let until = Instant::now() + patience;
        while !is_locked(&lock)? {
            if Instant::now() >= until {
                return Err(io::Error::other("another process holds the lock of its folder"));
            }
            thread::sleep(PAUSE);
        }
        Ok(Locked { path, lock: Some(lock) })
    }

    /// Replaces the file in one step. It keeps its mode and its owner. A new file is for its owner alone.
    ///
    /// # Errors
    /// The system cannot write the file. The former contents stay.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.put(bytes, File::sync_all)?;
        sync_folder(&self.path)
    }

    /// The same for a file that need not outlast a crash of the system. It takes no time for the disk.
    ///
    /// # Errors
    /// As [`Locked::replace`].
    pub fn replace_unsynced(&self, bytes: &[u8]) -> io::Result<()> {
        self.put(bytes, |_| Ok(()))
    }

    fn put(&self, bytes: &[u8], sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {} // of a process that was killed, if there was one
        }
        let written = private().create_new(true).open(&new).and_then(|mut file| {
            if let Ok(former) = fs::metadata(&self.path) {
                keep(&file, &former)?;
            }
            file.write_all(bytes)?;
            sync(&file)
        });
        written.and_then(|()| fs::rename(&new, &self.path)).inspect_err(|_| drop(fs::remove_file(&new)))
    }
}

/// The time and the length of a file. While they stay, its contents do. `None`: there is no file.
pub(crate) fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Reads a file of at most so many bytes. `None`: there is no file.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Option<Zeroizing<String>>> {
    let mut text = Zeroizing::new(String::new());
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?.take(most + 1).read_to_string(&mut text)?,
    };
    if text.len() as u64 > most { Err(io::Error::other("it is too long")) } else { Ok(Some(text)) }
}

/// Options to write files that only their owner can read, and nothing else that lies under their name.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    }
    options
}

/// Gives a new file the mode and the owner of the one that it replaces.
#[cfg(unix)]
fn keep(file: &File, former: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let found = file.metadata()?;
    if (found.uid(), found.gid()) != (former.uid(), former.gid()) {
        fchown(file, Some(former.uid()), Some(former.gid()))?;
    }
    file.set_permissions(former.permissions())
}

/// Elsewhere the folder's own access list decides.
#[cfg(not(unix))]
fn keep(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Makes the new name outlast a crash of the system. File systems that cannot do so are no reason to fail.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = File::open(folder)?.sync_all();
    Ok(())
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Locks the file, unless another process has locked it.
#[cfg(unix)]
fn is_locked(file: &File) -> io::Result<bool> {
    use rustix::fs::{FlockOperation, flock};
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Without locks, the older of two files that are written at the same moment may stay.
#[cfg(not(unix))]
fn is_locked(_: &File) -> io::Result<bool> {
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_of_a_process_that_was_killed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(folder.path().join("file.new"), "half").expect("written");
        let locked = Locked::wait(&path).expect("the lock");
        locked.replace(b"one").expect("replaced");
        locked.replace(b"two").expect("replaced");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).expect("a folder").map(|it| it.expect("an entry").file_name()).collect();
        names.sort();
        assert_eq!(names, [LOCK, "file"]);
    }

    #[test]
    fn of_two_processes_one_waits() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let first = Locked::wait(&path).expect("the lock");
        first.replace(b"1").expect("replaced");
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                let locked = Locked::wait(&path).expect("the lock");
                let found = fs::read(&path).expect("read");
                locked.replace(&[&found[..], b"3"].concat()).expect("replaced");
            });
            first.replace(b"12").expect("replaced");
            drop(first);
            second.join().expect("no panic");
        });
        assert_eq!(fs::read(&path).expect("read"), b"123");
    }

    #[cfg(unix)]
    #[test]
    fn modes_and_links_are_kept() {
        use std::fs::Permissions;
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let [path, link] = ["file", "link"].map(|name| folder.path().join(name));
        let mode = || fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
        Locked::wait(&path).and_then(|locked| locked.replace(b"new")).expect("replaced");
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("set");
        symlink(&path, &link).expect("a link");
        Locked::wait(&link).and_then(|locked| locked.replace(b"newer")).expect("replaced");
        assert_eq!((mode(), fs::read(&path).expect("read")), (0o644, b"newer".to_vec()));
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    }

    #[cfg(unix)]
    #[test]
    fn nothing_else_under_the_name_of_the_lock_is_opened() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().expect("a folder");
        let lock = folder.path().join(LOCK);
        mknodat(CWD, &lock, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        Locked::wait(&folder.path().join("file")).expect_err("a pipe");
        fs::remove_file(&lock).expect("removed");
        symlink(folder.path().join("elsewhere"), &lock).expect("a link");
        Locked::wait(&folder.path().join("file")).expect_err("a link");
    }

    /// A lock that another account has made does not keep files from being written.
    #[cfg(unix)]
    #[test]
    fn a_lock_that_cannot_be_opened_is_done_without() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let (path, lock) = (folder.path().join("file"), folder.path().join(LOCK));
        fs::write(&lock, "").expect("written");
        fs::set_permissions(&lock, Permissions::from_mode(0o000)).expect("set");
        Locked::wait(&path).and_then(|locked| locked.replace(b"new")).expect("replaced");
        assert_eq!(fs::read(&path).expect("read"), b"new");
    }
}
