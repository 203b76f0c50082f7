//! Ranks of one machine first: between machines goes one message where there would be one for each rank.

use super::{Call, Reducer, Scratch, Span, allreduce as exchange, bcast as spread, dissemination, reduce as collect};
use crate::objects::machines::{Machines, Speakers};

/// Nobody returns before all of this group have called.
pub(super) async fn barrier(call: &Call) {
    match call.machines() {
        Some(machines) => Box::pin(barrier_by_levels(call, machines)).await,
        None => dissemination::meet(call).await,
    }
}

/// `data` is sent by the root, and received by the others.
pub async fn bcast(call: &Call, data: Span, root: usize) {
    match call.machines() {
        Some(machines) => Box::pin(bcast_by_levels(call, machines, data, root)).await,
        None => spread::directly(call, data, root).await,
    }
}

/// `result` is given at the root; it may be `own`.
pub async fn reduce(call: &Call, own: Span, result: Option<Span>, root: usize, reducer: &Reducer) {
    match call.machines().filter(|_| reducer.is_commutative()) {
        Some(machines) => Box::pin(reduce_by_levels(call, machines, own, result, root, reducer)).await,
        None => collect::directly(call, own, result, root, reducer).await,
    }
}

/// `result` may be `own`.
pub(super) async fn allreduce(call: &Call, own: Span, result: Span, reducer: &Reducer) {
    match call.machines().filter(|_| reducer.is_commutative()) {
        Some(machines) => Box::pin(allreduce_by_levels(call, machines, own, result, reducer)).await,
        None => exchange::directly(call, own, result, reducer).await,
    }
}

/// The operation among this machine's ranks, and, at its speaker, among the speakers.
fn parts(call: &Call, machines: &Machines, speakers: &Speakers) -> (Option<Call>, Option<Call>) {
    (call.within(machines.own()), call.within(&speakers.ranks))
}

async fn barrier_by_levels(call: &Call, machines: &Machines) {
    let speakers = machines.speakers(None);
    let (home, abroad) = parts(call, machines, &speakers);
    for (part, next) in [(&home, &abroad), (&abroad, &home)] {
        if let Some(part) = part {
            dissemination::meet(part).await;
            carry(part, next);
        }
    }
    if let Some(home) = &home {
        spread::directly(home, Span::EMPTY, speakers.at_home).await;
    }
    note(call, [home, abroad]);
}

async fn bcast_by_levels(call: &Call, machines: &Machines, data: Span, root: usize) {
    let speakers = machines.speakers(Some(root));
    let (home, abroad) = parts(call, machines, &speakers);
    if let Some(abroad) = &abroad {
        spread::directly(abroad, data, speakers.root).await;
        carry(abroad, &home);
    }
    if let Some(home) = &home {
        spread::directly(home, data, speakers.at_home).await;
    }
    note(call, [home, abroad]);
}

/// For commutative operations: ranks of one machine need not follow each other.
async fn reduce_by_levels(
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
        collect::directly(home, own, ours, speakers.at_home, reducer).await;
        carry(home, &abroad);
    }
    if let (Some(abroad), Some(ours)) = (&abroad, ours) {
        collect::directly(abroad, ours, result, speakers.root, reducer).await;
    }
    note(call, [home, abroad]);
}

/// The same.
async fn allreduce_by_levels(call: &Call, machines: &Machines, own: Span, result: Span, reducer: &Reducer) {
    let speakers = machines.speakers(None);
    let (home, abroad) = parts(call, machines, &speakers);
    if let Some(home) = &home {
        collect::directly(home, own, abroad.is_some().then_some(result), speakers.at_home, reducer).await;
        carry(home, &abroad);
    }
    if let Some(abroad) = &abroad {
        exchange::directly(abroad, result, result, reducer).await;
        carry(abroad, &home);
    }
    if let Some(home) = &home {
        spread::directly(home, result, speakers.at_home).await;
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
