//! Requests of a user about files at an executor, one after the other over one link. Answers come in the same order.
//!
//! Everything is bounded: folders are listed in pages, files are read in pieces, and names are sent in batches.

use super::transfer::{Filter, MOST_NAME, MOST_OWNER, MOST_PATH, MOST_TARGET, Owner, are_patterns, is_name};
use crate::error::WireError;
use serde::{Deserialize, Serialize};

/// Limit on a body, which is a piece of a file, in bytes. A page of a folder ends earlier.
pub const MOST_BODY: u64 = 1 << 20;
/// Limit on the entries in one page.
pub const MOST_FOUND: u32 = 4096;
/// Limit on the names in one request.
pub const MOST_NAMES: usize = 1024;
/// Limit on the listings and files that one user has open over one link.
pub const MOST_OPEN: usize = 64;
/// Limit on the requests that wait for their answers.
pub const MOST_AHEAD: usize = 16;
/// Limit on the failures reported for one request. Further failures are only counted.
pub const MOST_FAILURES: usize = 1000;
/// Limit on the bytes of these failures.
pub const MOST_TOLD: usize = 256 << 10;

/// A request. Paths are absolute. Names, for example of files, are relative to a folder and lead through no symbolic
/// link. A handle is a number that the client has chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Ask {
    /// List a folder, and its subfolders down to `depth`. `matching`: report only entries that match one of these
    /// patterns as a whole; none: everything. `contents`: tell digests of small files. The answer also describes what the filter keeps.
    List { handle: u32, path: Vec<u8>, depth: u32, filter: Filter, matching: Vec<String>, contents: bool },
    /// The next page.
    More { handle: u32 },
    /// Describe what is at a path; the target of a symbolic link, if it `follows`.
    Look { path: Vec<u8>, follows: bool },
    /// The identities of the folders around a place, so that the client can tell whether another place is inside it.
    Locate { path: Vec<u8> },
    /// This machine's number of a user, or of a `group`: the number with the same name, or else the same number.
    Number { owner: Owner, group: bool },
    /// Remove. A folder is removed with its contents if `all` is set; otherwise only if it is empty.
    Remove { folder: Vec<u8>, names: Vec<Vec<u8>>, all: bool },
    /// `above`: also make missing parent folders. The folder may exist already.
    MakeFolder { path: Vec<u8>, above: bool },
    /// Rename, replacing what is there.
    Rename { from: Vec<u8>, to: Vec<u8> },
    /// Set the modification times of files.
    SetTimes { folder: Vec<u8>, names: Vec<Vec<u8>>, times: Vec<Dated> },
    /// The BLAKE3 digests of files.
    Digests { folder: Vec<u8>, names: Vec<Vec<u8>> },
    /// Open a file for reading. Answer: `Opened`.
    Open { handle: u32, path: Vec<u8> },
    /// Read. Near the end of the file, fewer bytes are returned.
    Read { handle: u32, offset: u64, length: u32 },
    /// Check that a file has not changed since it was opened.
    Settle { handle: u32 },
    /// Begin a file, which gets its name when it is complete. `new`: fail if something is there by then; otherwise
    /// replace it.
    Create { handle: u32, path: Vec<u8>, new: bool },
    /// The next bytes, in the body.
    Write { handle: u32 },
    /// The file is complete. It must have this many bytes and this BLAKE3 digest.
    Commit { handle: u32, length: u64, digest: [u8; 32] },
    /// Close a handle. A file that is not committed is discarded.
    Close { handle: u32 },
    /// Heartbeat of the client.
    Beat,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Answer {
    /// First message of an executor.
    Offer { phalanx: String },
    /// A page with this many entries, in the body. `more`: whether there may be further pages.
    Page { count: u32, more: bool },
    /// `None`: nothing is there.
    Found(Option<About>),
    /// Whether something is there, and its identity, followed by that of each folder above it. Equal identities are the
    /// same folder, even at another executor of the same machine. `None` if the system does not tell.
    Located { exists: bool, folders: Vec<Place> },
    /// The number of a user or a group.
    Number(u32),
    /// All names of the request were tried; these failed.
    Tried { done: u64, failed: u64, failures: Vec<Failure> },
    /// In the order of the names.
    Digests(Vec<Result<[u8; 32], String>>),
    /// The file is open.
    Opened(About),
    /// Bytes of a file, in the body. `digest`: their BLAKE3, if the link gives no protection.
    Data { digest: Option<[u8; 32]> },
    /// The request is done.
    Done,
    /// The request failed.
    Failed { why: Why, reason: String },
    /// Heartbeat of the executor.
    Beat,
}

/// Why a request failed, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// Nothing is there.
    Missing,
    /// Something is there already.
    Exists,
    /// The system or the executor's exports do not allow it.
    Denied,
    /// A part of the path is no folder.
    NoFolder,
    /// A folder is where a file is needed.
    IsFolder,
    /// The folder has contents.
    NotEmpty,
    /// The disk is full.
    Full,
    /// For any other reason.
    Other,
}

/// A failed operation and the reason. The path is relative to the folder, as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The path, relative to the folder.
    pub path: Vec<u8>,
    /// Why, for programs.
    pub why: Why,
    /// Why, for people.
    pub reason: String,
}

/// An opaque identity of a file or folder on its machine.
pub type Place = [u8; 16];

/// Seconds and nanoseconds since 1970.
pub type Time = (i64, u32);

/// The modification time to set for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dated {
    /// The time to set.
    pub time: Time,
    /// The size and time seen earlier: if the file differs, it is left alone. `None`: set in any case.
    pub seen: Option<(u64, Time)>,
}

/// A file, folder, link or something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Whether it is a file, a folder, a link or something else.
    pub kind: Kind,
    /// Permission bits; `None` if the system has none.
    pub mode: Option<u32>,
    /// Time of the last change.
    pub modified: Time,
    /// The owners, attributes and names that the listing's filter asks for. `None`: it asks for none, or they could not be read.
    pub kept: Option<Box<Kept>>,
    /// The digest of a file's content, if contents were asked for, it is small, and it could be read.
    pub content: Option<Box<[u8; 32]>>,
}

/// The metadata of an entry beside contents, permissions and times, as far as the listing asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The owner, if it was asked for.
    pub owner: Option<Owner>,
    /// The group, if it was asked for.
    pub group: Option<Owner>,
    /// A digest of the extended attributes and access control lists that were asked for.
    pub extended: [u8; 16],
    /// The identity of a file with several names, if hard links were asked for.
    pub several_names: Option<Place>,
}

/// The kind of what is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File {
        /// Its size, in bytes.
        size: u64,
    },
    /// A folder.
    Folder,
    /// A symbolic link.
    Link {
        /// The path in the link, as bytes.
        target: Vec<u8>,
    },
    /// A device, a socket or a pipe.
    Other,
}

/// An entry of a listing, by its path within the listed folder, or why it could not be examined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Its path within the listed folder, as bytes.
    pub path: Vec<u8>,
    /// The description of the entry, or the reason why it could not be examined.
    pub about: Result<About, String>,
}

impl Ask {
    /// Validates what a peer sent.
    pub fn check(&self) -> Result<(), WireError> {
        let is_right = match self {
            Ask::List { path, filter, matching, .. } => {
                is_path(path) && filter.check().is_ok() && are_patterns(matching)
            }
            Ask::Look { path, .. } | Ask::MakeFolder { path, .. } | Ask::Locate { path } => is_path(path),
            Ask::Open { path, .. } | Ask::Create { path, .. } => is_path(path),
            Ask::Rename { from, to } => is_path(from) && is_path(to),
            Ask::Number { owner, .. } => is_named(owner),
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

fn is_named(owner: &Owner) -> bool {
    owner.name.len() <= MOST_OWNER && !owner.name.contains(&0)
}

fn is_time(time: &Time) -> bool {
    time.1 < 1_000_000_000
}

impl Dated {
    fn is_right(&self) -> bool {
        is_time(&self.time) && self.seen.is_none_or(|(_, time)| is_time(&time))
    }
}

/// Whether a path stays within a folder: only names, none that leads upwards or elsewhere.
pub fn is_within(path: &[u8]) -> bool {
    path.len() <= MOST_PATH && path.split(|byte| *byte == b'/').all(is_name)
}

impl About {
    /// Validates what a peer sent.
    pub fn check(&self) -> Result<(), WireError> {
        let kind = match &self.kind {
            Kind::Link { target } => target.len() <= MOST_TARGET && !target.contains(&0),
            Kind::File { size } => *size <= i64::MAX as u64,
            Kind::Folder | Kind::Other => true,
        };
        let mut owners = self.kept.iter().flat_map(|kept| [&kept.owner, &kept.group]).flatten();
        if kind && is_time(&self.modified) && owners.all(is_named) { Ok(()) } else { Err(WireError::NoMessage) }
    }
}

/// Appends an entry to a body.
pub fn encode_found(found: &Found, body: Vec<u8>) -> Vec<u8> {
    postcard::to_extend(found, body).expect("messages of this crate serialize into memory")
}

/// Decodes the entries in a body. There must be exactly `count`.
pub fn decode_found(count: u32, body: &[u8]) -> Result<Vec<Found>, WireError> {
    if count > MOST_FOUND {
        return Err(WireError::NoMessage);
    }
    let (mut all, mut rest) = (Vec::new(), body);
    for _ in 0..count {
        let (found, left): (Found, _) = postcard::take_from_bytes(rest).map_err(|_| WireError::NoMessage)?;
        // If an entry failed, its path may be that of the folder itself.
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

/// Limit on an encoded entry. A page has room for it.
pub const MOST_OF_ONE: usize = MOST_PATH + MOST_TARGET + MOST_NAME + 2 * MOST_OWNER + 192;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::decode;
    use crate::wire::transfer::{MOST_PATTERN, MOST_PATTERNS};
    use proptest::prelude::*;

    fn list(path: &[u8], filter: Filter) -> Ask {
        Ask::List { handle: 0, path: path.into(), depth: 0, filter, matching: Vec::new(), contents: false }
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
        for (length, is_right) in [(MOST_OWNER, true), (MOST_OWNER + 1, false)] {
            let owner = Owner { number: 0, name: vec![b'a'; length] };
            let (extended, several_names) = ([0; 16], None);
            let kept = Kept { owner: None, group: Some(owner.clone()), extended, several_names };
            let about =
                About { kind: Kind::Folder, mode: None, modified: (0, 0), kept: Some(Box::new(kept)), content: None };
            assert_eq!(
                (about.check().is_ok(), Ask::Number { owner, group: true }.check().is_ok()),
                (is_right, is_right)
            );
        }
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
            let kept = |path: &str| {
                let owner = Some(Owner { number: 7, name: path.into() });
                Some(Box::new(Kept { owner, group: None, extended: [1; 16], several_names: Some([2; 16]) }))
            };
            let about = |path: &str| match path.len() % 3 {
                0 => Err("unreadable".to_owned()),
                1 => Ok(About { kind: Kind::File { size }, mode: Some(0o644), modified: (-1, 5), kept: None, content: Some(Box::new([3; 32])) }),
                _ => Ok(About { kind: Kind::Link { target: path.into() }, mode: None, modified: (0, 0), kept: kept(path), content: None }),
            };
            let all: Vec<_> = paths.iter().map(|path| Found { path: path.as_bytes().into(), about: about(path) }).collect();
            let body = all.iter().fold(Vec::new(), |body, found| encode_found(found, body));
            prop_assert_eq!(decode_found(all.len() as u32, &body).unwrap(), all);
        }
    }
}
