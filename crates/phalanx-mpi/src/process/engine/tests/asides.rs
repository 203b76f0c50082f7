//! Words to services: whole and in order, whatever their length and the way they take.

use super::super::{LONG, MOST_ASIDE};
use super::{ALL, settle};

#[test]
fn words_of_all_lengths_arrive_whole_and_their_memory_serves_the_next_ones() {
    let lengths = [0, 1, 100, LONG - 1, LONG, LONG + 1, (64 << 10) + 30, MOST_ASIDE, 3, MOST_ASIDE - 1, LONG];
    for make in ALL {
        let mut engines = make(2);
        for round in 0..3u8 {
            let word = |index: usize| vec![round.wrapping_mul(50) + index as u8 + 1; lengths[index]];
            for (index, length) in lengths.into_iter().enumerate() {
                let mut memory = engines[0].memory_for(length);
                assert!(memory.is_empty() && memory.capacity() >= length);
                memory.extend_from_slice(&word(index));
                assert!(engines[0].send_aside(1, 6, 0, memory));
                settle(&mut engines);
            }
            for index in 0..lengths.len() {
                let aside = engines[1].next_aside().expect("all have come");
                assert_eq!((aside.context, aside.from, aside.source), (6, 0, 0));
                assert!(aside.bytes == word(index), "word {index} of round {round}");
                engines[1].give_back(aside.bytes);
            }
            assert!(engines[1].next_aside().is_none());
        }
        let kept = |of: usize| engines[of].spare.iter().map(Vec::capacity).collect::<Vec<_>>();
        for kept in [kept(0), kept(1)] {
            assert!(
                !kept.is_empty() && kept.iter().all(|capacity| (LONG..=2 * MOST_ASIDE).contains(capacity)),
                "{kept:?}"
            );
        }
    }
}

#[test]
fn no_more_memory_is_kept_than_is_of_use() {
    let mut engine = ALL[2](2).remove(0);
    for _ in 0..1000 {
        engine.give_back(Vec::with_capacity(MOST_ASIDE));
    }
    let full = engine.spare.len();
    assert!(full < 100);
    engine.spare.clear();
    for capacity in [0, LONG - 1, 2 * MOST_ASIDE + 1, 64 << 20] {
        engine.give_back(Vec::with_capacity(capacity));
    }
    assert!(engine.spare.is_empty());
}
