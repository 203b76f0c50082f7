use super::{Call, Span, across, levels};
use crate::error::Result;

/// Nobody returns before all have called, in both groups of an intercommunicator.
pub async fn barrier(call: &Call) -> Result<()> {
    match call.machines() {
        _ if call.comm.remote.is_some() => across::barrier(call).await,
        Some(machines) => Box::pin(levels::barrier_by_levels(call, machines)).await,
        None => meet(call).await,
    }
    call.outcome()
}

/// Nobody returns before all have called: in rounds of growing distance, each hears of twice as many ("dissemination",
/// Hensgen, Finkel and Manber 1988).
pub(super) async fn meet(call: &Call) {
    for (to, from) in rounds(call.rank(), call.size()) {
        call.swap(to, Span::EMPTY, from, Span::EMPTY).await;
    }
}

/// Who is told in each round, and who is heard.
#[inline]
pub(super) fn rounds(rank: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    let distances = std::iter::successors(Some(1), |distance| Some(2 * distance)).take_while(move |it| *it < size);
    distances.map(move |distance| ((rank + distance) % size, (rank + size - distance) % size))
}
