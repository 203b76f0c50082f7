//! A block from each to each.

use super::{Blocks, Call, Scratch};

/// Messages that are under way at once.
const AT_ONCE: usize = 32;
/// Bytes of a block up to which others pass it on, if there are many ranks.
const SHORT: usize = 256;
const MANY: usize = 8;

/// Equal blocks.
pub async fn alltoall(call: &Call, send: &Blocks, receive: &Blocks) {
    if is_direct(send.at(0).length(), call.size()) {
        directly(call, send, receive).await
    } else {
        in_doubling_steps(call, send, receive).await
    }
}

/// Whether each sends blocks of this length to each itself.
pub(super) fn is_direct(each: usize, size: usize) -> bool {
    each > SHORT || size < MANY
}

/// Blocks of any length. First with near ranks, then with farther ones, so that not all send to one at once.
pub async fn directly(call: &Call, send: &Blocks, receive: &Blocks) {
    let (rank, size) = (call.rank(), call.size());
    send.at(rank).copy_to(receive.at(rank));
    let mut next = 1;
    while next < size {
        let distances = next..size.min(next + AT_ONCE);
        next = distances.end;
        let sends = distances.clone().map(|distance| (rank + distance) % size).map(|to| (to, send.at(to)));
        let receives = distances.map(|distance| (rank + size - distance) % size).map(|from| (from, receive.at(from)));
        call.transfer(sends, receives).await;
    }
}

/// A block travels the distance to its rank in steps that are powers of two, together with others (Bruck et al. 1997,
/// section 2).
pub(super) async fn in_doubling_steps(call: &Call, send: &Blocks, receive: &Blocks) {
    let (rank, size, each) = (call.rank(), call.size(), send.at(0).length());
    let (mut kept, mut out, mut into) =
        (Scratch::new(size * each), Scratch::new(size * each), Scratch::new(size * each));
    let (kept, out, into) = (kept.span(), out.span(), into.span());
    let block = |index: usize| kept.part(index * each, each);
    (0..size).for_each(|index| send.at((rank + index) % size).copy_to(block(index)));
    let mut distance = 1;
    while distance < size {
        let moving = || (0..size).filter(|index| index & distance != 0).enumerate();
        let length = moving().count() * each;
        moving().for_each(|(place, index)| block(index).copy_to(out.part(place * each, each)));
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        call.swap(to, out.part(0, length), from, into.part(0, length)).await;
        moving().for_each(|(place, index)| into.part(place * each, each).copy_to(block(index)));
        distance *= 2;
    }
    (0..size).for_each(|index| block(index).copy_to(receive.at((rank + size - index) % size)));
}
