use super::LONG;
use super::receiving::Table;
use super::sending::{Filled, Pool};
use crate::forks::alone;
use bytes::Bytes;
use phalanx_core::wire::{Place, SLOTS};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::os::fd::OwnedFd;

const LENGTH: usize = LONG + 12_345;

fn body(number: usize, length: usize) -> Vec<Bytes> {
    let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + number) as u8).collect();
    let (first, second) = bytes.split_at(length / 3);
    vec![Bytes::copy_from_slice(first), Bytes::new(), Bytes::copy_from_slice(second)]
}

fn take(table: &mut Table, filled: Filled) -> Bytes {
    table.take(filled.place, filled.length() as u64, filled.file).expect("is as it says")
}

fn both() -> (Pool, Table) {
    (Pool::default(), Table::new())
}

#[test]
fn a_body_arrives_and_its_segment_is_filled_again_once_it_was_dropped() {
    let _alone = alone();
    let (mut pool, mut table) = both();
    for number in 0..4 {
        let sent = body(number, LENGTH - number);
        let filled = pool.fill(&sent).expect("there is memory");
        assert_eq!(filled.place, Place { slot: 0, generation: 1, fresh: number == 0 });
        assert_eq!(take(&mut table, filled), sent.concat());
    }
    let kept = take(&mut table, pool.fill(&body(9, LENGTH)).expect("there is memory"));
    assert!(pool.fill(&body(8, LENGTH)).expect("there is memory").place.fresh, "the other one is in use");
    assert_eq!(kept, body(9, LENGTH).concat());
}

#[test]
fn what_is_written_to_a_body_is_seen_by_nobody_else() {
    let (mut pool, mut table) = both();
    for number in 0..3 {
        let got = take(&mut table, pool.fill(&body(number, LENGTH)).expect("there is memory"));
        assert_eq!(got, body(number, LENGTH).concat());
        // SAFETY: a mapping that may be written, and nobody else has it.
        unsafe { got.as_ptr().cast_mut().write_bytes(0xAA, got.len()) };
    }
}

#[test]
fn bodies_that_are_kept_stay_as_they_are_however_many() {
    let (mut pool, mut table) = both();
    let mut kept = Vec::new();
    for number in 0..3 * usize::from(SLOTS) {
        let got = take(&mut table, pool.fill(&body(number, LENGTH)).expect("there is memory"));
        if number % 3 > 0 {
            kept.push((number, got));
        }
    }
    for (number, got) in kept {
        assert_eq!(got, body(number, LENGTH).concat());
    }
}

#[test]
fn segments_that_are_not_used_are_given_back() {
    let _alone = alone();
    let (mut pool, mut table) = both();
    let kept = take(&mut table, pool.fill(&body(0, LENGTH)).expect("there is memory"));
    drop(take(&mut table, pool.fill(&body(1, LENGTH)).expect("there is memory")));
    pool.trim();
    assert!(!pool.fill(&body(1, LENGTH)).expect("there is memory").place.fresh, "it was used since");
    let (mut pool_two, mut table_two) = both();
    drop(take(&mut table_two, pool_two.fill(&body(1, LENGTH)).expect("there is memory")));
    pool_two.trim();
    pool_two.trim();
    (0..2).for_each(|_| pool.trim());
    assert!(pool_two.fill(&body(1, LENGTH)).expect("there is memory").place.fresh);
    assert_eq!(kept, body(0, LENGTH).concat());
}

#[test]
fn much_memory_waits_longer_for_the_next_body() {
    let _alone = alone();
    let (mut pool, mut table) = both();
    let long = [Bytes::from(vec![1; 300 << 20])];
    drop(take(&mut table, pool.fill(&long).expect("there is memory")));
    (0..3).for_each(|_| pool.trim()); // one that notes the body, and two
    let filled = pool.fill(&long).expect("there is memory");
    assert!(!filled.place.fresh, "it was given back at once");
    drop(take(&mut table, filled));
    (0..4).for_each(|_| pool.trim());
    assert!(pool.fill(&long).expect("there is memory").place.fresh, "it was kept");
}

#[test]
fn a_body_that_a_fork_sees_too_is_not_written_over() {
    let _alone = alone();
    let (mut pool, mut table) = both();
    let got = take(&mut table, pool.fill(&body(1, LENGTH)).expect("there is memory"));
    let expected = body(1, LENGTH).concat();
    let (wait, go) = rustix::pipe::pipe().expect("there are files");
    // SAFETY: the child reads a byte, compares memory, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(go);
        let _ = rustix::io::read(&wait, &mut [0; 1]);
        // SAFETY: ends the child without anything of the parent's being done.
        unsafe { libc::_exit(i32::from(got == expected)) };
    }
    drop(got);
    for number in 2..6 {
        assert_eq!(
            take(&mut table, pool.fill(&body(number, LENGTH)).expect("there is memory")),
            body(number, LENGTH).concat()
        );
        pool.trim();
    }
    drop(go);
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1, "the child saw another body");
}

#[test]
fn the_newer_segment_has_the_slot_whichever_comes_first() {
    let _alone = alone();
    let (mut pool, mut table) = both();
    let mut kept: Vec<_> = (0..SLOTS).map(|number| pool.fill(&body(number.into(), LENGTH)).expect("memory")).collect();
    let newer = pool.fill(&body(99, LENGTH)).expect("there is memory");
    assert_eq!(newer.place, Place { slot: 0, generation: 2, fresh: true });
    drop(take(&mut table, newer));
    assert_eq!(take(&mut table, kept.remove(0)), body(0, LENGTH).concat());
    let again = pool.fill(&body(98, LENGTH)).expect("there is memory");
    assert_eq!(again.place, Place { slot: 0, generation: 2, fresh: false });
    assert_eq!(take(&mut table, again), body(98, LENGTH).concat());
}

/// A file that a peer could pass on: of this length, and sealed or not.
fn file(length: u64, sealed: bool) -> OwnedFd {
    let file = memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("there are files");
    ftruncate(&file, length).expect("takes no memory");
    if sealed {
        fcntl_add_seals(&file, super::segment::SEALS).expect("may be sealed");
    }
    file
}

const ROOM: u64 = (LONG + (64 << 10)) as u64;

#[test]
fn what_is_no_segment_is_refused() {
    let _alone = alone();
    let place = Place { slot: 3, generation: 7, fresh: true };
    let not_fresh = Place { fresh: false, ..place };
    let mut table = Table::new();
    let long = LONG as u64;
    for (length, file) in [
        (long, None),
        (long, Some(file(ROOM, false))),
        (long, Some(file(long, true))),
        (long + 1, Some(file(ROOM, true))),
        (long, Some(file(0, true))),
        (long, Some(file(ROOM + 1, true))),
        (0, Some(file(ROOM, true))),
        (long, Some(std::fs::File::open("/dev/zero").expect("is there").into())),
        (long, Some(rustix::pipe::pipe().expect("there are files").0)),
    ] {
        let refused = table.take(place, length, file);
        assert!(refused.is_err(), "{length}: {refused:?}");
    }
    assert!(table.take(not_fresh, long, None).is_err(), "none of them is known");
    let lent = table.take(Place { generation: 8, ..place }, long, Some(file(ROOM, true))).expect("a segment");
    let again = Place { generation: 8, ..not_fresh };
    assert!(table.take(again, long, None).is_err(), "it is in use");
    drop(lent);
    assert!(table.take(again, long + 1, None).is_err(), "it is shorter");
    assert!(table.take(not_fresh, long, None).is_err(), "there is a newer one");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_a_peer_says_of_its_memory_ends_in_a_body_or_an_error(
        said in proptest::collection::vec((0u8..3, 0u16..3, any::<bool>(), any::<bool>(), any::<bool>(),
            prop_oneof![Just(0), Just(ROOM - (64 << 10)), 0..2 * ROOM, any::<u64>()], any::<bool>()), 1..20)
    ) {
        let (mut table, mut kept) = (Table::new(), Vec::new());
        for (slot, generation, fresh, passes, sealed, length, keeps) in said {
            let file = passes.then(|| file(ROOM, sealed));
            if let Ok(body) = table.take(Place { slot, generation, fresh }, length, file) {
                prop_assert_eq!(body.len() as u64, length);
                prop_assert_eq!(body[body.len() - 1], 0);
                kept.push(body);
            }
            if !keeps {
                kept.clear();
            }
        }
    }
}
