//! Ranks of one machine first: between machines goes one message where there would be one for each rank.

use super::{Call, Reducer, Scratch, Span, allreduce::allreduce as reduce_everywhere, barrier, bcast, reduce};
use crate::objects::machines::{Machines, Speakers};

/// The operation among this machine's ranks, and, at its speaker, among the speakers.
fn parts(call: &Call, machines: &Machines, speakers: &Speakers) -> (Option<Call>, Option<Call>) {
    (call.within(machines.own()), call.within(&speakers.ranks))
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
