//! Operands of all to one result at all.

use super::{Blocks, Call, Reducer, Scratch, Span, allgather, reduce};

/// Bytes from which on each combines a part.
const LONG: usize = 32 << 10;

/// `result` may be `own`. The operands are exchanged wherever ranks are.
pub(super) async fn directly(call: &Call, own: Span, result: Span, reducer: &Reducer) {
    if own.length() >= LONG && reducer.is_commutative() && call.size() > 1 {
        by_parts(call, own, result, reducer).await
    } else {
        own.copy_to(result);
        by_doubling(call, result, reducer).await
    }
}

/// Pairs, then pairs of pairs exchange what they have: in the order of ranks, and with the same result everywhere
/// ("recursive doubling").
pub(super) async fn by_doubling(call: &Call, data: Span, reducer: &Reducer) {
    let (rank, size) = (call.rank(), call.size());
    if size == 1 {
        return;
    }
    let mut other = Scratch::new(data.length());
    let (mut mine, mut theirs) = (data, other.span());
    let couples = Couples::new(size);
    if let Some(partner) = couples.sleeper_tells(rank) {
        call.put(partner, data).await;
        return call.get(partner, data).await;
    }
    if let Some(partner) = couples.speaker_hears(rank) {
        call.get(partner, theirs).await;
        call.note(reducer.apply(theirs, mine));
    }
    let place = couples.place(rank);
    let mut distance = 1;
    while distance < couples.places {
        let partner = couples.rank_at(place ^ distance);
        call.swap(partner, mine, partner, theirs).await;
        if partner < rank {
            call.note(reducer.apply(theirs, mine));
        } else {
            call.note(reducer.apply(mine, theirs));
            (mine, theirs) = (theirs, mine);
        }
        distance *= 2;
    }
    mine.copy_to(data);
    if let Some(partner) = couples.speaker_hears(rank) {
        call.put(partner, data).await;
    }
}

/// Where ranks are no power of two, the first ones go in couples, of which the second speaks for both.
struct Couples {
    places: usize,
    count: usize,
}

impl Couples {
    fn new(size: usize) -> Couples {
        let places = 1 << size.ilog2();
        Couples { places, count: size - places }
    }

    fn sleeper_tells(&self, rank: usize) -> Option<usize> {
        (rank < 2 * self.count && rank % 2 == 0).then_some(rank + 1)
    }

    fn speaker_hears(&self, rank: usize) -> Option<usize> {
        (rank < 2 * self.count && rank % 2 == 1).then(|| rank - 1)
    }

    fn place(&self, rank: usize) -> usize {
        if rank < 2 * self.count { rank / 2 } else { rank - self.count }
    }

    fn rank_at(&self, place: usize) -> usize {
        if place < self.count { 2 * place + 1 } else { place + self.count }
    }
}

/// Each combines a part, and then all parts go around (Rabenseifner 2004, with a ring).
pub(super) async fn by_parts(call: &Call, own: Span, result: Span, reducer: &Reducer) {
    let (rank, size) = (call.rank(), call.size());
    let (parts, results) = (Blocks::divide(own, size, reducer.unit()), Blocks::divide(result, size, reducer.unit()));
    reduce::around(call, &parts, results.at(rank), reducer).await;
    allgather::around(call, results.at(rank), &results).await;
}
