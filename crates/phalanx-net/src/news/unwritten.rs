//! News that could not be written to a file. A server logs this. A program has no log, so it warns at its end, from the notes here.

use super::Learned;
use crate::sync::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Why it could not be written, for each kind of news: each is said once.
static UNWRITTEN: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());

/// Notes that news could not be written, and why.
pub fn note_unwritten(learned: &Learned) {
    let list = learned.list.as_ref().and_then(|taken| taken.unwritten.as_ref());
    let kinds =
        [("a newer list of revoked certificates", list), ("renewed certificates", learned.brought.unwritten.as_ref())];
    let failed = kinds.into_iter().filter_map(|(kind, why)| Some((kind, why?)));
    for (kind, why) in failed {
        lock(&UNWRITTEN).entry(kind).or_insert_with(|| why.to_string());
    }
}

/// Removes the notes, and returns them as sentences for the user.
pub fn take_unwritten() -> Vec<String> {
    let noted = std::mem::take(&mut *lock(&UNWRITTEN));
    noted.into_iter().map(|(kind, why)| format!("{kind} could not be written here: {why}")).collect()
}
