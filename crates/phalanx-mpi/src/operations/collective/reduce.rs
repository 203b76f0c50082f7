//! Operands of all to one result.
//!
//! An operation is associative; if it is not commutative too, operands are combined in the order of their ranks.

use super::{Blocks, Call, Reducer, Scratch, Span, gather};

/// Bytes from which on ranks, if more than two, combine a part each.
const LONG: usize = 128 << 10;

/// `result` is given at the root; it may be `own`. The operands go to it wherever ranks are.
pub(super) async fn directly(call: &Call, own: Span, result: Option<Span>, root: usize, reducer: &Reducer) {
    if !reducer.is_commutative() {
        in_order(call, own, result, root, reducer).await
    } else if own.length() < LONG || call.size() <= 2 {
        by_tree(call, own, result, root, reducer).await
    } else {
        by_parts(call, own, result, root, reducer).await
    }
}

/// At rank 0, where the order of ranks is the order of the tree.
pub(super) async fn in_order(call: &Call, own: Span, result: Option<Span>, root: usize, reducer: &Reducer) {
    if root == 0 {
        return by_tree(call, own, result, 0, reducer).await;
    }
    if call.rank() == 0 {
        let mut whole = Scratch::new(own.length());
        let whole = whole.span();
        by_tree(call, own, Some(whole), 0, reducer).await;
        call.put(root, whole).await;
    } else {
        by_tree(call, own, None, 0, reducer).await;
        if let Some(result) = result {
            call.get(0, result).await;
        }
    }
}

/// Each combines what it has with what ever farther ones behind it have: a binomial tree. `own` is only read, unless it is
/// the result.
pub(super) async fn by_tree(call: &Call, own: Span, result: Option<Span>, root: usize, reducer: &Reducer) {
    let (children, parent) = tree(call.rank(), call.size(), root);
    let mut spare = [Scratch::new(0), Scratch::new(0)];
    let mut rooms = [Span::EMPTY; 2];
    let mut mine = own;
    for (turn, child) in children.enumerate() {
        if turn < 2 {
            // What is received is combined where it lies. `own` may be overwritten once it was read.
            let direct = result.filter(|result| turn == usize::from(result.is_at(own)));
            rooms[turn] = direct.unwrap_or_else(|| {
                spare[turn] = Scratch::new(own.length());
                spare[turn].span()
            });
        }
        let theirs = rooms[turn % 2];
        call.get(child, theirs).await;
        call.note(reducer.apply(mine, theirs));
        mine = theirs;
    }
    if let Some(parent) = parent {
        call.put(parent, mine).await;
    }
    if let Some(result) = result {
        mine.copy_to(result);
    }
}

/// Whose operands a rank combines with its own, in this order, and to whom it passes them on, unless it is the root.
#[inline]
pub(super) fn tree(rank: usize, size: usize, root: usize) -> (impl Iterator<Item = usize>, Option<usize>) {
    let place = (rank + size - root) % size;
    let rank_of = move |place: usize| (place + root) % size;
    let reach = if place == 0 { size.next_power_of_two() } else { place & place.wrapping_neg() };
    let distances = std::iter::successors(Some(1), |distance| Some(2 * distance)).take_while(move |it| *it < reach);
    let children = distances.map(move |distance| place + distance).filter(move |place| *place < size).map(rank_of);
    (children, (place != 0).then(|| rank_of(place - reach)))
}

/// Each combines a part of all, which then go to the root (Rabenseifner 2004, with a ring).
pub(super) async fn by_parts(call: &Call, own: Span, result: Option<Span>, root: usize, reducer: &Reducer) {
    let (rank, size) = (call.rank(), call.size());
    let parts = Blocks::divide(own, size, reducer.unit());
    let mut part = Scratch::new(parts.at(rank).length());
    let part = part.span();
    around(call, &parts, part, reducer).await;
    let results = result.map(|result| Blocks::divide(result, size, reducer.unit()));
    gather::gather_directly(call, part, results.as_ref(), root).await;
}

/// Of everybody's blocks the one of this rank, combined into `result`, which may lie in the blocks.
pub async fn reduce_scatter(call: &Call, all: Span, blocks: &Blocks, result: Span, reducer: &Reducer) {
    if reducer.is_commutative() {
        return around(call, blocks, result, reducer).await;
    }
    let first = call.rank() == 0;
    let mut whole = Scratch::new(if first { all.length() } else { 0 });
    let whole = first.then(|| whole.span());
    by_tree(call, all, whole, 0, reducer).await;
    let lengths = (0..call.size()).map(|rank| blocks.at(rank).length());
    let wholes = whole.map(|whole| Blocks::in_a_row(whole, lengths));
    gather::scatter_directly(call, wholes.as_ref(), result, 0).await;
}

/// Blocks go around in a ring, and each rank adds its own operand to what passes by; for commutative operations.
pub(super) async fn around(call: &Call, blocks: &Blocks, result: Span, reducer: &Reducer) {
    let (rank, size) = (call.rank(), call.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    if size == 1 {
        return blocks.at(0).copy_to(result);
    }
    let longest = (0..size).map(|rank| blocks.at(rank).length()).max().unwrap_or(0);
    let (mut one, mut two) = (Scratch::new(longest), Scratch::new(if size > 2 { longest } else { 0 }));
    let rooms = [one.span(), two.span()];
    let mut passing = blocks.at((rank + size - 1) % size);
    for step in 1..size {
        let next = blocks.at((rank + 2 * size - step - 1) % size);
        let last = step == size - 1;
        let direct = last && !(0..size).any(|rank| blocks.at(rank).overlaps(result));
        let into = if direct { result } else { rooms[step % 2 * usize::from(size > 2)].part(0, next.length()) };
        call.swap(right, passing, left, into).await;
        call.note(reducer.apply(next, into));
        passing = into;
    }
    passing.copy_to(result);
}
