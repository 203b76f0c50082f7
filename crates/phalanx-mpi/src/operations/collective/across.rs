//! Operations between the two groups of an intercommunicator (MPI 5.0, 6.2.2 and the sections of each).
//!
//! Messages of `call` go to the other group; `call.local()` is the operation among this one's processes.

use super::levels::{bcast, reduce};
use super::{Blocks, Call, Reducer, Scratch, Span, dissemination, gather};

/// This process's part in an operation that has a root in one of the groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It is the root (MPI_ROOT).
    Root,
    /// The root is another one of this group (MPI_PROC_NULL).
    Nothing,
    /// The root is this rank of the other group.
    Toward(usize),
}

/// Waits until all of the other group have come too.
pub async fn barrier(call: &Call) {
    dissemination::meet(call.local()).await;
    if call.rank() == 0 {
        call.swap(0, Span::EMPTY, 0, Span::EMPTY).await;
    }
    bcast(call.local(), Span::EMPTY, 0).await;
}

/// The root's data to all of the other group.
pub async fn bcast_across(call: &Call, data: Span, part: Part) {
    match part {
        Part::Root => call.put(0, data).await,
        Part::Nothing => {}
        Part::Toward(root) => {
            if call.rank() == 0 {
                call.get(root, data).await;
            }
            bcast(call.local(), data, 0).await;
        }
    }
}

/// `blocks` are the root's, one for each of the other group.
pub async fn gather_across(call: &Call, own: Span, blocks: Option<&Blocks>, part: Part) {
    match (part, blocks) {
        (Part::Toward(root), _) => call.put(root, own).await,
        (Part::Root, Some(blocks)) => call.transfer([], peers(call).map(|from| (from, blocks.at(from)))).await,
        _ => {}
    }
}

/// A block of the root's to each of the other group.
pub async fn scatter_across(call: &Call, blocks: Option<&Blocks>, own: Span, part: Part) {
    match (part, blocks) {
        (Part::Toward(root), _) => call.get(root, own).await,
        (Part::Root, Some(blocks)) => call.transfer(peers(call).map(|to| (to, blocks.at(to))), []).await,
        _ => {}
    }
}

/// `own` to all of the other group, and theirs into `blocks`.
pub async fn allgather_across(call: &Call, own: Span, blocks: &Blocks) {
    let receives = peers(call).map(|from| (from, blocks.at(from)));
    call.transfer(peers(call).map(|to| (to, own)), receives).await;
}

/// A block to each of the other group, and a block from each.
pub async fn alltoall_across(call: &Call, send: &Blocks, receive: &Blocks) {
    let receives = peers(call).map(|from| (from, receive.at(from)));
    call.transfer(peers(call).map(|to| (to, send.at(to))), receives).await;
}

/// The other group's operands to the root's `result`.
pub async fn reduce_across(call: &Call, own: Span, result: Option<Span>, part: Part, reducer: &Reducer) {
    match (part, result) {
        (Part::Toward(root), _) => {
            let mut whole = Scratch::new(own.length());
            let whole = (call.rank() == 0).then(|| whole.span());
            reduce(call.local(), own, whole, 0, reducer).await;
            if let Some(whole) = whole {
                call.put(root, whole).await;
            }
        }
        (Part::Root, Some(result)) => call.get(0, result).await,
        _ => {}
    }
}

/// Each group gets the other one's result.
pub async fn allreduce_across(call: &Call, own: Span, result: Span, reducer: &Reducer) {
    let mut whole = Scratch::new(own.length());
    let whole = (call.rank() == 0).then(|| whole.span());
    reduce(call.local(), own, whole, 0, reducer).await;
    if let Some(whole) = whole {
        call.swap(0, whole, 0, result).await;
    }
    bcast(call.local(), result, 0).await;
}

/// The other group's result is divided between the processes of this one: `lengths` of their parts.
pub async fn reduce_scatter_across(call: &Call, own: Span, lengths: &[usize], result: Span, reducer: &Reducer) {
    let first = call.rank() == 0;
    let total = lengths.iter().sum();
    let (mut whole, mut theirs) = (Scratch::new(own.length()), Scratch::new(total));
    let (whole, theirs) = (first.then(|| whole.span()), theirs.span());
    reduce(call.local(), own, whole, 0, reducer).await;
    if let Some(whole) = whole {
        call.swap(0, whole, 0, theirs).await;
    }
    let parts = first.then(|| Blocks::in_a_row(theirs, lengths.iter().copied()));
    gather::scatter_directly(call.local(), parts.as_ref(), result, 0).await;
}

fn peers(call: &Call) -> std::ops::Range<usize> {
    0..call.comm.peers().size()
}
