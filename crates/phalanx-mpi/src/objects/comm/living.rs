//! All communicators that are in use: what happens in the program concerns those of them that it touches.

use super::{Comm, Remote, Use};
use crate::process::world::{World, world};
use phalanx_core::wire::ranks::{FromRank, MOST_RANKS};
use phalanx_net::sync::lock;
use std::sync::{Arc, Mutex, Weak};

/// All that are in use, those without a handle too.
static LIVING: Mutex<Vec<Weak<Comm>>> = Mutex::new(Vec::new());
/// Contexts of those that are not, which the engine still knows. Whoever drops the last use of one may be using the engine.
static DROPPED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// A communicator is in use from now on. What has happened to its processes before it was made concerns it too.
pub(super) fn begin(comm: &Arc<Comm>) {
    let mut living = lock(&LIVING);
    if living.len() == living.capacity() {
        living.retain(|it| it.strong_count() > 0);
    }
    living.push(Arc::downgrade(comm));
    drop(living);
    if let Ok(world) = world() {
        forget_dropped(world);
        comm.meet(world);
        comm.note_losses(world);
        if world.engine().is_revoked(comm.context) {
            revoke(world, comm.context); // another process has, before this one had it
        }
    }
}

/// The communicator with this context is not in use any more.
pub(super) fn end(context: u64) {
    lock(&DROPPED).push(context);
}

/// Lets the engine forget communicators that are no longer in use, and in which nothing is under way.
pub fn forget_dropped(world: &World) {
    let mut dropped = std::mem::take(&mut *lock(&DROPPED));
    dropped.retain(|context| !world.engine().forget(*context));
    lock(&DROPPED).append(&mut dropped);
}

/// The communicator with this context is revoked, whether this process has it or will; windows and files of it are, too.
pub(crate) fn revoke(world: &World, context: u64) {
    let mut contexts = vec![context];
    for comm in Comm::living().iter().filter(|comm| comm.is_revoked_with(context)) {
        comm.note_revoked();
        contexts.push(comm.context);
        if let Some(Remote { local, .. }) = &comm.remote {
            local.note_revoked();
            contexts.push(local.context);
        }
    }
    for context in contexts {
        world.engine().revoke(context);
        world.services.revoke(context | Use::Aside as u64);
    }
    world.note_completion();
}

impl Comm {
    /// All communicators that are in use.
    pub fn living() -> Vec<Arc<Comm>> {
        lock(&LIVING).iter().filter_map(Weak::upgrade).collect()
    }

    /// Lets this process be connected with those of the communicator that it has not met.
    fn meet(&self, world: &World) {
        let all = self.group.processes.iter().chain(&self.peers().processes);
        for process in all.copied().filter(|process| !world.is_of_world(*process) && *process < MOST_RANKS) {
            if world.engine().know(process) && world.encounters.expect(process) {
                let told = world.control.as_ref().map(|control| control.tell(&FromRank::Meet { process }));
                drop(told); // a launcher that is gone is noticed elsewhere
            }
        }
    }

    /// Receives from lost processes fail.
    pub(crate) fn note_losses(&self, world: &World) {
        for process in world.losses.all() {
            if let Some(rank) = self.peers().processes.iter().position(|its| *its == process) {
                world.engine().lose_source(self.context, rank as i32);
            }
        }
    }
}
