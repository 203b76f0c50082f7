//! Communicators: a group, and contexts that keep its messages apart from all others (MPI 5.0, chapter 7).

pub mod create;

use crate::attached::Attached;
use crate::collective::Machines;
use crate::constants::*;
use crate::error::{Class, Error, Result, fail};
use crate::group::Group;
use crate::groups;
use crate::handle::Table;
use crate::info::Info;
use crate::topology::Topology;
use crate::world::{World, world};
use phalanx_core::spmd::{Envelope, Pattern};
use phalanx_net::sync::lock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Canonical handles.
pub const COMM_NULL: u32 = 0x100;
pub const COMM_WORLD: u32 = 0x101;
pub const COMM_SELF: u32 = 0x102;

/// Special ranks and tags, with the numbers of the standard interface.
pub const ANY_SOURCE: i32 = -1;
pub const ANY_TAG: i32 = -2;
pub const PROC_NULL: i32 = -3;
pub const ROOT: i32 = -4;
pub const UNDEFINED: i32 = -32766;
/// The greatest tag (MPI_TAG_UB).
pub const TAG_MOST: i32 = i32::MAX;

/// What a message is for: the last bits of its context.
#[derive(Debug, Clone, Copy)]
pub enum Use {
    Point = 0,
    Collective = 1,
    /// Windows and files.
    Aside = 2,
    /// Messages in partitions, which no other receive gets.
    Partitioned = 3,
}

/// A communicator. Objects of it are shared by its handle and whatever works on it still.
pub struct Comm {
    /// The same number in all its processes, and in no other communicator; its last two bits say what a message is for.
    pub context: u64,
    pub group: Arc<Group>,
    /// This process's rank in `group`.
    pub rank: usize,
    /// Of an intercommunicator: the other group, and a communicator of this one.
    pub remote: Option<Remote>,
    /// Given to it when it is made, if it is.
    pub topology: OnceLock<Topology>,
    /// Where its processes live, once an operation has asked.
    pub machines: OnceLock<Option<Machines>>,
    /// Of the next collective operation; all processes call them in the same order.
    turn: AtomicI32,
    /// Memory for its buffered sends.
    pub attached: Attached,
    name: Mutex<String>,
    hints: Mutex<Vec<(String, String)>>,
}

/// The other side of an intercommunicator.
pub struct Remote {
    pub group: Arc<Group>,
    /// This side's own communicator.
    pub local: Arc<Comm>,
}

static COMMS: Table<Comm> = Table::new(1);
static PREDEFINED: OnceLock<[Arc<Comm>; 2]> = OnceLock::new();
/// Contexts below are those of the predefined communicators.
static NEXT_CONTEXT: AtomicU64 = AtomicU64::new(2);

impl Comm {
    pub fn new(context: u64, group: Arc<Group>, rank: usize, remote: Option<Remote>) -> Arc<Comm> {
        let (topology, turn, attached) = (OnceLock::new(), AtomicI32::new(0), Attached::default());
        let (machines, name, hints) = (OnceLock::new(), Mutex::default(), Mutex::default());
        Arc::new(Comm { context, group, rank, remote, topology, machines, turn, attached, name, hints })
    }

    /// The communicator of a handle.
    #[inline]
    pub fn of(handle: u32) -> Result<Arc<Comm>> {
        if let COMM_WORLD | COMM_SELF = handle {
            return Ok(predefined(world()?)[(handle - COMM_WORLD) as usize].clone());
        }
        let found = COMMS.get(handle);
        found.ok_or_else(|| Error::new(Class::Comm, format!("comm {handle:#x} is no communicator, or was freed")))
    }

    /// A handle for it.
    pub fn put(self: Arc<Comm>) -> Result<u32> {
        COMMS.put(self).ok_or_else(|| Error::new(Class::Other, "too many communicators"))
    }

    /// Ends a handle.
    pub fn free(handle: u32) -> Result<Arc<Comm>> {
        if let COMM_WORLD | COMM_SELF = handle {
            return fail(Class::Comm, "MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed");
        }
        COMMS.take(handle).ok_or_else(|| Error::new(Class::Comm, "comm is no communicator, or was freed"))
    }

    pub fn size(&self) -> usize {
        self.group.size()
    }

    /// The group that point-to-point messages go to: the remote one of an intercommunicator.
    #[inline]
    pub fn peers(&self) -> &Arc<Group> {
        self.remote.as_ref().map_or(&self.group, |remote| &remote.group)
    }

    /// The process that a message to `rank` goes to; None for MPI_PROC_NULL.
    #[inline]
    pub fn destination(&self, rank: i32) -> Result<Option<u32>> {
        match usize::try_from(rank).ok().and_then(|rank| self.peers().processes.get(rank)) {
            Some(process) => Ok(Some(*process)),
            None if rank == PROC_NULL => Ok(None),
            None => fail(Class::Rank, format!("rank {rank} is not in 0..{}", self.peers().size())),
        }
    }

    /// What a message of this process is matched by.
    #[inline]
    pub fn envelope(&self, of: Use, tag: i32) -> Envelope {
        Envelope { context: self.context | of as u64, source: self.rank as i32, tag }
    }

    /// What a receive asks for. None for MPI_PROC_NULL.
    #[inline]
    pub fn pattern(&self, of: Use, source: i32, tag: i32) -> Result<Option<Pattern>> {
        if source == PROC_NULL {
            return Ok(None);
        }
        let size = self.peers().size();
        if source != ANY_SOURCE && !usize::try_from(source).is_ok_and(|source| source < size) {
            return fail(Class::Rank, format!("source {source} is not in 0..{size}"));
        }
        if tag < 0 && tag != ANY_TAG {
            return fail(Class::Tag, format!("tag {tag} is not in 0..={TAG_MOST}"));
        }
        let (source, tag) = ((source != ANY_SOURCE).then_some(source), (tag != ANY_TAG).then_some(tag));
        Ok(Some(Pattern { context: self.context | of as u64, source, tag }))
    }

    /// What the program calls it.
    pub fn name(&self) -> String {
        lock(&self.name).clone()
    }

    pub fn set_name(&self, name: &str) {
        *lock(&self.name) = name.to_string();
    }

    /// What the program said of its use.
    pub fn hints(&self) -> Info {
        Info::of(lock(&self.hints).clone())
    }

    pub fn set_hints(&self, hints: &Info) {
        *lock(&self.hints) = hints.pairs();
    }

    /// MPI_IDENT, MPI_CONGRUENT, MPI_SIMILAR or MPI_UNEQUAL.
    pub fn compare(&self, other: &Comm) -> i32 {
        if self.context == other.context {
            return MPI_IDENT;
        }
        let groups = match (&self.remote, &other.remote) {
            (None, None) => groups::compare(&self.group, &other.group),
            (Some(one), Some(two)) => {
                let here = groups::compare(&self.group, &other.group);
                here.max(groups::compare(&one.group, &two.group)) // the numbers grow with the difference
            }
            _ => MPI_UNEQUAL,
        };
        if groups == MPI_IDENT { MPI_CONGRUENT } else { groups }
    }

    /// The tag of the next collective operation.
    pub fn next_turn(&self) -> i32 {
        self.turn.fetch_add(1, Ordering::Relaxed) & i32::MAX
    }
}

/// A context that no other communicator has, here or elsewhere: its first process chooses it and tells the others.
pub fn new_context(world: &World) -> u64 {
    (world.rank as u64) << 40 | NEXT_CONTEXT.fetch_add(1, Ordering::Relaxed) << 2
}

fn predefined(world: &World) -> &'static [Arc<Comm>; 2] {
    PREDEFINED.get_or_init(|| {
        let all = Group { processes: (0..world.size as u32).collect() };
        let own = Group { processes: vec![world.rank as u32] };
        let [all, own] = [Comm::new(0, Arc::new(all), world.rank, None), Comm::new(1 << 2, Arc::new(own), 0, None)];
        all.set_name("MPI_COMM_WORLD");
        own.set_name("MPI_COMM_SELF");
        [all, own]
    })
}
