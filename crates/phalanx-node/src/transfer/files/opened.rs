//! What a user has open: listings, files that are read, and files that are written. Answers are checked against the requests,
//! because an executor may lie.

use super::beneath::MOST_DEEP;
use super::client::{Session, done};
use super::contents::Hasher;
use super::line::{FilesError, GoesOn, Waiting};
use crate::dial::printable;
use crate::transfer::patterns::filter::{Matching, PathFilter};
use crate::transfer::system::as_name;
use bytes::Bytes;
use phalanx_core::wire::files::{About, Answer, Ask, Found, Kind, MOST_BODY, Why, decode_found};
use phalanx_core::wire::transfer::Filter;
use phalanx_net::sync::lock;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// Pieces of a file that are under way.
const AHEAD: usize = 4;
/// Longest piece.
const PIECE: u32 = MOST_BODY as u32;

/// An empty page that arrives sooner than this counts as early. An honest executor searches for half a second before it sends
/// one.
const SOONEST: Duration = Duration::from_millis(100);
/// Most early pages in a row. Some are possible, because the ends have different clocks.
const MOST_EARLY: u32 = 16;

/// A handle that is open at the other end. Dropping it closes the handle. It does not keep the link alive.
struct Opened {
    session: Weak<Session>,
    handle: u32,
}

impl Opened {
    fn new(session: &Arc<Session>) -> Opened {
        Opened { session: Arc::downgrade(session), handle: session.number() }
    }

    fn session(&self) -> Result<Arc<Session>, FilesError> {
        self.session.upgrade().ok_or(FilesError::Closed)
    }

    /// The other end has closed the handle by itself.
    fn has_ended(mut self) {
        self.session = Weak::new();
    }

    fn ask(&self, ask: &Ask, body: Bytes, go_on: &mut GoesOn<'_>) -> Result<Waiting, FilesError> {
        self.session()?.line.ask(ask, body, go_on)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            session.line.forget(self.handle);
        }
    }
}

/// A listing of a folder, which arrives in pages.
pub struct Listing {
    depth: usize,
    path_filter: PathFilter,
    matching: Option<Matching>,
    /// The folder that was checked last. The next entry is mostly in the same one.
    passed: Mutex<PathBuf>,
    /// `None`: the listing is complete.
    next: Mutex<Option<Next>>,
}

/// The next page, which has been requested.
struct Next {
    opened: Opened,
    waiting: Waiting,
    asked: Instant,
    /// Number of early pages in a row before it.
    early: u32,
}

/// A listing to request.
pub struct Wanted {
    /// The path of the folder, as bytes.
    pub path: Vec<u8>,
    /// How deep folders are entered.
    pub depth: u32,
    /// What is left out.
    pub filter: Filter,
    /// Only entries that match one of these patterns as a whole are told; empty: all of them.
    pub matching: Vec<String>,
    /// Digests of small files are told.
    pub contents: bool,
}

impl Listing {
    /// Begins a listing.
    pub fn new(session: &Arc<Session>, wanted: Wanted, go_on: &mut GoesOn<'_>) -> Result<Listing, FilesError> {
        let Wanted { path, depth, filter, matching, contents } = wanted;
        // Before the request, because answers are checked against them.
        let wrong = |error: io::Error| FilesError::Failed(Why::Other, printable(&error.to_string()));
        let (path_filter, known) = (PathFilter::new(&filter).map_err(wrong)?, Matching::new(&matching).map_err(wrong)?);
        let opened = Opened::new(session);
        let ask = Ask::List { handle: opened.handle, path, depth, filter, matching, contents };
        let asked = Instant::now();
        let waiting = opened.ask(&ask, Bytes::new(), go_on)?;
        let depth = (depth as usize).min(MOST_DEEP);
        let next = Mutex::new(Some(Next { opened, waiting, asked, early: 0 }));
        Ok(Listing { depth, path_filter, matching: known, passed: Mutex::default(), next })
    }

    /// The next page; `None` after the last. The page after it is requested meanwhile. While the executor finds nothing,
    /// empty pages arrive from time to time, so that the caller can give up between them.
    pub fn page(&self, go_on: &mut GoesOn<'_>) -> Result<Option<Vec<Found>>, FilesError> {
        let Some(Next { opened, waiting, asked, early }) = lock(&self.next).take() else { return Ok(None) };
        let (answer, body) = waiting.wait(go_on)?;
        let Answer::Page { count, more } = answer else { return Err(FilesError::Nonsense) };
        let found = decode_found(count, &body).map_err(|_| FilesError::Nonsense)?;
        if !found.iter().all(|one| self.was_asked_for(one)) {
            return Err(FilesError::Nonsense);
        }
        let early = if found.is_empty() && asked.elapsed() < SOONEST { early + 1 } else { 0 };
        if more && early > MOST_EARLY {
            return Err(FilesError::Nonsense);
        }
        match more {
            true => {
                let asked = Instant::now();
                let waiting = opened.ask(&Ask::More { handle: opened.handle }, Bytes::new(), go_on)?;
                *lock(&self.next) = Some(Next { opened, waiting, asked, early });
            }
            false => opened.has_ended(),
        }
        Ok(Some(found))
    }

    /// Whether an entry is one that was requested. Its path was decoded, and so consists of names with one slash between two.
    fn was_asked_for(&self, found: &Found) -> bool {
        let Ok(path) = as_name(&found.path).map(Path::new) else { return false };
        if found.path.iter().filter(|byte| **byte == b'/').count() > self.depth {
            return false;
        }
        // An entry that cannot be examined may be of any kind.
        let Ok(about) = &found.about else { return true };
        let takes = |path: &Path| {
            let folder = path.parent().unwrap_or(Path::new(""));
            self.path_filter.takes(path, about.kind == Kind::Folder) && self.may_lie_in(folder)
        };
        (self.path_filter.is_empty() || takes(path)) && self.matching.as_ref().is_none_or(|matching| matching.has(path))
    }

    fn may_lie_in(&self, folder: &Path) -> bool {
        let mut passed = lock(&self.passed);
        let mut above = folder.ancestors().take_while(|above| !above.as_os_str().is_empty() && *above != *passed);
        let is_taken = above.all(|folder| self.path_filter.takes(folder, true));
        if is_taken && *passed != folder {
            *passed = folder.to_owned();
        }
        is_taken
    }
}

/// A file that is read.
pub struct OpenFile {
    opened: Opened,
    /// What the file was when it was opened.
    pub about: About,
    size: u64,
    at: Mutex<Place>,
}

/// The position of sequential reading.
#[derive(Default)]
struct Place {
    at: u64,
    /// Pieces that are under way, with their lengths.
    waiting: VecDeque<(Waiting, u64)>,
    /// Whether one of them was lost.
    is_broken: bool,
}

impl OpenFile {
    /// Opens a file for reading.
    pub fn new(session: &Arc<Session>, path: Vec<u8>, go_on: &mut GoesOn<'_>) -> Result<OpenFile, FilesError> {
        let opened = Opened::new(session);
        let Answer::Opened(about) = session.ask(&Ask::Open { handle: opened.handle, path }, go_on)? else {
            return Err(FilesError::Nonsense);
        };
        let Kind::File { size } = about.kind else { return Err(FilesError::Nonsense) };
        about.check().map_err(|_| FilesError::Nonsense)?;
        Ok(OpenFile { opened, about, size, at: Mutex::default() })
    }

    /// Reads up to `length` bytes; fewer at the end of the file.
    pub fn read(&self, offset: u64, length: u64, go_on: &mut GoesOn<'_>) -> Result<Vec<u8>, FilesError> {
        let (mut bytes, end) = (Vec::new(), offset.saturating_add(length).min(self.size));
        let (mut at, mut waiting) = (offset, VecDeque::new());
        loop {
            while at < end && waiting.len() < AHEAD {
                waiting.push_back(self.ask(&mut at, end, go_on)?);
            }
            let Some(next) = waiting.pop_front() else { return Ok(bytes) };
            bytes.extend_from_slice(&piece(next, go_on)?);
        }
    }

    /// The next piece of the file; `None` at its end, after a check that the file has not changed. After an error or an
    /// interrupted wait, all calls fail, because a piece would be missing.
    pub fn next(&self, go_on: &mut GoesOn<'_>) -> Result<Option<Bytes>, FilesError> {
        self.try_next(go_on).inspect_err(|_| {
            let mut place = lock(&self.at);
            place.is_broken = true;
            place.waiting.clear(); // each of them keeps the link alive
        })
    }

    fn try_next(&self, go_on: &mut GoesOn<'_>) -> Result<Option<Bytes>, FilesError> {
        let next = {
            let Place { at, waiting, is_broken } = &mut *lock(&self.at);
            if *is_broken {
                return Err(FilesError::Broken);
            }
            while *at < self.size && waiting.len() < AHEAD {
                waiting.push_back(self.ask(at, self.size, go_on)?);
            }
            waiting.pop_front()
        };
        match next {
            Some(next) => piece(next, go_on).map(Some),
            None => self.settle(go_on).map(|()| None),
        }
    }

    /// An error if the file has changed since it was opened.
    pub fn settle(&self, go_on: &mut GoesOn<'_>) -> Result<(), FilesError> {
        self.opened.session()?.tell(&Ask::Settle { handle: self.opened.handle }, go_on)
    }

    /// Requests the piece at a position, and advances the position.
    fn ask(&self, at: &mut u64, end: u64, go_on: &mut GoesOn<'_>) -> Result<(Waiting, u64), FilesError> {
        let length = (end - *at).min(PIECE.into());
        let ask = Ask::Read { handle: self.opened.handle, offset: *at, length: length as u32 };
        let waiting = self.opened.ask(&ask, Bytes::new(), go_on)?;
        *at += length;
        Ok((waiting, length))
    }
}

/// Receives a piece. It must have the requested length, because the file's size was reported when it was opened.
fn piece((waiting, length): (Waiting, u64), go_on: &mut GoesOn<'_>) -> Result<Bytes, FilesError> {
    match waiting.wait(go_on)? {
        (Answer::Data { .. }, body) if body.len() as u64 == length => Ok(body),
        _ => Err(FilesError::Nonsense),
    }
}

/// A file that is written. It gets its name when it is complete.
pub struct NewFile {
    opened: Opened,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hasher: Hasher,
    length: u64,
    waiting: VecDeque<Waiting>,
    /// Whether a piece may have been lost.
    is_broken: bool,
}

impl NewFile {
    /// `new`: no file may have the name, neither now nor when this file is complete.
    pub fn new(
        session: &Arc<Session>,
        path: Vec<u8>,
        new: bool,
        go_on: &mut GoesOn<'_>,
    ) -> Result<NewFile, FilesError> {
        let opened = Opened::new(session);
        session.tell(&Ask::Create { handle: opened.handle, path, new }, go_on)?;
        Ok(NewFile { opened, state: Mutex::default() })
    }

    /// Sends bytes. Waits while too many are under way. After an error or an interrupted wait, all calls fail, because the
    /// file cannot become complete.
    pub fn write(&self, bytes: &[u8], go_on: &mut GoesOn<'_>) -> Result<(), FilesError> {
        self.try_write(bytes, go_on).inspect_err(|_| {
            let mut state = lock(&self.state);
            state.is_broken = true;
            state.waiting.clear(); // each of them keeps the link alive
        })
    }

    fn try_write(&self, bytes: &[u8], go_on: &mut GoesOn<'_>) -> Result<(), FilesError> {
        for piece in bytes.chunks(PIECE as usize) {
            let oldest = {
                let mut state = self.whole()?;
                let ask = Ask::Write { handle: self.opened.handle };
                let sent = self.opened.ask(&ask, Bytes::copy_from_slice(piece), go_on)?;
                state.hasher.update(piece);
                state.length += piece.len() as u64;
                state.waiting.push_back(sent);
                if state.waiting.len() > AHEAD { state.waiting.pop_front() } else { None }
            };
            oldest.map_or(Ok(()), |oldest| done(oldest.wait(go_on)?.0))?;
        }
        Ok(())
    }

    fn whole(&self) -> Result<MutexGuard<'_, State>, FilesError> {
        let state = lock(&self.state);
        if state.is_broken { Err(FilesError::Broken) } else { Ok(state) }
    }

    /// Completes the file and gives it its name.
    pub fn commit(&self, go_on: &mut GoesOn<'_>) -> Result<(), FilesError> {
        self.try_commit(go_on).inspect_err(|_| lock(&self.state).is_broken = true)
    }

    fn try_commit(&self, go_on: &mut GoesOn<'_>) -> Result<(), FilesError> {
        let (length, digest, waiting) = {
            let mut state = self.whole()?;
            let waiting = std::mem::take(&mut state.waiting);
            (state.length, state.hasher.finalize(), waiting)
        };
        for one in waiting {
            done(one.wait(go_on)?.0)?;
        }
        self.opened.session()?.tell(&Ask::Commit { handle: self.opened.handle, length, digest }, go_on)
    }
}
