//! Communicators: a group, and contexts that keep its messages apart from all others (MPI 5.0, chapter 7).

mod living;

pub use living::forget_dropped;
pub(crate) use living::revoke;

use crate::constants::*;
use crate::error::{Class, Error, Result, fail};
use crate::objects::attached::{ATTACHED, Attached};
use crate::objects::group;
use crate::objects::group::Group;
use crate::objects::handle::{Held, Table};
use crate::objects::info::Info;
use crate::objects::machines::Machines;
use crate::objects::topology::Topology;
use crate::process::engine::is_marked;
use crate::process::world::{World, known, world};
use phalanx_core::spmd::{Envelope, Pattern};
use phalanx_net::sync::lock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Canonical handles.
pub const COMM_NULL: u32 = 0x100;
/// MPI_COMM_WORLD.
pub const COMM_WORLD: u32 = 0x101;
/// MPI_COMM_SELF.
pub const COMM_SELF: u32 = 0x102;

/// Special ranks and tags, with the numbers of the standard interface.
pub const ANY_SOURCE: i32 = -1;
/// MPI_ANY_TAG.
pub const ANY_TAG: i32 = -2;
/// MPI_PROC_NULL.
pub const PROC_NULL: i32 = -3;
/// MPI_ROOT.
pub const ROOT: i32 = -4;
/// MPI_UNDEFINED.
pub const UNDEFINED: i32 = -32766;
/// The greatest tag (MPI_TAG_UB).
pub const TAG_MOST: i32 = i32::MAX;

/// The hint by which a program marks what is sent in a communicator: with `true` it is protected as marked data is.
const SECURE: &str = "phalanx_secure";

/// What a message is for: the last bits of its context.
#[derive(Debug, Clone, Copy)]
pub enum Use {
    /// A message between two ranks.
    Point = 0,
    /// A message of a collective operation.
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
    /// The processes, in the order of their ranks.
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
    /// What this process sends in it is protected as marked data is.
    secured: AtomicBool,
    /// Nothing is sent or received in it any more (ULFM, MPIX_Comm_revoke).
    revoked: AtomicBool,
    /// Of a window's or a file's own one: the context of that which the program made it of, with which it is revoked.
    made_of: OnceLock<u64>,
    /// Of the next agreement; all processes that are left call them in the same order.
    agreement: AtomicU32,
    /// Of the processes of it that were lost, how many the program has acknowledged, in the order in which they were.
    pub acknowledged: AtomicUsize,
}

/// The other side of an intercommunicator.
pub struct Remote {
    /// The processes of that side, in the order of their ranks.
    pub group: Arc<Group>,
    /// This side's own communicator.
    pub local: Arc<Comm>,
}

static COMMS: Table<Comm> = Table::new(1);
static PREDEFINED: OnceLock<[Arc<Comm>; 2]> = OnceLock::new();
/// Contexts below are those of the predefined communicators.
const FIRST_CHOSEN: u64 = 2;
static NEXT_CONTEXT: AtomicU64 = AtomicU64::new(FIRST_CHOSEN);
/// What one process's contexts are told from another's by.
const PROCESS: u64 = 1 << 40;

impl Comm {
    /// A communicator of a group. `rank`: this process's rank in it. `remote`: the other side of an intercommunicator.
    pub fn new(context: u64, group: Arc<Group>, rank: usize, remote: Option<Remote>) -> Arc<Comm> {
        let (topology, turn, attached) = (OnceLock::new(), AtomicI32::new(0), Attached::default());
        let (machines, name, hints) = (OnceLock::new(), Mutex::default(), Mutex::default());
        let (secured, revoked, agreement) =
            (AtomicBool::new(is_marked(context)), AtomicBool::new(false), AtomicU32::new(0));
        let acknowledged = AtomicUsize::new(0);
        let comm = Arc::new(Comm {
            context,
            group,
            rank,
            remote,
            topology,
            machines,
            turn,
            attached,
            name,
            hints,
            secured,
            revoked,
            made_of: OnceLock::new(),
            agreement,
            acknowledged,
        });
        living::begin(&comm);
        comm
    }

    /// The communicator of a handle.
    #[inline]
    pub fn of(handle: u32) -> Result<Arc<Comm>> {
        if let COMM_WORLD | COMM_SELF = handle {
            known()?; // what is missing is not the communicator
        }
        let found = Comm::held(handle).map(Held::share);
        found.ok_or_else(|| Error::new(Class::Comm, format!("comm {handle:#x} is no communicator, or was freed")))
    }

    /// The same for a call that only looks at it.
    #[inline]
    pub fn held(handle: u32) -> Option<Held<Comm>> {
        match handle {
            COMM_WORLD | COMM_SELF => {
                Some(Held::Predefined(&predefined(known().ok()?)[(handle - COMM_WORLD) as usize]))
            }
            _ => COMMS.get(handle).map(Held::Made),
        }
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

    /// The number of processes; of an intercommunicator, of this side.
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
        self.check_revoked()?;
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
        self.check_revoked()?;
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

    /// Fails once it was revoked.
    #[inline]
    pub fn check_revoked(&self) -> Result<()> {
        if self.is_revoked() { fail(Class::Revoked, Class::Revoked.words()) } else { Ok(()) }
    }

    /// Whether a process has revoked it.
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }

    /// It serves a window, or a file, that was made of another one, which may have been revoked meanwhile.
    pub(crate) fn serve(&self, world: &World, made_of: u64) {
        let _ = self.made_of.set(made_of); // first: who revokes it from now on finds this one
        if world.engine().is_revoked(made_of) {
            revoke(world, made_of);
        }
    }

    /// Whether it is revoked with that communicator.
    pub(crate) fn is_revoked_with(&self, context: u64) -> bool {
        self.context == context || self.made_of.get() == Some(&context)
    }

    pub(crate) fn note_revoked(&self) {
        self.revoked.store(true, Ordering::Relaxed);
    }

    /// All its processes, of both sides, in ascending order.
    pub fn members(&self) -> Vec<u32> {
        let mut all = self.group.processes.clone();
        all.extend(self.remote.iter().flat_map(|remote| &remote.group.processes));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The number of the next agreement.
    pub fn next_agreement(&self) -> u32 {
        self.agreement.fetch_add(1, Ordering::Relaxed)
    }

    /// The memory that buffered sends in it use: its own, that of its session, or that of the process.
    pub fn attached_memory(&self) -> &Attached {
        let own = [Some(&self.attached), self.group.attached.as_deref()];
        own.into_iter().flatten().find(|it| it.is_there()).unwrap_or(&ATTACHED)
    }

    /// What the program calls it.
    pub fn name(&self) -> String {
        lock(&self.name).clone()
    }

    /// Names the communicator.
    pub fn set_name(&self, name: &str) {
        *lock(&self.name) = name.to_string();
    }

    /// What the program said of its use, and whether it is secured.
    pub fn hints(&self) -> Info {
        let mut pairs = lock(&self.hints).clone();
        if self.is_secured() {
            pairs.retain(|(key, _)| key != SECURE);
            pairs.push((SECURE.to_string(), "true".to_string()));
        }
        Info::of(pairs)
    }

    /// Protection that was asked for once stays.
    pub fn set_hints(&self, hints: &Info) -> Result<()> {
        self.heed(world()?, hints)?;
        *lock(&self.hints) = hints.known(&[]);
        Ok(())
    }

    /// Protects what this process sends in it, if the hints ask for that.
    pub fn heed(&self, world: &World, hints: &Info) -> Result<()> {
        if asks_for_protection(hints)? {
            self.secure(world);
        }
        Ok(())
    }

    pub(crate) fn secure(&self, world: &World) {
        self.secured.store(true, Ordering::Relaxed);
        let mut engine = world.engine();
        (0..=Use::Partitioned as u64).for_each(|of| engine.mark(self.context | of));
        drop(engine);
        if let Some(remote) = &self.remote {
            remote.local.secure(world);
        }
    }

    /// Whether what this process sends in it, and in what is made of it, is protected as marked data is.
    pub fn is_secured(&self) -> bool {
        self.secured.load(Ordering::Relaxed)
    }

    /// MPI_IDENT, MPI_CONGRUENT, MPI_SIMILAR or MPI_UNEQUAL.
    pub fn compare(&self, other: &Comm) -> i32 {
        if self.context == other.context {
            return MPI_IDENT;
        }
        let groups = match (&self.remote, &other.remote) {
            (None, None) => group::compare(&self.group, &other.group),
            (Some(one), Some(two)) => {
                let here = group::compare(&self.group, &other.group);
                here.max(group::compare(&one.group, &two.group)) // the numbers grow with the difference
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

impl Drop for Comm {
    fn drop(&mut self) {
        // One that nobody has chosen may be used again, as that of BSP: others may have sent in it already.
        if self.context & (PROCESS - 1) >= FIRST_CHOSEN << 2 {
            living::end(self.context);
        }
    }
}

/// Whether hints ask for the protection that marked data has. A value that is neither `true` nor `false` is refused: who
/// gives it means something.
pub fn asks_for_protection(hints: &Info) -> Result<bool> {
    match hints.get(SECURE).as_deref() {
        Some("true") => Ok(true),
        Some("false") | None => Ok(false),
        Some(other) => fail(Class::InfoValue, format!("{SECURE} is {other:?}, neither \"true\" nor \"false\"")),
    }
}

/// A context that no other communicator has, here or elsewhere: its first process chooses it and tells the others.
pub fn new_context(world: &World) -> u64 {
    (world.rank as u64 * PROCESS) | (NEXT_CONTEXT.fetch_add(1, Ordering::Relaxed) << 2)
}

#[inline]
fn predefined(world: &World) -> &'static [Arc<Comm>; 2] {
    PREDEFINED.get_or_init(|| {
        let all = Group::of_world(world);
        let own = Group::new([world.rank as u32]);
        let [all, own] = [Comm::new(0, Arc::new(all), world.place(), None), Comm::new(1 << 2, Arc::new(own), 0, None)];
        all.set_name("MPI_COMM_WORLD");
        own.set_name("MPI_COMM_SELF");
        [all, own]
    })
}
