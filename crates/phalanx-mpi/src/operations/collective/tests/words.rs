//! What ranks tell each other about a call, and what comes of it when one of them makes another call.

use super::super::allgather::allgather;
use super::super::words::{everyone, zeroed};
use super::super::{Blocks, Call, Span};
use super::Ranks;
use crate::error::{Class, Result};

/// The numbers would be lengths for which no machine has memory.
#[test]
fn numbers_of_another_call_are_no_lengths() {
    for number in [1.0, -1.0, f64::MAX] {
        let outcomes = Ranks::new(2).all(async |call: Call| match call.rank() {
            0 => everyone(&call, &7u32).await.map(drop),
            _ => gather_numbers(&call, number).await,
        });
        assert_eq!(outcomes[0].as_ref().map_err(|error| error.class), Err(Class::NotSame));
        assert!(outcomes[1].is_ok());
    }
}

async fn gather_numbers(call: &Call, number: f64) -> Result<()> {
    let mut all = [number.to_le_bytes(); 2].concat();
    let all = Span::of(&mut all);
    allgather(call, all.part(8, 8), &Blocks::Equal { all, each: 8 }).await;
    call.outcome()
}

#[test]
fn memory_for_a_word_is_there_or_is_an_error() {
    for length in [0, 1, 64 << 20] {
        assert_eq!(zeroed(length).map(|memory| memory.len() as u64), Ok(length));
    }
    for length in [1 << 62, 1 << 63, u64::MAX] {
        assert_eq!(zeroed(length).map_err(|error| error.class), Err(Class::NotSame));
    }
}
