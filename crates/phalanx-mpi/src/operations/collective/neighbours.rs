//! Blocks between neighbours in a topology (MPI 5.0, 8.6).

use super::{Blocks, Call, Span};
use crate::objects::topology::Neighbours;

/// `own` to every destination, a block from every source.
pub async fn neighbour_allgather(call: &Call, neighbours: &Neighbours, own: Span, receive: &Blocks) {
    exchange(call, neighbours, |_| own, receive).await;
}

/// A block to each destination, a block from each source.
pub async fn neighbour_alltoall(call: &Call, neighbours: &Neighbours, send: &Blocks, receive: &Blocks) {
    exchange(call, neighbours, |index| send.at(index), receive).await;
}

async fn exchange(call: &Call, neighbours: &Neighbours, send: impl Fn(usize) -> Span, receive: &Blocks) {
    let sends = neighbours.destinations.iter().enumerate().filter_map(|(index, to)| Some(((*to)?, send(index))));
    // Messages of one process arrive in order, so receives are posted in the order in which it sends.
    let order = (0..neighbours.sources.len()).map(|index| if neighbours.is_cartesian { index ^ 1 } else { index });
    let receives = order.filter_map(|index| Some((neighbours.sources[index]?, receive.at(index))));
    call.transfer(sends, receives).await;
}
