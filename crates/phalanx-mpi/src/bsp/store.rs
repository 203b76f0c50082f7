//! The checkpoints on one machine: files in its folder of the program. A file with its name is whole.

use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What one process was at one checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Held {
    /// The checkpoint's number: a later one has a greater one.
    pub version: u64,
    pub pid: u32,
    /// Bytes of the file.
    pub length: u64,
}

pub(super) struct Store {
    folder: PathBuf,
}

impl Store {
    pub fn new(folder: &Path) -> Store {
        Store { folder: folder.to_owned() }
    }

    /// Writes a file, which is there all at once or not at all.
    pub fn write(&self, version: u64, pid: u32, bytes: &[u8]) -> io::Result<()> {
        let (path, unfinished) = (self.path(version, pid), self.folder.join(format!("{version}.{pid}.part")));
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(bytes)?;
        fs::rename(unfinished, path)
    }

    pub fn read(&self, version: u64, pid: u32) -> io::Result<Vec<u8>> {
        fs::read(self.path(version, pid))
    }

    /// All files that are whole.
    pub fn list(&self) -> io::Result<Vec<Held>> {
        let mut held = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if let Some((version, pid)) = named(&entry.file_name().to_string_lossy()) {
                held.push(Held { version, pid, length: entry.metadata()?.len() });
            }
        }
        held.sort_unstable();
        Ok(held)
    }

    /// Removes what is older than a checkpoint that is complete.
    pub fn remove_older(&self, version: u64) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let older = named(name.strip_suffix(".part").unwrap_or(&name)).is_some_and(|(its, _)| its < version);
            if older {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn path(&self, version: u64, pid: u32) -> PathBuf {
        self.folder.join(format!("{version}.{pid}"))
    }
}

fn named(name: &str) -> Option<(u64, u32)> {
    let (version, pid) = name.split_once('.')?;
    Some((version.parse().ok()?, pid.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_whole_or_not_there() {
        let folder = tempfile::tempdir().expect("there is room");
        let store = Store::new(folder.path());
        store.write(1, 0, b"old").expect("there is room");
        store.write(2, 3, b"new").expect("there is room");
        for name in ["2.4.part", "2.x", "3", "x.1"] {
            fs::write(folder.path().join(name), b"").expect("there is room");
        }
        let held = |version, pid, length| Held { version, pid, length };
        assert_eq!(store.list().expect("it is there"), [held(1, 0, 3), held(2, 3, 3)]);
        store.remove_older(2);
        assert_eq!(store.list().expect("it is there"), [held(2, 3, 3)]);
        assert_eq!(store.read(2, 3).expect("it is there"), b"new");
        store.remove_older(3);
        assert!(!folder.path().join("2.4.part").exists());
    }
}
