//! Listings of folders, in pages. At any depth, only few folders are open: the current one, and those above it that have more
//! names than were read at once.

use super::beneath::{Beneath, MOST_DEEP, about, check_name};
use super::room::{Room, Taken};
use crate::transfer::patterns::filter::{Matching, PathFilter};
use crate::transfer::system;
use cap_std::fs::{Dir, DirEntry, Metadata, ReadDir};
use phalanx_core::wire::files::{About, Found, Kind, MOST_BODY, MOST_FOUND, MOST_OF_ONE, encode_found};
use phalanx_core::wire::transfer::MOST_PATH;
use std::collections::VecDeque;
use std::ffi::OsString;
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

/// A name in a folder. `looked`: its metadata, if it is to be listed.
struct Entry {
    name: OsString,
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
            let path = level.path.join(&entry.name);
            return Some(self.tell(path, entry));
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
    fn tell(&mut self, path: PathBuf, entry: Entry) -> Option<Found> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let bytes = system::to_bytes(if is_too_long(&path) { folder.as_os_str() } else { path.as_os_str() });
        let told = entry.looked.map(|looked| {
            let link = || self.beneath.folder(&folder)?.read_link_contents(&entry.name);
            looked.and_then(|metadata| about(&metadata, link))
        });
        if entry.is_entered {
            self.next = self.enter(path).err().map(|error| failed(bytes.clone(), &error));
        }
        match told {
            Some(Ok(about)) => Some(found(bytes, about)),
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => None, // it was removed meanwhile
            Some(Err(error)) => Some(failed(bytes, &error)),
            None => None,
        }
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
        if is_too_long(&path) {
            let looked = Some(Err(io::Error::other("a name in it is too long")));
            return Some(Entry { name, is_entered: false, looked });
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
        (is_told || is_entered).then_some(Entry { name, is_entered, looked })
    }
}

/// Whether a path, or its last name, is too long for the protocol.
fn is_too_long(path: &Path) -> bool {
    let name = path.file_name().map(system::to_bytes).unwrap_or_default();
    path.as_os_str().len() > MOST_PATH || check_name(&name).is_err()
}

fn found(path: Vec<u8>, about: About) -> Found {
    debug_assert!(!matches!(&about.kind, Kind::File { size } if *size > i64::MAX as u64));
    Found { path, about: Ok(about) }
}

fn failed(path: Vec<u8>, error: &io::Error) -> Found {
    Found { path, about: Err(error.to_string()) }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use phalanx_core::wire::files::decode_found;
    use phalanx_core::wire::transfer::Filter;
    use std::collections::BTreeMap;
    use std::path::Path;

    fn walk(folder: &Path, depth: u32, filter: &Filter, matching: &[&str]) -> Walk {
        let root = Dir::open_ambient_dir(folder, cap_std::ambient_authority()).expect("is there");
        let matching: Vec<_> = matching.iter().map(|one| (*one).to_owned()).collect();
        let matching = Matching::new(&matching).expect("are patterns");
        Walk::new(root, depth, PathFilter::new(filter).expect("is one"), matching, &Room::endless())
            .expect("is a folder")
    }

    fn all(mut walk: Walk) -> BTreeMap<String, Result<About, String>> {
        let mut all = BTreeMap::new();
        loop {
            let (count, body, more) = walk.page();
            for found in decode_found(count, &body).expect("is whole") {
                all.insert(String::from_utf8(found.path).expect("is text"), found.about);
            }
            if !more {
                return all;
            }
        }
    }

    fn names(walk: Walk) -> Vec<String> {
        all(walk).into_keys().collect()
    }

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("a/b/c")).expect("is made");
        for name in ["x.csv", "a/y.csv", "a/b/z.txt", "a/b/c/w.csv", ".hidden.csv"] {
            std::fs::write(folder.path().join(name), name).expect("is written");
        }
        std::os::unix::fs::symlink("..", folder.path().join("a/up")).expect("is made");
        folder
    }

    #[test]
    fn a_walk_is_as_deep_as_asked_and_follows_no_link() {
        let folder = tree();
        let filter = Filter::default();
        assert_eq!(names(walk(folder.path(), 0, &filter, &[])), [".hidden.csv", "a", "x.csv"]);
        assert_eq!(
            names(walk(folder.path(), 1, &filter, &[])),
            [".hidden.csv", "a", "a/b", "a/up", "a/y.csv", "x.csv"]
        );
        let whole = all(walk(folder.path(), u32::MAX, &filter, &[]));
        assert_eq!(whole.len(), 9);
        let link = whole["a/up"].as_ref().expect("is told");
        assert_eq!(link.kind, Kind::Link { target: b"..".into() });
    }

    #[test]
    fn patterns_choose_what_is_told() {
        let folder = tree();
        let every = |patterns: &[&str]| names(walk(folder.path(), u32::MAX, &Filter::default(), patterns));
        assert_eq!(every(&["*.csv"]), ["x.csv"]);
        assert_eq!(every(&["**/*.csv"]), ["a/b/c/w.csv", "a/y.csv", "x.csv"]);
        assert_eq!(every(&["a/*"]), ["a/b", "a/up", "a/y.csv"]);
        let filter = Filter { exclude: vec!["b/".into(), ".*".into()], ..Filter::default() };
        assert_eq!(names(walk(folder.path(), u32::MAX, &filter, &[])), ["a", "a/up", "a/y.csv", "x.csv"]);
    }

    #[test]
    fn a_folder_of_many_comes_in_pages_that_are_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..MOST_FOUND + 10 {
            std::fs::write(folder.path().join(format!("{number:0200}")), "").expect("is written");
        }
        let mut walk = walk(folder.path(), 0, &Filter::default(), &[]);
        let (mut pages, mut total) = (0, 0);
        loop {
            let (count, body, more) = walk.page();
            assert!(body.len() as u64 <= MOST_BODY && count <= MOST_FOUND);
            (pages, total) = (pages + 1, total + count);
            if !more {
                break;
            }
        }
        assert_eq!(total, MOST_FOUND + 10);
        assert!(pages > 1);
    }

    #[test]
    fn what_comes_after_a_folder_is_told_after_the_way_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut at = folder.path().to_owned();
        let mut expected = 0;
        for _ in 0..4 {
            for number in 0..3 * BATCH {
                std::fs::write(at.join(format!("{number}")), "").expect("is written");
                std::os::unix::fs::symlink("..", at.join(format!("link {number}"))).expect("is made");
            }
            for name in ["a", "b", "c"] {
                std::fs::create_dir(at.join(name)).expect("is made");
                std::fs::write(at.join(name).join("in"), "").expect("is written");
            }
            expected += 6 * BATCH + 6;
            at.push("b");
        }
        let all = all(walk(folder.path(), u32::MAX, &Filter::default(), &[]));
        assert_eq!(all.len(), expected);
        assert!(all.values().all(Result::is_ok));
    }

    #[test]
    fn folders_that_are_too_deep_are_named_and_end_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let deep: PathBuf = std::iter::repeat_n("d", MOST_DEEP + 5).collect();
        std::fs::create_dir_all(folder.path().join(deep)).expect("is made");
        std::fs::write(folder.path().join("z"), "").expect("is written");
        let all = all(walk(folder.path(), u32::MAX, &Filter::default(), &[]));
        assert!(all.contains_key("z"));
        assert_eq!(all.values().filter(|about| about.is_err()).count(), 1);
    }
}
