//! Blocks of all to all.

use super::{Blocks, Call, Scratch, Span};

/// Bytes of all blocks up to which few messages matter more than copies.
const SHORT: usize = 64 << 10;

/// Every rank gives `own`, which may be its block, and gets all blocks.
pub async fn allgather(call: &Call, own: Span, blocks: &Blocks) {
    let size = call.size();
    own.copy_to(blocks.at(call.rank()));
    let total: usize = (0..size).map(|rank| blocks.at(rank).length()).sum();
    if total <= SHORT && size > 2 {
        in_doubling_steps(call, blocks, total).await
    } else {
        around(call, own, blocks).await
    }
}

/// In a ring: each rank passes on what it got last. The first to be passed on is `own`, and not the copy of it in the rank's block: another
/// core reads what this one has just written at a third of the speed.
pub(super) async fn around(call: &Call, own: Span, blocks: &Blocks) {
    let (rank, size) = (call.rank(), call.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut last = own;
    for step in 1..size {
        let next = blocks.at((rank + size - step) % size);
        call.swap(right, last, left, next).await;
        last = next;
    }
}

/// How many blocks each has, and how many more it gets, step by step.
pub(super) fn steps(size: usize) -> impl Iterator<Item = (usize, usize)> {
    let more = move |have: usize| (have, have.min(size - have));
    let steps = std::iter::successors(Some(1), |have| Some(2 * have)).take_while(move |have| *have < size);
    steps.map(more)
}

/// Each gets, from ever farther ones, as many blocks as it has (Bruck et al. 1997, section 3).
pub(super) async fn in_doubling_steps(call: &Call, blocks: &Blocks, total: usize) {
    let (rank, size) = (call.rank(), call.size());
    let mut kept = Scratch::new(total);
    let kept = kept.span();
    // In the order of this rank's and the following ones' blocks.
    let block = |index: usize| blocks.at((rank + index) % size);
    let bytes = |first: usize, count: usize| (first..first + count).map(|index| block(index).length()).sum::<usize>();
    block(0).copy_to(kept.part(0, block(0).length()));
    for (have, more) in steps(size) {
        let (to, from) = ((rank + size - have) % size, (rank + have) % size);
        let into = kept.part(bytes(0, have), bytes(have, more));
        call.swap(to, kept.part(0, bytes(0, more)), from, into).await;
    }
    let mut at = 0;
    for index in 0..size {
        let length = block(index).length();
        if index > 0 {
            kept.part(at, length).copy_to(block(index));
        }
        at += length;
    }
}
