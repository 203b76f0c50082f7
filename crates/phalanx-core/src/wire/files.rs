//! What a user asks of the files at an executor, one after the other over one link, and what is answered, in the same order.
//!
//! Everything is bounded: a folder comes in pages, a file in pieces, and names in batches.

use super::transfer::{Filter, MOST_NAME, MOST_PATH, MOST_TARGET, are_patterns, is_name};
use crate::error::WireError;
use serde::{Deserialize, Serialize};

/// Longest body: a piece of a file, in bytes. A page of a folder ends earlier.
pub const MOST_BODY: u64 = 1 << 20;
/// Things found in one page.
pub const MOST_FOUND: u32 = 4096;
/// Names in one question.
pub const MOST_NAMES: usize = 1024;
/// Listings and files that one user has open over one link.
pub const MOST_OPEN: usize = 64;
/// Questions that wait for their answers.
pub const MOST_AHEAD: usize = 16;
/// Failures that are told of one question, and bytes of them; of more, their number only.
pub const MOST_FAILURES: usize = 1000;
pub const MOST_TOLD: usize = 256 << 10;

/// What is asked. Paths are absolute; names within a folder, of files for example, are relative and lead through no link.
/// A handle is a number that the one who asks has chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// What is in a folder, and in folders in it, `depth` deep. `matching`: told is only what matches one of these as a
    /// whole; none: everything.
    List {
        handle: u32,
        path: Vec<u8>,
        depth: u32,
        filter: Filter,
        matching: Vec<String>,
    },
    /// The next page.
    More {
        handle: u32,
    },
    /// What lies there; what a link leads to, if it `follows`.
    Look {
        path: Vec<u8>,
        follows: bool,
    },
    /// Which folders a place lies in, so that it is known whether another lies in it.
    Locate {
        path: Vec<u8>,
    },
    /// A folder with all in it if `all`, otherwise only an empty one.
    Remove {
        folder: Vec<u8>,
        names: Vec<Vec<u8>>,
        all: bool,
    },
    /// `above`: and those in which it is to be; it may be there already.
    MakeFolder {
        path: Vec<u8>,
        above: bool,
    },
    /// Takes the place of what is there.
    Rename {
        from: Vec<u8>,
        to: Vec<u8>,
    },
    /// Times of the last change, of files.
    SetTimes {
        folder: Vec<u8>,
        names: Vec<Vec<u8>>,
        times: Vec<Dated>,
    },
    /// BLAKE3 of the content of files.
    Digests {
        folder: Vec<u8>,
        names: Vec<Vec<u8>>,
    },
    Open {
        handle: u32,
        path: Vec<u8>,
    },
    /// At the end of the file, or beyond, less comes.
    Read {
        handle: u32,
        offset: u64,
        length: u32,
    },
    /// Whether a file is still as it was when it was opened.
    Settle {
        handle: u32,
    },
    /// Begins a file, which has its name when it is whole. `new`: unless something is there by then; otherwise in its place.
    Create {
        handle: u32,
        path: Vec<u8>,
        new: bool,
    },
    /// The next bytes, which are the body.
    Write {
        handle: u32,
    },
    /// It is whole: so many bytes, with this BLAKE3.
    Commit {
        handle: u32,
        length: u64,
        digest: [u8; 32],
    },
    /// What is not committed is gone.
    Close {
        handle: u32,
    },
    /// This end lives.
    Beat,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// An executor's first.
    Offer {
        phalanx: String,
    },
    /// So many things found, which are the body; whether there may be `more`.
    Page {
        count: u32,
        more: bool,
    },
    /// Nothing, where nothing is there.
    Found(Option<About>),
    /// Whether something is there, and by what it is known, and then each folder above it: equal ones are the same folder,
    /// also at another executor of the same machine. None where the system does not tell.
    Located {
        exists: bool,
        folders: Vec<Place>,
    },
    /// Of so many names each came to something; these failed.
    Tried {
        done: u64,
        failed: u64,
        failures: Vec<Failure>,
    },
    /// In the order of the names.
    Digests(Vec<Result<[u8; 32], String>>),
    Opened(About),
    /// Bytes of a file: the body. `digest`: their BLAKE3, where the link protects nothing.
    Data {
        digest: Option<[u8; 32]>,
    },
    Done,
    Failed {
        why: Why,
        reason: String,
    },
    /// This end lives.
    Beat,
}

/// Why something was not done, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    Missing,
    Exists,
    Denied,
    NoFolder,
    IsFolder,
    NotEmpty,
    Full,
    Other,
}

/// What could not be done, and why. Its path within the folder, as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub path: Vec<u8>,
    pub why: Why,
    pub reason: String,
}

/// By what a file or folder is known on its machine, and nothing else of it.
pub type Place = [u8; 16];

/// Seconds since 1970, and nanoseconds.
pub type Time = (i64, u32);

/// When a file is to have been changed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dated {
    pub time: Time,
    /// Its size and time when it was looked at: another one is left alone. None: whatever it is.
    pub seen: Option<(u64, Time)>,
}

/// A file, folder, link or something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub kind: Kind,
    /// Permission bits; none where the system has no such.
    pub mode: Option<u32>,
    /// Time of the last change.
    pub modified: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    File { size: u64 },
    Folder,
    Link { target: Vec<u8> },
    Other,
}

/// Something in a listing, by its path within the listed folder; or what could not be looked at, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub path: Vec<u8>,
    pub about: Result<About, String>,
}

impl Ask {
    /// Checks what a peer sent.
    pub fn check(&self) -> Result<(), WireError> {
        let is_right = match self {
            Ask::List { path, filter, matching, .. } => {
                is_path(path) && filter.check().is_ok() && are_patterns(matching)
            }
            Ask::Look { path, .. } | Ask::MakeFolder { path, .. } | Ask::Locate { path } => is_path(path),
            Ask::Open { path, .. } | Ask::Create { path, .. } => is_path(path),
            Ask::Rename { from, to } => is_path(from) && is_path(to),
            Ask::Remove { folder, names, .. } | Ask::Digests { folder, names } => is_path(folder) && are_names(names),
            Ask::SetTimes { folder, names, times } => {
                is_path(folder) && are_names(names) && times.len() == names.len() && times.iter().all(Dated::is_right)
            }
            Ask::Read { length, .. } => u64::from(*length) <= MOST_BODY,
            Ask::More { .. } | Ask::Settle { .. } | Ask::Write { .. } => true,
            Ask::Commit { .. } | Ask::Close { .. } | Ask::Beat => true,
        };
        if is_right { Ok(()) } else { Err(WireError::NoMessage) }
    }
}

fn is_path(path: &[u8]) -> bool {
    !path.is_empty() && path.len() <= MOST_PATH && !path.contains(&0)
}

fn are_names(names: &[Vec<u8>]) -> bool {
    names.len() <= MOST_NAMES && names.iter().all(|name| is_within(name))
}

fn is_time(time: &Time) -> bool {
    time.1 < 1_000_000_000
}

impl Dated {
    fn is_right(&self) -> bool {
        is_time(&self.time) && self.seen.is_none_or(|(_, time)| is_time(&time))
    }
}

/// Whether it is a path within a folder: names, and nothing that leads up or elsewhere.
pub fn is_within(path: &[u8]) -> bool {
    path.len() <= MOST_PATH && path.split(|byte| *byte == b'/').all(is_name)
}

impl About {
    /// Checks what a peer sent.
    pub fn check(&self) -> Result<(), WireError> {
        let kind = match &self.kind {
            Kind::Link { target } => target.len() <= MOST_TARGET && !target.contains(&0),
            Kind::File { size } => *size <= i64::MAX as u64,
            Kind::Folder | Kind::Other => true,
        };
        if kind && is_time(&self.modified) { Ok(()) } else { Err(WireError::NoMessage) }
    }
}

/// Appends something found to a body.
pub fn encode_found(found: &Found, body: Vec<u8>) -> Vec<u8> {
    postcard::to_extend(found, body).expect("messages of this crate serialize into memory")
}

/// What was found, in a body, of which there must be `count`.
pub fn decode_found(count: u32, body: &[u8]) -> Result<Vec<Found>, WireError> {
    if count > MOST_FOUND {
        return Err(WireError::NoMessage);
    }
    let (mut all, mut rest) = (Vec::new(), body);
    for _ in 0..count {
        let (found, left): (Found, _) = postcard::take_from_bytes(rest).map_err(|_| WireError::NoMessage)?;
        // The path of what failed may be that of the folder itself.
        let is_path = is_within(&found.path) || (found.path.is_empty() && found.about.is_err());
        if !is_path {
            return Err(WireError::NoMessage);
        }
        found.about.as_ref().map_or(Ok(()), About::check)?;
        all.push(found);
        rest = left;
    }
    if rest.is_empty() { Ok(all) } else { Err(WireError::Lengths) }
}

/// Longest thing found, encoded: a page has room for it.
pub const MOST_OF_ONE: usize = MOST_PATH + MOST_TARGET + MOST_NAME + 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::decode;
    use crate::wire::transfer::{MOST_PATTERN, MOST_PATTERNS};
    use proptest::prelude::*;

    fn list(path: &[u8], filter: Filter) -> Ask {
        Ask::List { handle: 0, path: path.into(), depth: 0, filter, matching: Vec::new() }
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        for name in [&b""[..], b".", b"..", b"/a", b"a/", b"a//b", b"a/../b", b"a/./b", b"a\0"] {
            let ask = Ask::Remove { folder: b"/x".into(), names: vec![name.into()], all: true };
            assert!(ask.check().is_err(), "{name:?}");
            assert!(list(b"/x", Filter { only: vec![name.into()], ..Filter::default() }).check().is_err(), "{name:?}");
        }
        let ask = Ask::Remove { folder: b"/x".into(), names: vec![b"a/b".into(), "ä".into()], all: true };
        assert!(ask.check().is_ok());
        assert!(list(b"", Filter::default()).check().is_err());
        assert!(list(&[b'a'; MOST_PATH + 1], Filter::default()).check().is_err());
    }

    #[test]
    fn too_much_at_once_is_refused() {
        let patterns = |count, length| Filter { exclude: vec!["x".repeat(length); count], ..Filter::default() };
        assert!(list(b"/x", patterns(MOST_PATTERNS, MOST_PATTERN)).check().is_ok());
        for filter in [patterns(MOST_PATTERNS + 1, 1), patterns(1, MOST_PATTERN + 1), patterns(1, 0)] {
            assert!(list(b"/x", filter).check().is_err());
        }
        let names = vec![b"a".to_vec(); MOST_NAMES + 1];
        assert!(Ask::Digests { folder: b"/x".into(), names: names.clone() }.check().is_err());
        let times = vec![Dated { time: (0, 0), seen: None }; 2];
        assert!(Ask::SetTimes { folder: b"/x".into(), names: names[..1].into(), times }.check().is_err());
        assert!(Ask::Read { handle: 0, offset: 0, length: MOST_BODY as u32 + 1 }.check().is_err());
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_or_understood_but_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300), count in 0u32..9
        ) {
            if let Ok(ask) = decode::<Ask>(&bytes) {
                let _ = ask.check();
            }
            let _ = decode::<Answer>(&bytes);
            if let Ok(all) = decode_found(count, &bytes) {
                prop_assert_eq!(all.len(), count as usize);
                let again = all.iter().fold(Vec::new(), |body, found| encode_found(found, body));
                prop_assert_eq!(decode_found(count, &again).unwrap(), all);
            }
        }

        #[test]
        fn what_was_found_comes_back(paths in proptest::collection::vec("[a-zä]{1,9}(/[a-z]{1,9}){0,3}", 0..9), size in 0u64..1 << 62) {
            let about = |path: &str| match path.len() % 3 {
                0 => Err("unreadable".to_owned()),
                1 => Ok(About { kind: Kind::File { size }, mode: Some(0o644), modified: (-1, 5) }),
                _ => Ok(About { kind: Kind::Link { target: path.into() }, mode: None, modified: (0, 0) }),
            };
            let all: Vec<_> = paths.iter().map(|path| Found { path: path.as_bytes().into(), about: about(path) }).collect();
            let body = all.iter().fold(Vec::new(), |body, found| encode_found(found, body));
            prop_assert_eq!(decode_found(all.len() as u32, &body).unwrap(), all);
        }
    }
}
