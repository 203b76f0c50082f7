//! Checks whether a recorded history of one kind of tuple is linearizable. That is the case if there is one order in which
//! every answered operation could have happened, each at some moment between its call and its answer. This is Wing and Gong's
//! search, which skips states that were seen before.

use std::collections::HashSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    Out,
    /// An `inp`, and whether it found a tuple.
    Take(bool),
    /// An `rdp`, and whether it found a tuple.
    Read(bool),
    /// An `out` or an `inp` without an answer. It happened at any time after its call, or never.
    MaybeOut,
    MaybeTake,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    pub called: u64,
    pub answered: u64,
    pub did: Did,
}

impl Operation {
    fn is_open(&self) -> bool {
        matches!(self.did, Did::MaybeOut | Did::MaybeTake)
    }

    /// The number of tuples after this operation; `None` if it is not possible.
    fn after(&self, tuples: u32) -> Option<u32> {
        match self.did {
            Did::Out | Did::MaybeOut => Some(tuples + 1),
            Did::Take(true) => tuples.checked_sub(1),
            Did::MaybeTake => Some(tuples.saturating_sub(1)),
            Did::Take(false) => (tuples == 0).then_some(0),
            Did::Read(found) => ((tuples > 0) == found).then_some(tuples),
        }
    }
}

/// Takes up to 128 operations.
pub fn is_linearizable(operations: &[Operation]) -> bool {
    assert!(operations.len() <= 128);
    let mut seen = HashSet::new();
    let mut open = vec![(0u128, 0u32)];
    while let Some((done, tuples)) = open.pop() {
        let left = || operations.iter().enumerate().filter(|(at, _)| done & 1 << at == 0);
        let Some(first_answer) = left().filter(|(_, it)| !it.is_open()).map(|(_, it)| it.answered).min() else {
            return true;
        };
        for (at, operation) in left().filter(|(_, it)| it.called < first_answer) {
            let next = operation.after(tuples).map(|tuples| (done | 1 << at, tuples));
            open.extend(next.filter(|next| seen.insert(*next)));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(of: &[(u64, u64, Did)]) -> bool {
        let operation =
            |(called, answered, did): &(u64, u64, Did)| Operation { called: *called, answered: *answered, did: *did };
        is_linearizable(&of.iter().map(operation).collect::<Vec<_>>())
    }

    #[test]
    fn what_cannot_have_happened_is_seen() {
        use Did::*;
        assert!(history(&[(0, 1, Out), (2, 3, Read(true)), (4, 5, Take(true)), (6, 7, Take(false))]));
        assert!(!history(&[(0, 1, Out), (2, 3, Take(true)), (4, 5, Take(true))]), "one tuple is taken twice");
        assert!(!history(&[(0, 1, Out), (2, 3, Read(false))]), "a tuple is lost");
        assert!(!history(&[(0, 1, Out), (2, 3, Take(true)), (4, 5, Read(true))]), "a reader sees what is gone");
        assert!(!history(&[(2, 3, Out), (0, 1, Read(true))]), "a reader sees what will come");
        assert!(history(&[(0, 9, Out), (1, 2, Read(false)), (3, 4, Read(true))]), "it came between");
        assert!(!history(&[(0, 9, Out), (1, 2, Read(true)), (3, 4, Read(false))]), "it was seen, and then not");
        assert!(history(&[(0, 1, MaybeOut), (2, 3, Read(false)), (4, 5, Read(true))]), "it happened late");
        assert!(history(&[(0, 1, Out), (2, 3, MaybeTake), (4, 5, Read(true)), (6, 7, Take(false))]));
        assert!(!history(&[(0, 1, Out), (2, 3, MaybeTake), (4, 5, Take(false)), (6, 7, Read(true))]));
        assert!(!history(&[(4, 5, MaybeOut), (0, 1, Take(true))]), "it was not called yet");
    }
}
