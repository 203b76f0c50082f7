//! Files that are read or written piece by piece. A written file gets its name when it is complete.

use super::beneath::open_path;
use crate::transfer::disk::unfinished;
use crate::transfer::system::{self, Identity};
use cap_std::fs::{Dir, Metadata};
use phalanx_net::identity::random_number;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Mode of a new file, as far as the process's umask allows.
const MODE: u32 = 0o666;
/// Mode of a partial file.
const PART_MODE: u32 = 0o600;

/// Computes BLAKE3 of bytes that are written piece by piece.
#[derive(Debug, Clone, Default)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    pub fn new() -> Hasher {
        Hasher::default()
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finalize(&self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// A file that is read.
pub struct Reading {
    file: File,
    size: u64,
    modified: (i64, u32),
    identity: Identity,
}

impl Reading {
    pub fn open(folder: &Dir, path: &Path) -> io::Result<Reading> {
        let file = open_path(folder, path)?;
        let found = file.metadata()?;
        let identity = system::identity(&Metadata::from_just_metadata(found.clone()));
        Ok(Reading { file, size: found.len(), modified: system::modified(&found), identity })
    }

    pub fn metadata(&self) -> io::Result<Metadata> {
        Ok(Metadata::from_just_metadata(self.file.metadata()?))
    }

    /// Reads up to `length` bytes, but none beyond the size that the file had when it was opened.
    pub fn read(&self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        let length = self.size.saturating_sub(offset).min(length.into());
        let mut bytes = vec![0; length as usize];
        system::read_at(&self.file, &mut bytes, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => changed(),
            _ => error,
        })?;
        Ok(bytes)
    }

    /// An error if the file has changed since it was opened.
    pub fn settle(&self) -> io::Result<()> {
        let now = self.file.metadata()?;
        let identity = system::identity(&Metadata::from_just_metadata(now.clone()));
        match now.len() == self.size && system::modified(&now) == self.modified && identity == self.identity {
            true => Ok(()),
            false => Err(changed()),
        }
    }
}

fn changed() -> io::Error {
    io::Error::other("it was changed while it was read")
}

/// A file that is written. If it is dropped before it is complete, it is removed.
pub struct Writing {
    folder: Dir,
    name: OsString,
    part: OsString,
    file: File,
    hasher: Hasher,
    length: u64,
    /// The final mode: that of the file that it replaces, if there is one.
    mode: Option<u32>,
    /// Whether it must not replace a file.
    new: bool,
    is_whole: bool,
}

impl Writing {
    /// `new`: no file may have the name, neither now nor when this file is complete.
    pub fn create(folder: Dir, name: OsString, new: bool) -> io::Result<Writing> {
        if unfinished::is_reserved(&name) {
            return Err(io::Error::other(unfinished::RESERVED));
        }
        if folder.metadata(&name).is_ok_and(|there| there.is_dir()) {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "a folder is there"));
        }
        if new && folder.symlink_metadata(&name).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        system::check_place(&folder, &name)?;
        let part = OsString::from(format!(".{:032x}.phalanx-part", random_number()));
        let there = folder.symlink_metadata(&name).ok().filter(Metadata::is_file);
        let usual = system::mask().map(|mask| MODE & !mask);
        let mode = there.as_ref().and_then(system::mode).or(usual);
        let file = unfinished::create_new(&folder, &part, if mode.is_some() { PART_MODE } else { MODE })?;
        let _ = system::lock(&file); // so that it does not count as abandoned, even if no bytes arrive for days
        Ok(Writing { folder, name, part, file, hasher: Hasher::new(), length: 0, mode, new, is_whole: false })
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Gives the file its name, if length and digest are those of the bytes that were sent.
    pub fn commit(mut self, length: u64, digest: [u8; 32]) -> io::Result<()> {
        if (length, digest) != (self.length, self.hasher.finalize()) {
            return Err(io::Error::other("what came is not what was sent"));
        }
        if let Some(mode) = self.mode {
            system::set_mode(&self.file, mode)?;
        }
        self.file.sync_all()?;
        if !system::is_at(&self.file, &self.folder, &self.part)? {
            return Err(io::Error::other("somebody put something else in its place"));
        }
        if self.new {
            system::rename_new(&self.folder, &self.part, &self.name)?;
        } else {
            system::check_place(&self.folder, &self.name)?;
            self.folder.rename(&self.part, &self.folder, &self.name)?;
        }
        self.is_whole = true;
        Ok(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let part: &OsStr = &self.part;
        if !self.is_whole && system::is_at(&self.file, &self.folder, part).unwrap_or(false) {
            let _ = self.folder.remove_file(part);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Dir) {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
        (folder, opened)
    }

    fn writing(folder: &Dir) -> Writing {
        let mut writing = Writing::create(folder.try_clone().expect("is open"), "x".into(), false).expect("begins");
        writing.write(b"one").expect("is written");
        writing.write(b"two").expect("is written");
        writing
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole() {
        let (path, folder) = folder();
        std::fs::write(path.path().join("x"), "old").expect("is written");
        let one = writing(&folder);
        assert_eq!(std::fs::read(path.path().join("x")).expect("is there"), b"old");
        one.commit(6, blake3::hash(b"onetwo").into()).expect("is whole");
        assert_eq!(std::fs::read(path.path().join("x")).expect("is there"), b"onetwo");
        drop(writing(&folder));
        assert!(writing(&folder).commit(5, blake3::hash(b"onetwo").into()).is_err());
        assert!(writing(&folder).commit(6, blake3::hash(b"onetWo").into()).is_err());
        assert_eq!(std::fs::read_dir(path.path()).expect("is there").count(), 1);
    }

    #[test]
    fn a_new_file_takes_the_place_of_nothing_also_of_what_came_meanwhile() {
        let (path, folder) = folder();
        let new = || {
            let mut new = Writing::create(folder.try_clone().expect("is open"), "x".into(), true)?;
            new.write(b"mine").map(|()| new)
        };
        let digest = blake3::hash(b"mine").into();
        let late = new().expect("begins");
        std::fs::write(path.path().join("x"), "theirs").expect("is written");
        assert_eq!(late.commit(4, digest).expect_err("somebody was faster").kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(path.path().join("x")).expect("is there"), b"theirs");
        assert_eq!(new().err().expect("it is there").kind(), io::ErrorKind::AlreadyExists);
        std::fs::remove_file(path.path().join("x")).expect("is gone");
        new().expect("begins").commit(4, digest).expect("is whole");
        assert_eq!(std::fs::read_dir(path.path()).expect("is there").count(), 1, "no part is left");
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_told() {
        let (path, folder) = folder();
        let file = path.path().join("x");
        std::fs::write(&file, "0123456789").expect("is written");
        let reading = Reading::open(&folder, Path::new("x")).expect("is there");
        assert_eq!(reading.read(3, 4).expect("is read"), b"3456");
        assert_eq!(reading.read(8, 100).expect("is read"), b"89");
        assert_eq!(reading.read(u64::MAX, 100).expect("is read"), b"");
        reading.settle().expect("is as it was");
        std::fs::write(&file, "01").expect("is written");
        assert!(reading.settle().is_err());
        assert!(reading.read(0, 10).is_err());
    }

    #[test]
    fn who_may_read_a_file_stays_so_and_nobody_reads_what_is_not_whole() {
        use std::os::unix::fs::PermissionsExt;
        let (outer, folder) = folder();
        let mode =
            |name: &OsStr| std::fs::metadata(outer.path().join(name)).expect("is there").permissions().mode() & 0o777;
        std::fs::write(outer.path().join("x"), "secret").expect("is written");
        std::fs::set_permissions(outer.path().join("x"), std::fs::Permissions::from_mode(0o600)).expect("is set");
        let new = writing(&folder);
        assert_eq!(mode(&new.part), 0o600);
        let digest = new.hasher.finalize();
        new.commit(6, digest).expect("is whole");
        assert_eq!(mode(OsStr::new("x")), 0o600);
    }

    #[test]
    fn pipes_and_folders_are_neither_read_nor_written() {
        let (path, folder) = folder();
        let pipe = path.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("is made");
        std::fs::create_dir(path.path().join("d")).expect("is made");
        for name in ["pipe", "d", "no such"] {
            assert!(Reading::open(&folder, Path::new(name)).is_err(), "{name}");
        }
        for name in ["pipe", "d"] {
            assert!(Writing::create(folder.try_clone().expect("is open"), name.into(), false).is_err(), "{name}");
        }
        assert!(Writing::create(folder, ".x.phalanx-part".into(), false).is_err());
    }
}
