//! Folders of the target, and where in them entries go.

use super::{Folder, Step, Tree};
use crate::transfer::disk::attributes;
use crate::transfer::disk::unfinished;
use crate::transfer::system;
use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, DirBuilder};
use phalanx_core::wire::transfer::{Entry, Kind};
use phalanx_net::sync::lock;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most folders that are kept open.
const MOST_OPEN: usize = 64;

impl Tree {
    pub(super) fn path(&self, parent: Option<u32>, name: &OsStr) -> PathBuf {
        let folders = lock(&self.folders);
        let named = |top: &Folder| if top.path.as_os_str().is_empty() { Path::new(".") } else { Path::new("") };
        let top = folders.get(&0).map_or(Path::new(""), named);
        let folder = parent.and_then(|parent| folders.get(&parent));
        folder.map_or_else(|| PathBuf::from(name), |folder| top.join(&folder.path).join(name))
    }

    pub(super) fn begin(&self, number: u32, entry: &Entry) -> io::Result<Step> {
        let name = match entry.parent {
            None => self.settle_home(entry)?,
            Some(_) => system::from_bytes(entry.name.clone())?,
        };
        system::check_name(&name)?;
        if unfinished::is_reserved(&name) {
            return Err(io::Error::other(unfinished::RESERVED));
        }
        if !self.takes(entry, &name) {
            return Err(io::Error::other("the other end offers what was not asked for"));
        }
        let folder = match entry.parent {
            None => self.home()?,
            Some(parent) => self.folder(parent)?,
        };
        match &entry.kind {
            Kind::Folder => self.make_folder(number, entry, &folder, name),
            Kind::Link { target } => match entry.parent {
                Some(parent) => {
                    let step = self.put_link(number, &folder, &name, target, parent)?;
                    if matches!(step, Step::Copied) {
                        self.written.on_folder(Some(parent), &folder)?;
                    }
                    if let Some(attributes) = &entry.attributes {
                        let (_, refused) = attributes::fit_link(&folder, &name, attributes, self.path_filter.keeps());
                        self.refuse(Some(parent), &name, refused);
                    }
                    Ok(step)
                }
                None => Err(io::Error::other("a link alone is not copied")),
            },
            Kind::File { size } => self.begin_file(number, entry, &folder, name, *size),
        }
    }

    /// Whether the user asked for an entry.
    fn takes(&self, entry: &Entry, name: &OsStr) -> bool {
        let is_folder = entry.kind == Kind::Folder;
        let Some(parent) = entry.parent else { return is_folder || !self.path_filter.is_of_some() };
        let folders = lock(&self.folders);
        let (Some(parent), Some(top)) = (folders.get(&parent), folders.get(&0)) else {
            return true; // without its folder it has no place
        };
        let within = parent.path.strip_prefix(&top.path);
        self.path_filter.is_empty() || within.is_ok_and(|within| self.path_filter.takes(&within.join(name), is_folder))
    }

    /// Decides in which folder the copy goes, and returns its name there.
    fn settle_home(&self, root: &Entry) -> io::Result<OsString> {
        let here = |path: &Path| if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() };
        let there = match self.base.metadata(here(&self.target)) {
            Ok(there) => Some(there),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let is_folder = there.as_ref().is_some_and(cap_std::fs::Metadata::is_dir);
        let copies_file = root.kind != Kind::Folder;
        let into = self.into || (is_folder && copies_file);
        if into && !is_folder {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{}: no such folder", self.target.display())));
        }
        if !copies_file && !into && there.is_some() && !is_folder {
            return Err(io::Error::other(format!("{}: a file is there, not a folder", self.target.display())));
        }
        let last = self.target.file_name();
        let (home, name) = match (into, last) {
            (true, _) => {
                let named = self.name.clone().map_or_else(|| system::from_bytes(root.name.clone()), Ok)?;
                (here(&self.target), named)
            }
            (false, None) => (here(&self.target), OsString::new()),
            (false, Some(name)) => (here(self.target.parent().unwrap_or(Path::new(""))), name.to_owned()),
        };
        let (home, name) = self.follow(home, name)?;
        *lock(&self.home) = Some(Arc::new(self.base.open_dir(&home).map_err(system::about(&home))?));
        Ok(name)
    }

    /// If a link has the copy's name, the copy replaces the link's target, not the link. Returns the target's folder and
    /// name.
    fn follow(&self, home: PathBuf, name: OsString) -> io::Result<(PathBuf, OsString)> {
        let path = home.join(&name);
        if name.is_empty() || !self.base.symlink_metadata(&path).is_ok_and(|there| there.is_symlink()) {
            return Ok((home, name));
        }
        let real = self.base.canonicalize(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other("a link is there that leads to nothing: remove it first"),
            _ => error,
        })?;
        let above = real.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match real.file_name() {
            Some(own) => Ok((above.to_owned(), own.to_owned())),
            None => Ok((PathBuf::from("."), OsString::new())), // the exported folder itself
        }
    }

    pub(super) fn home(&self) -> io::Result<Arc<Dir>> {
        lock(&self.home).clone().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn make_folder(&self, number: u32, entry: &Entry, within: &Dir, name: OsString) -> io::Result<Step> {
        let is_new = match name.is_empty() {
            true => false, // the exported folder itself
            false => match create_folder(within, &name, entry.mode) {
                Ok(()) => {
                    self.written.on_folder(entry.parent, within)?;
                    true
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    match entry.parent {
                        None => within.open_dir(&name)?,
                        Some(_) => within.open_dir_nofollow(&name)?,
                    };
                    false
                }
                Err(error) => return Err(error),
            },
        };
        let mut folders = lock(&self.folders);
        let above = entry.parent.and_then(|parent| folders.get(&parent)).map(|it| it.path.clone());
        let path = above.unwrap_or_default().join(&name);
        let (mode, modified, attributes) = (entry.mode, entry.modified, entry.attributes.clone());
        folders.insert(number, Folder { path, is_new, mode, modified, attributes });
        Ok(if is_new { Step::Copied } else { Step::Kept })
    }

    pub(super) fn is_new(&self, folder: u32) -> bool {
        lock(&self.folders).get(&folder).is_some_and(|folder| folder.is_new)
    }

    pub(super) fn depth(&self, folder: u32) -> usize {
        let folders = lock(&self.folders);
        let path = |number: u32| folders.get(&number).map(|folder| folder.path.components().count());
        path(folder).unwrap_or(0).saturating_sub(path(0).unwrap_or(0))
    }

    pub(super) fn folder_of(&self, parent: Option<u32>) -> io::Result<Arc<Dir>> {
        parent.map_or_else(|| self.home(), |parent| self.folder(parent))
    }

    pub(super) fn folder(&self, number: u32) -> io::Result<Arc<Dir>> {
        if let Some(folder) = lock(&self.open).get(&number) {
            return Ok(folder.clone());
        }
        let path = lock(&self.folders).get(&number).map(|folder| folder.path.clone());
        let path = path.ok_or_else(|| io::Error::other("its folder could not be made"))?;
        let home = self.home()?;
        let folder = if path.as_os_str().is_empty() { home } else { Arc::new(open_beneath(&home, &path)?) };
        let mut open = lock(&self.open);
        if open.len() >= MOST_OPEN {
            open.clear();
        }
        open.insert(number, folder.clone());
        Ok(folder)
    }
}

/// Opens a folder beneath another. No link is followed, because one that leads out may have appeared since the copy began.
pub(super) fn open_beneath(home: &Dir, path: &Path) -> io::Result<Dir> {
    let mut folder = None;
    for part in path.components() {
        folder = Some(folder.as_ref().unwrap_or(home).open_dir_nofollow(part.as_os_str())?);
    }
    folder.map_or_else(|| home.try_clone(), Ok)
}

/// Creates a folder. At no time do other users have more rights than its mode grants. Its owner may write to it during the
/// copy.
fn create_folder(within: &Dir, name: &OsStr, mode: Option<u32>) -> io::Result<()> {
    let mut how = DirBuilder::new();
    #[cfg(unix)]
    {
        use cap_std::fs::DirBuilderExt;
        how.mode(mode.unwrap_or(0o755) & 0o777 | 0o700);
    }
    #[cfg(not(unix))]
    let _ = (mode, &mut how);
    within.create_dir_with(name, &how)
}
