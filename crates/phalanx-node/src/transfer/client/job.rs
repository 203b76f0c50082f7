//! What a user wants copied, how far it is, and what came of it.

use crate::transfer::endpoint::end::End;
use crate::transfer::endpoint::common::Failure;
use crate::transfer::system::from_bytes;
use phalanx_core::level::{Level, Policy};
use phalanx_core::wire::transfer::{Compress, Direction, Filter, Request, Share, Target, Totals};
use phalanx_net::address::Address;
use phalanx_net::identity::Member;
use phalanx_net::link::Link;
use phalanx_net::sync::lock;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use thiserror::Error;

/// What is copied here or from here.
#[derive(Debug, Clone)]
pub enum Here {
    /// A path; `into`: the copy goes into the folder there, under its own name.
    Path { path: PathBuf, into: bool },
    /// Bytes that are made up, or thrown away: for measuring.
    Memory { bytes: u64 },
    /// Nothing: it is copied from the executor at this address, straight to the other.
    Executor { address: Address, source: Target },
}

/// A copy between this machine and an executor, or between two.
#[derive(Debug, Clone)]
pub struct Job {
    pub address: Address,
    pub member: Member,
    pub policy: Policy,
    pub direction: Direction,
    pub here: Here,
    pub there: Target,
    /// None: as the policy says.
    pub level: Option<Level>,
    /// None: as many as are worth it.
    pub streams: Option<u16>,
    /// At each end; none: one more than there are cores.
    pub threads: Option<u16>,
    /// Whether frames that the level does not protect have a checksum.
    pub checked: bool,
    /// What is there already with the same size and time is copied all the same.
    pub anew: bool,
    /// Nothing is taken from older versions of files; none: only within one machine, whose disks are no slower than the line.
    pub whole_file: Option<bool>,
    /// What compresses is compressed; none: where that saves time, and not within one machine.
    pub compress: Option<bool>,
    /// What of it is copied.
    pub filter: Filter,
    /// After a cut, to go on for so long without anything new arriving.
    pub patience: Duration,
    /// Bytes/s; 0: as many as it can.
    pub limit: u64,
    /// What of it is copied, of which others copy the rest at the same time; none: all.
    pub share: Option<Share>,
    /// All is copied after its shares, and one of them made the top folder.
    pub fresh: bool,
    /// Of the copy and its shares, by which an executor tells it from another to the same place.
    pub copy: [u8; 16],
}

impl Job {
    /// `is_near`: both ends are on one machine.
    pub(super) fn whole_file(&self, is_near: bool) -> bool {
        self.whole_file.unwrap_or(is_near)
    }

    pub(super) fn compress(&self, is_near: bool) -> Compress {
        match self.compress {
            Some(true) => Compress::Always,
            None if !is_near => Compress::BySpeed,
            _ => Compress::Never,
        }
    }

    /// What an executor is asked for. `target` is at that executor; `name`: what the copy is called in a folder.
    pub(super) fn request(
        &self,
        direction: Direction,
        target: Target,
        filter: Filter,
        level: Level,
        is_near: bool,
        name: Vec<u8>,
    ) -> Request {
        let Job { checked, anew, limit, share, fresh, copy, .. } = *self;
        let threads = self.threads.unwrap_or(0);
        let (whole_file, compress) = (self.whole_file(is_near), self.compress(is_near));
        Request {
            direction,
            target,
            level,
            checked,
            anew,
            whole_file,
            compress,
            threads,
            filter,
            limit,
            share,
            fresh,
            copy,
            name,
        }
    }
}

/// Why nothing, or not everything, was tried.
#[derive(Debug, Clone, Error)]
pub enum CopyError {
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}")]
    Level(String),
    #[error("{0}")]
    Identity(String),
    /// One of the ends cannot do it.
    #[error("{0}")]
    Refused(String),
    #[error("the copy was cut off: {0}; what is there is kept, do the same again to go on")]
    Cut(String),
    #[error("the copy was cancelled; what is there is kept, do the same again to go on")]
    Cancelled,
}

/// What came of a copy.
#[derive(Debug, Clone)]
pub struct Report {
    pub level: Level,
    /// What decided the level, for people.
    pub why: String,
    pub streams: u16,
    pub totals: Totals,
    pub failures: Vec<Failure>,
    /// Streams that ended before the copy did, and those of them on which something was altered.
    pub lost: u32,
    pub altered: u32,
    /// How often it went on after a cut.
    pub cuts: u32,
    /// From the beginning until the first stream could carry bytes.
    pub setup: Duration,
    pub elapsed: Duration,
}

/// What the thread that copies and the one that waits for it share.
#[derive(Default)]
pub struct Shared {
    going: Mutex<Going>,
    cancelled: AtomicBool,
    pub outcome: Mutex<Option<Result<Report, CopyError>>>,
    pub ended: Condvar,
}

/// A copy that goes on.
#[derive(Default)]
struct Going {
    /// Without which it ends.
    links: Vec<Arc<Link>>,
    /// The end that is here.
    end: Option<Arc<End>>,
    /// What was told of it last.
    progress: Option<(u64, u64, bool)>,
}

impl Shared {
    /// From now on the copy ends when this does.
    pub fn add_link(&self, link: &Arc<Link>) {
        lock(&self.going).links.push(link.clone());
        if self.is_cancelled() {
            link.close();
        }
    }

    /// An attempt has ended, and its links with it. Nothing of it is open or locked any more, whoever still asks how far it was.
    pub fn forget_attempt(&self) {
        let mut going = lock(&self.going);
        going.links.clear();
        if let Some(end) = going.end.take() {
            going.progress = Some(end.progress());
        }
    }

    /// Where no end of the copy is here: how far it is.
    pub fn set_progress(&self, progress: (u64, u64, bool)) {
        lock(&self.going).progress = Some(progress);
    }

    /// Where an end of the copy is here.
    pub fn set_end(&self, end: &Arc<End>) {
        lock(&self.going).end = Some(end.clone());
    }

    /// Ends what goes on, and lets nothing begin.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        lock(&self.going).links.iter().for_each(|link| link.close());
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Bytes that are there, of how many so far, and whether there may be more.
    pub fn progress(&self) -> (u64, u64, bool) {
        let going = lock(&self.going);
        going.end.as_ref().map(|end| end.progress()).or(going.progress).unwrap_or((0, 0, true))
    }
}

/// What was asked for is called so here, whatever the other end says: it might name a file that runs at the next login.
pub fn asked(there: &Target) -> io::Result<OsString> {
    let Target::Path { path, .. } = there else { return Ok("memory".into()) };
    let path = PathBuf::from(from_bytes(path.clone())?);
    Ok(path.file_name().map_or_else(|| "copy".into(), OsString::from))
}
