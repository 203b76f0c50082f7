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
    let (rank, size) = (call.rank(), call.size());
    let mut distance = 1;
    while distance < size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        call.swap(to, Span::EMPTY, from, Span::EMPTY).await;
        distance *= 2;
    }
}
