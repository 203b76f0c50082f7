//! Files that have the same size at both ends. Digests of their contents are requested from both ends, several requests
//! ahead.

use super::entries::differ;
use super::{Side, Told, Verdict};
use crate::dial::printable;
use crate::transfer::files::line::{FilesError, GoesOn, Waiting};
use bytes::Bytes;
use phalanx_core::wire::files::{About, Answer, Ask, Kind, MOST_NAMES};
use std::collections::VecDeque;

/// Most files in one request for digests.
pub(super) const FILES: usize = MOST_NAMES;
/// Most bytes of their names.
const NAMES: usize = 128 << 10;
/// Bytes of contents after which a request ends, so that other requests are answered in between.
const BYTES: u64 = 1 << 30;
/// Requests for digests that are under way at each end.
const AHEAD: usize = 3;

/// A file that has the same size at both ends.
pub(super) struct Pair {
    pub path: Vec<u8>,
    pub ends: [About; 2],
    pub other_kept: bool,
}

/// Files of the same size whose contents are not compared yet.
#[derive(Default)]
pub(super) struct SameSize {
    files: VecDeque<Pair>,
    /// Bytes of their contents.
    size: u64,
    /// Bytes of their names.
    names: usize,
    asked: VecDeque<Asked>,
    /// Number of files whose contents were compared.
    pub compared: u64,
}

/// A request for digests that was sent to both ends.
struct Asked {
    files: Vec<Pair>,
    waiting: [Waiting; 2],
}

impl SameSize {
    /// Compares two files if both ends have told digests of them, which they do of small files, or else adds them.
    pub fn add(&mut self, pair: Pair, out: &mut Vec<Told>) {
        if let [Some(one), Some(other)] = pair.ends.each_ref().map(|end| end.content.as_deref()) {
            let is_same = one == other;
            return self.note(pair, (!is_same).then_some(Verdict::OtherContent), out);
        }
        self.size = self.size.saturating_add(pair.size());
        self.names += pair.path.len();
        self.files.push_back(pair);
    }

    /// Sends requests while files fill one, and receives answers while many requests are under way. `all`: no more files are
    /// added, and all of them are compared.
    pub fn go_on(
        &mut self,
        sides: &[Side],
        all: bool,
        out: &mut Vec<Told>,
        go_on: &mut GoesOn<'_>,
    ) -> Result<(), FilesError> {
        while self.is_full() || (all && !self.files.is_empty()) {
            self.ask(sides, go_on)?;
        }
        while self.asked.len() > AHEAD || (all && !self.asked.is_empty()) {
            self.compare(out, go_on)?;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.files.len() >= FILES || self.size >= BYTES || self.names >= NAMES
    }

    fn ask(&mut self, sides: &[Side], go_on: &mut GoesOn<'_>) -> Result<(), FilesError> {
        let files = self.take();
        let names: Vec<_> = files.iter().map(|pair| pair.path.clone()).collect();
        let mut ask = |side: &Side| {
            let ask = Ask::Digests { folder: side.path.clone(), names: names.clone() };
            side.session.line.ask(&ask, Bytes::new(), go_on)
        };
        let waiting = [ask(&sides[0])?, ask(&sides[1])?];
        self.asked.push_back(Asked { files, waiting });
        Ok(())
    }

    /// Takes as many files as one request may have, at least one.
    fn take(&mut self) -> Vec<Pair> {
        let (mut some, mut size, mut names) = (Vec::new(), 0, 0);
        while some.len() < FILES && size < BYTES && names < NAMES {
            let Some(pair) = self.files.pop_front() else { break };
            (size, names) = (size.saturating_add(pair.size()), names + pair.path.len());
            some.push(pair);
        }
        (self.size, self.names) = (self.size.saturating_sub(size), self.names - names);
        some
    }

    /// Receives the answers to the oldest request.
    fn compare(&mut self, out: &mut Vec<Told>, go_on: &mut GoesOn<'_>) -> Result<(), FilesError> {
        let Some(Asked { files, waiting: [one, other] }) = self.asked.pop_front() else { return Ok(()) };
        let (one, other) = (digests(one, files.len(), go_on)?, digests(other, files.len(), go_on)?);
        for (pair, digests) in files.into_iter().zip(one.into_iter().zip(other)) {
            let verdict = match digests {
                (Err(reason), _) => Some(Verdict::Unread(printable(&reason))),
                (one, other) => (one != other).then_some(Verdict::OtherContent),
            };
            self.note(pair, verdict, out);
        }
        Ok(())
    }

    /// Counts a compared file. `verdict`: how its contents differ.
    fn note(&mut self, Pair { path, ends, other_kept }: Pair, verdict: Option<Verdict>, out: &mut Vec<Told>) {
        self.compared += 1;
        let has_changed = || other_kept || differ(&ends[0], &ends[1]);
        if let Some(verdict) = verdict.or_else(|| has_changed().then_some(Verdict::SameContent)) {
            out.push(Told { path, ends: ends.map(Some), verdict, other_kept });
        }
    }
}

impl Pair {
    fn size(&self) -> u64 {
        if let Kind::File { size } = self.ends[0].kind { size } else { 0 }
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
