//! Small files that several processes replace: identities, lists of certificates, known members.
//!
//! A process takes the lock of the file's folder, reads what is there, and replaces the file in one step. So no process replaces
//! newer contents by older ones, and a reader never finds half of a file.

mod unwritten;

pub(crate) use unwritten::Unwritten;

use crate::file_lock::{Kind, try_lock, unlock};
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

impl Drop for Locked {
    fn drop(&mut self) {
        self.lock.iter().for_each(unlock);
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
        let path = target(path);
        let lock = match open_lock(&path.with_file_name(LOCK)) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(Locked { path, lock: None }),
            lock => lock?,
        };
        hold(&lock, patience)?;
        Ok(Locked { path, lock: Some(lock) })
    }

    /// Replaces the file in one step. It keeps its mode and its owner. A new file is for its owner alone.
    ///
    /// # Errors
    /// The system cannot write the file. The former contents stay.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        replace(&self.path, bytes)
    }

    /// The same for a file that need not outlast a crash of the system. It takes no time for the disk.
    ///
    /// # Errors
    /// As [`Locked::replace`].
    pub fn replace_unsynced(&self, bytes: &[u8]) -> io::Result<()> {
        put(&self.path, bytes, |_| Ok(()))
    }
}

/// A folder in which no other process replaces files while this lives. Unlike [`Locked`], it always has its lock.
#[derive(Debug)]
pub struct LockedFolder(Locked);

impl LockedFolder {
    /// Waits until no other process writes in the folder.
    ///
    /// # Errors
    /// The folder cannot be written, or its lock cannot be opened. [`ErrorKind::WouldBlock`]: another process holds the lock for too
    /// long.
    pub fn wait_for(folder: &Path, patience: Duration) -> io::Result<LockedFolder> {
        let path = folder.join(LOCK);
        let lock = open_lock(&path).map_err(|error| {
            let why = format!("its lock {} cannot be opened: {error}", path.display());
            match error.kind() {
                ErrorKind::PermissionDenied => {
                    let mend = "another account may have made it; as the owner of the folder, remove it and try again";
                    io::Error::new(error.kind(), format!("{why}; {mend}"))
                }
                kind => io::Error::new(kind, why),
            }
        })?;
        hold(&lock, patience)?;
        Ok(LockedFolder(Locked { path, lock: Some(lock) }))
    }

    /// Replaces a file of the folder as [`Locked::replace`] does. If the file is a link that leads elsewhere, processes that replace the
    /// file there wait too.
    ///
    /// # Errors
    /// As [`Locked::wait`] and [`Locked::replace`].
    pub fn replace(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        let path = target(file);
        match target(folder_of(&path)) == target(folder_of(&self.0.path)) {
            true => replace(&path, bytes),
            false => Locked::wait(file)?.replace(bytes),
        }
    }
}

/// The folder in which a file lies.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file that a path leads to.
fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Opens a lock. A new one belongs to the owner of the folder: one that root has made would keep the owner out.
fn open_lock(path: &Path) -> io::Result<File> {
    match private().create_new(true).open(path) {
        Ok(lock) => {
            give_to_owner_of_folder(&lock, path);
            Ok(lock)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => private().create(true).open(path),
        Err(error) => Err(error),
    }
}

/// Waits until no other process holds the lock.
fn hold(lock: &File, patience: Duration) -> io::Result<()> {
    let until = Instant::now() + patience;
    while !try_lock(lock, Kind::Exclusive)? {
        if Instant::now() >= until {
            return Err(io::Error::new(ErrorKind::WouldBlock, "another process holds the lock of its folder"));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put(path, bytes, File::sync_all)?;
    sync_folder(path)
}

fn put(path: &Path, bytes: &[u8], sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {} // of a process that was killed, if there was one
    }
    let written = private().create_new(true).open(&new).and_then(|mut file| {
        if let Ok(former) = fs::metadata(path) {
            keep(&file, &former)?;
        }
        file.write_all(bytes)?;
        sync(&file)
    });
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// The time and the length of a file. While they stay, its contents do. `None`: there is no file.
pub(crate) fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Reads a file of at most so many bytes. `None`: there is no file.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Option<Zeroizing<String>>> {
    let mut text = Zeroizing::new(String::new());
    let file = match without_waiting().open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    file.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most { Err(io::Error::other("it is too long")) } else { Ok(Some(text)) }
}

/// Options to read a file. To open a pipe without a writer would wait for one.
fn without_waiting() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(OFlags::NONBLOCK.bits() as i32);
    }
    options
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

/// Gives a file that this process has just made to the owner of its folder, if the system lets it.
#[cfg(unix)]
fn give_to_owner_of_folder(file: &File, path: &Path) {
    use std::os::unix::fs::{MetadataExt, fchown};
    let (Ok(folder), Ok(made)) = (fs::metadata(folder_of(path)), file.metadata()) else { return };
    if folder.uid() != made.uid() {
        let _ = fchown(file, Some(folder.uid()), Some(folder.gid()));
    }
}

#[cfg(not(unix))]
fn give_to_owner_of_folder(_: &File, _: &Path) {}

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
    let _ = File::open(folder_of(path))?.sync_all();
    Ok(())
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests;
