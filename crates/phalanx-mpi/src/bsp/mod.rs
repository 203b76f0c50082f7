//! Bulk synchronous parallel programs (paper 001, 4.2; Hill et al., "BSPlib: the BSP programming library", Parallel
//! Computing 24, 1998): supersteps over the same core as MPI.
//!
//! Within a superstep a process only notes what it wants of others. What it has for one of them goes there as one
//! message, at [`Bsp::sync`]. Between two supersteps nothing is under way: what a process is then, is its memory, its
//! [areas](area) and its [messages](inbox).

mod area;
mod checkpoint;
mod costs;
mod inbox;
mod moving;
mod parcel;
mod snapshot;
mod store;
mod sync;
#[cfg(test)]
mod tests;

pub use checkpoint::Point;
pub use costs::Superstep;

use crate::error::{Class, Result, fail};
use crate::objects::comm::{COMM_WORLD, Comm};
use crate::objects::group::Group;
use crate::operations::collective::{Call, Span, bcast, everybody_says};
use crate::process::blocking::block_on;
use crate::process::engine::EAGER;
use crate::process::world::{World, check_part, is_fork};
use crate::universe::joining::join;
use crate::universe::leaving;
use crate::universe::losing::explained;
use area::Areas;
use checkpoint::Saving;
use costs::Costs;
use inbox::Inbox;
use moving::Moving;
use parcel::{Kind, Parcel};
use phalanx_core::spmd::Limit;
use phalanx_core::wire::ranks::{CHECKPOINT_EVERY, CHECKPOINTS, MOVE_SLOW};
use std::any::Any;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Of the messages of BSP programs; no communicator of MPI's has it.
const CONTEXT: u64 = 1 << 63;

/// What keeps lent memory where it is; None where the program sees to that.
pub type Keeper = Option<Box<dyn Any + Send>>;

/// A process of a BSP program.
pub struct Bsp {
    world: &'static World,
    comm: Arc<Comm>,
    begun: Instant,
    /// Of those that were completed.
    supersteps: u32,
    areas: Areas,
    /// For each process, what it gets at the next sync.
    parcels: Vec<Parcel>,
    inbox: Inbox,
    tagsize: u64,
    next_tagsize: Option<u64>,
    costs: Costs,
    /// Of memory that is lent until the next sync.
    keepers: Vec<Keeper>,
    /// None: no checkpoints.
    saving: Option<Saving>,
    moving: Moving,
}

impl Bsp {
    /// Joins the program. It has as many processes as were started, but not more than process 0 says here; None for
    /// those that are too many, which have left when this returns. Of those of process 0, too, are the supersteps from one
    /// checkpoint to the next, where the user has not said how many; 0 for no checkpoints.
    pub fn begin(processes: Option<u32>, checkpoint: u32) -> Result<Option<Bsp>> {
        let world = join()?;
        let (asked, folder) = (take_variable(CHECKPOINT_EVERY), take_variable(CHECKPOINTS));
        let asked = asked.and_then(|word| word.to_str()?.parse().ok());
        let limit: Option<Limit> = take_variable(MOVE_SLOW).and_then(|word| word.to_str()?.parse().ok());
        let most = u64::from(processes.unwrap_or(u32::MAX));
        let mut said = (most << 32 | u64::from(asked.unwrap_or(checkpoint))).to_le_bytes();
        let call = Call::new(world, Comm::of(COMM_WORLD)?);
        block_on(world, bcast(&call, Span::of(&mut said), 0));
        call.outcome().map_err(explained)?;
        let said = u64::from_le_bytes(said);
        let size = world.size.min((said >> 32) as usize);
        if size == 0 {
            return fail(Class::Arg, "a program needs one process at least");
        }
        if world.place() >= size {
            leaving::leave(world)?;
            return Ok(None);
        }
        let mut bsp = Bsp::of(world, size);
        let folder = folder.filter(|_| said as u32 > 0 && world.control.is_some()); // nobody else starts it again
        bsp.saving = folder.map(|folder| Saving::new(Path::new(&folder), said as u32));
        if let Some(limit) = limit {
            if bsp.saving.is_none() {
                return fail(
                    Class::Arg,
                    "--move-slow: the program makes no checkpoints at which a process could be moved",
                );
            }
            bsp.moving = Moving::new(limit, bsp.pid(), checkpoint::machines_of(&world.machines, size));
        }
        bsp.tell_saved();
        Ok(Some(bsp))
    }

    fn of(world: &'static World, size: usize) -> Bsp {
        let group = Arc::new(Group::new(&Group::of_world(world).processes[..size]));
        Bsp {
            world,
            comm: Comm::new(CONTEXT, group, world.place(), None),
            begun: Instant::now(),
            supersteps: 0,
            areas: Areas::default(),
            parcels: (0..size).map(|_| Parcel::default()).collect(),
            inbox: Inbox::default(),
            tagsize: 0,
            next_tagsize: None,
            costs: Costs::default(),
            keepers: Vec::new(),
            saving: None,
            moving: Moving::default(),
        }
    }

    /// The number of this process, from 0.
    pub fn pid(&self) -> usize {
        self.comm.rank
    }

    /// The number of processes.
    pub fn nprocs(&self) -> usize {
        self.comm.size()
    }

    /// Seconds since this process began.
    pub fn time(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Supersteps that were completed.
    pub fn supersteps(&self) -> u32 {
        self.supersteps
    }

    /// Ends this process's part, after all others have come here too. A fork has none.
    pub fn end(&mut self) -> Result<()> {
        if is_fork() {
            return Ok(());
        }
        self.meet(sync::End::Program)?;
        leaving::leave(self.world)
    }

    /// From the next superstep on, others may write and read this memory, or nothing where it is empty. All processes
    /// do so in the same order. Where an area is named, it is the latest one with this address.
    ///
    /// # Safety
    /// The memory stays, and only this process's program uses it otherwise, until its registration has ended.
    pub unsafe fn push_reg(&mut self, address: usize, memory: Span, keeper: Keeper) {
        self.areas.push(address, memory, keeper);
    }

    /// Ends the latest registration of an address, from the next superstep on. All do so in the same order.
    pub fn pop_reg(&mut self, address: usize) -> Result<()> {
        self.areas.pop(address)
    }

    /// Writes a copy of `data` into an area of a process, at the next sync.
    pub fn put(&mut self, pid: i64, data: &[u8], area: usize, offset: i64) -> Result<()> {
        let (pid, slot, offset) = self.place(pid, area, offset, data.len())?;
        self.parcels[pid].put(slot, offset, data);
        Ok(())
    }

    /// The same without a copy where it is worth that: the data may be read, and the area written, at any time until the
    /// next sync has ended.
    ///
    /// # Safety
    /// `data` is lent until then.
    pub unsafe fn hpput(&mut self, pid: i64, data: Span, area: usize, offset: i64, keeper: Keeper) -> Result<()> {
        let (pid, slot, offset) = self.place(pid, area, offset, data.length())?;
        if data.length() <= EAGER || pid == self.pid() {
            // SAFETY: the caller lends it.
            self.parcels[pid].put(slot, offset, unsafe { data.bytes() });
        } else {
            self.parcels[pid].hpput(slot, offset, data);
            self.keepers.push(keeper);
        }
        Ok(())
    }

    /// Reads from an area of a process, at the next sync: what is there before anything is put.
    ///
    /// # Safety
    /// `into` is lent until the next sync has ended.
    pub unsafe fn get(&mut self, pid: i64, area: usize, offset: i64, into: Span, keeper: Keeper) -> Result<()> {
        self.fetch(Kind::Get, pid, area, offset, into, keeper)
    }

    /// The same without copies where that is worth it: the area may be read, and `into` written, at any time until the
    /// next sync has ended.
    ///
    /// # Safety
    /// `into` is lent until then.
    pub unsafe fn hpget(&mut self, pid: i64, area: usize, offset: i64, into: Span, keeper: Keeper) -> Result<()> {
        let direct = into.length() > EAGER && pid != self.pid() as i64;
        self.fetch(if direct { Kind::HpGet } else { Kind::Get }, pid, area, offset, into, keeper)
    }

    fn fetch(&mut self, kind: Kind, pid: i64, area: usize, offset: i64, into: Span, keeper: Keeper) -> Result<()> {
        let (pid, slot, offset) = self.place(pid, area, offset, into.length())?;
        self.parcels[pid].get(kind, slot, offset, into);
        self.keepers.push(keeper);
        Ok(())
    }

    /// Checks where a put or a get goes.
    fn place(&self, pid: i64, area: usize, offset: i64, length: usize) -> Result<(usize, u32, u64)> {
        let pid = self.process(pid)?;
        let (slot, size) = self.areas.find(area, pid)?;
        match u64::try_from(offset) {
            Ok(offset) if offset.checked_add(length as u64).is_some_and(|end| end <= size) => Ok((pid, slot, offset)),
            _ => {
                let text = format!(
                    "{length} bytes at offset {offset} are not within the {size} bytes that pid {pid} registered"
                );
                fail(Class::RmaRange, text)
            }
        }
    }

    fn process(&self, pid: i64) -> Result<usize> {
        match usize::try_from(pid) {
            Ok(pid) if pid < self.nprocs() => Ok(pid),
            _ => fail(Class::Rank, format!("pid {pid} is not in 0..{}", self.nprocs())),
        }
    }

    /// Bytes of a tag. Tags of C programs have this length; the library itself lets each have its own.
    pub fn tagsize(&self) -> u64 {
        self.tagsize
    }

    /// The length of tags from the next superstep on, said by all processes; what was set before.
    pub fn set_tagsize(&mut self, bytes: u64) -> u64 {
        self.next_tagsize.replace(bytes).unwrap_or(self.tagsize)
    }

    /// Sends a copy of a message, which is in the queue of its receiver in the next superstep, and only then.
    pub fn send(&mut self, pid: i64, tag: &[u8], payload: &[u8]) -> Result<()> {
        let pid = self.process(pid)?;
        if u32::try_from(tag.len()).is_err() {
            return fail(Class::Tag, format!("a tag of {} bytes is too long", tag.len()));
        }
        self.parcels[pid].send(tag, payload);
        Ok(())
    }

    /// How many messages are in the queue, and the bytes of all their payloads.
    pub fn qsize(&self) -> (usize, usize) {
        self.inbox.size()
    }

    /// The first message of the queue: tag and payload.
    pub fn first(&self) -> Option<(&[u8], &[u8])> {
        self.inbox.first()
    }

    /// Takes it out. Its memory stays until the next sync.
    pub fn take(&mut self) -> Option<(&[u8], &[u8])> {
        self.inbox.take()
    }

    /// Whether the costs of the supersteps from here on are noted.
    pub fn note_costs(&mut self, wanted: bool) {
        self.costs.note(wanted);
    }

    /// Costs of the supersteps that were noted, at this process.
    pub fn costs(&self) -> &[Superstep] {
        self.costs.noted()
    }

    /// What each process has to say, at each; all call this together. It is no superstep.
    pub fn everybody_says(&self, own: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let call = Call::new(self.world, self.comm.clone());
        together(self.world, everybody_says(&call, own))
    }

    /// Lets the launcher end the program, and tells the user why.
    pub fn tell_abort(&self, code: i32, text: &str) {
        self.world.tell_abort(code, text);
    }

    /// Ends the superstep: everything that was asked for happens.
    ///
    /// In this order, at each process: others' gets are answered, puts are written (those of lower pids first, those of
    /// one process in the order of its calls), what this process got is written, registrations and the tag size change.
    pub fn sync(&mut self) -> Result<()> {
        self.meet(sync::End::Superstep)
    }
}

/// Does what all processes do, with an error that people understand.
fn together<T>(world: &World, work: impl Future<Output = Result<T>>) -> Result<T> {
    check_part()?;
    block_on(world, work).map_err(explained)
}

/// What the launcher tells this process; programs that it starts are none of the launcher's.
fn take_variable(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name)?;
    // SAFETY: a program begins before it has threads that read the environment.
    unsafe { std::env::remove_var(name) };
    Some(value)
}
