//! Ranks of one machine first: between machines goes one message where there would be one for each rank.

use super::{Call, Reducer, Scratch, Span, allreduce::allreduce as reduce_everywhere, barrier, bcast, reduce};
use crate::objects::comm::Comm;
use crate::process::world::World;
use std::sync::Arc;

/// Where the ranks of a communicator live.
#[derive(Debug, PartialEq, Eq)]
pub struct Machines {
    /// The ranks of each machine, which are in the order of their first ones.
    ranks: Vec<Arc<[usize]>>,
    /// This process's machine.
    own: usize,
}

impl Machines {
    /// None where it makes no difference: on one machine, or with one rank on each.
    pub fn of(comm: &Comm, world: &World) -> Option<Machines> {
        let mut found: Vec<(u32, Vec<usize>)> = Vec::new();
        for (rank, process) in comm.group.processes.iter().enumerate() {
            let machine = *world.machines.get((*process as usize).checked_sub(world.first)?)?;
            match found.iter_mut().find(|(other, _)| *other == machine) {
                Some((_, ranks)) => ranks.push(rank),
                None => found.push((machine, vec![rank])),
            }
        }
        let own = found.iter().position(|(_, ranks)| ranks.contains(&comm.rank))?;
        let matters = found.len() > 1 && found.len() < comm.size();
        matters.then(|| Machines { ranks: found.into_iter().map(|(_, ranks)| ranks.into()).collect(), own })
    }

    /// Who speaks for each machine: its first rank, on the root's machine the root. Also its place among them, and that of
    /// this machine's speaker among its ranks.
    fn speakers(&self, root: Option<usize>) -> Speakers {
        let speaker = |ranks: &Arc<[usize]>| root.filter(|root| ranks.contains(root)).unwrap_or(ranks[0]);
        let ranks: Arc<[usize]> = self.ranks.iter().map(speaker).collect();
        let place = |ranks: &[usize], rank| ranks.iter().position(|other| *other == rank).unwrap_or(0);
        let at_home = place(&self.ranks[self.own], ranks[self.own]);
        Speakers { root: root.map_or(0, |root| place(&ranks, root)), at_home, ranks }
    }
}

struct Speakers {
    ranks: Arc<[usize]>,
    root: usize,
    at_home: usize,
}

/// The operation among this machine's ranks, and, at its speaker, among the speakers.
fn parts(call: &Call, machines: &Machines, speakers: &Speakers) -> (Option<Call>, Option<Call>) {
    (call.within(&machines.ranks[machines.own]), call.within(&speakers.ranks))
}

pub(super) async fn barrier_by_levels(call: &Call, machines: &Machines) {
    let speakers = machines.speakers(None);
    let (home, abroad) = parts(call, machines, &speakers);
    for (part, next) in [(&home, &abroad), (&abroad, &home)] {
        if let Some(part) = part {
            barrier::meet(part).await;
            carry(part, next);
        }
    }
    if let Some(home) = &home {
        bcast(home, Span::EMPTY, speakers.at_home).await;
    }
    note(call, [home, abroad]);
}

pub(super) async fn bcast_by_levels(call: &Call, machines: &Machines, data: Span, root: usize) {
    let speakers = machines.speakers(Some(root));
    let (home, abroad) = parts(call, machines, &speakers);
    if let Some(abroad) = &abroad {
        bcast(abroad, data, speakers.root).await;
        carry(abroad, &home);
    }
    if let Some(home) = &home {
        bcast(home, data, speakers.at_home).await;
    }
    note(call, [home, abroad]);
}

/// For commutative operations: ranks of one machine need not follow each other.
pub(super) async fn reduce_by_levels(
    call: &Call,
    machines: &Machines,
    own: Span,
    result: Option<Span>,
    root: usize,
    reducer: &Reducer,
) {
    let speakers = machines.speakers(Some(root));
    let (home, abroad) = parts(call, machines, &speakers);
    let mut ours = Scratch::new(if abroad.is_some() { own.length() } else { 0 });
    let ours = abroad.is_some().then(|| ours.span());
    if let Some(home) = &home {
        reduce(home, own, ours, speakers.at_home, reducer).await;
        carry(home, &abroad);
    }
    if let (Some(abroad), Some(ours)) = (&abroad, ours) {
        reduce(abroad, ours, result, speakers.root, reducer).await;
    }
    note(call, [home, abroad]);
}

/// The same.
pub(super) async fn allreduce_by_levels(call: &Call, machines: &Machines, own: Span, result: Span, reducer: &Reducer) {
    let speakers = machines.speakers(None);
    let (home, abroad) = parts(call, machines, &speakers);
    if let Some(home) = &home {
        reduce(home, own, abroad.is_some().then_some(result), speakers.at_home, reducer).await;
        carry(home, &abroad);
    }
    if let Some(abroad) = &abroad {
        reduce_everywhere(abroad, result, result, reducer).await;
        carry(abroad, &home);
    }
    if let Some(home) = &home {
        bcast(home, result, speakers.at_home).await;
    }
    note(call, [home, abroad]);
}

/// What a part lacks the next one does not have either.
fn carry(part: &Call, next: &Option<Call>) {
    next.iter().for_each(|next| next.note(part.outcome()));
}

fn note(call: &Call, parts: [Option<Call>; 2]) {
    parts.iter().flatten().for_each(|part| call.note(part.outcome()));
}
