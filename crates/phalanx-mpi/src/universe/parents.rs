//! Those who have started this world, and how many processes there can be (MPI 5.0, 11.8 and 11.10).

use crate::error::Result;
use crate::objects::comm::{COMM_NULL, Comm};
use crate::objects::group::Group;
use crate::operations::comm_create::with_side;
use crate::process::world::World;
use phalanx_core::wire::ranks::{MOST_RANKS, UNIVERSE};
use phalanx_core::wire::universe::Side;
use phalanx_net::sync::lock;
use std::sync::{Arc, Mutex, Weak};

/// The communicator with them: its handle, which may have been freed and given to another one since, and itself.
static PARENTS: Mutex<Option<(u32, Weak<Comm>)>> = Mutex::new(None);

/// Makes the communicator with those who have started this world.
pub(super) fn meet_parents(world: &World, parents: &Side) -> Result<()> {
    let comm = with_side(world, Arc::new(Group::of_world(world)), parents.context, &parents.processes)?;
    comm.set_name("MPI_COMM_PARENT");
    let made = Arc::downgrade(&comm);
    *lock(&PARENTS) = Some((comm.put()?, made));
    Ok(())
}

/// The handle of that (MPI_Comm_get_parent).
pub fn parent() -> u32 {
    let parents = lock(&PARENTS);
    let Some((handle, made)) = &*parents else { return COMM_NULL };
    let is_there = Comm::held(*handle).is_some_and(|comm| Arc::as_ptr(&comm) == made.as_ptr());
    if is_there { *handle } else { COMM_NULL }
}

/// How many processes there can be: as the launcher has found on executors, or as this machine has cores for
/// (MPI_UNIVERSE_SIZE; MPI 5.0, 11.10.1). Those that have started this world are among them.
pub fn universe_size(world: &World) -> usize {
    let told = world.control.as_ref().and_then(|_| std::env::var(UNIVERSE).ok()?.parse::<u32>().ok());
    let room = told.map_or_else(|| world.room(), |told| told.min(MOST_RANKS) as usize);
    let parents = Comm::of(parent()).map_or(0, |comm| comm.peers().size());
    room.max(world.size + parents)
}
