//! News that could not be written to a file. A server logs this. A program has no log, so it warns at its end, from the notes here.

use super::Learned;
use crate::sync::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The kinds of news that could not be written, each with a sentence that says why. A program shows each once.
static UNWRITTEN: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());

impl Learned {
    /// The kinds of news that could not be written, each with a sentence that also says why.
    pub fn unwritten(&self) -> impl Iterator<Item = (&'static str, String)> {
        let list = self.list.as_ref().and_then(|taken| taken.unwritten.as_ref());
        let kinds = [
            ("a newer list of revoked certificates could not be written here", list),
            ("renewed certificates could not be written here", self.brought.unwritten.as_ref()),
        ];
        kinds.into_iter().filter_map(|(what, why)| Some((what, format!("{what}: {}", why?))))
    }
}

/// Notes the kinds of news that could not be written.
pub fn note_unwritten(learned: &Learned) {
    for (what, sentence) in learned.unwritten() {
        lock(&UNWRITTEN).entry(what).or_insert(sentence);
    }
}

/// Removes the notes, and returns them as sentences for the user.
pub fn take_unwritten() -> Vec<String> {
    std::mem::take(&mut *lock(&UNWRITTEN)).into_values().collect()
}
