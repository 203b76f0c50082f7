//! Going on after losses (ULFM, the MPI Forum's proposal for user-level failure mitigation; Bland et al., "Post-failure
//! recovery of MPI communication capability", 2013).
//!
//! What all have to know alike, the launcher decides ([`phalanx_core::launch`]): it is the one who says who is lost.

use super::losing::lose;
use super::questions::ask;
use crate::error::{Class, Error, Result, fail};
use crate::objects::comm;
use crate::objects::comm::{Comm, Remote, new_context};
use crate::objects::group::Group;
use crate::operations::comm_create::{make, own_context};
use crate::process::engine::MARKED;
use crate::process::world::World;
use phalanx_core::wire::ranks::FromRank;
use phalanx_core::wire::universe::{Answer, Ballot, Members, Question};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// MPIX_Comm_revoke: everything in it fails, here at once and at the others when they hear of it.
pub fn revoke(world: &World, comm: &Comm) -> Result<()> {
    if comm.is_revoked() {
        return Ok(());
    }
    if let Some(control) = &world.control {
        let word = FromRank::Revoke { context: comm.context, processes: comm.members() };
        control.tell(&word).map_err(|error| Error::new(Class::Other, format!("the launcher is gone: {error}")))?;
    }
    comm::revoke(world, comm.context);
    Ok(())
}

/// MPIX_Comm_get_failed: those of a communicator that were lost, as far as this process knows, in the order in which it heard
/// of them.
pub fn failed(world: &World, comm: &Comm) -> Group {
    let members = comm.members();
    let is_of = |process: &u32| members.binary_search(process).is_ok();
    Group::new(world.losses.all().into_iter().filter(is_of).collect::<Vec<_>>())
}

/// MPIX_Comm_ack_failed: the first `count` of them are known to the program. How many are.
pub fn acknowledge(world: &World, comm: &Comm, count: usize) -> usize {
    let all = failed(world, comm).processes.len();
    let known = comm.acknowledged.fetch_max(count.min(all), Ordering::Relaxed).max(count.min(all));
    if known == all {
        world.engine().acknowledge(comm.context);
    }
    known
}

/// MPIX_Comm_failure_get_acked: those that are.
pub fn acknowledged(world: &World, comm: &Comm) -> Group {
    let mut group = failed(world, comm);
    group.processes.truncate(comm.acknowledged.load(Ordering::Relaxed));
    group
}

/// What all who are left have agreed on.
struct Agreed {
    flag: i32,
    lost: Vec<u32>,
    unacknowledged: bool,
    context: u64,
}

/// What a process said that is alone in its communicator.
fn alone(ballot: &Ballot) -> Agreed {
    Agreed {
        flag: ballot.flag,
        lost: Vec::new(),
        unacknowledged: false,
        context: context(ballot.offer, ballot.secured),
    }
}

/// Marked where one of those who are left has secured the communicator.
fn context(offer: u64, secured: bool) -> u64 {
    offer | if secured { MARKED } else { 0 }
}

/// Made in the order of the program's calls, before anything waits.
fn ballot(world: &World, comm: &Comm, shrinks: bool, flag: i32) -> Ballot {
    let (context, turn, members) = (comm.context, comm.next_agreement(), Members::of(&comm.members()));
    let acknowledged = acknowledged(world, comm).processes;
    let unreachable = world.losses.out_of_reach();
    let (offer, secured) = (new_context(world), comm.is_secured());
    Ballot { context, turn, members, shrinks, flag, acknowledged, unreachable, offer, secured }
}

async fn decide(world: &World, ballot: Ballot) -> Result<Agreed> {
    if ballot.members == Members::of(&[world.rank as u32]) {
        return Ok(alone(&ballot));
    }
    let Answer::Agreed { flag, lost, unacknowledged, offer, secured } = ask(world, Question::Agree(ballot)).await?
    else {
        return fail(Class::Intern, "the launcher's answer is none to what was asked");
    };
    for process in &lost {
        // Of a loss the launcher has told already.
        lose(world, *process, format!("{} has left the program (MPI_Finalize)", world.name_of(*process)));
    }
    Ok(Agreed { flag, lost, unacknowledged, context: context(offer, secured) })
}

/// MPIX_Comm_agree: the bits that all have set, and whether all knew of all losses. Works in a revoked communicator too.
pub fn agree(world: &'static World, comm: &Comm, flag: i32) -> impl Future<Output = Result<(i32, Result<()>)>> + use<> {
    let ballot = ballot(world, comm, false, flag);
    async move {
        let Agreed { flag, unacknowledged, .. } = decide(world, ballot).await?;
        let known = match unacknowledged {
            true => fail(Class::ProcFailed, Class::ProcFailed.words()),
            false => Ok(()),
        };
        Ok((flag, known))
    }
}

/// MPIX_Comm_shrink: a communicator of those who are left. Works in a revoked communicator too.
pub fn shrink(world: &'static World, comm: Arc<Comm>) -> impl Future<Output = Result<Arc<Comm>>> + use<> {
    let ballot = ballot(world, &comm, true, 0);
    async move {
        let Agreed { lost, context, .. } = decide(world, ballot).await?;
        let left = |group: &Group| {
            let processes = group.processes.iter().copied().filter(|process| lost.binary_search(process).is_err());
            Arc::new(group.of(processes.collect::<Vec<_>>()))
        };
        let group = left(&comm.group);
        let Some(rank) = group.rank_of(world.rank as u32) else {
            return fail(Class::Intern, "this process is not one of those who are left");
        };
        let remote = comm.remote.as_ref().map(|remote| {
            let local = Comm::new(own_context(context), group.clone(), rank, None);
            Remote { group: left(&remote.group), local }
        });
        if remote.as_ref().is_some_and(|remote| remote.group.processes.is_empty()) {
            return fail(Class::ProcFailed, "nobody of the other side is left");
        }
        Ok(make(world, &comm, context, group, rank, remote))
    }
}
