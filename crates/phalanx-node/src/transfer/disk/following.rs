//! Links of what is copied that are followed: what they lead to is copied in their place.
//!
//! Of an executor, only what lies in the same exported folder. What a link leads to is looked at before it is opened. Links that
//! lead round, or to the same again and again, are bounded.

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

/// Links that are followed in what other links led to.
const MOST_DEEP: u8 = 8;
/// Entries that are found through links: several that lead to the same folder copy it several times.
const MOST_FOUND: u64 = 1 << 20;

/// Where links lead.
pub struct Following {
    base: Dir,
    /// Of what is copied, beneath `base`.
    root: PathBuf,
    /// Links lead anywhere, and `base` is the root of this machine's files.
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
    /// Beneath the base; no part of it was a link.
    real: PathBuf,
    /// Links on the way to it.
    deep: u8,
}

impl Following {
    /// Links of what lies at `root` lead to what is beneath `base`.
    pub fn beneath(base: Dir, root: PathBuf) -> Following {
        Following { base, root, is_anywhere: false, found: Mutex::default() }
    }

    /// Links of what lies at `root` lead anywhere.
    pub fn anywhere(root: &Path) -> io::Result<Following> {
        let (top, root) = split(&root.canonicalize()?);
        let base = Dir::open_ambient_dir(top, ambient_authority())?;
        Ok(Following { base, root, is_anywhere: true, found: Mutex::default() })
    }

    /// What a link in a folder leads to. `path`: the folder's, within what is copied.
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

    /// The same of what is no link, where its folder was found through one.
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

    /// Remembers an entry before anybody can ask for it.
    pub fn note(&self, number: u32, followed: Option<Followed>) {
        if let Some(followed) = followed {
            lock(&self.found).by_number.insert(number, followed);
        }
    }

    fn at(&self, number: u32) -> Option<Followed> {
        lock(&self.found).by_number.get(&number).cloned()
    }

    /// A folder that was found through a link.
    pub fn open_folder(&self, number: u32) -> Option<io::Result<Dir>> {
        let Followed { real, .. } = self.at(number)?;
        Some(if real.as_os_str().is_empty() { self.base.try_clone() } else { self.base.open_dir_nofollow(&real) })
    }

    /// A file that was found through a link.
    pub fn open_file(&self, number: u32, how: &OpenOptions) -> Option<io::Result<File>> {
        let Followed { real, .. } = self.at(number)?;
        Some(self.base.open_with(&real, how).map(cap_std::fs::File::into_std))
    }

    /// A path without links beneath the base.
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
