//! Opens files by their paths within a folder. No link is followed, even if another program creates it meanwhile.

use crate::transfer::system;
use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, Metadata, OpenOptions};
use phalanx_core::wire::files::{About, Kind, Why};
use phalanx_core::wire::transfer::{MOST_NAME, MOST_TARGET};
use std::ffi::OsStr;
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
    pub fn find<'a>(&mut self, path: &'a [u8]) -> io::Result<(&Dir, &'a OsStr)> {
        let path = Path::new(system::as_name(path)?);
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.folder(path.parent().unwrap_or(Path::new("")))?, name))
    }

    /// The folder itself.
    pub fn root(&self) -> &Dir {
        &self.root
    }

    /// Opens a folder in it, or returns itself.
    pub fn folder(&mut self, path: &Path) -> io::Result<&Dir> {
        if path.as_os_str().is_empty() {
            return Ok(&self.root);
        }
        // Compared as bytes, because comparing paths takes as long as a system call.
        let last = self.last.take_if(|(last, _)| last.as_os_str() != path.as_os_str());
        if self.last.is_none() {
            let opened = match last {
                Some((last, opened)) if path.parent() == Some(last.as_path()) => {
                    open_folder(&opened, path.strip_prefix(&last).unwrap_or(path))?
                }
                _ => open_folder(&self.root, path)?,
            };
            self.last = Some((path.to_owned(), opened));
        }
        Ok(self.last.as_ref().map_or(&self.root, |(_, opened)| opened))
    }
}

fn open_folder(root: &Dir, path: &Path) -> io::Result<Dir> {
    let mut folder = None;
    for part in path.components() {
        folder = Some(folder.as_ref().unwrap_or(root).open_dir_nofollow(part.as_os_str())?);
    }
    folder.map_or_else(|| root.try_clone(), Ok)
}

/// Opens a file for reading, and returns it with its size. Refuses links, and pipes, because opening one would wait for its
/// other end.
#[cfg(unix)]
pub fn open_file(folder: &Dir, name: &OsStr) -> io::Result<(File, u64)> {
    use rustix::fs::{AtFlags, FileType, statat};
    if Path::new(name).components().count() != 1 || matches!(name.as_encoded_bytes(), b"." | b"..") {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Even opening a pipe would have an effect at its other end.
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(found.st_mode);
    check_file(kind == FileType::RegularFile, kind == FileType::Directory)?;
    let file = open_listed(folder, name)?;
    let size = u64::try_from(found.st_size).unwrap_or(0);
    if size == 0 {
        let opened = file.metadata()?;
        check_file(opened.is_file(), opened.is_dir())?;
    }
    Ok((file, size))
}

/// Opens a file that was found to be one a moment ago.
///
/// If a link or a socket has taken the name meanwhile, opening it fails. If a pipe or a folder has, reading it fails. A device
/// would be read, but only root can create one. So the opened file need not be examined again, unless nothing is read of it.
#[cfg(unix)]
pub fn open_listed(folder: &Dir, name: &OsStr) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, openat};
    let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(openat(folder, name, how, Mode::empty())?))
}

#[cfg(not(unix))]
pub fn open_listed(folder: &Dir, name: &OsStr) -> io::Result<File> {
    Ok(open_file(folder, name)?.0)
}

#[cfg(not(unix))]
pub fn open_file(folder: &Dir, name: &OsStr) -> io::Result<(File, u64)> {
    let mut how = OpenOptions::new();
    use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
    how.read(true).follow(FollowSymlinks::No);
    let file = open_with(folder, Path::new(name), &mut how, false)?;
    let size = file.metadata()?.len();
    Ok((file, size))
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
    Ok(About { kind, mode: system::mode(metadata), modified, kept: None, content: None })
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
