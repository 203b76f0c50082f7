//! Opens files by their paths within a folder. No link is followed, even if another program creates it meanwhile.

use crate::transfer::system;
use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, Metadata, OpenOptions};
use phalanx_core::wire::files::{About, Kind, Why};
use phalanx_core::wire::transfer::{MOST_NAME, MOST_TARGET};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Deepest nesting of folders that are entered.
pub const MOST_DEEP: usize = 128;

/// A folder, and the folder in it that was opened last, because consecutive names are mostly of one folder. No more than
/// these two stay open, at any depth.
pub struct Beneath {
    root: Dir,
    last: Option<(PathBuf, Dir)>,
}

impl Beneath {
    pub fn new(root: Dir) -> Beneath {
        Beneath { root, last: None }
    }

    /// The folder that contains the last name of a path, and that name.
    pub fn find(&mut self, path: &[u8]) -> io::Result<(&Dir, OsString)> {
        let path = PathBuf::from(system::from_bytes(path.to_vec())?);
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        Ok((self.folder(path.parent().unwrap_or(Path::new("")))?, name))
    }

    /// Opens a folder in it, or returns itself.
    pub fn folder(&mut self, path: &Path) -> io::Result<&Dir> {
        if path.as_os_str().is_empty() {
            return Ok(&self.root);
        }
        let opened = match self.last.take() {
            Some((last, opened)) if last == path => opened,
            Some((last, opened)) if path.parent() == Some(last.as_path()) => {
                open_folder(&opened, path.strip_prefix(&last).unwrap_or(path))?
            }
            _ => open_folder(&self.root, path)?,
        };
        Ok(&self.last.insert((path.to_owned(), opened)).1)
    }
}

fn open_folder(root: &Dir, path: &Path) -> io::Result<Dir> {
    let mut folder = None;
    for part in path.components() {
        folder = Some(folder.as_ref().unwrap_or(root).open_dir_nofollow(part.as_os_str())?);
    }
    folder.map_or_else(|| root.try_clone(), Ok)
}

/// Opens a file for reading. Refuses links, and pipes, because opening one would wait for its other end.
#[cfg(unix)]
pub fn open_file(folder: &Dir, name: &OsStr) -> io::Result<File> {
    use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};
    if Path::new(name).components().count() != 1 || matches!(name.as_encoded_bytes(), b"." | b"..") {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Even opening a pipe would have an effect at its other end.
    let kind = FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
    check_file(kind == FileType::RegularFile, kind == FileType::Directory)?;
    let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, how, Mode::empty())?);
    let found = file.metadata()?;
    check_file(found.is_file(), found.is_dir()).map(|()| file)
}

#[cfg(not(unix))]
pub fn open_file(folder: &Dir, name: &OsStr) -> io::Result<File> {
    let mut how = OpenOptions::new();
    use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
    how.read(true).follow(FollowSymlinks::No);
    open_with(folder, Path::new(name), &mut how, false)
}

/// The same, but links are followed that stay within the folder.
pub fn open_path(folder: &Dir, path: &Path) -> io::Result<File> {
    open_with(folder, path, OpenOptions::new().read(true), true)
}

fn open_with(folder: &Dir, path: &Path, how: &mut OpenOptions, follows: bool) -> io::Result<File> {
    // Even opening a pipe would have an effect at its other end. Another program may create one at this moment.
    let found = if follows { folder.metadata(path)? } else { folder.symlink_metadata(path)? };
    check_file(found.is_file(), found.is_dir())?;
    system::at_once(how);
    let file = folder.open_with(path, how)?.into_std();
    let found = file.metadata()?;
    check_file(found.is_file(), found.is_dir()).map(|()| file)
}

fn check_file(is_file: bool, is_folder: bool) -> io::Result<()> {
    match is_file {
        true => Ok(()),
        false if is_folder => Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")),
        false => Err(io::Error::other("it is no file")),
    }
}

/// The facts about an entry, from its metadata. `link` reads the target of a link.
pub fn about(metadata: &Metadata, link: impl FnOnce() -> io::Result<PathBuf>) -> io::Result<About> {
    let kind = if metadata.is_dir() {
        Kind::Folder
    } else if metadata.is_file() {
        Kind::File { size: metadata.len() }
    } else if metadata.is_symlink() {
        Kind::Link { target: system::to_bytes(link()?.as_os_str()) }
    } else {
        Kind::Other
    };
    if matches!(&kind, Kind::Link { target } if target.len() > MOST_TARGET) {
        return Err(io::Error::other("what the link says is too long"));
    }
    let modified = metadata.modified().map_or((0, 0), |time| system::to_time(time.into_std()));
    Ok(About { kind, mode: system::mode(metadata), modified })
}

/// An error if a name is too long for the protocol.
pub fn check_name(name: &[u8]) -> io::Result<()> {
    if name.len() <= MOST_NAME { Ok(()) } else { Err(io::Error::other("its name is too long")) }
}

/// Whether an error means that there is no such file.
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The kind of a failure, for programs.
pub fn why(error: &io::Error) -> Why {
    match error.kind() {
        io::ErrorKind::NotFound => Why::Missing,
        io::ErrorKind::AlreadyExists => Why::Exists,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Why::Denied,
        io::ErrorKind::NotADirectory => Why::NoFolder,
        io::ErrorKind::IsADirectory => Why::IsFolder,
        io::ErrorKind::DirectoryNotEmpty => Why::NotEmpty,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Why::Full,
        _ => Why::Other,
    }
}
