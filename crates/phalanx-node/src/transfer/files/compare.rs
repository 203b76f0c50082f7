//! The differences between two folders at two ends. Pages of both listings are read in turn. Equal entries are forgotten as
//! soon as both ends have listed them, so little memory is needed if both list folders in the same order. Meanwhile digests
//! of contents are requested, several requests ahead, so that neither end waits for the other. Those of small files are listed.

mod entries;
mod same_size;

use super::client::Session;
use super::keeping::Keeping;
use super::line::{FilesError, GoesOn};
use super::opened::{Listing, Wanted};
use crate::dial::printable;
use entries::{differ, is_reserved, is_special, room};
use phalanx_core::wire::files::{About, Found, Kind, Why};
use phalanx_core::wire::transfer::Filter;
use same_size::{Pair, SameSize};
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

/// Most bytes of names that are held at a time.
const MOST_BYTES: usize = 4_000_000_000;
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
    /// What is left out, and what is kept beside contents, permissions and times.
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
    /// Whether what is kept beside contents, permissions and times differs.
    pub other_kept: bool,
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
    keeping: Keeping,
    same_size: SameSize,
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

impl Comparison {
    /// Begins a comparison. Without a target, all entries are at the source only.
    pub fn new(source: Side, target: Option<Side>, how: How, go_on: &mut GoesOn<'_>) -> Result<Comparison, FilesError> {
        let sides: Vec<_> = [source].into_iter().chain(target).collect();
        let mut listings = Vec::new();
        for Side { session, path } in &sides {
            let (filter, matching, contents) = (how.filter.clone(), Vec::new(), how.contents && sides.len() > 1);
            let wanted = Wanted { path: path.clone(), depth: u32::MAX, filter, matching, contents };
            listings.push(Some(Listing::new(session, wanted, go_on)?));
        }
        let (told, same_size, counts, keeping) =
            (Default::default(), SameSize::default(), Counts::default(), Keeping::new(how.filter.keeps));
        Ok(Comparison { how, sides, listings, told, bytes: 0, keeping, same_size, counts })
    }

    /// Number of files whose contents were compared.
    pub fn compared(&self) -> u64 {
        self.same_size.compared
    }

    /// The next differences; `None` after the last.
    pub fn page(&mut self, go_on: &mut GoesOn<'_>) -> Result<Option<Vec<Told>>, FilesError> {
        let mut out = Vec::new();
        while out.is_empty() {
            let lists = self.list(&mut out, go_on)?;
            self.same_size.go_on(&self.sides, !lists, &mut out, go_on)?;
            if !lists && out.is_empty() && !self.tell_rest(&mut out) {
                return Ok(None);
            }
        }
        Ok(Some(out))
    }

    /// Reads a page of each listing. Returns whether there may be more.
    fn list(&mut self, out: &mut Vec<Told>, go_on: &mut GoesOn<'_>) -> Result<bool, FilesError> {
        let mut pages = [Vec::new(), Vec::new()];
        for (listing, page) in self.listings.iter_mut().zip(&mut pages) {
            match listing.as_ref().map(|it| it.page(go_on)).transpose()?.flatten() {
                Some(found) => *page = found,
                None => *listing = None,
            }
        }
        let [mut source, mut target] = pages.map(Vec::into_iter);
        loop {
            match (source.next(), target.next()) {
                (Some(one), Some(other)) if one.path == other.path => self.note_same(one, other, out, go_on)?,
                (None, None) => break,
                (one, other) => {
                    for (side, found) in [one, other].into_iter().enumerate() {
                        if let Some(found) = found.and_then(|found| self.look(side, found, out)) {
                            self.hold(side, found, out, go_on)?;
                        }
                    }
                }
            }
        }
        self.check_held()?;
        Ok(self.listings.iter().any(Option::is_some))
    }

    /// Notes entries of one path that both ends have listed at the same place, which most are. Nothing is held for them.
    fn note_same(
        &mut self,
        one: Found,
        other: Found,
        out: &mut Vec<Told>,
        go_on: &mut GoesOn<'_>,
    ) -> Result<(), FilesError> {
        match (self.look(0, one, out), self.look(1, other, out)) {
            (Some((path, source)), Some((_, target))) => self.note_both(path, [source, target], out, go_on),
            (Some(one), None) => self.hold(0, one, out, go_on),
            (None, Some(other)) => self.hold(1, other, out, go_on),
            (None, None) => Ok(()),
        }
    }

    /// Counts an entry. Returns it, unless it is ignored or could not be examined.
    fn look(&mut self, side: usize, Found { path, about }: Found, out: &mut Vec<Told>) -> Option<(Vec<u8>, About)> {
        if is_reserved(&path) {
            self.counts.others += u64::from(side == 0);
            return None;
        }
        let about = match about {
            Ok(about) => about,
            Err(reason) => {
                let verdict = Verdict::Unknown(side, printable(&reason));
                out.push(Told { path, ends: [None, None], verdict, other_kept: false });
                return None;
            }
        };
        if self.how.skips_links && matches!(about.kind, Kind::Link { .. }) {
            return None;
        }
        if side == 0 {
            self.counts.add(&about);
        }
        Some((path, about))
    }

    /// Holds an entry until the other end lists the same path.
    fn hold(
        &mut self,
        side: usize,
        (path, about): (Vec<u8>, About),
        out: &mut Vec<Told>,
        go_on: &mut GoesOn<'_>,
    ) -> Result<(), FilesError> {
        match self.told[1 - side].entry(path) {
            Entry::Vacant(entry) => {
                let path = entry.into_key();
                self.bytes += room(&path, &about);
                self.told[side].insert(path, about);
                Ok(())
            }
            Entry::Occupied(entry) => {
                let (path, other) = entry.remove_entry();
                self.bytes -= room(&path, &other);
                let ends = if side == 0 { [about, other] } else { [other, about] };
                self.note_both(path, ends, out, go_on)
            }
        }
    }

    fn note_both(
        &mut self,
        path: Vec<u8>,
        ends: [About; 2],
        out: &mut Vec<Told>,
        go_on: &mut GoesOn<'_>,
    ) -> Result<(), FilesError> {
        let other_kept = self.keeping.differs(&ends, &self.sides[1].session, go_on)?;
        let [source, target] = &ends;
        self.counts.dated += u64::from(source.kind == Kind::Folder && source.modified != target.modified);
        match (&source.kind, &target.kind) {
            (Kind::File { size }, Kind::File { size: other }) if self.how.contents && size == other => {
                self.same_size.add(Pair { path, ends, other_kept }, out);
            }
            _ if other_kept || differ(source, target) || (self.how.tells_special && is_special(source)) => {
                out.push(Told { path, ends: ends.map(Some), verdict: Verdict::Listed, other_kept });
            }
            _ => {}
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
                out.push(Told { path, ends, verdict: Verdict::Listed, other_kept: false });
            }
            if !out.is_empty() {
                return true;
            }
        }
        false
    }

    fn check_held(&self) -> Result<(), FilesError> {
        let held = self.told.iter().map(HashMap::len).sum::<usize>() + self.keeping.held();
        if held <= self.how.most && self.bytes <= MOST_BYTES {
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

#[cfg(all(test, unix))]
mod tests;
