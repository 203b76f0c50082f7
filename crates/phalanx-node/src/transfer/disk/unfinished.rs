//! Partial files. A file that arrives in parts is written under another name beside its final place until it is complete. A
//! small state file beside it says which ranges are there, so that an interrupted transfer can resume.

use crate::transfer::system;
use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, OpenOptions};
use phalanx_core::transfer::Ranges;
use phalanx_core::wire::transfer::{MOST_SHARES, Share};
use phalanx_net::identity::random_number;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::hash_map::DefaultHasher;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::ops::Deref;
use std::thread;
use std::time::{Duration, Instant};

/// Longest name of a file, in bytes, on all common systems.
const MOST_NAME: usize = 255;
/// Most bytes of a state file that are read.
const MOST_STATE: u64 = 16 << 10;
/// Most ranges in one state file.
const MOST_RANGES: usize = 16;
/// Most ranges of one file in all its state files. So the ranges of very many files fit one message.
const MOST_FOUND: usize = 64;
const VERSION: u32 = 2;
const PART: &[u8] = b".phalanx-part";
const STATE: &[u8] = b".phalanx-state";
/// Mode of partial files: only their owner reads them.
const OWN: u32 = 0o600;
/// Why a file with the name of a partial file is not copied.
pub const RESERVED: &str = "names like this are for files that are not whole";
/// How long to wait until an earlier transfer of the same file ends, whose connection has ended.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long to wait until the machines that write a file together agree on its source. It is shorter, because the copy that
/// follows the shares waits for [`PATIENCE`].
const PATIENCE_TOGETHER: Duration = Duration::from_secs(5);
/// Interval between two attempts during these waits.
const OFTEN: Duration = Duration::from_millis(50);

/// The name of the partial file (`part`) or the state file (`state`) beside the file `name`.
pub fn beside(name: &OsStr, suffix: &str) -> OsString {
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".phalanx-{suffix}"));
    if beside.len() <= MOST_NAME {
        return beside;
    }
    let mut hasher = DefaultHasher::new();
    system::to_bytes(name).hash(&mut hasher);
    format!(".{:016x}.phalanx-{suffix}", hasher.finish()).into()
}

/// Identifies a version of a source: its size, and the time of its last modification.
pub type Source = (u64, (i64, u32));

/// The contents of a state file.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    version: u32,
    /// The source's size.
    size: u64,
    modified: (i64, u32),
    ranges: Vec<(u64, u64)>,
    /// A random number of this partial file. A share's state is valid only if the state of the whole has the same token.
    token: u64,
    /// In the state of the whole: whether shares may have state files too.
    shared: bool,
}

/// An open partial file.
#[derive(Debug)]
pub struct PartialFile {
    file: File,
    /// The token that was found when it was opened. The file may be restarted meanwhile, if locks do not work between
    /// machines.
    token: u64,
    shared: bool,
}

impl Deref for PartialFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

/// Whether a name is reserved for partial files and state files.
pub fn is_reserved(name: &OsStr) -> bool {
    let name = system::to_bytes(name).to_ascii_lowercase();
    let is_state = || name.windows(STATE.len()).any(|part| part == STATE); // also of a share, or new
    name.starts_with(b".") && (name.ends_with(PART) || is_state())
}

/// The inverse of [`beside`]: the name of the file, or the hash that stands for a long name. `None` if the name has another
/// form.
pub fn of_name(beside: &OsStr, suffix: &str) -> Option<OsString> {
    let name = system::to_bytes(beside);
    let of = name.strip_prefix(b".")?.strip_suffix(format!(".phalanx-{suffix}").as_bytes())?;
    if of.is_empty() { None } else { system::from_bytes(of.to_vec()).ok() }
}

/// Whether a name is a random one, for a partial file that no copy resumes: 16 hexadecimal digits, a dash and a number, or 32
/// hexadecimal digits.
pub fn is_drawn(of: &OsStr) -> bool {
    let of = of.as_encoded_bytes();
    let are_digits = |part: &[u8]| part.iter().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(it));
    match of.split_at_checked(16) {
        Some((token, [b'-', number @ ..])) => {
            are_digits(token) && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
        }
        _ => of.len() == 32 && are_digits(of),
    }
}

/// Creates a file that does not exist yet, with `mode` as far as the process's umask allows.
pub fn create_new(folder: &Dir, name: &OsStr, mode: u32) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.write(true).create_new(true);
    set_mode(&mut how, mode);
    Ok(folder.open_with(name, &how)?.into_std())
}

fn set_mode(how: &mut OpenOptions, mode: u32) {
    #[cfg(unix)]
    cap_std::fs::OpenOptionsExt::mode(how, mode & 0o777);
    #[cfg(not(unix))]
    let _ = (how, mode);
}

/// Opens a partial file or a state file. It must belong to this user and have no other name. No link is followed.
pub fn open_own(folder: &Dir, name: &OsStr, how: &mut OpenOptions) -> io::Result<File> {
    how.follow(FollowSymlinks::No);
    system::at_once(how);
    let file = folder.open_with(name, how)?.into_std();
    match system::is_own(&file.metadata()?) {
        true => Ok(file),
        false => Err(io::Error::other("something of somebody else is where its parts are to be")),
    }
}

/// The ranges of a source that are there, at most [`MOST_FOUND`] of them. Other copies may write the file meanwhile.
pub fn look(folder: &Dir, name: &OsStr, source: Source) -> Ranges {
    let there = longest(find(folder, name, source).pairs(), MOST_FOUND, (0, source.0));
    Ranges::from_pairs(&there, source.0).unwrap_or_default()
}

fn find(folder: &Dir, name: &OsStr, source: Source) -> Ranges {
    let there = read(folder, name, source);
    let Some((_, to)) = there.pairs().last().copied() else { return there };
    // Opens the file, because a network file system refreshes its length then.
    let part = open_own(folder, &beside(name, "part"), OpenOptions::new().read(true));
    let is_so_long = part.and_then(|part| part.metadata()).is_ok_and(|it| it.len() >= to);
    if is_so_long { there } else { Ranges::default() }
}

/// Opens the partial file of a source. It must still contain the ranges `found` before, or it is an error.
pub fn open(folder: &Dir, name: &OsStr, source: Source, found: &Ranges) -> io::Result<PartialFile> {
    let file = open_alone(folder, &beside(name, "part"))?;
    check_found(folder, name, source, found)?;
    match read_state(folder, name, "state", source) {
        Some(State { token, shared, .. }) if found.bytes() > 0 => Ok(PartialFile { file, token, shared }),
        _ => begin(folder, name, file, false),
    }
}

/// Empties a partial file and removes its state files.
fn begin(folder: &Dir, name: &OsStr, file: File, shared: bool) -> io::Result<PartialFile> {
    forget(folder, name); // first, because the states may be of another source
    file.set_len(0)?;
    Ok(PartialFile { file, token: random_number() as u64, shared })
}

fn check_found(folder: &Dir, name: &OsStr, source: Source, found: &Ranges) -> io::Result<()> {
    let there = find(folder, name, source).pairs();
    let is_there = |(from, to): &(u64, u64)| there.iter().any(|one| one.0 <= *from && *to <= one.1);
    match found.pairs().iter().all(is_there) {
        true => Ok(()),
        false => Err(io::Error::other("another transfer began it anew meanwhile")),
    }
}

/// Opens a partial file together with other writers, also on other machines, which copy other shares of the same source.
///
/// The state of the whole names the source. A writer that finds another source or no state empties the file, if no other
/// writer has it open. Afterwards no writer empties it until all writers have closed it.
pub fn open_shared(folder: &Dir, name: &OsStr, source: Source, found: &Ranges) -> io::Result<PartialFile> {
    let (part, until) = (beside(name, "part"), Instant::now() + PATIENCE_TOGETHER);
    loop {
        let file = open_part(folder, &part)?;
        if system::lock_shared(&file)? && system::is_at(&file, folder, &part)? {
            if let Some(State { token, shared: true, .. }) = state_of(folder, name, source, &file)? {
                check_found(folder, name, source, found)?;
                return Ok(PartialFile { file, token, shared: true });
            }
        }
        let is_alone = system::lock(&file)? && system::is_at(&file, folder, &part)?;
        if is_alone {
            match state_of(folder, name, source, &file)? {
                Some(State { shared: true, .. }) => {}
                Some(State { token, ranges, .. }) => {
                    keep(folder, name, &PartialFile { file, token, shared: true }, source, None, ranges)?;
                }
                None => keep(folder, name, &begin(folder, name, file, true)?, source, None, Vec::new())?,
            }
        } else {
            drop(file); // so that the other writers can lock it
        }
        if Instant::now() >= until {
            return Err(busy());
        }
        if !is_alone {
            thread::sleep(OFTEN);
        }
    }
}

/// The state of the whole, if it is of this source, and the partial file is at least as long as the states say.
fn state_of(folder: &Dir, name: &OsStr, source: Source, file: &File) -> io::Result<Option<State>> {
    let end = read(folder, name, source).pairs().last().map_or(0, |(_, to)| *to);
    let is_so_long = file.metadata()?.len() >= end;
    Ok(read_state(folder, name, "state", source).filter(|_| is_so_long))
}

fn busy() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another transfer is writing it")
}

fn open_part(folder: &Dir, part: &OsStr) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).truncate(false); // some systems need reading for a shared lock
    set_mode(&mut how, OWN);
    open_own(folder, part, &mut how)
}

/// Opens and locks a partial file. Waits until other writers have closed it.
fn open_alone(folder: &Dir, part: &OsStr) -> io::Result<File> {
    let until = Instant::now() + PATIENCE;
    loop {
        let file = open_part(folder, part)?;
        let is_alone = system::lock(&file)?;
        if is_alone && system::is_at(&file, folder, part)? {
            return Ok(file); // it did not get its final name during the wait
        }
        if Instant::now() >= until {
            return Err(busy());
        }
        if !is_alone {
            thread::sleep(OFTEN);
        }
    }
}

/// The ranges in all state files of a source. None if the partial file is of another source. States of shares count only if
/// they have the token of the state of the whole.
fn read(folder: &Dir, name: &OsStr, source: Source) -> Ranges {
    let Some(whole) = read_state(folder, name, "state", source) else { return Ranges::default() };
    let shares = if whole.shared { 0..MOST_SHARES } else { 0..0 };
    let states = shares.filter_map(|share| read_state(folder, name, &of_share(share), source));
    let mut there = Ranges::default();
    for state in states.filter(|state| state.token == whole.token) {
        state.ranges.iter().for_each(|(from, to)| there.add(*from, *to));
    }
    whole.ranges.iter().for_each(|(from, to)| there.add(*from, *to));
    there
}

fn of_share(share: u16) -> String {
    format!("state-{share}")
}

/// Reads one state file, if it is of this source.
fn read_state(folder: &Dir, name: &OsStr, suffix: &str, source: Source) -> Option<State> {
    let state = read_any(folder, name, suffix).filter(|state| (state.size, state.modified) == source)?;
    Ranges::from_pairs(&state.ranges, source.0)?;
    Some(state)
}

fn read_any(folder: &Dir, name: &OsStr, suffix: &str) -> Option<State> {
    read_with_file(folder, name, suffix).map(|(state, _)| state)
}

fn read_with_file(folder: &Dir, name: &OsStr, suffix: &str) -> Option<(State, File)> {
    let file = open_own(folder, &beside(name, suffix), OpenOptions::new().read(true)).ok()?;
    let mut bytes = Vec::new();
    (&file).take(MOST_STATE).read_to_end(&mut bytes).ok()?;
    let state: State = postcard::from_bytes(&bytes).ok()?;
    (state.version == VERSION && state.ranges.len() <= MOST_RANGES).then_some((state, file))
}

/// The end of the last range in the state of the whole, of any source, and the metadata of that state file.
pub fn read_end(folder: &Dir, name: &OsStr) -> Option<(u64, Metadata)> {
    let (state, file) = read_with_file(folder, name, "state")?;
    let ranges = Ranges::from_pairs(&state.ranges, state.size)?;
    Some((ranges.pairs().last().map_or(0, |(_, to)| *to), file.metadata().ok()?))
}

/// At most `most` of the ranges, sorted: first those that overlap `own`, then the longest. The sender sends the bytes of the
/// others again.
fn longest(mut ranges: Vec<(u64, u64)>, most: usize, own: (u64, u64)) -> Vec<(u64, u64)> {
    ranges.sort_by_key(|(from, to)| (*to <= own.0 || own.1 <= *from, Reverse(to.saturating_sub(*from))));
    ranges.truncate(most);
    ranges.sort_unstable();
    ranges
}

/// Syncs the partial file, and then writes a state file: of the whole, or of a share.
pub fn keep(
    folder: &Dir,
    name: &OsStr,
    part: &PartialFile,
    (size, modified): Source,
    share: Option<Share>,
    ranges: Vec<(u64, u64)>,
) -> io::Result<()> {
    part.sync_data()?;
    let ranges = longest(ranges, MOST_RANGES, share.map_or((0, size), |share| share.range(size)));
    let state = State { version: VERSION, size, modified, ranges, token: part.token, shared: part.shared };
    let bytes = postcard::to_allocvec(&state).map_err(io::Error::other)?;
    let place = share.map_or_else(|| "state".to_owned(), |share| of_share(share.index));
    let (new, place) = (beside(name, &format!("{place}-new")), beside(name, &place));
    let _ = folder.remove_file(&new);
    let mut written = create_new(folder, &new, OWN)?;
    written.write_all(&bytes)?;
    written.sync_data()?;
    folder.rename(&new, folder, &place)
}

/// Removes all state files. The state of the whole goes last, because it says whether there may be others.
pub fn forget(folder: &Dir, name: &OsStr) {
    if read_any(folder, name, "state").is_some_and(|whole| whole.shared) {
        (0..MOST_SHARES).for_each(|share| forget_share(folder, name, share));
    }
    remove_state(folder, name, "state");
}

/// Removes the state file of a share.
pub fn forget_share(folder: &Dir, name: &OsStr, share: u16) {
    remove_state(folder, name, &of_share(share));
}

fn remove_state(folder: &Dir, name: &OsStr, suffix: &str) {
    for suffix in [suffix.to_owned(), format!("{suffix}-new")] {
        let _ = folder.remove_file(beside(name, &suffix));
    }
}

/// Removes a partial file, which the caller has locked, and its state files.
pub fn remove(folder: &Dir, name: &OsStr, file: &File) {
    let part = beside(name, "part");
    if system::is_at(file, folder, &part).unwrap_or(false) {
        forget(folder, name);
        let _ = folder.remove_file(part);
    }
}

#[cfg(all(test, unix))]
mod tests;
