//! A rank that sends any words to a window.

use super::super::word::{Act, Word};
use super::{Runs, lock, machines, window_of};
use crate::operations::collective::{Call, barrier};
use crate::operations::window::Window;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Rounds, and words in each. A rank that lets more words wait is treated as lost.
const ROUNDS: usize = 40;
const WORDS: usize = 50;

/// The window is a third of the memory. Its other thirds stay as they are, whatever the words say.
#[test]
fn no_word_touches_what_is_outside_of_a_window() {
    for ranks in machines(2) {
        let touched = ranks.all(async |call: Call| {
            let (rank, together) = (call.rank(), (call.world, call.comm.clone()));
            let mut memory = vec![7; 12];
            let window = window_of(call, &mut memory[4..8]).await;
            let mut random = TestRunner::deterministic();
            for _ in 0..ROUNDS {
                for _ in 0..WORDS * rank {
                    let (word, data) = words().new_tree(&mut random).expect("a word").current();
                    send(&window, &word, &data);
                }
                barrier(&Call::new(together.0, together.1.clone())).await.expect("both are there");
            }
            assert!(lock(&window.state).operations.is_empty());
            window.close().await.expect("it ends");
            assert!(memory[..4] == [7; 4] && memory[8..] == [7; 4]);
            memory != [7; 12]
        });
        assert_eq!(touched, [true, false], "some of the words are heeded");
    }
}

fn send(window: &Window, word: &Option<Word>, data: &[u8]) {
    match word {
        Some(word) => window.tell(0, word, data).expect("a peer"),
        None => _ = window.world.engine().send_aside(0, window.context(), 1, data.to_vec()),
    }
}

/// A word with data behind it, or only bytes.
fn words() -> impl Strategy<Value = (Option<Word>, Vec<u8>)> {
    let number = || prop_oneof![0..40i64, -40..0i64, any::<i64>()];
    let count = || prop_oneof![0..20u64, any::<u64>()];
    let act = prop_oneof![
        Just(Act::Get),
        Just(Act::Put),
        Just(Act::CompareAndSwap),
        (any::<u8>(), any::<u16>(), any::<bool>()).prop_map(|(op, number, fetch)| Act::Accumulate {
            op: op.into(),
            number: number.into(),
            fetch
        }),
    ];
    let run = (number(), count(), number(), count()).prop_map(|(offset, length, stride, count)| Runs {
        offset,
        length,
        stride,
        count,
    });
    let runs = proptest::collection::vec(run, 0..4);
    let access = (act, number(), runs).prop_map(|(act, displacement, runs)| Word::Access {
        operation: 0,
        position: 0,
        act,
        displacement,
        runs,
    });
    let put = (-4..6i64, 1..9u64).prop_map(|(displacement, length)| {
        let runs = vec![Runs { offset: 0, length, stride: 0, count: 1 }];
        Word::Access { operation: 0, position: 0, act: Act::Put, displacement, runs }
    });
    let long =
        (0..4u8, count(), number(), number(), count()).prop_map(|(kind, operation, displacement, offset, length)| {
            match kind {
                0 => Word::Offer { operation, displacement, offset, length },
                1 => Word::Wanted { operation, number: length },
                2 => Word::Sent { operation },
                _ => Word::Done { operation, position: length, failure: None },
            }
        });
    let word = prop_oneof![
        1 => Just(()).prop_map(|()| None),
        4 => access.prop_map(Some),
        2 => put.prop_map(Some),
        4 => long.prop_map(Some),
    ];
    (word, proptest::collection::vec(any::<u8>(), 0..9))
}
