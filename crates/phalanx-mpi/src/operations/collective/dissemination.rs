//! A barrier in rounds of growing distance, in which each process hears of twice as many ("dissemination", Hensgen, Finkel and
//! Manber 1988).

use super::{Call, Span};

/// Nobody returns before all have called.
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
