//! Processes that were lost: what they were needed for fails.

use crate::error::{Class, Error};
use crate::objects::comm::Comm;
use crate::process::world::{World, world};
use phalanx_core::wire::ranks::MOST_RANKS;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the launcher has to tell a process of a loss of which that has heard from another one.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// A rank will not be heard of again: the launcher says so.
pub(super) fn lose(world: &World, rank: u32, text: String) {
    lose_by(world, rank, text, true);
}

/// The same of a rank that this process has found out of reach, and of which the launcher has said nothing.
pub(super) fn lose_unheard(world: &World, rank: u32, text: String) {
    lose_by(world, rank, text, false);
}

fn lose_by(world: &World, rank: u32, text: String, told: bool) {
    if rank >= MOST_RANKS || rank as usize == world.rank {
        return;
    }
    world.encounters.end(rank);
    let living = Comm::living();
    let has_it = |comm: &Arc<Comm>| comm.peers().rank_of(rank).is_some() || comm.group.rank_of(rank).is_some();
    if world.is_of_world(rank) || living.iter().any(has_it) {
        world.losses.note(rank, text, told); // nobody else is missed
    }
    let mut engine = world.engine();
    engine.know(rank);
    engine.lose(rank);
    drop(engine);
    living.iter().for_each(|comm| comm.note_losses(world));
    world.serve(); // its last words
    world.services.lose(rank);
    world.note_completion();
}

/// A failure as people are told of it: of a loss, who was lost and why. Another process may have heard of that before this one
/// does, so this may wait a moment; it is for who returns to the program, and not for a task.
pub fn explained(error: Error) -> Error {
    let is_bare = error.class == Class::ProcFailed && error.text == error.class.words();
    let told = || world().ok().filter(|_| is_bare).and_then(await_losses);
    told().map(|text| Error::new(error.class, text)).unwrap_or(error)
}

fn await_losses(world: &World) -> Option<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match world.losses.told() {
            None if Instant::now() < deadline && world.control.is_some() => {
                world.attend();
                std::thread::sleep(PAUSE);
            }
            told => return told,
        }
    }
}
