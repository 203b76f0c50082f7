//! The differences between two folders at two ends. Pages of both listings are read in turn. Equal entries are forgotten as
//! soon as both ends have listed them, so little memory is needed if both list folders in the same order. Meanwhile digests
//! of contents are requested, several requests ahead, so that neither end waits for the other.

use super::client::Session;
use super::line::{FilesError, GoesOn, Waiting};
use super::opened::{Listing, Wanted};
use crate::dial::printable;
use bytes::Bytes;
use phalanx_core::wire::files::{About, Answer, Ask, Found, Kind, Why};
use phalanx_core::wire::transfer::Filter;
use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

/// Most bytes of names that are held at a time.
const MOST_BYTES: usize = 4_000_000_000;
/// Most files in one request for digests.
const FILES: usize = 512;
/// Most bytes of their names.
const NAMES: usize = 128 << 10;
/// Bytes of contents after which a request ends, so that other requests are answered in between.
const BYTES: u64 = 1 << 30;
/// Requests for digests that are under way at each end.
const AHEAD: usize = 3;
/// Entries in one page of those that only one end has.
const PAGE: usize = 4096;

/// A folder at one end.
pub struct Side {
    /// The files of this end.
    pub session: Arc<Session>,
    /// The path of the folder, as bytes.
    pub path: Vec<u8>,
}

/// What is compared, and what is reported.
#[derive(Debug, Clone, Default)]
pub struct How {
    /// What is left out.
    pub filter: Filter,
    /// Files of the same size are compared by their contents, not by their times.
    pub contents: bool,
    /// Links are ignored.
    pub skips_links: bool,
    /// Entries that are neither files nor folders are reported even if both ends have the same.
    pub tells_special: bool,
    /// Most entries that are held at a time.
    pub most: usize,
}

/// An entry that differs between the ends, or that an end could not examine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The path within the folders, as bytes.
    pub path: Vec<u8>,
    /// The entry at the source and at the target; `None`: it is not there.
    pub ends: [Option<About>; 2],
    /// How the two differ.
    pub verdict: Verdict,
}

/// How the two ends of a path differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The listings differ.
    Listed,
    /// The content is the same. Something else is not.
    SameContent,
    /// The content is another one.
    OtherContent,
    /// The source could not read its contents, and why.
    Unread(String),
    /// This end (0: the source) could not examine it, and why.
    Unknown(usize, String),
}

/// A comparison in progress.
pub struct Comparison {
    how: How,
    sides: Vec<Side>,
    /// `None`: the listing is complete.
    listings: Vec<Option<Listing>>,
    /// Entries that only one end has listed so far.
    told: [HashMap<Vec<u8>, About>; 2],
    /// Bytes of the names in `told`.
    bytes: usize,
    alike: Batch,
    asked: VecDeque<Asked>,
    /// Number of files whose contents were compared.
    pub compared: u64,
    /// What the source has listed so far.
    pub counts: Counts,
}

/// Counts of the entries at the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Links, special files and partial files.
    pub others: u64,
    /// The sizes of all files.
    pub bytes: u64,
    /// Folders that have another modification time at the target. They are not reported as differences.
    pub dated: u64,
}

/// Files of the same size.
#[derive(Default)]
struct Batch {
    files: Vec<(Vec<u8>, [About; 2])>,
    /// Bytes of their contents.
    size: u64,
    /// Bytes of their names.
    names: usize,
}

/// A request for digests that was sent to both ends.
struct Asked {
    files: Vec<(Vec<u8>, [About; 2])>,
    waiting: [Waiting; 2],
}

impl Comparison {
    /// Begins a comparison. Without a target, all entries are at the source only.
    pub fn new(source: Side, target: Option<Side>, how: How, go_on: &mut GoesOn<'_>) -> Result<Comparison, FilesError> {
        let sides: Vec<_> = [source].into_iter().chain(target).collect();
        let mut listings = Vec::new();
        for Side { session, path } in &sides {
            let wanted =
                Wanted { path: path.clone(), depth: u32::MAX, filter: how.filter.clone(), matching: Vec::new() };
            listings.push(Some(Listing::new(session, wanted, go_on)?));
        }
        let (told, alike, asked) = (Default::default(), Batch::default(), VecDeque::new());
        Ok(Comparison { how, sides, listings, told, bytes: 0, alike, asked, compared: 0, counts: Counts::default() })
    }

    /// The next differences; `None` after the last.
    pub fn page(&mut self, go_on: &mut GoesOn<'_>) -> Result<Option<Vec<Told>>, FilesError> {
        let mut out = Vec::new();
        while out.is_empty() {
            let lists = self.list(&mut out, go_on)?;
            self.ask(!lists, go_on)?;
            while self.asked.len() > AHEAD || (!lists && !self.asked.is_empty()) {
                self.compare(&mut out, go_on)?;
            }
            if !lists && out.is_empty() && !self.tell_rest(&mut out) {
                return Ok(None);
            }
        }
        Ok(Some(out))
    }

    /// Reads a page of each listing. Returns whether there may be more.
    fn list(&mut self, out: &mut Vec<Told>, go_on: &mut GoesOn<'_>) -> Result<bool, FilesError> {
        for side in 0..self.sides.len() {
            let Some(listing) = &self.listings[side] else { continue };
            match listing.page(go_on)? {
                Some(page) => page.into_iter().for_each(|found| self.note(side, found, out)),
                None => self.listings[side] = None,
            }
        }
        self.check_held()?;
        Ok(self.listings.iter().any(Option::is_some))
    }

    fn note(&mut self, side: usize, Found { path, about }: Found, out: &mut Vec<Told>) {
        if is_reserved(&path) {
            self.counts.others += u64::from(side == 0);
            return;
        }
        let about = match about {
            Ok(about) => about,
            Err(reason) => {
                let verdict = Verdict::Unknown(side, printable(&reason));
                return out.push(Told { path, ends: [None, None], verdict });
            }
        };
        if self.how.skips_links && matches!(about.kind, Kind::Link { .. }) {
            return;
        }
        if side == 0 {
            self.counts.add(&about);
        }
        match self.told[1 - side].entry(path) {
            Entry::Vacant(entry) => {
                let path = entry.into_key();
                self.bytes += room(&path, &about);
                self.told[side].insert(path, about);
            }
            Entry::Occupied(entry) => {
                let (path, other) = entry.remove_entry();
                self.bytes -= room(&path, &other);
                let ends = if side == 0 { [about, other] } else { [other, about] };
                self.note_both(path, ends, out);
            }
        }
    }

    fn note_both(&mut self, path: Vec<u8>, ends: [About; 2], out: &mut Vec<Told>) {
        let [source, target] = &ends;
        self.counts.dated += u64::from(source.kind == Kind::Folder && source.modified != target.modified);
        match (&source.kind, &target.kind) {
            (Kind::File { size }, Kind::File { size: other }) if self.how.contents && size == other => {
                self.alike.add(path, ends);
            }
            _ if differ(source, target) || (self.how.tells_special && is_special(source)) => {
                out.push(Told { path, ends: ends.map(Some), verdict: Verdict::Listed });
            }
            _ => {}
        }
    }

    /// Requests digests of files of the same size from both ends, once there are many of them or the listings are complete.
    fn ask(&mut self, all: bool, go_on: &mut GoesOn<'_>) -> Result<(), FilesError> {
        while self.alike.is_full() || (all && !self.alike.files.is_empty()) {
            let files = self.alike.take();
            let names: Vec<_> = files.iter().map(|(path, _)| path.clone()).collect();
            let mut ask = |side: &Side| {
                let ask = Ask::Digests { folder: side.path.clone(), names: names.clone() };
                side.session.line.ask(&ask, Bytes::new(), go_on)
            };
            let waiting = [ask(&self.sides[0])?, ask(&self.sides[1])?];
            self.asked.push_back(Asked { files, waiting });
        }
        Ok(())
    }

    /// Receives the answers to the oldest request.
    fn compare(&mut self, out: &mut Vec<Told>, go_on: &mut GoesOn<'_>) -> Result<(), FilesError> {
        let Some(Asked { files, waiting: [one, other] }) = self.asked.pop_front() else { return Ok(()) };
        let (one, other) = (digests(one, files.len(), go_on)?, digests(other, files.len(), go_on)?);
        for ((path, ends), digests) in files.into_iter().zip(one.into_iter().zip(other)) {
            self.compared += 1;
            let verdict = match digests {
                (Err(reason), _) => Verdict::Unread(printable(&reason)),
                (one, other) if one != other => Verdict::OtherContent,
                _ if !differ(&ends[0], &ends[1]) => continue,
                _ => Verdict::SameContent,
            };
            out.push(Told { path, ends: ends.map(Some), verdict });
        }
        Ok(())
    }

    /// Moves some entries that only one end has to the page. Returns whether there were any.
    fn tell_rest(&mut self, out: &mut Vec<Told>) -> bool {
        for side in 0..2 {
            let some: Vec<_> = self.told[side].keys().take(PAGE).cloned().collect();
            for path in some {
                let mut ends = [None, None];
                ends[side] = self.told[side].remove(&path);
                self.bytes -= ends[side].as_ref().map_or(0, |about| room(&path, about));
                out.push(Told { path, ends, verdict: Verdict::Listed });
            }
            if !out.is_empty() {
                return true;
            }
        }
        false
    }

    fn check_held(&self) -> Result<(), FilesError> {
        if self.told.iter().map(HashMap::len).sum::<usize>() <= self.how.most && self.bytes <= MOST_BYTES {
            return Ok(());
        }
        let (most, gigabytes) = (self.how.most, MOST_BYTES / 1_000_000_000);
        let what = format!("more than {most} files and folders, or {gigabytes} GB of their names");
        Err(FilesError::Failed(Why::Other, format!("there are {what}: name some of them")))
    }
}

impl Counts {
    fn add(&mut self, about: &About) {
        match about.kind {
            Kind::File { size } => (self.files, self.bytes) = (self.files + 1, self.bytes.saturating_add(size)),
            Kind::Folder => self.folders += 1,
            Kind::Link { .. } | Kind::Other => self.others += 1,
        }
    }
}

impl Batch {
    fn add(&mut self, path: Vec<u8>, ends: [About; 2]) {
        if let Kind::File { size } = ends[0].kind {
            self.size = self.size.saturating_add(size);
        }
        self.names += path.len();
        self.files.push((path, ends));
    }

    fn is_full(&self) -> bool {
        self.files.len() >= FILES || self.size >= BYTES || self.names >= NAMES
    }

    /// Takes as many files as one request may have, at least one.
    fn take(&mut self) -> Vec<(Vec<u8>, [About; 2])> {
        let mut some = Batch::default();
        let rest = std::mem::take(self);
        for (path, ends) in rest.files {
            if some.is_full() { self.add(path, ends) } else { some.add(path, ends) }
        }
        some.files
    }
}

fn digests(
    waiting: Waiting,
    count: usize,
    go_on: &mut GoesOn<'_>,
) -> Result<Vec<Result<[u8; 32], String>>, FilesError> {
    match waiting.wait(go_on)?.0 {
        Answer::Digests(digests) if digests.len() == count => Ok(digests),
        _ => Err(FilesError::Nonsense),
    }
}

fn room(path: &[u8], about: &About) -> usize {
    path.len() + if let Kind::Link { target } = &about.kind { target.len() } else { 0 }
}

/// Whether two entries differ. Times of folders and permissions of links do not count.
fn differ(one: &About, other: &About) -> bool {
    let has_other_mode = || one.mode.is_some() && other.mode.is_some() && one.mode != other.mode;
    match (&one.kind, &other.kind) {
        (Kind::File { .. }, Kind::File { .. }) => {
            (&one.kind, one.modified) != (&other.kind, other.modified) || has_other_mode()
        }
        (Kind::Link { .. }, Kind::Link { .. }) => one.kind != other.kind,
        (one, other) => one != other || has_other_mode(),
    }
}

fn is_special(about: &About) -> bool {
    matches!(about.kind, Kind::Link { .. } | Kind::Other)
}

/// Whether a name is that of a partial file, which is neither copied nor removed.
fn is_reserved(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path).to_ascii_lowercase();
    let end = name.strip_prefix(b".").and_then(|rest| rest.rsplit(|byte| *byte == b'.').next());
    matches!(end, Some(b"phalanx-part" | b"phalanx-state" | b"phalanx-state-new"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    fn how() -> How {
        How { most: 1000, ..How::default() }
    }

    /// Two folders, and what of them is told.
    struct Ends(tempfile::TempDir);

    impl Ends {
        fn new() -> Ends {
            let ends = Ends(tempfile::tempdir().expect("a folder"));
            fs::create_dir(ends.at("0")).expect("is made");
            fs::create_dir(ends.at("1")).expect("is made");
            ends
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, text: &str, seconds: u64) {
            fs::write(self.at(name), text).expect("is written");
            let file = fs::File::options().write(true).open(self.at(name)).expect("is there");
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).expect("is set");
        }

        /// Paths, with a letter for why they are told; and how many contents were compared.
        fn compare(&self, how: How) -> (Vec<String>, u64) {
            let side = |name: &str| Side {
                session: Arc::new(Session::own().expect("begins")),
                path: crate::transfer::system::to_bytes(self.at(name).as_os_str()),
            };
            let go_on: &mut GoesOn<'_> = &mut || true;
            let mut comparison = Comparison::new(side("0"), Some(side("1")), how, go_on).expect("begins");
            let mut all = Vec::new();
            while let Some(page) = comparison.page(go_on).expect("goes on") {
                for Told { path, ends, verdict } in page {
                    let path = String::from_utf8(path).expect("is text");
                    let letter = match (verdict, ends) {
                        (Verdict::Listed, [Some(_), None]) => "new",
                        (Verdict::Listed, [None, _]) => "old",
                        (Verdict::Listed, _) => "other",
                        (Verdict::SameContent, _) => "same content",
                        (Verdict::OtherContent, _) => "other content",
                        (Verdict::Unread(_) | Verdict::Unknown(..), _) => "failed",
                    };
                    all.push(format!("{path}: {letter}"));
                }
            }
            assert!(comparison.told.iter().all(HashMap::is_empty) && comparison.bytes == 0);
            all.sort();
            (all, comparison.compared)
        }
    }

    #[test]
    fn what_is_alike_is_not_told() {
        let ends = Ends::new();
        for number in 0..3 * FILES {
            ends.write(&format!("0/{number}"), "x", 7);
            ends.write(&format!("1/{number}"), "x", 7);
        }
        ends.write("0/new", "x", 7);
        ends.write("1/old", "x", 7);
        ends.write("1/.x.phalanx-part", "x", 7);
        ends.write("1/.x.phalanx-statement", "x", 7);
        for (name, text, time) in [("0/time", "x", 7), ("1/time", "x", 8), ("0/size", "x", 7), ("1/size", "xx", 7)] {
            ends.write(name, text, time);
        }
        for end in ["0/link", "1/link"] {
            std::os::unix::fs::symlink("there", ends.at(end)).expect("is linked");
        }
        let mut expected = vec![".x.phalanx-statement: old", "new: new", "old: old", "size: other", "time: other"];
        assert_eq!(ends.compare(how()).0, expected);
        expected.insert(1, "link: other");
        assert_eq!(ends.compare(How { tells_special: true, ..how() }).0, expected);
    }

    #[test]
    fn contents_decide_where_they_are_asked_for() {
        let ends = Ends::new();
        for number in 0..5 * FILES {
            let other = if number % 100 == 0 { "y" } else { "x" };
            ends.write(&format!("0/{number}"), "x", 7);
            ends.write(&format!("1/{number}"), other, if number % 100 == 1 { 8 } else { 7 });
        }
        let (told, compared) = ends.compare(How { contents: true, ..how() });
        let count = |what: &str| told.iter().filter(|one| one.ends_with(what)).count();
        assert_eq!((compared, told.len()), (5 * FILES as u64, 52));
        assert_eq!((count(": other content"), count(": same content")), (26, 26));
    }
}
