//! Operands of the ranks up to this one to one result.

use super::{Call, Reducer, Scratch, Span};

/// Whether this rank's own operand belongs to its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// It belongs to the result (MPI_Scan).
    Inclusive,
    /// Rank 0 has no result: it stays as it was.
    Exclusive,
}

/// In the order of ranks; `result` may be `own` (Hillis and Steele's, in exchanges of growing distance).
pub async fn scan(call: &Call, own: Span, result: Span, kind: Scan, reducer: &Reducer) {
    let (rank, size) = (call.rank(), call.size());
    let (mut one, mut two) = (Scratch::new(own.length()), Scratch::new(own.length()));
    // `mine`: the operands of the ranks that this one has exchanged with, and its own.
    let (mut mine, mut theirs) = (one.span(), two.span());
    own.copy_to(mine);
    let mut has_result = kind == Scan::Inclusive;
    if has_result {
        own.copy_to(result);
    }
    let mut distance = 1;
    while distance < size {
        let partner = rank ^ distance;
        distance *= 2;
        if partner >= size {
            continue;
        }
        call.swap(partner, mine, partner, theirs).await;
        if partner > rank {
            call.note(reducer.apply(mine, theirs));
            (mine, theirs) = (theirs, mine);
            continue;
        }
        if has_result {
            call.note(reducer.apply(theirs, result));
        } else {
            theirs.copy_to(result);
            has_result = true;
        }
        call.note(reducer.apply(theirs, mine));
    }
}
