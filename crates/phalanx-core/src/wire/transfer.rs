//! What the two ends of a transfer say to each other: messages on a control link, and the records in a stream's frames.
//!
//! An executor offers levels, the user's end begins, and streams are opened under the token that the executor gave. From then
//! on there are a sending and a receiving end, whoever began: the sender tells what there is, the receiver what of it is
//! wanted; blocks flow over the streams; the receiver says what it has written and what failed.

use crate::error::WireError;
use crate::level::{Level, LevelSet};
use serde::{Deserialize, Serialize};

/// Longest body on the control link: entries, in bytes.
pub const MOST_BODY: u64 = 4 << 20;
/// Entries in one message.
pub const MOST_BATCH: usize = 4096;
/// Entries of one transfer.
pub const MOST_ENTRIES: u32 = 1 << 26;
/// Longest name of a file, in bytes.
pub const MOST_NAME: usize = 255;
/// Longest target of a symbolic link, in bytes.
pub const MOST_TARGET: usize = 4095;
/// Longest path in a request, in bytes.
pub const MOST_PATH: usize = 4095;
/// Names in the top folder of a copy, where not all are copied.
pub const MOST_ONLY: usize = 4096;
/// Bytes of all these names.
pub const MOST_ONLY_BYTES: usize = 256 << 10;
/// Patterns of one kind (included, excluded) in one request.
pub const MOST_PATTERNS: usize = 256;
/// Longest pattern, in bytes.
pub const MOST_PATTERN: usize = 1024;
/// Streams of one transfer at a time.
pub const MOST_STREAMS: u16 = 64;
/// Numbers of its streams, of which each is given once: those that end are replaced so often.
pub const MOST_NUMBERS: u32 = 256;
/// Least limit of a copy, in bytes/s: at a lower one nothing would move for longer than others wait.
pub const LEAST_LIMIT: u64 = 10_000;
/// Copies at a time that take shares of one.
pub const MOST_SHARES: u16 = 16;
/// Bytes before a record's data.
pub const RECORD: usize = 16;
/// Longest payload of a frame, as it is before it is compressed.
pub const MOST_PAYLOAD: usize = 256 << 10;
/// Bytes of a chunk's length and digest in a body.
pub const CHUNK: usize = 20;
/// Chunks in one message.
pub const MOST_CHUNKS_TOLD: usize = 4096;
/// Longest name of an extended attribute, in bytes.
pub const MOST_ATTRIBUTE: usize = 255;
/// Longest value of an extended attribute, in bytes.
pub const MOST_VALUE: usize = 64 << 10;
/// Extended attributes of one file.
pub const MOST_ATTRIBUTES: usize = 1024;
/// Bytes of all names and values of one file's extended attributes.
pub const MOST_ATTRIBUTE_BYTES: usize = 512 << 10;
/// Longest name of a user or a group.
pub const MOST_OWNER: usize = 255;
/// Ranges in one message about an older version.
pub const MOST_SAME: usize = 4096;

/// Every message; each end takes those that are for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Message {
    /// An executor's first: which levels streams may have.
    Offer { phalanx: String, levels: LevelSet },
    /// The user's first.
    Begin(Request),
    /// The transfer is begun; its streams show the token.
    Begun { token: [u8; 12] },
    /// It is not, or not any more, and why.
    Refused { reason: String },
    /// The next entries; they are the body.
    Entries { count: u32 },
    /// There are no more.
    AllEntries,
    /// Answers as many entries: of those named, what is there already, as ranges of bytes; of all others, nothing is. Of
    /// `older` there is an older version: the sender says first what the chunks of the new one are.
    Wanted { count: u32, there: Vec<There>, older: Vec<u32> },
    /// This entry does not come any more, or does not fit here, and why.
    Failed { entry: u32, reason: String },
    /// This cannot be copied, or not wholly, and why: what is no entry, or has ended. Its path within the copy, as bytes.
    Skipped { path: Vec<u8>, reason: String },
    /// So many more frames of each of these streams were taken, and all in them is written.
    Taken { frames: Vec<(u32, u32)> },
    /// A stream ended; what was not taken is to be sent again.
    Lost { stream: u32 },
    /// Everything that can be is in its place.
    Done(Totals),
    /// The user's first, to an executor that another is to copy to: lets that one, the owner of the certificate, begin this
    /// once, as long as the user's link stands. At one of these levels, of which the request's is the least.
    Expect { request: Request, levels: LevelSet, name: Vec<u8>, certificate: Vec<u8> },
    /// It is let in with this.
    Ticket { ticket: [u8; 16] },
    /// The user's first, to an executor that is to copy to another.
    Carry(Carriage),
    /// An executor's first, to another for which it has a ticket.
    Show { ticket: [u8; 16], level: Level },
    /// Of a copy between executors: bytes that are there, of how many so far, and whether there may be more.
    Progress { bytes: u64, total: u64, growing: bool },
    /// What came of a copy between executors; failures were told before, as what was skipped.
    Carried(Carried),
    /// The same, by the executor that received.
    Arrived { level: Level, totals: Totals },
    /// Nothing came of it, or not all.
    Stopped { trouble: Trouble, reason: String },
    /// This end lives.
    Beat,
    /// The next chunks of an entry; they are the body. Their digests are BLAKE3 under the key, which is drawn for each copy.
    Chunks { entry: u32, key: [u8; 32], count: u32 },
    /// These bytes of an entry were taken from its older version. `ended`: and no others, so that all others are wanted.
    Same { entry: u32, ranges: Vec<(u64, u64)>, ended: bool },
}

/// A piece of a file, cut where its content says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Its length, in bytes.
    pub length: u32,
    /// The first half of its BLAKE3 under the copy's key.
    pub digest: [u8; 16],
}

/// What the user's end wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Which end sends.
    pub direction: Direction,
    /// The path or memory that the executor reads or writes.
    pub target: Target,
    /// The level of the streams.
    pub level: Level,
    /// Whether frames that the level does not protect have a checksum.
    pub checked: bool,
    /// What is there already with the same size and time is copied all the same.
    pub anew: bool,
    /// Nothing is taken from older versions of files.
    pub whole_file: bool,
    /// Whether the sending end compresses.
    pub compress: Compress,
    /// For the executor's end.
    pub threads: u16,
    /// What of it is copied, where the executor sends.
    pub filter: Filter,
    /// Bytes/s that the sending end keeps to; 0: as many as it can.
    pub limit: u64,
    /// What of it the receiving end takes; none: all of it.
    pub share: Option<Share>,
    /// Shares of the same copy came before, and one of them made the top folder: it counts as new.
    pub fresh: bool,
    /// Drawn for each copy. Its shares have the same, and its end that reconnects after a cut: that one takes over from itself.
    pub copy: [u8; 16],
    /// Name of what is copied to an executor: in one folder, copies of other names do not disturb each other.
    pub name: Vec<u8>,
}

/// One of several copies of the same, each between other machines: files of its own, and ranges of large ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// From 0.
    pub index: u16,
    /// The number of shares.
    pub count: u16,
}

/// A copy from this executor to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carriage {
    /// What is copied; its level is the least.
    pub request: Request,
    /// Those that the user takes at both ends.
    pub levels: LevelSet,
    /// It is to be this level, and none that protects more.
    pub exact: bool,
    /// None: as many as are worth it.
    pub streams: Option<u16>,
    /// The other executor's address.
    pub address: String,
    /// The certificate of the other executor.
    pub certificate: Vec<u8>,
    /// What the other executor accepts in place of the user's certificate.
    pub ticket: [u8; 16],
}

/// What came of a copy from one executor to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// The level that the streams had.
    pub level: Level,
    /// What decided the level.
    pub why: String,
    /// The number of streams.
    pub streams: u16,
    /// Streams that ended before the copy did.
    pub lost: u32,
    /// The number of lost streams on which bytes were altered.
    pub altered: u32,
    /// Microseconds until the first stream could carry bytes.
    pub setup: u64,
    /// What the receiving executor counted.
    pub totals: Totals,
}

/// Why a copy between executors ended before it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// The other executor is out of reach.
    Unreachable,
    /// The two have no level in common.
    Level,
    /// One of them cannot do it.
    Refused,
    /// It can go on where it was.
    Cut,
}

/// Seen from the user: to the executor, or from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// The user's end sends.
    Put,
    /// The executor sends.
    Get,
}

/// What is copied there or from there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Target {
    /// A path, as bytes. `folder`: the copy goes into it, under its own name.
    Path { path: Vec<u8>, folder: bool },
    /// Bytes that are made up, so many, or thrown away: for measuring.
    Memory { bytes: u64 },
}

/// What is left out of a copy or a listing, seen from its top folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// Names in the top folder; none: all of them.
    pub only: Vec<Vec<u8>>,
    /// Files and links are taken if they, or a folder they are in, match one of these; none: all of them.
    pub include: Vec<String>,
    /// Nothing is taken that matches one of these, and no folder that does is looked into.
    pub exclude: Vec<String>,
    /// What becomes of symbolic links.
    pub links: Links,
    /// What is kept beside contents, permissions and times.
    pub keeps: Keeps,
}

/// What is kept beside contents, permissions and times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keeps {
    /// The owner.
    pub owner: bool,
    /// The group.
    pub group: bool,
    /// Owners and groups have the same number, and not the same name.
    pub numeric: bool,
    /// Extended attributes.
    pub xattrs: bool,
    /// Access control lists.
    pub acls: bool,
    /// Hard links: several names of one file stay names of one file.
    pub hard_links: bool,
}

/// What becomes of symbolic links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Links {
    /// Those that stay within what is copied are copied as they are; the others fail.
    #[default]
    Within,
    /// All are copied as they are.
    Keep,
    /// What they lead to is copied in their place.
    Follow,
    /// They are left out.
    Skip,
}

/// Whether the sending end compresses what compresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compress {
    /// The sending end never compresses.
    Never,
    /// While the line is slow enough that it saves time.
    #[default]
    BySpeed,
    /// Whatever the line's speed.
    Always,
}

/// What there is to copy, in one folder's own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Number of the entry that is its folder; none: it is the root, the first of all.
    pub parent: Option<u32>,
    /// One name, without a path.
    pub name: Vec<u8>,
    /// File, folder or link.
    pub kind: Kind,
    /// Permission bits; none where the system has no such.
    pub mode: Option<u32>,
    /// Time of the last change: seconds since 1970, nanoseconds.
    pub modified: (i64, u32),
    /// None: nothing of it was asked for.
    pub attributes: Option<Box<Attributes>>,
}

/// What an entry has beside contents, permissions and times, as far as that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The owner, if it was asked for.
    pub owner: Option<Owner>,
    /// The group, if it was asked for.
    pub group: Option<Owner>,
    /// Extended attributes, among them access control lists: names and values.
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
    /// `None`: the file has no other name in the copy.
    pub hard_link: Option<HardLink>,
}

/// A user or a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The number at the sending end.
    pub number: u32,
    /// Empty where it has none.
    pub name: Vec<u8>,
}

/// A file with several names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HardLink {
    /// The first of them; others may follow.
    First,
    /// The same file as this entry.
    Same(u32),
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File {
        /// Its size, in bytes.
        size: u64,
    },
    /// A folder.
    Folder,
    /// A symbolic link, and what it says.
    Link {
        /// The path in the link, as bytes.
        target: Vec<u8>,
    },
}

/// Which bytes of an entry are there already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct There {
    /// The number of the entry.
    pub entry: u32,
    /// From, to; in order, not touching.
    pub ranges: Vec<(u64, u64)>,
}

/// What came of a transfer, by its receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Files in their place.
    pub files: u64,
    /// Folders in their place.
    pub folders: u64,
    /// Symbolic links in their place.
    pub links: u64,
    /// Of files that are in their place.
    pub bytes: u64,
    /// Of these, those that were there already.
    pub kept_files: u64,
    /// Entries that failed.
    pub failed: u64,
    /// Bytes of files in their place that were taken from older versions.
    pub reused: u64,
    /// Bytes that crossed for files: what streams carried, without holes, and digests.
    pub crossed: u64,
}

impl Share {
    /// Checks what a peer sent.
    pub fn check(self) -> Result<(), WireError> {
        if self.index < self.count && self.count <= MOST_SHARES { Ok(()) } else { Err(WireError::NoMessage) }
    }
}

impl Filter {
    /// Whether it takes everything.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    /// Checks what a peer sent.
    pub fn check(&self) -> Result<(), WireError> {
        let bytes: usize = self.only.iter().map(Vec::len).sum();
        let few = self.only.len() <= MOST_ONLY && bytes <= MOST_ONLY_BYTES;
        let names = few && self.only.iter().all(|name| is_name(name));
        let patterns = [&self.include, &self.exclude].into_iter().all(|patterns| are_patterns(patterns));
        if names && patterns { Ok(()) } else { Err(WireError::NoMessage) }
    }
}

/// Whether they are so many, and each so long, as patterns may be.
pub fn are_patterns(patterns: &[String]) -> bool {
    patterns.len() <= MOST_PATTERNS && patterns.iter().all(|one| !one.is_empty() && one.len() <= MOST_PATTERN)
}

impl Entry {
    /// Checks what a peer sent, of an entry that has the number `own`.
    pub fn check(&self, own: u32) -> Result<(), WireError> {
        let root = own == 0;
        let parent = match self.parent {
            None => root,
            Some(parent) => parent < own,
        };
        let target = match &self.kind {
            Kind::Link { target } => !target.is_empty() && target.len() <= MOST_TARGET && !target.contains(&0),
            Kind::File { size } => *size <= i64::MAX as u64,
            Kind::Folder => true,
        };
        let times = self.modified.1 < 1_000_000_000;
        let attributes = self.attributes.as_ref().is_none_or(|it| it.are_right(own, &self.kind));
        if parent && target && times && attributes && is_name(&self.name) { Ok(()) } else { Err(WireError::NoMessage) }
    }
}

impl Attributes {
    /// Whether a peer may say so of an entry that has the number `own`.
    fn are_right(&self, own: u32, kind: &Kind) -> bool {
        let bytes = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len();
        let is_short = |(name, value): &(Vec<u8>, Vec<u8>)| {
            (1..=MOST_ATTRIBUTE).contains(&name.len()) && !name.contains(&0) && value.len() <= MOST_VALUE
        };
        let few = self.extended.len() <= MOST_ATTRIBUTES
            && self.extended.iter().all(is_short)
            && self.extended.iter().map(bytes).sum::<usize>() <= MOST_ATTRIBUTE_BYTES;
        let is_named = |owner: &Owner| owner.name.len() <= MOST_OWNER && !owner.name.contains(&0);
        let named = [&self.owner, &self.group].into_iter().flatten().all(is_named);
        let linked = match self.hard_link {
            None => true,
            Some(HardLink::First) => matches!(kind, Kind::File { .. }),
            Some(HardLink::Same(other)) => matches!(kind, Kind::File { .. }) && other < own,
        };
        few && named && linked
    }
}

/// Whether it is a name within a folder: no path, no way up, nothing that a system cuts off.
pub fn is_name(name: &[u8]) -> bool {
    let reserved = matches!(name, b"" | b"." | b"..");
    !reserved && name.len() <= MOST_NAME && !name.iter().any(|byte| matches!(byte, 0 | b'/')) && is_portable(name)
}

/// Where a backslash or a colon is part of a path, no name has one.
#[cfg(windows)]
fn is_portable(name: &[u8]) -> bool {
    !name.iter().any(|byte| matches!(byte, b'\\' | b':'))
}

#[cfg(not(windows))]
fn is_portable(_: &[u8]) -> bool {
    true
}

/// The entries in a body, of which there must be `count`.
pub fn decode_entries(count: u32, body: &[u8]) -> Result<Vec<Entry>, WireError> {
    if count as usize > MOST_BATCH {
        return Err(WireError::NoMessage);
    }
    let (mut entries, mut rest) = (Vec::with_capacity(count as usize), body);
    for _ in 0..count {
        let (entry, left) = postcard::take_from_bytes(rest).map_err(|_| WireError::NoMessage)?;
        entries.push(entry);
        rest = left;
    }
    if rest.is_empty() { Ok(entries) } else { Err(WireError::Lengths) }
}

/// Appends an entry to a body.
pub fn encode_entry(entry: &Entry, body: Vec<u8>) -> Vec<u8> {
    postcard::to_extend(entry, body).expect("messages of this crate serialize into memory")
}

/// The chunks in a body, of which there must be `count`.
pub fn decode_chunks(count: u32, body: &[u8]) -> Result<Vec<Chunk>, WireError> {
    if count as usize > MOST_CHUNKS_TOLD || body.len() != count as usize * CHUNK {
        return Err(WireError::Lengths);
    }
    let chunk = |bytes: &[u8]| {
        let (length, digest) = bytes.split_first_chunk::<4>()?;
        Some(Chunk { length: u32::from_le_bytes(*length), digest: digest.try_into().ok()? })
    };
    body.chunks_exact(CHUNK).map(|bytes| chunk(bytes).ok_or(WireError::Lengths)).collect()
}

/// Appends a chunk to a body.
pub fn encode_chunk(chunk: &Chunk, body: &mut Vec<u8>) {
    body.extend_from_slice(&chunk.length.to_le_bytes());
    body.extend_from_slice(&chunk.digest);
}

/// What a record is about: bytes of an entry, which follow it unless they are a hole.
///
/// ```text
/// | entry, u32 | length, u24 | 1: settles, 2: hole | offset, u64 |     little endian
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The number of the entry.
    pub entry: u32,
    /// Where its bytes begin in the file.
    pub offset: u64,
    /// How many bytes.
    pub length: u32,
    /// The entry's source was looked at when all of it had been read, and had not changed.
    pub settles: bool,
    /// The bytes are zeros that take no room on the disk, and do not follow.
    pub hole: bool,
}

impl Record {
    /// The record as it precedes its data.
    pub fn encode(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..4].copy_from_slice(&self.entry.to_le_bytes());
        let flags = u32::from(self.settles) | u32::from(self.hole) << 1;
        bytes[4..8].copy_from_slice(&(self.length | flags << 24).to_le_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// The record with which `bytes` begins, its data, and what follows.
    pub fn split(bytes: &[u8]) -> Result<(Record, &[u8], &[u8]), WireError> {
        let (head, rest) = bytes.split_first_chunk::<RECORD>().ok_or(WireError::Lengths)?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        let (length, flags) = (word(4) & 0x00ff_ffff, word(4) >> 24);
        let offset = u64::from_le_bytes(head[8..].try_into().expect("8 bytes"));
        if flags > 3 || offset.checked_add(u64::from(length)).is_none() {
            return Err(WireError::NoMessage);
        }
        let (settles, hole) = (flags & 1 != 0, flags & 2 != 0);
        let follows = if hole { 0 } else { length as usize };
        let (data, rest) = rest.split_at_checked(follows).ok_or(WireError::Lengths)?;
        Ok((Record { entry: word(0), offset, length, settles, hole }, data, rest))
    }
}

/// In place of records: all of them, compressed. This head, and one zstd frame behind it.
///
/// ```text
/// | length of the records, u32 | 0, u24 | 4 | 0, u64 |     little endian
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed {
    /// Length of the records before compression, in bytes.
    pub length: u32,
}

impl Packed {
    /// Where a record has its flags; none of a record is this one.
    const MARK: u8 = 4;

    /// The head as it precedes the compressed records.
    pub fn encode(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[7] = Packed::MARK;
        bytes
    }

    /// The head of a payload that is compressed, and what is behind it; none: it is records as they are. An error where the
    /// records would be longer than a payload may be.
    pub fn split(payload: &[u8]) -> Result<Option<(Packed, &[u8])>, WireError> {
        let Some((head, rest)) = payload.split_first_chunk::<RECORD>().filter(|(head, _)| head[7] == Packed::MARK)
        else {
            return Ok(None);
        };
        let packed = Packed { length: u32::from_le_bytes(head[..4].try_into().expect("4 bytes")) };
        match (RECORD..=MOST_PAYLOAD).contains(&(packed.length as usize)) && packed.encode() == *head {
            true => Ok(Some((packed, rest))),
            false => Err(WireError::Lengths),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::decode;
    use proptest::prelude::*;

    fn entry(name: &[u8]) -> Entry {
        Entry { parent: Some(0), name: name.into(), kind: Kind::Folder, mode: None, modified: (0, 0), attributes: None }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"/etc", b"a\0", &[b'a'; 256]] {
            assert!(entry(name).check(1).is_err(), "{name:?}");
        }
        for name in [&b"a"[..], b"...", b".a", b"a b", b"-", "ä".as_bytes(), b"\xff", &[b'a'; 255]] {
            assert!(entry(name).check(1).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn an_entry_is_in_a_folder_that_came_before() {
        assert!(entry(b"a").check(0).is_err(), "the root is in no folder");
        assert!(Entry { parent: None, ..entry(b"a") }.check(1).is_err(), "there is one root");
        assert!(Entry { parent: Some(5), ..entry(b"a") }.check(5).is_err());
        assert!(Entry { parent: Some(4), ..entry(b"a") }.check(5).is_ok());
        let of = |kind| Entry { kind, ..entry(b"a") };
        for target in [vec![], vec![b'a'; 4096], vec![0]] {
            assert!(of(Kind::Link { target }).check(1).is_err());
        }
        assert!(of(Kind::File { size: u64::MAX }).check(1).is_err());
        assert!(Entry { modified: (0, 1_000_000_000), ..entry(b"a") }.check(1).is_err());
    }

    #[test]
    fn attributes_are_bounded_and_links_lead_back() {
        let file = |attributes: Attributes| Entry {
            kind: Kind::File { size: 1 },
            attributes: Some(Box::new(attributes)),
            ..entry(b"a")
        };
        let extended = |name: usize, value: usize, count: usize| {
            let extended = vec![(vec![b'u'; name], vec![0; value]); count];
            file(Attributes { extended, ..Attributes::default() }).check(1).is_ok()
        };
        assert!(extended(MOST_ATTRIBUTE, MOST_VALUE, 1) && extended(9, 9, MOST_ATTRIBUTES));
        for (name, value, count) in [(0, 1, 1), (256, 1, 1), (9, MOST_VALUE + 1, 1), (9, MOST_VALUE, 9), (9, 1, 1025)] {
            assert!(!extended(name, value, count), "{name} {value} {count}");
        }
        let linked = |to| Attributes { hard_link: Some(to), ..Attributes::default() };
        assert!(file(linked(HardLink::Same(1))).check(2).is_ok());
        assert!(file(linked(HardLink::Same(2))).check(2).is_err());
        let folder = Entry { kind: Kind::Folder, ..file(linked(HardLink::First)) };
        assert!(folder.check(2).is_err());
        let owner = Some(Owner { number: 0, name: vec![b'a'; MOST_OWNER + 1] });
        assert!(file(Attributes { owner, ..Attributes::default() }).check(1).is_err());
    }

    proptest! {
        #[test]
        fn records_come_back(entry: u32, offset in 0..u64::MAX / 2, data in proptest::collection::vec(any::<u8>(), 0..50), settles: bool, hole: bool) {
            let record = Record { entry, offset, length: data.len() as u32, settles, hole };
            let data = if hole { Vec::new() } else { data };
            let bytes = [&record.encode()[..], &data, b"rest"].concat();
            prop_assert_eq!(Record::split(&bytes).unwrap(), (record, &data[..], &b"rest"[..]));
        }

        #[test]
        fn hostile_bytes_are_refused_or_understood_but_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), count in 0u32..9) {
            let mut rest = &bytes[..];
            while let Ok((record, data, left)) = Record::split(rest) {
                prop_assert_eq!(if record.hole { 0 } else { record.length as usize }, data.len());
                rest = left;
            }
            let _ = decode::<Message>(&bytes);
            if let Ok(Some((packed, _))) = Packed::split(&bytes) {
                prop_assert!(packed.length as usize <= MOST_PAYLOAD);
                prop_assert!(Record::split(&bytes).is_err(), "nothing is both");
            }
            if let Ok(entries) = decode_entries(count, &bytes) {
                prop_assert_eq!(entries.len(), count as usize);
            }
            if let Ok(chunks) = decode_chunks(count, &bytes) {
                prop_assert_eq!(chunks.len(), count as usize);
            }
        }

        #[test]
        fn heads_of_what_is_compressed_come_back(length: u32, flag in 0u8..8, at in 0usize..RECORD) {
            let mut bytes = [&Packed { length }.encode()[..], b"rest"].concat();
            match Packed::split(&bytes) {
                Ok(found) => prop_assert_eq!(found, Some((Packed { length }, &b"rest"[..]))),
                Err(_) => prop_assert!(length as usize > MOST_PAYLOAD || (length as usize) < RECORD),
            }
            bytes[at] ^= flag;
            let is_same = Packed::split(&bytes) == Ok(Some((Packed { length }, &b"rest"[..])));
            prop_assert!(flag == 0 || !is_same);
        }

        #[test]
        fn chunks_come_back(lengths in proptest::collection::vec(any::<u32>(), 0..9), digest: [u8; 16]) {
            let chunks: Vec<_> = lengths.into_iter().map(|length| Chunk { length, digest }).collect();
            let mut body = Vec::new();
            chunks.iter().for_each(|chunk| encode_chunk(chunk, &mut body));
            prop_assert_eq!(decode_chunks(chunks.len() as u32, &body).unwrap(), chunks);
            prop_assert!(decode_chunks(9, &body).is_err());
        }

        #[test]
        fn entries_come_back(names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..9)) {
            let entries: Vec<_> = names.iter().map(|name| entry(name)).collect();
            let body = entries.iter().fold(Vec::new(), |body, entry| encode_entry(entry, body));
            prop_assert_eq!(decode_entries(entries.len() as u32, &body).unwrap(), entries);
        }
    }
}
