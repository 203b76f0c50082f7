//! The target of a copy: a file, a folder with everything in it, or memory, which discards the bytes.
//!
//! The system resolves all names beneath the folder that was opened, even if other programs create links meanwhile. A file
//! appears under its name only when it is complete.

mod ending;
mod files;
mod folders;
mod incoming;
mod links;

#[cfg(all(test, unix))]
mod tests;
use crate::transfer::disk::attributes::Refusals;
use crate::transfer::disk::hard_links::Received;
use crate::transfer::disk::unfinished::PartialFile;
use crate::transfer::disk::written::Written;
use crate::transfer::patterns::filter::PathFilter;
use crate::transfer::system;
use cap_std::fs::Dir;
use phalanx_core::transfer::Ranges;
use phalanx_core::wire::transfer::{Attributes, Entry, Filter, Kind, Share};
use phalanx_net::identity::random_number;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// Where entries are written.
pub enum Sink {
    Memory,
    Tree(Box<Tree>),
}

/// What the receiver does with an entry.
pub enum Step {
    /// The entry is in its place now.
    Copied,
    /// The entry was there already.
    Kept,
    /// The entry's bytes are wanted, apart from these ranges, which are there.
    Wanted(Ranges),
    /// The same. An older version is there too, which may contain more of the bytes.
    Older(Ranges),
    /// This end's share of the entry is there.
    Shared,
}

/// A folder of this machine, and the entries that are written to it.
pub struct Tree {
    base: Dir,
    /// The path beneath `base` that the user named.
    target: PathBuf,
    /// Whether the copy goes into the folder `target`, under its own name.
    into: bool,
    anew: bool,
    /// Whether files are compared with their older versions.
    compares: bool,
    /// The name of the copy in the folder `target`; `None`: the name that the other end gives.
    name: Option<OsString>,
    /// What the user asked for. The receiver refuses everything else that the other end offers.
    path_filter: PathFilter,
    /// The share of the copy that is written here; `None`: all of it.
    share: Option<Share>,
    /// Whether the top folder counts as new, because a share of the same copy created it.
    fresh: bool,
    /// Makes the names of small partial files unique.
    token: u64,
    home: Mutex<Option<Arc<Dir>>>,
    folders: Mutex<HashMap<u32, Folder>>,
    open: Mutex<HashMap<u32, Arc<Dir>>>,
    coming: Mutex<HashMap<u32, Arc<IncomingFile>>>,
    /// What must be synced at the end.
    written: Written,
    /// The umask of this process, if it is known.
    mask: Option<u32>,
    /// Files with several names.
    linked: Received,
    /// Owners and attributes that could not be set.
    refusals: Refusals,
}

#[derive(Clone)]
struct Folder {
    /// Its path beneath `home`.
    path: PathBuf,
    /// Whether this transfer created it.
    is_new: bool,
    mode: Option<u32>,
    modified: (i64, u32),
    attributes: Option<Box<Attributes>>,
}

/// A file whose bytes are arriving.
struct IncomingFile {
    parent: Option<u32>,
    name: OsString,
    size: u64,
    mode: Option<u32>,
    modified: (i64, u32),
    attributes: Option<Box<Attributes>>,
    /// The ranges that were there when it was begun.
    there: Ranges,
    /// The partial file, opened when the first part arrives.
    file: Mutex<Option<Arc<PartialFile>>>,
    /// Held by the thread that writes. The system lets only one thread write to a file at a time, and a thread that waits in
    /// the system call spins.
    writing: Mutex<()>,
    /// Whether its state must not be saved any more. Held by the thread that saves the state.
    ended: Mutex<bool>,
    /// Whether it has, or had, a state file.
    has_state: AtomicBool,
    /// Whether it was given up. A thread that is saving its state then removes it afterwards.
    given_up: AtomicBool,
}

impl Sink {
    /// Writes to `target` beneath `base`. `into`: into the folder there.
    pub fn tree(base: Dir, target: PathBuf, into: bool, anew: bool) -> Sink {
        let (home, folders, open, coming) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        let (token, mask) = (random_number() as u64, system::mask());
        let (name, path_filter, share, fresh, written) = (None, PathFilter::default(), None, false, Written::default());
        Sink::Tree(Box::new(Tree {
            base,
            target,
            into,
            anew,
            compares: false,
            name,
            path_filter,
            share,
            fresh,
            token,
            home,
            folders,
            open,
            coming,
            written,
            mask,
            linked: Received::default(),
            refusals: Refusals::default(),
        }))
    }

    /// Sets the name of the copy in the folder, instead of the name that the other end gives.
    pub fn called(mut self, name: &OsStr) -> Sink {
        if let Sink::Tree(tree) = &mut self {
            tree.name = Some(name.to_owned());
        }
        self
    }

    /// Whether bytes are taken from older versions of files.
    pub fn comparing(mut self, compares: bool) -> Sink {
        if let Sink::Tree(tree) = &mut self {
            tree.compares = compares;
        }
        self
    }

    /// Refuses entries that the filter does not accept.
    pub fn filtered(mut self, filter: &Filter) -> io::Result<Sink> {
        if let Sink::Tree(tree) = &mut self {
            tree.path_filter = PathFilter::new(filter)?;
        }
        Ok(self)
    }

    /// Writes only a share of the copy. `fresh`: writes all of it after its shares, one of which created the top folder.
    pub fn shared(mut self, share: Option<Share>, fresh: bool) -> Sink {
        if let Sink::Tree(tree) = &mut self {
            (tree.share, tree.fresh) = (share, fresh);
        }
        self
    }

    /// Whether the folder of an entry is there.
    pub fn has_place(&self, entry: &Entry) -> bool {
        let (Sink::Tree(tree), Some(parent)) = (self, entry.parent) else { return true };
        lock(&tree.folders).contains_key(&parent)
    }

    /// Begins an entry. Call this before any of its bytes arrive.
    pub fn begin(&self, number: u32, entry: &Entry) -> io::Result<Step> {
        match self {
            Sink::Memory => match entry.kind {
                Kind::File { size } if size > 0 => Ok(Step::Wanted(Ranges::default())),
                _ => Ok(Step::Copied),
            },
            Sink::Tree(tree) => tree.begin(number, entry),
        }
    }

    /// Ends the copy: sets the times of folders and syncs everything. Returns the paths that failed, and why.
    pub fn end(&self) -> Vec<(PathBuf, String)> {
        let Sink::Tree(tree) = self else { return Vec::new() };
        tree.sweep(SystemTime::now()); // before the times of folders are set
        tree.end()
    }

    /// The path of a file that is arriving, for messages to users.
    pub fn path_of(&self, entry: u32) -> PathBuf {
        let Sink::Tree(tree) = self else { return PathBuf::from("memory") };
        let coming = tree.coming(entry);
        coming.map_or_else(|_| PathBuf::new(), |it| self.path(it.parent, &system::to_bytes(&it.name)))
    }

    /// The path of an entry, for messages to users. It begins with the copy's own name, or with a dot if it has none.
    pub fn path(&self, parent: Option<u32>, name: &[u8]) -> PathBuf {
        let name = system::from_bytes(name.to_vec()).unwrap_or_default();
        let Sink::Tree(tree) = self else { return name.into() };
        tree.path(parent, &name)
    }
}
