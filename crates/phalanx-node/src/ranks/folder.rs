//! The folder of a program on an executor. It holds the user's files for this program only, and is removed with it.

use phalanx_core::wire::machines::MOST_NAME;
use phalanx_net::sync::lock;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Beginning of the folder's name. The executor's process number follows, and then `WORD`.
const PREFIX: &str = "phalanx-";
const WORD: &str = "-program-";
/// Name of the folder for checkpoints.
const CHECKPOINTS: &str = ".phalanx-checkpoints";

/// A folder that only this user can enter. Dropping it removes it.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
    /// A lock that shows other executors that the folder is in use.
    _lock: File,
    /// The file that is being written.
    file: Mutex<Option<File>>,
    /// Whether files are sent again, and replace those that are there.
    replaces: AtomicBool,
}

impl Folder {
    /// Creates an empty folder. Folders left by executors that were killed are removed.
    pub fn new() -> io::Result<Folder> {
        remove_stale(&std::env::temp_dir());
        let name = format!("{PREFIX}{}{WORD}", std::process::id());
        let folder = tempfile::Builder::new().prefix(&name).permissions(Permissions::from_mode(0o700)).tempdir()?;
        let opened = File::open(folder.path())?;
        flock(&opened, FlockOperation::LockExclusive)?;
        Ok(Folder { folder, _lock: opened, file: Mutex::new(None), replaces: AtomicBool::new(false) })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder in it for the checkpoints of a BSP program. Several machines simulated on this one have one each.
    pub fn checkpoints(&self, machine: usize) -> io::Result<PathBuf> {
        let name = if machine == 0 { CHECKPOINTS.to_owned() } else { format!("{CHECKPOINTS}-{machine}") };
        let path = self.folder.path().join(name);
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(path),
        }
    }

    /// From now on, received files may replace existing ones, because the program is restarted.
    pub fn open_again(&self) {
        self.replaces.store(true, Ordering::Relaxed);
    }

    /// Begins a file. It is an error if the name would lead out of the folder, or if the file exists already.
    pub fn begin(&self, name: &str, executable: bool) -> io::Result<()> {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if name.is_empty() || name.len() > MOST_NAME || !inside {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a file's name leads out of the program's folder"));
        }
        let path = self.folder.path().join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let mode = if executable { 0o700 } else { 0o600 };
        if self.replaces.load(Ordering::Relaxed) {
            // removed first, because a process of the earlier start may still have it open
            let _ = fs::remove_file(&path);
        }
        *lock(&self.file) = Some(OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?);
        Ok(())
    }

    /// The next bytes of the file.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = lock(&self.file);
        let file = file.as_mut().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no file was begun"))?;
        file.write_all(bytes)
    }

    /// Closes the last file. A program that is still open for writing could not be executed.
    pub fn finish(&self) {
        *lock(&self.file) = None;
    }
}

fn remove_stale(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let is_ours = |name: &str| name.strip_prefix(PREFIX).is_some_and(|rest| rest.contains(WORD));
    for entry in entries.filter(|entry| is_ours(&entry.file_name().to_string_lossy())) {
        let Ok(opened) = File::open(entry.path()) else { continue };
        if flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok() && is_old(&opened) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether the folder is old enough to be removed. A folder made a moment ago may not be locked yet.
fn is_old(folder: &File) -> bool {
    let age = folder.metadata().and_then(|found| found.modified()).map(|changed| changed.elapsed());
    age.is_ok_and(|age| age.is_ok_and(|age| age.as_secs() > 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_this_users_alone_and_go_with_the_folder() {
        let folder = Folder::new().unwrap();
        folder.begin("bin/a.out", true).unwrap();
        folder.write(b"one").unwrap();
        folder.write(b"two").unwrap();
        folder.begin("data", false).unwrap();
        folder.finish();
        let path = folder.path().to_owned();
        let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(""), mode("bin/a.out"), mode("data")), (0o700, 0o700, 0o600));
        assert_eq!(fs::read(path.join("bin/a.out")).unwrap(), b"onetwo");
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn no_name_leads_out() {
        let folder = Folder::new().unwrap();
        for name in ["", "/etc/passwd", "../x", "a/../../x", ".", "a\0b", &"a/".repeat(3000)] {
            assert!(folder.begin(name, false).is_err(), "{name:?}");
        }
        folder.begin("a", false).unwrap();
        assert!(folder.begin("a", true).is_err(), "it is there already");
        assert!(folder.begin("a/b", true).is_err(), "a file is no folder");
        folder.open_again();
        assert!(folder.begin("a", true).is_ok(), "it is sent once more");
        assert!(folder.begin("../a", true).is_err());
    }
}
