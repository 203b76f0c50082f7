use super::{Call, Span};

/// Nobody returns before all have called: in rounds of growing distance, each hears of twice as many ("dissemination",
/// Hensgen, Finkel and Manber 1988).
pub async fn barrier(call: &Call) {
    let (rank, size) = (call.rank(), call.size());
    let mut distance = 1;
    while distance < size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        call.swap(to, Span::EMPTY, from, Span::EMPTY).await;
        distance *= 2;
    }
}
