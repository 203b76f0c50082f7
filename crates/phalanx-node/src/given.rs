//! What a program is given: marks in the pickles that a manager sends stand for the spaces in them.
//!
//! A pickled space carries a random mark, which this process remembers. A manager looks for these marks in code and tasks,
//! however deep in them a space is, and delegates the use of exactly these spaces. Nobody else can guess a mark, so data of
//! others cannot widen a delegation.

use phalanx_net::identity::random_number;
use phalanx_net::sync::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const PREFIX: &[u8] = b"phalanx-given-";
/// Length of a mark: the prefix, and a number of 128 bits in hexadecimal digits.
const MARK: usize = PREFIX.len() + 32;

type Names = BTreeSet<String>;

/// The names of spaces by mark, and the mark by names.
static MARKS: Mutex<(BTreeMap<String, Names>, BTreeMap<Names, String>)> =
    Mutex::new((BTreeMap::new(), BTreeMap::new()));
/// Whether there are marks. Most processes pickle no space, and need not look for any.
static ANY: AtomicBool = AtomicBool::new(false);

/// The mark that stands for the spaces with these names, as `ws7/jobs`. Empty for none.
pub fn mark_of(names: Names) -> String {
    if names.is_empty() {
        return String::new();
    }
    let (by_mark, by_names) = &mut *lock(&MARKS);
    let mark = by_names.entry(names.clone()).or_insert_with(|| {
        let mark = format!("{}{:032x}", String::from_utf8_lossy(PREFIX), random_number());
        by_mark.insert(mark.clone(), names);
        mark
    });
    ANY.store(true, Ordering::Release);
    mark.clone()
}

/// The names of the spaces whose marks are in these bytes.
pub(crate) fn found_in(bytes: &[u8]) -> Names {
    let mut found = Names::new();
    if !ANY.load(Ordering::Acquire) {
        return found;
    }
    let mut rest = bytes;
    while let Some(at) = position(rest) {
        let mark = rest[at..].get(..MARK).and_then(|mark| std::str::from_utf8(mark).ok());
        found.extend(mark.and_then(|mark| lock(&MARKS).0.get(mark).cloned()).unwrap_or_default());
        rest = &rest[at + PREFIX.len()..];
    }
    found
}

/// How far to go on when the last of as many bytes as the prefix has is this one (the algorithm of Horspool).
static SKIP: [u8; 256] = {
    let mut skip = [PREFIX.len() as u8; 256];
    let mut at = 0;
    while at + 1 < PREFIX.len() {
        skip[PREFIX[at] as usize] = (PREFIX.len() - 1 - at) as u8;
        at += 1;
    }
    skip
};

/// Where the prefix of a mark begins.
fn position(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(window) = bytes.get(at..at + PREFIX.len()) {
        if window == PREFIX {
            return Some(at);
        }
        at += usize::from(SKIP[usize::from(window[PREFIX.len() - 1])]);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Names {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn marks_are_found_wherever_they_are() {
        let (jobs, both) = (mark_of(names(&["board/jobs"])), mark_of(names(&["board/jobs", "ws7/x"])));
        assert_eq!((jobs.len(), mark_of(names(&["board/jobs"]))), (MARK, jobs.clone()));
        assert_eq!(found_in(jobs.as_bytes()), names(&["board/jobs"]));
        for before in 0..40 {
            let text = format!(
                "{}{jobs}-phalanx-phalanx-given-{both}p",
                "-phalanx-given".repeat(before % 3) + &"n".repeat(before)
            );
            assert_eq!(found_in(text.as_bytes()), names(&["board/jobs", "ws7/x"]), "{text}");
        }
    }

    #[test]
    fn what_others_make_up_stands_for_nothing() {
        let mark = mark_of(names(&["board/secrets"]));
        for text in ["phalanx-given-board/secrets", &format!("phalanx-given-{:032x}", 0), &mark[..MARK - 1], ""] {
            assert_eq!(found_in(text.as_bytes()), Names::new(), "{text}");
        }
        assert_eq!(mark_of(Names::new()), "");
    }
}
