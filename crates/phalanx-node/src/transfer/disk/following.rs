//! Symbolic links that are followed: the target is copied in the place of the link.
//!
//! At an executor, a target must lie in the same exported folder. The target is examined before it is opened. Limits bound
//! cycles of links, and links that lead to the same folder again and again.

use super::unfinished;
use cap_fs_ext::DirExt;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, OpenOptions};
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

/// Most links on the way to an entry.
const MOST_DEEP: u8 = 8;
/// Most entries found through links. Several links to one folder copy it several times.
const MOST_FOUND: u64 = 1 << 20;

/// Resolves the symbolic links of one copy.
pub struct Following {
    base: Dir,
    /// The path of the copied file or folder beneath `base`.
    root: PathBuf,
    /// Whether links may lead anywhere. `base` is then the root of this machine's file system.
    is_anywhere: bool,
    found: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    by_number: HashMap<u32, Followed>,
    count: u64,
}

/// An entry that was found through a link.
#[derive(Clone)]
pub struct Followed {
    /// Its path beneath the base, without symbolic links.
    real: PathBuf,
    /// Number of links on the way to it.
    deep: u8,
}

impl Following {
    /// For a copy of `root` whose links must stay beneath `base`.
    pub fn beneath(base: Dir, root: PathBuf) -> Following {
        Following { base, root, is_anywhere: false, found: Mutex::default() }
    }

    /// For a copy of `root` whose links may lead anywhere.
    pub fn anywhere(root: &Path) -> io::Result<Following> {
        let (top, root) = split(&root.canonicalize()?);
        let base = Dir::open_ambient_dir(top, ambient_authority())?;
        Ok(Following { base, root, is_anywhere: true, found: Mutex::default() })
    }

    /// The target of a link in a folder. `path`: the path of the folder within the copy.
    pub fn follow(&self, folder: u32, path: &Path, name: &OsStr) -> io::Result<(Metadata, Option<Followed>)> {
        let parent = self.at(folder);
        let (within, deep) = match parent {
            Some(parent) => (parent.real, parent.deep),
            None => (self.canonicalize(&self.root.join(path))?, 0),
        };
        if deep >= MOST_DEEP {
            return Err(io::Error::other(format!("more than {MOST_DEEP} links lead to it")));
        }
        let real = self.canonicalize(&within.join(name))?;
        if real.file_name().is_some_and(unfinished::is_reserved) {
            return Err(io::Error::other(unfinished::RESERVED));
        }
        let metadata = self.base.symlink_metadata(here(&real))?;
        if metadata.is_dir() && within.starts_with(&real) {
            return Err(io::Error::other("the link leads to a folder that it is in"));
        }
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(io::Error::other("the link leads to what is neither a file nor a folder"));
        }
        self.count()?;
        Ok((metadata, Some(Followed { real, deep: deep + 1 })))
    }

    /// The same for an entry that is no link, if its folder was found through a link.
    pub fn within(&self, folder: u32, name: &OsStr) -> io::Result<Option<Followed>> {
        let Some(Followed { real, deep }) = self.at(folder) else { return Ok(None) };
        self.count()?;
        Ok(Some(Followed { real: real.join(name), deep }))
    }

    fn count(&self) -> io::Result<()> {
        let mut found = lock(&self.found);
        found.count += 1;
        match found.count <= MOST_FOUND {
            true => Ok(()),
            false => Err(io::Error::other(format!("more than {MOST_FOUND} files and folders are found through links"))),
        }
    }

    /// Remembers an entry. Call this before the entry is offered to the other end.
    pub fn note(&self, number: u32, followed: Option<Followed>) {
        if let Some(followed) = followed {
            lock(&self.found).by_number.insert(number, followed);
        }
    }

    fn at(&self, number: u32) -> Option<Followed> {
        lock(&self.found).by_number.get(&number).cloned()
    }

    /// Opens a folder that was found through a link; `None` for any other.
    pub fn open_folder(&self, number: u32) -> Option<io::Result<Dir>> {
        let Followed { real, .. } = self.at(number)?;
        Some(if real.as_os_str().is_empty() { self.base.try_clone() } else { self.base.open_dir_nofollow(&real) })
    }

    /// Opens a file that was found through a link; `None` for any other.
    pub fn open_file(&self, number: u32, how: &OpenOptions) -> Option<io::Result<File>> {
        let Followed { real, .. } = self.at(number)?;
        Some(self.base.open_with(&real, how).map(cap_std::fs::File::into_std))
    }

    /// Resolves all links of a path beneath the base.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        let real = match self.is_anywhere {
            true => split(&Path::new("/").join(path).canonicalize()?).1,
            false => self.base.canonicalize(here(path)).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    io::Error::new(error.kind(), "the link leads out of the exported folder, or names it from /")
                }
                _ => error,
            })?,
        };
        Ok(real.components().filter(|part| !matches!(part, Component::CurDir)).collect())
    }
}

fn here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// The root of an absolute path, and the rest of it.
fn split(path: &Path) -> (PathBuf, PathBuf) {
    let is_root = |part: &Component<'_>| matches!(part, Component::Prefix(_) | Component::RootDir);
    (path.components().take_while(is_root).collect(), path.components().skip_while(is_root).collect())
}
