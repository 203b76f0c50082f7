//! Answers requests about files: about an executor's files for one user, or about this machine's own files.

use super::beneath::{Beneath, about, is_missing, why};
use super::contents::{Reading, Writing};
use super::digests::{MOST_THREADS, digests};
use super::kept;
use super::locate;
use super::remove::{Tally, remove};
use super::room::{Room, Taken};
use super::walk::Walk;
use crate::transfer::disk::exports::{Exports, split_local};
use crate::transfer::disk::unfinished;
use crate::transfer::patterns::filter::{Matching, PathFilter};
use crate::transfer::system;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use phalanx_core::wire::files::{About, Answer, Ask, Dated, Kind, MOST_OPEN, Time};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Which files may be accessed.
pub enum Places {
    /// Files in exported folders.
    Exported(Exports),
    /// All files that this process may access.
    Own,
}

/// What is open for one client.
pub struct Desk {
    places: Places,
    /// Whether data has a digest, because the link does not protect it.
    digests: bool,
    room: Room,
    walks: HashMap<u32, Walk>,
    readings: HashMap<u32, (Reading, Taken)>,
    writings: HashMap<u32, (Writing, Taken)>,
}

/// Descriptors for a file that is written: the file and its folder.
const OPEN: usize = 2;
/// Descriptors for each thread while a request is answered.
const OPEN_MEANWHILE: usize = 4;

/// Most listings over one link. Each may have read many names ahead.
const MOST_WALKS: usize = 8;

/// An answer, and its body.
pub type Answered = (Answer, Vec<u8>);

impl Desk {
    pub fn new(places: Places, digests: bool, room: Room) -> Desk {
        Desk { places, digests, room, walks: HashMap::new(), readings: HashMap::new(), writings: HashMap::new() }
    }

    /// Answers a request with its `body`. `is_over`: whether the client is gone.
    pub fn answer(&mut self, ask: Ask, body: &[u8], is_over: &(dyn Fn() -> bool + Sync)) -> Answered {
        let checked = ask.check().map_err(|_| io::Error::other("this is no question"));
        let answered = checked.and_then(|()| self.try_answer(ask, body, is_over));
        answered.unwrap_or_else(|error| (failed(&error), Vec::new()))
    }

    fn try_answer(&mut self, ask: Ask, body: &[u8], is_over: &(dyn Fn() -> bool + Sync)) -> io::Result<Answered> {
        let answer = match ask {
            Ask::List { handle, path, depth, filter, matching, contents } => {
                let (path_filter, matching) = (PathFilter::new(&filter)?, Matching::new(&matching)?);
                self.check_room(handle)?;
                if self.walks.len() >= MOST_WALKS && matches!(self.places, Places::Exported(_)) {
                    return Err(io::Error::other(format!("{MOST_WALKS} folders are being listed already")));
                }
                let folder = self.folder(&path, false).map_err(named(&path))?;
                let mut walk = Walk::new(folder, depth, path_filter, matching, &self.room)?;
                walk.tell_contents(contents);
                self.walks.insert(handle, walk);
                return self.page(handle, is_over);
            }
            Ask::More { handle } => return self.page(handle, is_over),
            Ask::Look { path, follows } => Answer::Found(self.look(&path, follows)?),
            Ask::Locate { path } => self.locate(&path)?,
            Ask::Number { owner, group } => Answer::Number(kept::number(&owner, group)),
            Ask::Remove { folder, names, all } => {
                let _taken = self.room.take(OPEN_MEANWHILE)?;
                remove(self.folder(&folder, true)?, &names, all, is_over).answer()
            }
            Ask::MakeFolder { path, above } => self.make_folder(&path, above).map_err(named(&path))?,
            Ask::Rename { from, to } => self.rename(&from, &to)?,
            Ask::SetTimes { folder, names, times } => {
                let mut beneath = Beneath::new(self.folder(&folder, true)?);
                let mut tally = Tally::default();
                for (name, time) in names.iter().zip(times) {
                    tally.note(name, set_time(&mut beneath, name, time));
                }
                tally.answer()
            }
            Ask::Digests { folder, names } => {
                let _taken = self.room.take(OPEN_MEANWHILE * MOST_THREADS)?;
                Answer::Digests(digests(&self.folder(&folder, false)?, &names, is_over))
            }
            Ask::Open { handle, path } => self.open(handle, &path).map_err(named(&path))?,
            Ask::Read { handle, offset, length } => {
                let bytes = self.reading(handle)?.read(offset, length)?;
                let digest = self.digests.then(|| blake3::hash(&bytes).into());
                return Ok((Answer::Data { digest }, bytes));
            }
            Ask::Settle { handle } => self.reading(handle)?.settle().map(|()| Answer::Done)?,
            Ask::Create { handle, path, new } => {
                self.check_room(handle)?;
                let taken = self.room.take(OPEN)?;
                let place = if new { self.entry(&path, true) } else { self.entry_behind_links(&path) };
                let created = place.and_then(|(folder, name)| Writing::create(folder, name, new));
                self.writings.insert(handle, (created.map_err(named(&path))?, taken));
                Answer::Done
            }
            Ask::Write { handle } => {
                let written = self.writings.get_mut(&handle).ok_or_else(unknown)?.0.write(body);
                written.inspect_err(|_| drop(self.writings.remove(&handle)))?;
                Answer::Done
            }
            Ask::Commit { handle, length, digest } => {
                self.writings.remove(&handle).ok_or_else(unknown)?.0.commit(length, digest)?;
                Answer::Done
            }
            Ask::Close { handle } => {
                self.walks.remove(&handle);
                self.readings.remove(&handle);
                self.writings.remove(&handle);
                Answer::Done
            }
            Ask::Beat => Answer::Beat,
        };
        Ok((answer, Vec::new()))
    }

    fn page(&mut self, handle: u32, is_over: &(dyn Fn() -> bool + Sync)) -> io::Result<Answered> {
        let (count, body, more) = self.walks.get_mut(&handle).ok_or_else(unknown)?.page(is_over);
        if !more {
            self.walks.remove(&handle);
        }
        Ok((Answer::Page { count, more }, body))
    }

    fn open(&mut self, handle: u32, path: &[u8]) -> io::Result<Answer> {
        self.check_room(handle)?;
        let taken = self.room.take(1)?;
        let (base, rest) = self.find(path, false)?;
        let reading = Reading::open(&base, here(&rest))?;
        let opened = about(&reading.metadata()?, || Err(unknown()))?;
        self.readings.insert(handle, (reading, taken));
        Ok(Answer::Opened(opened))
    }

    fn look(&self, path: &[u8], follows: bool) -> io::Result<Option<About>> {
        let (base, rest) = if follows { self.find(path, false) } else { self.find_itself(path, false) }?;
        let rest = here(&rest);
        let found = if follows { base.metadata(rest) } else { base.symlink_metadata(rest) };
        match found {
            Ok(found) => about(&found, || base.read_link_contents(rest)).map(Some),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn locate(&self, path: &[u8]) -> io::Result<Answer> {
        let path = PathBuf::from(system::from_bytes(path.to_vec())?);
        let Places::Exported(exports) = &self.places else { return locate::own(&path) };
        let (root, rest) = exports.split(&path, false)?;
        locate::exported(&exports.find(&path, false)?.0, root, rest)
    }

    fn make_folder(&self, path: &[u8], above: bool) -> io::Result<Answer> {
        if above && matches!(self.places, Places::Own) {
            std::fs::create_dir_all(PathBuf::from(system::from_bytes(path.to_vec())?))?;
            return Ok(Answer::Done);
        }
        let (base, rest) = self.find(path, true)?;
        match above {
            true => base.create_dir_all(here(&rest))?,
            false => base.create_dir(here(&rest))?,
        }
        Ok(Answer::Done)
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<Answer> {
        let ((from, old), (to, new)) = (self.entry(from, true)?, self.entry(to, true)?);
        if unfinished::is_reserved(&old) || unfinished::is_reserved(&new) {
            return Err(io::Error::other(unfinished::RESERVED)); // a copy would resume it
        }
        from.rename(old, &to, new)?;
        Ok(Answer::Done)
    }

    fn reading(&self, handle: u32) -> io::Result<&Reading> {
        self.readings.get(&handle).map(|(reading, _)| reading).ok_or_else(unknown)
    }

    fn check_room(&self, handle: u32) -> io::Result<()> {
        let handles = || self.walks.keys().chain(self.readings.keys()).chain(self.writings.keys());
        match () {
            () if handles().count() >= MOST_OPEN => {
                Err(io::Error::other(format!("{MOST_OPEN} files are open already")))
            }
            () if handles().any(|other| *other == handle) => Err(io::Error::other("this number is taken")),
            () => Ok(()),
        }
    }

    /// Splits a path into an opened folder and the rest of the path.
    fn find(&self, path: &[u8], writes: bool) -> io::Result<(Dir, PathBuf)> {
        let path = PathBuf::from(system::from_bytes(path.to_vec())?);
        match &self.places {
            Places::Exported(exports) => exports.find(&path, writes),
            Places::Own => split_local(&path),
        }
    }

    /// The same for a path whose last name may be a link that is meant itself, not its target.
    fn find_itself(&self, path: &[u8], writes: bool) -> io::Result<(Dir, PathBuf)> {
        let Places::Own = &self.places else { return self.find(path, writes) };
        let path = std::path::absolute(PathBuf::from(system::from_bytes(path.to_vec())?))?;
        match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) => {
                Ok((Dir::open_ambient_dir(folder, ambient_authority())?, PathBuf::from(name)))
            }
            _ => split_local(&path), // a path that ends with `..`, or the top
        }
    }

    /// The folder that contains the last name of a path, and that name.
    fn entry(&self, path: &[u8], writes: bool) -> io::Result<(Dir, OsString)> {
        let (base, rest) = self.find_itself(path, writes)?;
        let refused = || io::Error::new(io::ErrorKind::PermissionDenied, "this is an exported folder itself");
        let name = match rest.components().next_back() {
            Some(Component::Normal(name)) => name.to_owned(),
            _ => return Err(refused()),
        };
        Ok((base.open_dir(here(rest.parent().unwrap_or(Path::new(""))))?, name))
    }

    /// The same for a file that is to be written: if a link has the name, the folder and the name of its target.
    fn entry_behind_links(&self, path: &[u8]) -> io::Result<(Dir, OsString)> {
        let (folder, name) = self.entry(path, true)?;
        if !folder.symlink_metadata(&name).is_ok_and(|there| there.is_symlink()) {
            return Ok((folder, name));
        }
        let (base, rest) = self.find(path, true)?;
        let real = base.canonicalize(&rest)?;
        let name = real.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        Ok((base.open_dir(here(real.parent().unwrap_or(Path::new(""))))?, name.to_owned()))
    }

    fn folder(&self, path: &[u8], writes: bool) -> io::Result<Dir> {
        if let Places::Own = self.places {
            return Dir::open_ambient_dir(PathBuf::from(system::from_bytes(path.to_vec())?), ambient_authority());
        }
        let (base, rest) = self.find(path, writes)?;
        if rest.as_os_str().is_empty() { Ok(base) } else { base.open_dir(rest) }
    }
}

fn here(rest: &Path) -> &Path {
    if rest.as_os_str().is_empty() { Path::new(".") } else { rest }
}

fn set_time(beneath: &mut Beneath, name: &[u8], Dated { time, seen }: Dated) -> io::Result<()> {
    let (folder, name) = beneath.find(name)?;
    let name = Path::new(name);
    if seen.is_some_and(|seen| !is_as(folder, name, seen)) {
        return Err(io::Error::other("it was changed meanwhile"));
    }
    system::set_time(folder, name, time)
}

/// Whether a file still has the size and the time that it had when it was listed.
fn is_as(folder: &Dir, name: &Path, (size, modified): (u64, Time)) -> bool {
    let found = folder.symlink_metadata(name).and_then(|found| about(&found, || Err(unknown())));
    found.is_ok_and(|found| found.kind == Kind::File { size } && found.modified == modified)
}

/// Adds the path to an error, unless the error names it already.
fn named(path: &[u8]) -> impl Fn(io::Error) -> io::Error + '_ {
    move |error| {
        let name = PathBuf::from(system::from_bytes(path.to_vec()).unwrap_or_default());
        let is_said = error.to_string().starts_with(&format!("{}: ", name.display()));
        if is_said { error } else { system::about(&name)(error) }
    }
}

fn unknown() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "nothing is open under this number")
}

fn failed(error: &io::Error) -> Answer {
    Answer::Failed { why: why(error), reason: error.to_string() }
}
