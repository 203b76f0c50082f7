//! The target of a copy: a file, a folder with everything in it, or memory, which discards the bytes.
//!
//! The system resolves all names beneath the folder that was opened, even if other programs create links meanwhile. A file
//! appears under its name only when it is complete.

use super::abandoned::sweep_beneath;
use super::attributes::{self, Refusals};
use super::hard_links::{FilePlace, Received};
use super::unfinished::{self, PartialFile, beside};
use crate::transfer::patterns::filter::PathFilter;
use crate::transfer::system;
use super::written::Written;
use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, DirBuilder, OpenOptions};
use phalanx_core::transfer::{Outcome, Ranges, SPLIT, is_comparable, is_similar};
use phalanx_core::wire::transfer::{Attributes, Entry, Filter, HardLink, Kind, Links, Share};
use phalanx_net::identity::random_number;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Most folders that are kept open.
const MOST_OPEN: usize = 64;
/// A file of at least this size is synced before it gets its name. Smaller files are synced together at the end.
const LARGE: u64 = 8 << 20;

/// How long a copy searches for abandoned partial files at its end.
const LONGEST: Duration = Duration::from_secs(2);

/// Where entries are written.
pub enum Sink {
    Memory,
    Tree(Box<Tree>),
}

/// What the receiver does with an entry.
pub enum Step {
    /// The entry is in its place now.
    Copied,
    /// The entry was there already.
    Kept,
    /// The entry's bytes are wanted, apart from these ranges, which are there.
    Wanted(Ranges),
    /// The same. An older version is there too, which may contain more of the bytes.
    Older(Ranges),
    /// This end's share of the entry is there.
    Shared,
}

/// A folder of this machine, and the entries that are written to it.
pub struct Tree {
    base: Dir,
    /// The path beneath `base` that the user named.
    target: PathBuf,
    /// Whether the copy goes into the folder `target`, under its own name.
    into: bool,
    anew: bool,
    /// Whether files are compared with their older versions.
    compares: bool,
    /// The name of the copy in the folder `target`; `None`: the name that the other end gives.
    name: Option<OsString>,
    /// What the user asked for. The receiver refuses everything else that the other end offers.
    sieve: PathFilter,
    /// The share of the copy that is written here; `None`: all of it.
    share: Option<Share>,
    /// Whether the top folder counts as new, because a share of the same copy created it.
    fresh: bool,
    /// Makes the names of small partial files unique.
    token: u64,
    home: Mutex<Option<Arc<Dir>>>,
    folders: Mutex<HashMap<u32, Folder>>,
    open: Mutex<HashMap<u32, Arc<Dir>>>,
    coming: Mutex<HashMap<u32, Arc<IncomingFile>>>,
    /// What must be synced at the end.
    written: Written,
    /// The umask of this process, if it is known.
    mask: Option<u32>,
    /// Files with several names.
    linked: Received,
    /// Owners and attributes that could not be set.
    refusals: Refusals,
}

#[derive(Clone)]
struct Folder {
    /// Its path beneath `home`.
    path: PathBuf,
    /// Whether this transfer created it.
    is_new: bool,
    mode: Option<u32>,
    modified: (i64, u32),
    attributes: Option<Box<Attributes>>,
}

/// A file whose bytes are arriving.
struct IncomingFile {
    parent: Option<u32>,
    name: OsString,
    size: u64,
    mode: Option<u32>,
    modified: (i64, u32),
    attributes: Option<Box<Attributes>>,
    /// The ranges that were there when it was begun.
    there: Ranges,
    /// The partial file, opened when the first part arrives.
    file: Mutex<Option<Arc<PartialFile>>>,
    /// Held by the thread that writes. The system lets only one thread write to a file at a time, and a thread that waits in
    /// the system call spins.
    writing: Mutex<()>,
    /// Whether its state must not be saved any more. Held by the thread that saves the state.
    ended: Mutex<bool>,
    /// Whether it has, or had, a state file.
    has_state: AtomicBool,
    /// Whether it was given up. A thread that is saving its state then removes it afterwards.
    given_up: AtomicBool,
}

impl Sink {
    /// Writes to `target` beneath `base`. `into`: into the folder there.
    pub fn tree(base: Dir, target: PathBuf, into: bool, anew: bool) -> Sink {
        let (home, folders, open, coming) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        let (token, mask) = (random_number() as u64, system::mask());
        let (name, sieve, share, fresh, written) = (None, PathFilter::default(), None, false, Written::default());
        Sink::Tree(Box::new(Tree {
            base,
            target,
            into,
            anew,
            compares: false,
            name,
            sieve,
            share,
            fresh,
            token,
            home,
            folders,
            open,
            coming,
            written,
            mask,
            linked: Received::default(),
            refusals: Refusals::default(),
        }))
    }

    /// Sets the name of the copy in the folder, instead of the name that the other end gives.
    pub fn called(mut self, name: &OsStr) -> Sink {
        if let Sink::Tree(tree) = &mut self {
            tree.name = Some(name.to_owned());
        }
        self
    }

    /// Whether bytes are taken from older versions of files.
    pub fn comparing(mut self, compares: bool) -> Sink {
        if let Sink::Tree(tree) = &mut self {
            tree.compares = compares;
        }
        self
    }

    /// Refuses entries that the filter does not accept.
    pub fn filtered(mut self, filter: &Filter) -> io::Result<Sink> {
        if let Sink::Tree(tree) = &mut self {
            tree.sieve = PathFilter::new(filter)?;
        }
        Ok(self)
    }

    /// Writes only a share of the copy. `fresh`: writes all of it after its shares, one of which created the top folder.
    pub fn shared(mut self, share: Option<Share>, fresh: bool) -> Sink {
        if let Sink::Tree(tree) = &mut self {
            (tree.share, tree.fresh) = (share, fresh);
        }
        self
    }

    /// Whether the folder of an entry is there.
    pub fn has_place(&self, entry: &Entry) -> bool {
        let (Sink::Tree(tree), Some(parent)) = (self, entry.parent) else { return true };
        lock(&tree.folders).contains_key(&parent)
    }

    /// Begins an entry. Call this before any of its bytes arrive.
    pub fn begin(&self, number: u32, entry: &Entry) -> io::Result<Step> {
        match self {
            Sink::Memory => match entry.kind {
                Kind::File { size } if size > 0 => Ok(Step::Wanted(Ranges::default())),
                _ => Ok(Step::Copied),
            },
            Sink::Tree(tree) => tree.begin(number, entry),
        }
    }

    /// Writes all bytes of a file.
    pub fn whole(&self, entry: u32, data: &[u8]) -> io::Result<()> {
        let Sink::Tree(tree) = self else { return Ok(()) };
        let coming = tree.coming(entry)?;
        let folder = tree.folder_of(coming.parent)?;
        let part = tree.small_part(entry);
        let mut file = unfinished::create_new(&folder, &part, coming.mode())?;
        let put = file.write_all(data).and_then(|()| tree.put_in_place(&folder, &part, &file, &coming, true));
        put.inspect_err(|_| drop(folder.remove_file(&part)))?;
        lock(&tree.coming).remove(&entry);
        Ok(())
    }

    /// The older version of a file that is arriving, and its length.
    pub fn older(&self, entry: u32) -> io::Result<(File, u64)> {
        let Sink::Tree(tree) = self else { return Err(io::ErrorKind::NotFound.into()) };
        let coming = tree.coming(entry)?;
        open_older(&*tree.folder_of(coming.parent)?, &coming.name)
    }

    /// Writes a part of a file.
    pub fn part(&self, entry: u32, data: &[u8], offset: u64) -> io::Result<()> {
        let Sink::Tree(tree) = self else { return Ok(()) };
        let coming = tree.coming(entry)?;
        let file = tree.file(&coming)?;
        let _alone = lock(&coming.writing);
        system::write_at(&file, data, offset)
    }

    /// Writes a part of a file that consists of zeros, as a hole.
    pub fn hole(&self, entry: u32, offset: u64, length: u32) -> io::Result<()> {
        let Sink::Tree(tree) = self else { return Ok(()) };
        let coming = tree.coming(entry)?;
        let file = tree.file(&coming)?;
        if coming.there.bytes() > 0 {
            system::clear(&file, offset, length)?; // an earlier copy may have written there without saving its state
        }
        if file.metadata()?.len() < coming.size {
            file.set_len(coming.size)?; // no thread writes beyond this length, so nothing is cut off
        }
        Ok(())
    }

    /// Completes a file. All its parts have been written.
    pub fn finish(&self, entry: u32) -> io::Result<Outcome> {
        let Sink::Tree(tree) = self else { return Ok(Outcome::Copied) };
        let coming = tree.coming(entry)?;
        if let Some(share) = tree.share_of(&coming) {
            self.keep_as(entry, vec![share.range(coming.size)], true)?;
            self.leave(entry);
            return Ok(Outcome::Shared);
        }
        let folder = tree.folder_of(coming.parent)?;
        let file = tree.file(&coming)?;
        if coming.size >= LARGE || coming.has_state.load(Ordering::SeqCst) {
            file.sync_all()?; // before the state is removed: after a power cut, one of both must be there
        }
        *lock(&coming.ended) = true;
        let part = beside(&coming.name, "part");
        if !system::is_at(&file, &folder, &part)? {
            return Err(io::Error::other("somebody put something else in its place"));
        }
        system::check_place(&folder, &coming.name)?; // hours may have passed since the copy began
        unfinished::forget(&folder, &coming.name); // before the rename, after which another transfer may begin one
        tree.put_in_place(&folder, &part, &file, &coming, false)?;
        *lock(&coming.file) = None;
        lock(&tree.coming).remove(&entry);
        Ok(Outcome::Copied)
    }

    /// Stops writing a file. What is there stays.
    pub fn leave(&self, entry: u32) {
        let Sink::Tree(tree) = self else { return };
        if let Some(coming) = lock(&tree.coming).remove(&entry) {
            *lock(&coming.ended) = true;
            *lock(&coming.file) = None;
        }
    }

    /// Gives a file up. It will not be complete.
    pub fn give_up(&self, entry: u32) {
        let Sink::Tree(tree) = self else { return };
        if let Some(coming) = { lock(&tree.coming).remove(&entry) } {
            coming.given_up.store(true, Ordering::SeqCst);
            tree.remove_given_up(&coming);
        }
    }

    /// Saves which ranges of a file are there, so that another transfer can resume.
    pub fn keep(&self, entry: u32, ranges: Vec<(u64, u64)>) -> io::Result<()> {
        self.keep_as(entry, ranges, false)
    }

    /// `is_last`: no later state of the file is saved.
    fn keep_as(&self, entry: u32, ranges: Vec<(u64, u64)>, is_last: bool) -> io::Result<()> {
        let Sink::Tree(tree) = self else { return Ok(()) };
        let Some(coming) = lock(&tree.coming).get(&entry).cloned() else { return Ok(()) };
        let Some(file) = lock(&coming.file).clone() else { return Ok(()) };
        let folder = tree.folder_of(coming.parent)?;
        let mut ended = lock(&coming.ended);
        if *ended {
            return Ok(());
        }
        let (share, source) = (tree.share_of(&coming), coming.source());
        let kept = match share {
            None => unfinished::keep(&folder, &coming.name, &file, source, None, ranges),
            Some(share) => {
                let real = share.real(&coming.there, &ranges, coming.size).pairs();
                unfinished::keep(&folder, &coming.name, &file, source, Some(share), real)
            }
        };
        coming.has_state.store(true, Ordering::SeqCst);
        *ended = is_last && kept.is_ok();
        drop(ended);
        if is_last {
            tree.written.on_folder(coming.parent, &folder)?; // only the state file says that this share is there
        }
        tree.remove_given_up(&coming);
        kept
    }

    /// Ends the copy: sets the times of folders and syncs everything. Returns the paths that failed, and why.
    pub fn end(&self) -> Vec<(PathBuf, String)> {
        let Sink::Tree(tree) = self else { return Vec::new() };
        tree.sweep(SystemTime::now()); // before the times of folders are set
        tree.end()
    }

    /// The path of a file that is arriving, for messages to users.
    pub fn path_of(&self, entry: u32) -> PathBuf {
        let Sink::Tree(tree) = self else { return PathBuf::from("memory") };
        let coming = tree.coming(entry);
        coming.map_or_else(|_| PathBuf::new(), |it| self.path(it.parent, &system::to_bytes(&it.name)))
    }

    /// The path of an entry, for messages to users. It begins with the copy's own name, or with a dot if it has none.
    pub fn path(&self, parent: Option<u32>, name: &[u8]) -> PathBuf {
        let name = system::from_bytes(name.to_vec()).unwrap_or_default();
        let Sink::Tree(tree) = self else { return name.into() };
        tree.path(parent, &name)
    }
}

impl Tree {
    fn path(&self, parent: Option<u32>, name: &OsStr) -> PathBuf {
        let folders = lock(&self.folders);
        let named = |top: &Folder| if top.path.as_os_str().is_empty() { Path::new(".") } else { Path::new("") };
        let top = folders.get(&0).map_or(Path::new(""), named);
        let folder = parent.and_then(|parent| folders.get(&parent));
        folder.map_or_else(|| PathBuf::from(name), |folder| top.join(&folder.path).join(name))
    }

    fn begin(&self, number: u32, entry: &Entry) -> io::Result<Step> {
        let name = match entry.parent {
            None => self.settle_home(entry)?,
            Some(_) => system::from_bytes(entry.name.clone())?,
        };
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
                        let (_, refused) = attributes::fit_link(&folder, &name, attributes, self.sieve.keeps());
                        self.refuse(Some(parent), &name, refused);
                    }
                    Ok(step)
                }
                None => Err(io::Error::other("a link alone is not copied")),
            },
            Kind::File { size } => self.begin_file(number, entry, &folder, name, *size),
        }
    }

    /// Creates a link, if the user asked for links.
    fn put_link(&self, number: u32, folder: &Dir, name: &OsStr, target: &[u8], parent: u32) -> io::Result<Step> {
        let depth = match self.sieve.links() {
            Links::Within => Some(self.depth(parent)),
            Links::Keep => None,
            Links::Follow | Links::Skip => return Err(io::Error::other("the other end offers what was not asked for")),
        };
        put_link(folder, name, &self.small_part(number), target, depth)
    }

    /// Whether the user asked for an entry.
    fn takes(&self, entry: &Entry, name: &OsStr) -> bool {
        let is_folder = entry.kind == Kind::Folder;
        let Some(parent) = entry.parent else { return is_folder || !self.sieve.is_of_some() };
        let folders = lock(&self.folders);
        let (Some(parent), Some(top)) = (folders.get(&parent), folders.get(&0)) else {
            return true; // without its folder it has no place
        };
        let within = parent.path.strip_prefix(&top.path);
        self.sieve.is_empty() || within.is_ok_and(|within| self.sieve.takes(&within.join(name), is_folder))
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

    fn home(&self) -> io::Result<Arc<Dir>> {
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

    fn begin_file(&self, number: u32, entry: &Entry, folder: &Dir, name: OsString, size: u64) -> io::Result<Step> {
        let link = entry.attributes.as_ref().and_then(|it| it.hard_link).filter(|_| self.sieve.keeps().hard_links);
        if let Some(link) = link {
            let place = FilePlace { parent: entry.parent, name: name.clone(), size, modified: entry.modified };
            let is_there = || folder.symlink_metadata(&name).is_ok_and(|found| is_same(&found, size, entry.modified));
            match link {
                HardLink::First => self.linked.note(number, place, link),
                HardLink::Same(_) if self.share.is_some() => return Ok(Step::Kept), // the copy that follows the shares makes it
                HardLink::Same(_) => {
                    self.linked.note(number, place, link);
                    return Ok(if is_there() { Step::Kept } else { Step::Copied });
                }
            }
        }
        let may_be_there = entry.parent.is_none_or(|parent| !self.is_new(parent));
        if may_be_there {
            match folder.symlink_metadata(&name) {
                Ok(found) if found.is_dir() => return Err(io::Error::other("a folder is there, not a file")),
                Ok(found) if system::is_special(&found) => return Err(io::Error::other(system::SPECIAL)),
                // If another user owns the file, its mode cannot be set, and a new copy with the mode replaces it.
                Ok(found)
                    if !self.anew
                        && is_same(&found, size, entry.modified)
                        && self.fits_mode(entry, folder, &name, &found) =>
                {
                    self.fit_attributes(entry, folder, &name, &found);
                    return Ok(Step::Kept);
                }
                _ => {}
            }
        }
        let (mode, modified, file, ended) = (entry.mode, entry.modified, Mutex::default(), Mutex::new(false));
        let there = match comes_in_parts(size) {
            true => unfinished::look(folder, &name, (size, modified)),
            false => Ranges::default(),
        };
        let (parent, writing, given_up) = (entry.parent, Mutex::default(), AtomicBool::new(false));
        let (has_state, there, attributes) = (AtomicBool::new(there.bytes() > 0), there, entry.attributes.clone());
        let coming = IncomingFile {
            parent,
            name,
            size,
            mode,
            modified,
            attributes,
            there: there.clone(),
            file,
            writing,
            ended,
            has_state,
            given_up,
        };
        if size == 0 {
            let part = self.small_part(number);
            let file = unfinished::create_new(folder, &part, coming.mode())?;
            let put = self.put_in_place(folder, &part, &file, &coming, true);
            put.inspect_err(|_| drop(folder.remove_file(&part)))?;
            return Ok(Step::Copied);
        }
        let older = || open_older(folder, &coming.name).is_ok_and(|(_, length)| is_similar(length, size));
        let compares =
            may_be_there && self.compares && self.share_of(&coming).is_none() && is_comparable(size) && older();
        lock(&self.coming).insert(number, Arc::new(coming));
        Ok(if compares { Step::Older(there) } else { Step::Wanted(there) })
    }

    /// Gives a file that is there the mode of its source. Returns whether it has that mode now.
    fn fits_mode(&self, entry: &Entry, folder: &Dir, name: &OsStr, found: &cap_std::fs::Metadata) -> bool {
        let is_fitted = system::fit_mode(folder, name, found, entry.mode).is_ok();
        if is_fitted && entry.mode.is_some_and(|wanted| system::mode(found) != Some(wanted & 0o777)) {
            self.written.on_mode(entry.parent, folder, name, found);
        }
        is_fitted
    }

    /// Gives a file that is there the attributes of its source.
    fn fit_attributes(&self, entry: &Entry, folder: &Dir, name: &OsStr, found: &cap_std::fs::Metadata) {
        let Some(attributes) = &entry.attributes else { return };
        let (changed, refused) = match open_older(folder, name) {
            Ok((file, _)) => attributes::fit(&file, attributes, self.sieve.keeps()),
            Err(error) => (false, vec![format!("its owner and attributes were not set: {error}")]),
        };
        if changed {
            self.written.on_mode(entry.parent, folder, name, found);
        }
        self.refuse(entry.parent, name, refused);
    }

    fn refuse(&self, parent: Option<u32>, name: &OsStr, reasons: Vec<String>) {
        if !reasons.is_empty() {
            self.refusals.note(&self.path(parent, name), reasons);
        }
    }

    /// Creates the other names of files. No link is followed, and all names are within the copy.
    fn make_links(&self) -> Vec<(PathBuf, String)> {
        let mut failed = Vec::new();
        for (number, place, first) in self.linked.take() {
            if let Err(error) = self.make_link(number, &place, first) {
                failed.push((self.path(place.parent, &place.name), error.to_string()));
            }
        }
        failed
    }

    fn make_link(&self, number: u32, place: &FilePlace, first: Option<FilePlace>) -> io::Result<()> {
        let lost = || io::Error::other("the other name of this file could not be copied");
        let first = first.ok_or_else(lost)?;
        let (from, to) = (self.folder_of(first.parent)?, self.folder_of(place.parent)?);
        let source = from.symlink_metadata(&first.name)?;
        if !is_same(&source, first.size, first.modified) {
            return Err(lost());
        }
        match to.symlink_metadata(&place.name) {
            Ok(there) if there.is_dir() => return Err(io::Error::other("a folder is there, not a file")),
            Ok(there) if system::is_special(&there) => return Err(io::Error::other(system::SPECIAL)),
            Ok(there) if is_one(&there, &source) => return Ok(()),
            _ => {}
        }
        let part = self.small_part(number);
        from.hard_link(&first.name, &to, &part)?;
        to.rename(&part, &to, &place.name).inspect_err(|_| drop(to.remove_file(&part)))?;
        self.written.on_folder(place.parent, &to)
    }

    /// The name of a partial file that no copy resumes.
    fn small_part(&self, entry: u32) -> OsString {
        format!(".{:016x}-{entry}.phalanx-part", self.token).into()
    }

    fn is_new(&self, folder: u32) -> bool {
        lock(&self.folders).get(&folder).is_some_and(|folder| folder.is_new)
    }

    fn depth(&self, folder: u32) -> usize {
        let folders = lock(&self.folders);
        let path = |number: u32| folders.get(&number).map(|folder| folder.path.components().count());
        path(folder).unwrap_or(0).saturating_sub(path(0).unwrap_or(0))
    }

    fn coming(&self, entry: u32) -> io::Result<Arc<IncomingFile>> {
        lock(&self.coming).get(&entry).cloned().ok_or_else(|| io::Error::other("it was given up"))
    }

    /// Removes a file that was given up. Of a file that others write too, removes only the state of this share, because its
    /// source may have changed. This function does not wait for a thread that is saving the state: that thread calls it again
    /// afterwards.
    fn remove_given_up(&self, coming: &IncomingFile) {
        let Ok(mut ended) = coming.ended.try_lock() else { return };
        if !coming.given_up.load(Ordering::SeqCst) || std::mem::replace(&mut *ended, true) {
            return;
        }
        let file = lock(&coming.file).take();
        if let (Some(file), Ok(folder)) = (file, self.folder_of(coming.parent)) {
            match self.share_of(coming) {
                None => unfinished::remove(&folder, &coming.name, &file),
                Some(share) => unfinished::forget_share(&folder, &coming.name, share.index),
            }
        }
    }

    fn file(&self, coming: &IncomingFile) -> io::Result<Arc<PartialFile>> {
        let mut file = lock(&coming.file);
        if let Some(file) = &*file {
            return Ok(file.clone());
        }
        if coming.given_up.load(Ordering::SeqCst) {
            return Err(io::Error::other("it was given up")); // its partial file is removed, or about to be
        }
        let folder = self.folder_of(coming.parent)?;
        let how = if self.share_of(coming).is_some() { unfinished::open_shared } else { unfinished::open };
        let opened = how(&folder, &coming.name, coming.source(), &coming.there)?;
        Ok(file.insert(Arc::new(opened)).clone())
    }

    /// The share of a file that is large enough to be divided.
    fn share_of(&self, coming: &IncomingFile) -> Option<Share> {
        self.share.filter(|_| coming.size >= SPLIT)
    }

    fn folder_of(&self, parent: Option<u32>) -> io::Result<Arc<Dir>> {
        parent.map_or_else(|| self.home(), |parent| self.folder(parent))
    }

    fn folder(&self, number: u32) -> io::Result<Arc<Dir>> {
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

    /// Sets a file's time and mode, and gives it its name. `made`: it was created with its mode, as far as the umask allows.
    fn put_in_place(&self, folder: &Dir, part: &OsStr, file: &File, coming: &IncomingFile, made: bool) -> io::Result<()> {
        // Before its permissions: only root can set attributes of a read-only file.
        if let Some(attributes) = &coming.attributes {
            let (_, refused) = attributes::fit(file, attributes, self.sieve.keeps());
            self.refuse(coming.parent, &coming.name, refused);
        }
        if !made || coming.attributes.is_some() || self.mask.is_none_or(|mask| mask & coming.mode() != 0) {
            system::set_mode(file, coming.mode())?;
        }
        file.set_modified(system::from_time(coming.modified))?;
        folder.rename(part, folder, &coming.name)?;
        self.written.on_file(coming.parent, folder, &coming.name, file)
    }

    /// Removes abandoned partial files from the folders that were there before.
    fn sweep(&self, now: SystemTime) {
        let Ok(home) = self.home() else { return };
        let until = Instant::now() + LONGEST;
        let folders = lock(&self.folders);
        if folders.is_empty() {
            return sweep_beneath(&home, Path::new(""), now, until); // a file came
        }
        for folder in folders.values().filter(|folder| !folder.is_new) {
            sweep_beneath(&home, &folder.path, now, until);
        }
    }

    fn end(&self) -> Vec<(PathBuf, String)> {
        let mut failed = self.make_links(); // before the times of folders are set
        let folders = lock(&self.folders);
        let is_made = |number: &u32, folder: &Folder| folder.is_new || (self.fresh && *number == 0);
        let describes = self.share.is_none(); // otherwise other machines still write there
        // A folder that was there may be of an interrupted copy. Only the top folder may be any folder, because the user
        // named it.
        let is_ours = |(number, folder): &(&u32, &Folder)| describes && (is_made(number, folder) || **number != 0);
        let mut numbers: Vec<_> = folders.iter().filter(is_ours).map(|(number, _)| *number).collect();
        numbers.sort_unstable_by(|one, other| other.cmp(one)); // inner folders first
        let Ok(home) = self.home() else { return failed };
        for (number, folder) in numbers.iter().filter_map(|number| folders.get_key_value(number)) {
            let described = self.describe(&home, *number, folder);
            let described = if is_made(number, folder) { described } else { Ok(()) }; // it may be another user's
            failed.extend(described.err().map(|error| (folder.path.clone(), error.to_string())));
        }
        drop(folders);
        failed.extend(self.refusals.take());
        failed.extend(self.written.sync(&|number| self.folder_of(number)).into_iter().map(|(number, name, error)| {
            let folder = number.and_then(|number| lock(&self.folders).get(&number).map(|folder| folder.path.clone()));
            let path = folder.unwrap_or_default().join(name.unwrap_or_default());
            (if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }, error.to_string())
        }));
        failed
    }

    /// Sets the attributes, the mode and the time of a folder, where they differ.
    fn describe(&self, home: &Dir, number: u32, folder: &Folder) -> io::Result<()> {
        let path = if folder.path.as_os_str().is_empty() { Path::new(".") } else { &folder.path };
        if let Some(attributes) = &folder.attributes {
            let opened = open_beneath(home, &folder.path)?;
            let (changed, refused) =
                attributes::fit(&attributes::open_folder(&opened)?, attributes, self.sieve.keeps());
            self.refusals.note(&folder.path, refused);
            if changed {
                self.written.on_folder(Some(number), &opened)?;
            }
        }
        let found = home.metadata(path)?;
        let time = found.modified().map(|time| system::to_time(time.into_std()));
        let has_mode = folder.mode.is_none_or(|mode| system::mode(&found).is_none_or(|is| is == mode & 0o777));
        if has_mode && time.is_ok_and(|time| time == folder.modified) {
            return Ok(());
        }
        let opened = home.open_dir(path)?; // before its new mode may forbid it
        describe(home, folder)?;
        self.written.on_folder(Some(number), &opened)
    }
}

/// Opens the file that has a name, if this end may read it. Returns it and its length.
fn open_older(folder: &Dir, name: &OsStr) -> io::Result<(File, u64)> {
    let mut how = OpenOptions::new();
    how.read(true).follow(FollowSymlinks::No);
    system::at_once(&mut how);
    let file = folder.open_with(name, &how)?.into_std();
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata.len())) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

impl IncomingFile {
    /// Identifies the version of its source.
    fn source(&self) -> unfinished::Source {
        (self.size, self.modified)
    }

    fn mode(&self) -> u32 {
        self.mode.unwrap_or(0o644)
    }
}

/// Whether a file of this size needs more than one record.
fn comes_in_parts(size: u64) -> bool {
    size > u64::from(phalanx_core::transfer::PART)
}

/// Whether the metadata of two names belong to one file.
fn is_one(one: &cap_std::fs::Metadata, other: &cap_std::fs::Metadata) -> bool {
    let ((device, number, ..), (other_device, other_number, ..)) = (system::identity(one), system::identity(other));
    (device, number) == (other_device, other_number)
}

fn is_same(found: &cap_std::fs::Metadata, size: u64, modified: (i64, u32)) -> bool {
    let time = found.modified().map(|time| system::to_time(time.into_std()));
    found.is_file() && found.len() == size && time.is_ok_and(|time| time == modified)
}

/// Opens a folder beneath another. No link is followed, because one that leads out may have appeared since the copy began.
fn open_beneath(home: &Dir, path: &Path) -> io::Result<Dir> {
    let mut folder = None;
    for part in path.components() {
        folder = Some(folder.as_ref().unwrap_or(home).open_dir_nofollow(part.as_os_str())?);
    }
    folder.map_or_else(|| home.try_clone(), Ok)
}

/// Creates a link, if its target stays within the copy, because another program might follow it. Without `depth`, the target
/// may be anywhere.
#[cfg(unix)]
fn put_link(folder: &Dir, name: &OsStr, part: &OsStr, target: &[u8], depth: Option<usize>) -> io::Result<Step> {
    let target = PathBuf::from(system::from_bytes(target.to_vec())?);
    if depth.is_some_and(|depth| !stays_within(&target, depth)) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the link leads out of what is copied"));
    }
    if folder.read_link_contents(name).is_ok_and(|there| there == target) {
        return Ok(Step::Kept);
    }
    system::check_place(folder, name)?;
    folder.symlink_contents(&target, part)?;
    folder.rename(part, folder, name).inspect_err(|_| drop(folder.remove_file(part)))?;
    Ok(Step::Copied)
}

#[cfg(not(unix))]
fn put_link(_: &Dir, _: &OsStr, _: &OsStr, _: &[u8], _: Option<usize>) -> io::Result<Step> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "links are not made on this system"))
}

/// Whether the target of a link, in a folder `depth` below the copy's root, lies within the copy. `..` is allowed only at the
/// beginning: after a name, which may be a link itself, `..` could lead anywhere.
#[cfg(unix)]
fn stays_within(target: &Path, depth: usize) -> bool {
    let up = target.components().take_while(|part| *part == Component::ParentDir).count();
    let down = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    up <= depth && target.components().skip(up).all(down)
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

#[cfg(unix)]
fn describe(home: &Dir, folder: &Folder) -> io::Result<()> {
    use cap_std::fs::{Permissions, PermissionsExt};
    if let Some(mode) = folder.mode {
        home.set_permissions(&folder.path, Permissions::from_mode(mode & 0o777))?;
    }
    set_time(home, folder)
}

#[cfg(not(unix))]
fn describe(home: &Dir, folder: &Folder) -> io::Result<()> {
    set_time(home, folder)
}

fn set_time(home: &Dir, folder: &Folder) -> io::Result<()> {
    let (within, name) = (folder.path.parent().unwrap_or(Path::new("")), folder.path.file_name());
    let Some(name) = name else { return Ok(()) };
    let within = if within.as_os_str().is_empty() { home.try_clone()? } else { home.open_dir(within)? };
    system::set_time(&within, Path::new(name), folder.modified)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use cap_std::fs::MetadataExt;
    use std::os::unix::fs::PermissionsExt;

    fn sink(folder: &Path, into: bool) -> Sink {
        let base = Dir::open_ambient_dir(folder, cap_std::ambient_authority()).expect("is there");
        Sink::tree(base, PathBuf::new(), into, false)
    }

    fn entry(parent: Option<u32>, name: &str, kind: Kind) -> Entry {
        Entry { parent, name: name.into(), kind, mode: Some(0o700), modified: (1, 0), attributes: None }
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            folder.read_dir().expect("is there").map(|one| one.expect("is read").file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_not_asked_for_is_not_put_anywhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let filter = Filter { only: vec![b"a.csv".into()], exclude: vec!["*.tmp".into()], ..Filter::default() };
        let sink = sink(folder.path(), false).filtered(&filter).expect("is one");
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        sink.begin(1, &entry(Some(0), "a.csv", Kind::Folder)).expect("was asked for");
        for (parent, name) in [(0, ".bashrc"), (0, "b.csv"), (1, "x.tmp")] {
            assert!(sink.begin(2, &entry(Some(parent), name, Kind::File { size: 0 })).is_err(), "{name}");
        }
        assert!(sink.begin(2, &entry(Some(1), "x", Kind::File { size: 0 })).is_ok());
        assert_eq!(names(folder.path()), ["a.csv"]);
    }

    #[test]
    fn a_folder_that_was_changed_before_1970_is_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let sink = sink(folder.path(), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        let old = Entry { modified: (-7, 0), ..entry(Some(0), "old", Kind::Folder) };
        sink.begin(1, &old).expect("begins");
        assert_eq!(sink.end(), []);
        let time = std::fs::metadata(folder.path().join("old")).expect("is there").modified().expect("is known");
        assert_eq!(system::to_time(time), (-7, 0));
    }

    #[test]
    fn the_other_end_does_not_choose_the_name_of_what_was_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let sink = sink(folder.path(), true).called(OsStr::new("report.txt"));
        sink.begin(0, &entry(None, ".bashrc", Kind::File { size: 1 })).expect("begins");
        sink.whole(0, b"x").expect("is put there");
        assert_eq!(names(folder.path()), ["report.txt"]);
    }

    #[test]
    fn pipes_are_never_replaced_also_those_that_come_meanwhile() {
        let folder = tempfile::tempdir().expect("a folder");
        let is_pipe = |name: &str| {
            use std::os::unix::fs::FileTypeExt;
            std::fs::symlink_metadata(folder.path().join(name)).expect("is there").file_type().is_fifo()
        };
        let make = |name: &str| {
            let pipe = folder.path().join(name);
            rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("is made");
        };
        make("there");
        let sink = sink(folder.path(), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        for kind in [Kind::File { size: 0 }, Kind::File { size: 1 << 20 }, Kind::Link { target: b"x".into() }] {
            assert!(sink.begin(1, &entry(Some(0), "there", kind)).is_err());
        }
        sink.begin(2, &entry(Some(0), "late", Kind::File { size: 1 << 20 })).expect("begins");
        sink.part(2, b"x", 0).expect("is written");
        make("late");
        assert!(sink.finish(2).is_err());
        sink.give_up(2);
        assert!(is_pipe("there") && is_pipe("late"));
        assert_eq!(names(folder.path()), [".late.phalanx-part", "late", "there"]); // what came stays, to be resumed
    }

    #[test]
    fn a_file_takes_the_place_of_what_a_named_link_leads_to_within_the_export() {
        let folder = tempfile::tempdir().expect("a folder");
        for (link, target) in [("link", "data/real"), ("nothing", "data/none"), ("out", "/etc/hostname")] {
            std::os::unix::fs::symlink(target, folder.path().join(link)).expect("is linked");
        }
        std::fs::create_dir(folder.path().join("data")).expect("is made");
        std::fs::write(folder.path().join("data/real"), "old").expect("is written");
        let to = |name: &str, into: bool| {
            let base = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
            Sink::tree(base, if into { PathBuf::new() } else { name.into() }, into, false).called(OsStr::new(name))
        };
        for (into, text) in [(false, &b"one"[..]), (true, b"another")] {
            let sink = to("link", into);
            sink.begin(0, &entry(None, "x", Kind::File { size: text.len() as u64 })).expect("begins");
            sink.whole(0, text).expect("is put there");
            assert_eq!(std::fs::read(folder.path().join("data/real")).expect("is there"), text);
        }
        for name in ["nothing", "out"] {
            assert!(to(name, false).begin(0, &entry(None, "x", Kind::File { size: 3 })).is_err(), "{name}");
        }
        for link in ["link", "nothing", "out"] {
            assert!(folder.path().join(link).is_symlink(), "{link}");
        }
    }

    #[test]
    fn a_folders_copy_goes_into_the_folder_that_a_named_link_leads_to() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("data/real")).expect("is made");
        std::fs::create_dir(folder.path().join("links")).expect("is made");
        std::os::unix::fs::symlink("../data/real", folder.path().join("links/link")).expect("is linked");
        let base = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
        let sink = Sink::tree(base, "links/link".into(), false, false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        sink.begin(1, &entry(Some(0), "a", Kind::File { size: 1 })).expect("begins");
        sink.whole(1, b"x").expect("is put there");
        assert_eq!(sink.end(), []);
        assert_eq!(names(&folder.path().join("data/real")), ["a"]);
        assert!(folder.path().join("links/link").is_symlink());
    }

    #[test]
    fn a_file_that_is_there_gets_the_mode_of_its_source() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a");
        let kind = Kind::File { size: 0 };
        for (mode, is_kept) in [(0o755, false), (0o600, true), (0o000, true), (0o640, true)] {
            let sink = sink(folder.path(), false);
            sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
            let step = sink.begin(1, &Entry { mode: Some(mode), ..entry(Some(0), "a", kind.clone()) }).expect("begins");
            assert_eq!(matches!(step, Step::Kept), is_kept, "{mode:o}");
            assert_eq!(std::fs::metadata(&file).expect("is there").permissions().mode() & 0o777, mode);
        }
    }

    #[cfg(target_os = "linux")]
    fn with(attributes: Attributes, entry: Entry) -> Entry {
        Entry { attributes: Some(Box::new(attributes)), ..entry }
    }

    #[cfg(target_os = "linux")]
    fn keeping(folder: &Path, keeps: phalanx_core::wire::transfer::Keeps) -> Sink {
        let sink = sink(folder, false).filtered(&Filter { keeps, ..Filter::default() }).expect("is one");
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        sink
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn attributes_are_set_if_they_were_asked_for_and_give_no_rights() {
        use phalanx_core::wire::transfer::Keeps;
        let names = |path: &Path| {
            let mut list = [0; 1000];
            let length = rustix::fs::listxattr(path, &mut list[..]).expect("is there");
            String::from_utf8(list[..length].to_vec()).expect("is text")
        };
        let told = [&b"user.x"[..], b"security.capability", b"system.posix_acl_access", b"made.up"];
        let attributes = Attributes {
            extended: told.iter().map(|name| (name.to_vec(), b"some".to_vec())).collect(),
            hard_link: Some(HardLink::Same(0)),
            ..Attributes::default()
        };
        for (xattrs, expected) in [(false, ""), (true, "user.x\0")] {
            let folder = tempfile::tempdir().expect("a folder");
            if rustix::fs::setxattr(folder.path(), "user.x", b"", rustix::fs::XattrFlags::empty()).is_err() {
                return; // this file system has none
            }
            let sink = keeping(folder.path(), Keeps { xattrs, ..Keeps::default() });
            let file = with(attributes.clone(), entry(Some(0), "a", Kind::File { size: 1 }));
            assert!(matches!(sink.begin(1, &file), Ok(Step::Wanted(_))), "hard links were not asked for");
            sink.whole(1, b"x").expect("is put there");
            assert_eq!(names(&folder.path().join("a")), expected);
            assert_eq!(sink.end().len(), if xattrs { 3 } else { 0 }, "the others are named");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn names_are_made_only_of_files_that_came() {
        use phalanx_core::wire::transfer::Keeps;
        let (folder, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        std::fs::write(outside.path().join("secret"), "x").expect("is written");
        let sink = keeping(folder.path(), Keeps { hard_links: true, ..Keeps::default() });
        let file = |link, name: &str| {
            let attributes = Attributes { hard_link: Some(link), ..Attributes::default() };
            with(attributes, entry(Some(0), name, Kind::File { size: 1 }))
        };
        for (number, name) in [(1, "good"), (2, "link"), (3, "lost")] {
            sink.begin(number, &file(HardLink::First, name)).expect("begins");
        }
        sink.whole(1, b"x").expect("is put there");
        std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("link")).expect("is linked");
        for first in 0..4 {
            let name = format!("of {first}");
            let step = sink.begin(10 + first, &file(HardLink::Same(first), &name)).expect("begins");
            assert!(matches!(step, Step::Copied));
        }
        let failed: Vec<_> = sink.end().into_iter().map(|(path, _)| path).collect();
        assert_eq!(failed, ["./of 0", "./of 2", "./of 3"].map(PathBuf::from));
        assert_eq!(names(folder.path()), ["good", "link", "of 1"]);
        assert_eq!(std::fs::read(folder.path().join("of 1")).expect("is there"), b"x");
    }

    #[test]
    fn names_of_what_is_not_whole_are_nobodys() {
        let folder = tempfile::tempdir().expect("a folder");
        let sink = sink(folder.path(), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        for name in [".x.phalanx-part", ".x.phalanx-state", ".x.PHALANX-state-new"] {
            assert!(sink.begin(1, &entry(Some(0), name, Kind::File { size: 0 })).is_err(), "{name}");
        }
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn small_files_leave_alone_what_others_have_not_finished() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(".a.phalanx-part"), "other").expect("is written");
        let sink = sink(folder.path(), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        sink.begin(1, &entry(Some(0), "a", Kind::File { size: 1 })).expect("begins");
        sink.whole(1, b"x").expect("is put there");
        assert_eq!(std::fs::read(folder.path().join(".a.phalanx-part")).expect("is there"), b"other");
        assert_eq!(names(folder.path()), [".a.phalanx-part", "a"]);
    }

    #[test]
    fn a_copy_removes_what_was_abandoned_in_its_folders_and_nothing_beside_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let part = ".0123456789abcdef-7.phalanx-part";
        for name in ["there", "other"] {
            std::fs::create_dir(folder.path().join(name)).expect("is made");
            std::fs::write(folder.path().join(name).join(part), "x").expect("is written");
        }
        let sink = sink(folder.path(), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        sink.begin(1, &entry(Some(0), "there", Kind::Folder)).expect("begins");
        assert_eq!(sink.end(), []);
        assert_eq!(names(&folder.path().join("there")), [part], "it is new");
        let Sink::Tree(tree) = &sink else { unreachable!() };
        tree.sweep(SystemTime::now() + Duration::from_secs(2 * 24 * 60 * 60));
        assert_eq!(names(&folder.path().join("there")), [""; 0]);
        assert_eq!(names(&folder.path().join("other")), [part]);
    }

    #[test]
    fn files_are_opened_with_their_first_part() {
        let folder = tempfile::tempdir().expect("a folder");
        let sink = sink(folder.path(), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        for number in 1..3000 {
            sink.begin(number, &entry(Some(0), &number.to_string(), Kind::File { size: 1 << 20 })).expect("begins");
        }
        assert_eq!(names(folder.path()), [""; 0]);
        sink.part(1, b"x", 0).expect("is written");
        assert_eq!(names(folder.path()), [".1.phalanx-part"]);
    }

    #[test]
    fn a_part_that_somebody_replaced_does_not_get_the_files_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let sink = sink(folder.path(), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        sink.begin(1, &entry(Some(0), "big", Kind::File { size: 1 << 20 })).expect("begins");
        sink.part(1, b"x", 0).expect("is written");
        let part = folder.path().join(".big.phalanx-part");
        std::fs::write(folder.path().join("other"), "other").expect("is written");
        std::fs::rename(folder.path().join("other"), &part).expect("is renamed");
        assert!(sink.finish(1).is_err());
        sink.give_up(1);
        assert_eq!(std::fs::read(part).expect("stays"), b"other");
        assert_eq!(names(folder.path()), [".big.phalanx-part"]);
    }

    #[test]
    fn a_hole_takes_the_place_of_what_an_earlier_copy_left() {
        let (folder, size) = (tempfile::tempdir().expect("a folder"), 1 << 20);
        let begin = || {
            let sink = sink(folder.path(), false);
            sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
            let step = sink.begin(1, &entry(Some(0), "big", Kind::File { size })).expect("begins");
            (sink, if let Step::Wanted(there) = step { there.pairs() } else { panic!("it is not there") })
        };
        let (first, _) = begin();
        first.part(1, b"kept", 0).expect("is written");
        first.part(1, b"left", 4096).expect("is written");
        first.keep(1, vec![(0, 4)]).expect("is kept");
        drop(first);
        let (second, there) = begin();
        assert_eq!(there, [(0, 4)]);
        second.hole(1, 4, size as u32 - 4).expect("is made");
        second.finish(1).expect("is whole");
        let copied = std::fs::read(folder.path().join("big")).expect("is there");
        assert_eq!((copied.len() as u64, &copied[..4]), (size, &b"kept"[..]));
        assert!(copied[4..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_file_that_is_given_up_while_it_is_kept_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let sink = sink(folder.path(), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        sink.begin(1, &entry(Some(0), "big", Kind::File { size: 1 << 20 })).expect("begins");
        sink.part(1, b"x", 0).expect("is written");
        let Sink::Tree(tree) = &sink else { unreachable!() };
        let coming = tree.coming(1).expect("comes");
        let keeping = lock(&coming.ended); // as who keeps it does
        sink.give_up(1);
        assert_eq!(names(folder.path()), [".big.phalanx-part"], "it did not wait");
        drop(keeping);
        tree.remove_given_up(&coming);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_file_that_is_given_up_is_not_begun_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let sink = sink(folder.path(), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        sink.begin(1, &entry(Some(0), "big", Kind::File { size: 1 << 20 })).expect("begins");
        sink.part(1, b"x", 0).expect("is written");
        let Sink::Tree(tree) = &sink else { unreachable!() };
        let coming = tree.coming(1).expect("comes"); // as a thread has it that is about to write the next part
        sink.give_up(1);
        assert!(tree.file(&coming).is_err());
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_share_that_failed_leaves_no_word_of_what_came_and_the_others_stay() {
        let (folder, size) = (tempfile::tempdir().expect("a folder"), SPLIT);
        let half = Share { index: 1, count: 2 }.range(size).0;
        let begin = |index| {
            let sink = sink(folder.path(), false).shared(Some(Share { index, count: 2 }), false);
            sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
            let step = sink.begin(1, &entry(Some(0), "big", Kind::File { size })).expect("begins");
            (sink, if let Step::Wanted(there) = step { there.pairs() } else { panic!("it is not there") })
        };
        let ((first, _), (second, _)) = (begin(0), begin(1));
        for (sink, at) in [(&first, 0), (&second, half)] {
            sink.part(1, b"data", at).expect("is written");
            sink.keep(1, vec![(at, at + 4)]).expect("is kept");
        }
        first.give_up(1);
        assert_eq!(begin(0).1, [(half, half + 4)]);
    }

    #[test]
    fn what_is_kept_now_and_then_never_takes_the_place_of_a_share_that_is_there() {
        let (folder, size) = (tempfile::tempdir().expect("a folder"), SPLIT);
        let share = Share { index: 0, count: 2 };
        let (sink, (_, to)) = (sink(folder.path(), false).shared(Some(share), false), share.range(size));
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        sink.begin(1, &entry(Some(0), "big", Kind::File { size })).expect("begins");
        sink.part(1, b"x", to - 1).expect("is written");
        sink.keep_as(1, vec![(0, to)], true).expect("is kept");
        sink.keep(1, vec![(0, 4)]).expect("is left alone");
        let Sink::Tree(tree) = &sink else { unreachable!() };
        let there = unfinished::look(&tree.folder(0).expect("is there"), OsStr::new("big"), (size, (1, 0)));
        assert_eq!(there.pairs(), [(0, to)]);
    }

    #[test]
    fn a_folder_of_a_copy_that_was_cut_gets_its_mode_and_is_private_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = |name| std::fs::metadata(folder.path().join(name)).expect("is there").permissions().mode() & 0o777;
        std::fs::create_dir(folder.path().join("there")).expect("is made");
        std::fs::set_permissions(folder.path().join("there"), std::fs::Permissions::from_mode(0o755)).expect("is set");
        let sink = sink(folder.path(), false);
        for (number, parent, name) in [(0, None, "root"), (1, Some(0), "there"), (2, Some(0), "new")] {
            sink.begin(number, &entry(parent, name, Kind::Folder)).expect("begins");
        }
        assert_eq!(mode("new"), 0o700);
        assert_eq!(sink.end(), []);
        assert_eq!((mode("there"), mode("new")), (0o700, 0o700));
        let base = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
        assert_eq!(base.metadata("there").expect("is there").mtime(), 1);
    }

    #[test]
    fn links_that_lead_out_are_kept_where_that_was_asked_for_and_never_followed() {
        let (folder, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let target = || outside.path().as_os_str().as_encoded_bytes().to_vec();
        let begin = |links| {
            let sink = sink(folder.path(), false).filtered(&Filter { links, ..Filter::default() }).expect("is one");
            sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
            sink
        };
        for links in [Links::Within, Links::Skip, Links::Follow] {
            assert!(begin(links).begin(1, &entry(Some(0), "out", Kind::Link { target: target() })).is_err());
        }
        let sink = begin(Links::Keep);
        sink.begin(1, &entry(Some(0), "out", Kind::Link { target: target() })).expect("is kept");
        assert_eq!(std::fs::read_link(folder.path().join("out")).expect("is one"), outside.path());
        for sink in [sink, begin(Links::Keep)] {
            assert!(sink.begin(2, &entry(Some(0), "out", Kind::Folder)).is_err(), "a link is there");
            assert!(sink.begin(3, &entry(Some(2), "x", Kind::File { size: 0 })).is_err());
            assert_eq!(sink.end(), []);
        }
        assert_eq!(names(outside.path()), [""; 0]);
    }

    #[test]
    fn a_link_that_takes_the_place_of_a_folder_meanwhile_is_not_followed() {
        let (folder, other) = (tempfile::tempdir().expect("a folder"), OsStr::new("other"));
        let sink = sink(folder.path(), false);
        sink.begin(0, &entry(None, "root", Kind::Folder)).expect("begins");
        sink.begin(1, &entry(Some(0), "a", Kind::Folder)).expect("begins");
        std::fs::rename(folder.path().join("a"), folder.path().join(other)).expect("is renamed");
        std::os::unix::fs::symlink(other, folder.path().join("a")).expect("is linked");
        assert!(sink.begin(2, &entry(Some(1), "x", Kind::File { size: 0 })).is_err());
        assert_eq!(names(&folder.path().join(other)), [""; 0]);
    }

    #[test]
    fn links_stay_within_the_copy() {
        for (target, depth) in [("a", 0), (".", 0), ("../a", 1), ("../../a/b", 2), ("./a", 0)] {
            assert!(stays_within(Path::new(target), depth), "{target}");
        }
        for (target, depth) in
            [("/etc/passwd", 5), ("../a", 0), ("a/../../b", 0), ("../../a", 1), ("b/b/../../x", 2), ("./../a", 0)]
        {
            assert!(!stays_within(Path::new(target), depth), "{target}");
        }
    }
}
