//! Listings of folders, in pages. At any depth, only few folders are open: the current one, and those above it that have more
//! names than were read at once.

use super::beneath::{Beneath, MOST_DEEP, about, check_name, open_file};
use super::digests::{MOST_THREADS, SMALL, of_listed};
use super::kept::kept;
use super::room::{Room, Taken};
use crate::transfer::disk::attributes;
use crate::transfer::patterns::filter::{Matching, PathFilter};
use crate::transfer::system;
use cap_std::fs::{Dir, DirEntry, Metadata, ReadDir};
use phalanx_core::wire::files::{About, Found, Kind, MOST_BODY, MOST_FOUND, MOST_OF_ONE, encode_found};
use phalanx_core::wire::transfer::{Keeps, MOST_PATH};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A page is sent after this time, even if it has few entries.
const OFTEN: Duration = Duration::from_millis(500);
/// Names of a folder that are read at once.
const BATCH: usize = 128;
/// Limits on encoded lengths: of an entry's lengths, size, mode and time; of what is kept of it, without names; of a digest.
const NUMBERS: usize = 40;
const KEPT: usize = 64;
const CONTENT: usize = 32;
/// Longest time for reading a batch, however slow patterns and disk are, so that a client that has left is noticed.
const LONGEST: Duration = Duration::from_secs(2);
/// Most folders above the current one that have more names than were read at once.
const MOST_LARGE: usize = 32;
/// Descriptors for a folder that is read.
const OPEN: usize = 2;
/// Descriptors while the files of a page are read: for each thread a file and three folders.
const OPEN_MEANWHILE: usize = 4 * MOST_THREADS;
/// Bytes of files whose digests are told in one page. Reading 32 MiB takes about 10 ms, or much longer from a slow disk.
const MOST_READ: u64 = 32 << 20;

/// A listing in progress.
pub struct Walk {
    beneath: Beneath,
    levels: Vec<Level>,
    depth: usize,
    path_filter: PathFilter,
    matching: Option<Matching>,
    /// Digests of small files are told.
    contents: bool,
    /// An entry that was found and did not fit the last page.
    next: Option<Found>,
    room: Room,
    _taken: Taken,
}

/// The current folder of the walk, or a folder above it.
struct Level {
    /// Its path within the listed folder.
    path: PathBuf,
    read: VecDeque<Entry>,
    /// The rest of its names, if there may be more.
    rest: Option<(ReadDir, Taken)>,
}

/// An entry of a folder. `looked`: its metadata, if it is to be listed.
struct Entry {
    /// Its path within the listed folder, or that of its folder if its own is too long.
    path: PathBuf,
    is_entered: bool,
    looked: Option<io::Result<Metadata>>,
}

impl Walk {
    /// Walks `root`, and the folders in it down to `depth`.
    pub fn new(
        root: Dir,
        depth: u32,
        path_filter: PathFilter,
        matching: Option<Matching>,
        room: &Room,
    ) -> io::Result<Walk> {
        let (beneath, levels, taken) = (Beneath::new(root), Vec::new(), room.take(OPEN)?);
        let (depth, room) = (depth as usize, room.clone());
        let mut walk =
            Walk { beneath, levels, depth, path_filter, matching, contents: false, next: None, room, _taken: taken };
        walk.enter(PathBuf::new())?;
        Ok(walk)
    }

    /// Digests of small files are told, or not.
    pub fn tell_contents(&mut self, contents: bool) {
        self.contents = contents;
    }

    /// The next page: the number of entries, their encoding, and whether there may be more.
    pub fn page(&mut self, is_over: &(dyn Fn() -> bool + Sync)) -> (u32, Vec<u8>, bool) {
        let (mut all, mut length, mut unread, until) = (Vec::new(), 0, 0, Instant::now() + OFTEN);
        let mut more = true;
        while all.len() < MOST_FOUND as usize
            && length + MOST_OF_ONE < MOST_BODY as usize
            && unread < MOST_READ
            && Instant::now() < until
        {
            match self.step() {
                Some(Some(found)) => {
                    length += most_encoded(&found);
                    unread += if self.contents { small(&found).unwrap_or(0) } else { 0 };
                    all.push(found);
                }
                Some(None) => {}
                None => {
                    more = false;
                    break;
                }
            }
        }
        if self.contents {
            self.add_contents(&mut all, is_over);
        }
        let body = all.iter().fold(Vec::with_capacity(length), |body, found| encode_found(found, body));
        debug_assert!(body.len() <= length);
        (all.len() as u32, body, more)
    }

    /// Adds the digests of small files. A file that cannot be read gets none, and the client asks for it by its name.
    fn add_contents(&self, all: &mut [Found], is_over: &(dyn Fn() -> bool + Sync)) {
        let Ok(_taken) = self.room.take(OPEN_MEANWHILE) else { return };
        let files: Vec<_> = all.iter().filter_map(|found| Some((&found.path[..], small(found)?))).collect();
        let digests = of_listed(self.beneath.root(), &files, is_over);
        let listed = all.iter_mut().filter(|found| small(found).is_some());
        for (found, digest) in listed.zip(digests) {
            if let Ok(about) = &mut found.about {
                about.content = digest.map(Box::new);
            }
        }
    }

    /// The next entry to list.
    fn step(&mut self) -> Option<Option<Found>> {
        if let Some(next) = self.next.take() {
            return Some(Some(next));
        }
        let level = self.levels.last_mut()?;
        if let Some(entry) = level.read.pop_front() {
            return Some(self.tell(entry));
        }
        let Some(rest) = level.rest.take() else {
            self.levels.pop();
            return Some(None);
        };
        let path = level.path.clone();
        let read = self.read(&path, rest);
        let failure = read.err().map(|error| failed(system::to_bytes(path.as_os_str()), &error));
        if failure.is_some() {
            self.levels.pop();
        }
        Some(failure)
    }

    /// Lists one entry. If it is a folder, the walk enters it.
    fn tell(&mut self, Entry { path, is_entered, looked }: Entry) -> Option<Found> {
        let bytes = system::to_bytes(path.as_os_str());
        let told = looked.map(|looked| looked.and_then(|metadata| self.describe(&path, &metadata)));
        if is_entered {
            self.next = self.enter(path).err().map(|error| failed(bytes.clone(), &error));
        }
        match told {
            Some(Ok(about)) => Some(found(bytes, about)),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => None, // it was removed meanwhile
            Some(Err(error)) => Some(failed(bytes, &error)),
            None => None,
        }
    }

    /// The facts about an entry, and what the filter keeps of it, if that can be read.
    fn describe(&mut self, path: &Path, metadata: &Metadata) -> io::Result<About> {
        let keeps = self.path_filter.keeps();
        let mut found = about(metadata, || {
            let (folder, name) = split(path);
            self.beneath.folder(folder)?.read_link_contents(name)
        })?;
        if keeps != Keeps::default() && found.kind != Kind::Other {
            let (folder, name) = split(path);
            let open = || match found.kind {
                Kind::Folder => attributes::open_folder(self.beneath.folder(path)?),
                _ => Ok(open_file(self.beneath.folder(folder)?, name)?.0),
            };
            found.kept = kept(metadata, keeps, open).ok().map(Box::new);
        }
        Ok(found)
    }

    fn enter(&mut self, path: PathBuf) -> io::Result<()> {
        if self.levels.len() > MOST_DEEP {
            return Err(io::Error::other(format!("folders in more than {MOST_DEEP} others are not looked into")));
        }
        let rest = (self.beneath.folder(&path)?.entries()?, self.room.take(OPEN)?);
        self.levels.push(Level { path: path.clone(), read: VecDeque::new(), rest: None });
        self.read(&path, rest).inspect_err(|_| drop(self.levels.pop()))
    }

    /// Reads more names of the current folder.
    fn read(&mut self, path: &Path, (mut entries, taken): (ReadDir, Taken)) -> io::Result<()> {
        let (mut read, until) = (VecDeque::new(), Instant::now() + LONGEST);
        for _ in 0..BATCH {
            if Instant::now() >= until {
                break;
            }
            match entries.next() {
                Some(entry) => read.extend(self.look(path, &entry?)),
                None => {
                    self.level().read = read;
                    return Ok(());
                }
            }
        }
        if self.levels.iter().filter(|level| level.rest.is_some()).count() >= MOST_LARGE {
            return Err(io::Error::other(format!("more than {MOST_LARGE} large folders are in each other")));
        }
        *self.level() = Level { path: path.to_owned(), read, rest: Some((entries, taken)) };
        Ok(())
    }

    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("a walk reads where it is")
    }

    /// What to do with a name in a folder; `None`: nothing.
    fn look(&self, folder: &Path, entry: &DirEntry) -> Option<Entry> {
        let name = entry.file_name();
        let path = folder.join(&name);
        if is_too_long(&path, &name) {
            let looked = Some(Err(io::Error::other("a name in it is too long")));
            return Some(Entry { path: folder.to_owned(), is_entered: false, looked });
        }
        let is_folder = system::is_folder(entry);
        if !self.path_filter.is_empty() && !self.path_filter.takes(&path, is_folder) {
            return None;
        }
        let matching = self.matching.as_ref();
        let is_told = matching.is_none_or(|matching| matching.has(&path));
        let may_have_some = self.levels.len() <= self.depth && matching.is_none_or(|it| it.looks_into(&path));
        let is_entered = is_folder && may_have_some;
        let looked = is_told.then(|| entry.metadata());
        (is_told || is_entered).then_some(Entry { path, is_entered, looked })
    }
}

/// The folder of an entry, and its name there.
fn split(path: &Path) -> (&Path, &OsStr) {
    (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default())
}

/// Whether a path, or its last name, is too long for the protocol.
fn is_too_long(path: &Path, name: &OsStr) -> bool {
    path.as_os_str().len() > MOST_PATH || check_name(name.as_encoded_bytes()).is_err()
}

/// The size of a file whose digest is told. Nothing is read of an empty file, so it is left to a request by its name.
fn small(found: &Found) -> Option<u64> {
    match found.about.as_ref().map(|about| &about.kind) {
        Ok(Kind::File { size: size @ 1..=SMALL }) => Some(*size),
        _ => None,
    }
}

/// Limit on the encoded length of an entry.
fn most_encoded(found: &Found) -> usize {
    let about = match &found.about {
        Ok(about) => about,
        Err(reason) => return NUMBERS + found.path.len() + reason.len(),
    };
    let target = if let Kind::Link { target } = &about.kind { target.len() } else { 0 };
    let owners = about.kept.iter().flat_map(|kept| [&kept.owner, &kept.group]).flatten();
    let names: usize = owners.map(|owner| owner.name.len()).sum();
    let kept = if about.kept.is_some() { KEPT + names } else { 0 };
    let content = if small(found).is_some() { CONTENT } else { 0 };
    NUMBERS + found.path.len() + target + kept + content
}

fn found(path: Vec<u8>, about: About) -> Found {
    debug_assert!(!matches!(&about.kind, Kind::File { size } if *size > i64::MAX as u64));
    Found { path, about: Ok(about) }
}

fn failed(path: Vec<u8>, error: &io::Error) -> Found {
    Found { path, about: Err(error.to_string()) }
}

#[cfg(all(test, unix))]
mod tests;
