//! Making windows and ending them (MPI 5.0, 12.2).

use super::memory::{self, Memory, Spacing};
use super::quick::Open;
use super::state::State;
use super::{Flavor, Part, Shown, Window, lock};
use crate::error::{Class, Result, fail};
use crate::objects::comm::asks_for_protection;
use crate::objects::info::Info;
use crate::objects::memory::allocate as allocate_memory;
use crate::operations::collective::{Call, barrier, everyone};
use crate::operations::comm_create::duplicate;
use std::sync::atomic::{AtomicI32, AtomicU32};
use std::sync::{Arc, Mutex};

/// Bytes that displacements of a window count; positive.
#[derive(Debug, Clone, Copy)]
pub struct Unit(usize);

impl Unit {
    /// Fails if the number is not positive.
    pub fn new(bytes: i64) -> Result<Unit> {
        match usize::try_from(bytes) {
            Ok(bytes @ 1..) => Ok(Unit(bytes)),
            _ => fail(Class::Disp, format!("disp_unit is {bytes}, not positive")),
        }
    }
}

/// MPI_Win_create.
pub async fn create(call: Call, base: *mut u8, size: usize, unit: Unit, hints: &Info) -> Result<Arc<Window>> {
    check_size(size)?;
    if base.is_null() && size > 0 {
        return fail(Class::Base, format!("base of {size} bytes is NULL"));
    }
    let part = Part { base: base.expose_provenance(), size, unit: unit.0 };
    let parts = everybody(&call, part).await?;
    open(call, Flavor::Create, parts, Memory::Lent, hints).await
}

/// MPI_Win_allocate: in memory that the ranks of each machine share, where the system has that.
pub async fn allocate(call: Call, size: usize, unit: Unit, hints: &Info) -> Result<Arc<Window>> {
    check_size(size)?;
    let mut parts = everybody(&call, Part { base: 0, size, unit: unit.0 }).await?;
    let memory = match memory::share(&call, &mut parts, Spacing::Page).await? {
        Ok(mapping) => Memory::Mapped(mapping),
        Err(_) => {
            let base = allocate_memory(size)?.expose_provenance();
            parts[call.rank()].base = base;
            Memory::Allocated(base)
        }
    };
    open(call, Flavor::Allocate, parts, memory, hints).await
}

/// MPI_Win_allocate_shared: the parts lie one after the other in memory that all can load and store.
pub async fn allocate_shared(call: Call, size: usize, unit: Unit, hints: &Info) -> Result<Arc<Window>> {
    check_size(size)?;
    let mut parts = everybody(&call, Part { base: 0, size, unit: unit.0 }).await?;
    let is_here = |process: &u32| call.world.local.contains(&(*process as usize));
    if !call.comm.group.processes.iter().all(is_here) {
        return fail(Class::RmaShared, "the processes of comm are not on one machine");
    }
    let apart = hints.get("alloc_shared_noncontig").as_deref() == Some("true");
    let spacing = if apart { Spacing::Line } else { Spacing::None };
    match memory::share(&call, &mut parts, spacing).await? {
        Ok(mapping) => open(call, Flavor::Shared, parts, Memory::Mapped(mapping), hints).await,
        Err(error) => fail(Class::RmaShared, format!("there is no shared memory: {error}")),
    }
}

/// MPI_Win_create_dynamic.
pub async fn create_dynamic(call: Call, hints: &Info) -> Result<Arc<Window>> {
    let parts = vec![Part { base: 0, size: 0, unit: 1 }; call.size()];
    open(call, Flavor::Dynamic, parts, Memory::Lent, hints).await
}

fn check_size(size: usize) -> Result<()> {
    match isize::try_from(size) {
        Ok(_) => Ok(()),
        Err(_) => fail(Class::Size, format!("size is {size}, more than there can be")),
    }
}

/// The parts of all, of which only the own one has an address.
async fn everybody(call: &Call, own: Part) -> Result<Vec<Part>> {
    if call.comm.remote.is_some() {
        return fail(Class::Comm, "comm is an intercommunicator");
    }
    let sizes = everyone(call, &(own.size, own.unit)).await?;
    let mut parts: Vec<Part> = sizes.into_iter().map(|(size, unit)| Part { base: 0, size, unit }).collect();
    parts[call.rank()] = own;
    Ok(parts)
}

async fn open(call: Call, flavor: Flavor, parts: Vec<Part>, memory: Memory, hints: &Info) -> Result<Arc<Window>> {
    if call.comm.remote.is_some() {
        return fail(Class::Comm, "comm is an intercommunicator");
    }
    let (world, of) = (call.world, call.comm.context);
    let comm = duplicate(call, asks_for_protection(hints)?).await?;
    comm.serve(world, of);
    comm.heed(world, hints)?;
    let own = parts[comm.rank];
    let number = AtomicI32::new;
    let shown = Shown { size: own.size as isize, unit: number(own.unit as i32), flavor: number(0), model: number(0) };
    let window = Arc::new(Window {
        world,
        flavor,
        state: Mutex::new(State::new(comm.size())),
        open: Open::new(&parts, &memory),
        parts,
        memory,
        calls: AtomicU32::new(0),
        shown,
        name: Mutex::default(),
        hints: Mutex::new(hints.pairs()),
        comm,
    });
    world.services.open(window.context(), window.clone());
    let is_lost = |rank: &usize| world.engine().is_lost(window.comm.group.processes[*rank]);
    (0..window.comm.size()).filter(is_lost).for_each(|rank| window.lose_memory_of(rank));
    // Nobody's word comes before everybody serves.
    let met = barrier(&Call::new(world, window.comm.clone())).await;
    met.inspect_err(|_| window.end())?; // the program has no window, and may free the memory
    Ok(window)
}

impl Window {
    /// That the window may be freed now.
    pub fn check_close(&self) -> Result<()> {
        match lock(&self.state).epochs.is_inside() {
            true if !self.comm.is_revoked() => fail(Class::RmaSync, "win is freed inside an epoch"),
            _ => Ok(()),
        }
    }

    /// MPI_Win_free, but for its handle: nobody uses it any more. Its own memory goes with the last call that uses the window. Of a
    /// revoked window, nobody's words are heard any more, so that nobody is waited for.
    pub async fn close(&self) -> Result<()> {
        self.check_close()?;
        let call = Call::new(self.world, self.comm.clone());
        let mut settled = self.settle(None).await;
        match barrier(&call).await {
            Err(error) if error.class == Class::Revoked => settled = Ok(()),
            met => met?,
        }
        self.end();
        settled
    }

    /// Nobody's words are heard any more: not by another thread either, which has one already.
    fn end(&self) {
        self.world.services.close(self.context());
        lock(&self.state).ended = true;
        self.end_longs(None);
    }

    /// MPI_Win_attach.
    pub fn attach(&self, base: *mut u8, size: usize) -> Result<()> {
        self.check_dynamic()?;
        if base.is_null() && size > 0 {
            return fail(Class::Base, format!("base of {size} bytes is NULL"));
        }
        let base = base.expose_provenance();
        let Some(end) = base.checked_add(size) else { return fail(Class::Size, format!("size is {size}")) };
        let regions = &mut lock(&self.state).regions;
        let before = regions.range(..end.max(base + 1)).next_back();
        if before.is_some_and(|(other, length)| other + length > base || *other == base) {
            return fail(Class::RmaAttach, "some of the memory is attached already");
        }
        regions.insert(base, size);
        Ok(())
    }

    /// MPI_Win_detach.
    pub fn detach(&self, base: *const u8) -> Result<()> {
        self.check_dynamic()?;
        match lock(&self.state).regions.remove(&base.addr()) {
            Some(_) => Ok(()),
            None => fail(Class::RmaAttach, "no memory that begins at base is attached"),
        }
    }

    fn check_dynamic(&self) -> Result<()> {
        if self.is_dynamic() { Ok(()) } else { fail(Class::RmaFlavor, "win is not dynamic") }
    }
}
