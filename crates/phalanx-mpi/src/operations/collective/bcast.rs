//! One rank's bytes to all.

use super::{Blocks, Call, Span};

/// Bytes from which on a broadcast to more than two goes in parts.
const LONG: usize = 128 << 10;

/// `data` is sent by the root, and received by the others, wherever they are.
pub(super) async fn directly(call: &Call, data: Span, root: usize) {
    if data.length() < LONG || call.size() <= 2 {
        by_tree(call, data, root).await
    } else {
        by_parts(call, data, root).await
    }
}

/// Each who has it passes it on to who is farthest, then to nearer ones: a binomial tree.
pub(super) async fn by_tree(call: &Call, data: Span, root: usize) {
    let (parent, children) = tree(call.rank(), call.size(), root);
    if let Some(parent) = parent {
        call.get(parent, data).await;
    }
    for child in children {
        call.put(child, data).await;
    }
}

/// From whom a rank gets it, unless it is the root, and to whom it passes it on.
#[inline]
pub(super) fn tree(rank: usize, size: usize, root: usize) -> (Option<usize>, impl Iterator<Item = usize>) {
    let place = (rank + size - root) % size;
    let rank_of = move |place: usize| (place + root) % size;
    let mut reach = 1;
    while reach < size && place & reach == 0 {
        reach *= 2;
    }
    let parent = (place != 0).then(|| rank_of(place - reach));
    let distances = std::iter::successors(Some(reach / 2), |distance| Some(distance / 2)).take_while(|it| *it > 0);
    (parent, distances.filter(move |distance| place + distance < size).map(move |distance| rank_of(place + distance)))
}

/// Each gets a part from the root, and then all parts go around (van de Geijn's, Barnett et al. 1994): no link carries
/// much more than the data once.
pub(super) async fn by_parts(call: &Call, data: Span, root: usize) {
    let (rank, size) = (call.rank(), call.size());
    let parts = Blocks::divide(data, size, 1);
    if rank == root {
        call.transfer((0..size).filter(|to| *to != root).map(|to| (to, parts.at(to))), []).await;
    } else {
        call.get(root, parts.at(rank)).await;
    }
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    for step in 0..size - 1 {
        let (own, next) = (parts.at((rank + size - step) % size), parts.at((rank + size - step - 1) % size));
        // The root has everything, and its memory may not be writable.
        let receives = (rank != root).then_some((left, next));
        call.transfer((right != root).then_some((right, own)), receives).await;
    }
}
