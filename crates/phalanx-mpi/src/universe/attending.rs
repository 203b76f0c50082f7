//! What progress calls from time to time: the launcher is heard, and connections that have ended are judged.

use super::losing::{lose, lose_unheard};
use super::{meeting, questions};
use crate::objects::comm::revoke;
use crate::process::engine::Ended;
use crate::process::world::World;
use phalanx_core::wire::ranks::{FromRank, ToRank};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Hears what the launcher says, and sees to connections.
pub(super) fn attend(world: &World) {
    let control = world.control.as_ref().filter(|control| !control.is_closed());
    while let Some(heard) = control.and_then(|control| control.hear(false).transpose()) {
        match heard {
            Ok(message) => take(world, message),
            Err(_) => {
                world.note_completion(); // who waits for an answer waits no more
                break;
            }
        }
    }
    if world.may_be_cut() {
        let now = Instant::now();
        world.losses.note_looked(now);
        world.engine().look_for_cuts(now);
    }
    meeting::take_made(world);
    judge_ended(world);
}

/// A word of the launcher. One that the program is aborted means nothing here: the launcher ends this process.
pub(crate) fn take(world: &World, message: ToRank) {
    match message {
        ToRank::Lost { rank, text } => return lose(world, rank, text),
        ToRank::Revoked { context } => return revoke(world, context),
        ToRank::Answer { number, answer } => questions::on_answer(number, answer),
        ToRank::Met { process } => meeting::on_met(world, process),
        ToRank::Listen { process } => meeting::on_listen(world, process),
        ToRank::Connect { process, entries } => meeting::on_connect(world, process, entries),
        ToRank::Left { process } => meeting::on_left(world, process),
        ToRank::Save => world.checkpoint_wanted.store(true, Ordering::Relaxed),
        _ => {}
    }
    world.note_completion();
}

/// A connection that has ended while its process lives is the end of what there is between the two. So is a farewell,
/// for who goes on waiting.
fn judge_ended(world: &World) {
    let ended = world.engine().ended().to_vec();
    for Ended { peer, left } in world.losses.overdue(ended, Instant::now()) {
        if let (false, Some(control)) = (left, &world.control) {
            let _ = control.tell(&FromRank::Cut { process: peer }); // a launcher that is gone ends this process
        }
        let text = match left {
            true => format!("{} has left the program (MPI_Finalize)", world.name_of(peer)),
            false => {
                let (there, here) = (machine_of(world, peer), machine_of(world, world.rank as u32));
                let (one, other) = (world.name_of(peer), world.place());
                format!("{one}{there} is lost: no connection between it and rank {other}{here} any more")
            }
        };
        lose_unheard(world, peer, text);
    }
}

/// A rank's machine, for people; nothing where all are on this one.
fn machine_of(world: &World, process: u32) -> String {
    let address = (process as usize).checked_sub(world.first).and_then(|rank| world.addresses.get(rank));
    address.map_or(String::new(), |address| format!(" at {address}"))
}
