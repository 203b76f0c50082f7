//! Windows: memory that others read and write (MPI 5.0, chapter 12).
//!
//! Memory that a window makes is shared between the ranks of one machine (`memory`): operations there are copies, which are
//! done when the call returns (`direct`).
//!
//! For all other memory a window is a service: what its origins want goes to the target as words, which the target carries out
//! while it makes progress in whatever call of MPI. So these accesses to one process's memory come one after the other, but for
//! long puts and gets, whose data goes alone (`long`). Each word is acknowledged; an epoch ends when all of its are. Accumulation is atomic either way, because both take the same guard.

mod create;
mod desk;
mod direct;
mod epoch;
mod long;
mod memory;
mod operation;
mod origin;
pub mod quick;
mod runs;
mod state;
mod target;
#[cfg(test)]
mod tests;
mod word;

pub use create::{Unit, allocate, allocate_shared, create, create_dynamic};
pub use operation::End;
pub use origin::{Place, active};

use crate::constants::*;
use crate::error::{Class, Error, Result, fail};
use crate::objects::comm::{Comm, Use};
use crate::objects::handle::Table;
use crate::objects::info::Info;
use crate::process::engine::LONG;
use crate::process::world::World;
use memory::Memory;
use phalanx_net::copy::append;
use phalanx_net::sync::lock;
use runs::Reach;
use state::State;
use std::sync::atomic::{AtomicI32, AtomicU32};
use std::sync::{Arc, Mutex};
use word::{HEAD, Word};

/// Handles' kind; see [`crate::objects::handle`].
const KIND: u32 = 7;
static MADE: Table<Window> = Table::new(KIND);

/// Hints that every window has, with what holds where a program says nothing.
const DEFAULT_HINTS: [(&str, &str); 6] = [
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
    ("alloc_shared_noncontig", "false"),
];

/// How a window was made; the numbers are the standard interface's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Flavor {
    /// MPI_Win_create.
    Create = MPI_WIN_FLAVOR_CREATE,
    /// MPI_Win_allocate.
    Allocate = MPI_WIN_FLAVOR_ALLOCATE,
    /// MPI_Win_create_dynamic.
    Dynamic = MPI_WIN_FLAVOR_DYNAMIC,
    /// MPI_Win_allocate_shared.
    Shared = MPI_WIN_FLAVOR_SHARED,
}

/// One process's part of a window.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Where this process sees it; 0 for what it does not see.
    pub base: usize,
    /// Its length, in bytes.
    pub size: usize,
    /// Bytes that displacements count.
    pub unit: usize,
}

/// See the module.
pub struct Window {
    world: &'static World,
    /// The window's own.
    pub(crate) comm: Arc<Comm>,
    /// How it was made.
    pub flavor: Flavor,
    /// By rank.
    parts: Vec<Part>,
    state: Mutex<State>,
    memory: Memory,
    /// What `state` allows in mapped memory.
    open: quick::Open,
    /// Of operations that needed no message.
    calls: AtomicU32,
    /// What the predefined attributes point to.
    pub shown: Shown,
    name: Mutex<String>,
    hints: Mutex<Vec<(String, String)>>,
}

/// What the predefined attributes point to; the C interface fills in its own numbers.
#[derive(Debug)]
pub struct Shown {
    /// MPI_WIN_SIZE.
    pub size: isize,
    /// MPI_WIN_DISP_UNIT.
    pub unit: AtomicI32,
    /// MPI_WIN_CREATE_FLAVOR.
    pub flavor: AtomicI32,
    /// MPI_WIN_MODEL.
    pub model: AtomicI32,
}

impl Window {
    /// The window with this handle.
    pub fn of(handle: u32) -> Result<Arc<Window>> {
        match MADE.get(handle) {
            Some(window) => Ok(window),
            None if handle == MPI_WIN_NULL => fail(Class::Win, "win is MPI_WIN_NULL"),
            None => fail(Class::Win, format!("win {handle:#x} is no window, or was freed")),
        }
    }

    /// A handle for it.
    pub fn put_handle(self: Arc<Window>) -> Result<u32> {
        let window = Arc::as_ptr(&self);
        let handle = MADE.put(self).ok_or_else(|| Error::new(Class::NoMem, "too many windows"))?;
        quick::show(handle, window);
        Ok(handle)
    }

    /// Ends the handle of a window that is closed.
    pub fn forget(handle: u32) {
        quick::forget(handle);
    }

    /// This process's part.
    pub fn own(&self) -> Part {
        self.parts[self.comm.rank]
    }

    /// The group of the window's processes.
    pub fn group(&self) -> &Arc<crate::objects::group::Group> {
        &self.comm.group
    }

    /// Somebody's part as far as this process can load and store there (MPI_Win_shared_query). `rank` may be
    /// MPI_PROC_NULL for the first that has memory.
    pub fn shared(&self, rank: i32) -> Result<Part> {
        if self.flavor == Flavor::Dynamic {
            return fail(Class::RmaFlavor, "win is dynamic: nothing of it is shared");
        }
        let rank = match self.comm.destination(rank)? {
            Some(_) => rank as usize,
            None => self.parts.iter().position(|part| part.size > 0).unwrap_or(0),
        };
        let part = self.parts[rank];
        Ok(if part.base == 0 { Part { size: 0, ..part } } else { part })
    }

    /// The window's name.
    pub fn name(&self) -> String {
        lock(&self.name).clone()
    }

    /// Names the window.
    pub fn set_name(&self, name: &str) {
        *lock(&self.name) = name.to_string();
    }

    /// What the program said of its use, and what holds where it said nothing (MPI 5.0, 12.2.1).
    pub fn hints(&self) -> Info {
        let mut pairs = lock(&self.hints).clone();
        for (key, value) in DEFAULT_HINTS {
            if pairs.iter().all(|pair| pair.0 != *key) {
                pairs.push((key.to_string(), value.to_string()));
            }
        }
        Info::of(pairs)
    }

    /// Sets the hints that mean something.
    pub fn set_hints(&self, hints: &Info) -> Result<()> {
        self.comm.heed(self.world, hints)?;
        *lock(&self.hints) = hints.known(&DEFAULT_HINTS.map(|(key, _)| key));
        Ok(())
    }

    fn context(&self) -> u64 {
        self.comm.context | Use::Aside as u64
    }

    /// Sends a word.
    fn tell(&self, rank: usize, word: &Word, data: &[u8]) -> Result<()> {
        self.tell_encoded(rank, self.encode(word, data))
    }

    /// A word as bytes, with data behind.
    fn encode(&self, word: &Word, data: &[u8]) -> Vec<u8> {
        let mut bytes = word.within(self.memory_for(data.len()));
        append(&mut bytes, data);
        bytes
    }

    /// Memory for a word with that much data behind. Not to be called with the state locked.
    fn memory_for(&self, data: usize) -> Vec<u8> {
        let length = HEAD + data;
        if length < LONG { Vec::with_capacity(length) } else { self.world.engine().memory_for(length) }
    }

    /// Tells a rank a word that is encoded already, with its data.
    fn tell_encoded(&self, rank: usize, word: Vec<u8>) -> Result<()> {
        let (to, own) = (self.comm.group.processes[rank], self.comm.rank as i32);
        match self.world.engine().send_aside(to, self.context(), own, word) {
            true => Ok(()),
            false => Err(self.loss_of(rank)),
        }
    }

    /// Why nothing more comes from a rank that was lost.
    fn loss_of(&self, rank: usize) -> Error {
        let told = self.world.losses.text_of(self.comm.group.processes[rank]);
        Error::new(Class::ProcFailed, told.unwrap_or_else(|| format!("rank {rank} of the window cannot be reached")))
    }

    /// Fails when a rank was lost, or the window revoked.
    fn check_lives(&self, rank: usize) -> Result<()> {
        self.comm.check_revoked()?;
        let is_lost = self.world.engine().is_lost(self.comm.group.processes[rank]);
        if is_lost { Err(self.loss_of(rank)) } else { Ok(()) }
    }

    /// A target's rank; None for MPI_PROC_NULL.
    fn rank(&self, rank: i32) -> Result<Option<usize>> {
        Ok(self.comm.destination(rank)?.map(|_| rank as usize))
    }

    fn is_dynamic(&self) -> bool {
        self.flavor == Flavor::Dynamic
    }

    /// The memory of a part, for checking accesses.
    fn reach<'a>(&self, rank: usize, state: &'a State) -> Reach<'a> {
        let Part { base, size, unit } = self.parts[rank];
        if self.is_dynamic() { Reach::Regions(&state.regions) } else { Reach::Part { base, size, unit } }
    }
}
