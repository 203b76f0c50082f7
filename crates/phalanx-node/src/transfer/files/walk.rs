//! Listings of folders, in pages. At any depth, only few folders are open: the current one, and those above it that have more
//! names than were read at once.

use super::beneath::{Beneath, MOST_DEEP, about, check_name, open_file};
use super::keeping::kept;
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
/// Longest time for reading a batch, however slow patterns and disk are, so that a client that has left is noticed.
const LONGEST: Duration = Duration::from_secs(2);
/// Most folders above the current one that have more names than were read at once.
const MOST_LARGE: usize = 32;
/// Descriptors for a folder that is read.
const OPEN: usize = 2;

/// A listing in progress.
pub struct Walk {
    beneath: Beneath,
    levels: Vec<Level>,
    depth: usize,
    path_filter: PathFilter,
    matching: Option<Matching>,
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
    /// Its path within the listed folder.
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
        let mut walk = Walk { beneath, levels, depth, path_filter, matching, next: None, room, _taken: taken };
        walk.enter(PathBuf::new())?;
        Ok(walk)
    }

    /// The next page: the number of entries, their encoding, and whether there may be more.
    pub fn page(&mut self) -> (u32, Vec<u8>, bool) {
        let (mut count, mut body, until) = (0, Vec::new(), Instant::now() + OFTEN);
        while count < MOST_FOUND && body.len() + MOST_OF_ONE < MOST_BODY as usize && Instant::now() < until {
            match self.step() {
                Some(Some(found)) => {
                    body = encode_found(&found, body);
                    count += 1;
                }
                Some(None) => {}
                None => return (count, body, false),
            }
        }
        (count, body, true)
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
        let named = if is_too_long(&path) { split(&path).0 } else { &path };
        let bytes = system::to_bytes(named.as_os_str());
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
        let ((folder, name), keeps) = (split(path), self.path_filter.keeps());
        let mut found = about(metadata, || self.beneath.folder(folder)?.read_link_contents(name))?;
        if keeps != Keeps::default() && found.kind != Kind::Other {
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
        let path = folder.join(entry.file_name());
        if is_too_long(&path) {
            let looked = Some(Err(io::Error::other("a name in it is too long")));
            return Some(Entry { path, is_entered: false, looked });
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
fn is_too_long(path: &Path) -> bool {
    path.as_os_str().len() > MOST_PATH || check_name(split(path).1.as_encoded_bytes()).is_err()
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
