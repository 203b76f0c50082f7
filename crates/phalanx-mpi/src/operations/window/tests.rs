//! Windows of several processes in one thread.

mod hostile;
mod long;

use super::quick::{self, Spot};
use super::runs::{PIECE, Reach, Runs, total};
use super::word::{Act, Word};
use super::{Part, Place, Unit, Window, allocate, allocate_shared, create, create_dynamic, lock};
use crate::constants::*;
use crate::error::Class;
use crate::objects::buffer::Buffer;
use crate::objects::comm::revoke;
use crate::objects::datatype::Datatype;
use crate::objects::group::Group;
use crate::objects::info::Info;
use crate::operations::collective::tests::Ranks;
use crate::operations::collective::{Call, barrier};
use crate::operations::comm_create::duplicate;
use crate::operations::quick::Passed;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

fn datatype(handle: u32) -> Arc<Datatype> {
    Datatype::of(handle).expect("predefined")
}

fn ints(values: &mut [i32]) -> Buffer {
    Buffer::new(values.as_mut_ptr().cast(), values.len(), datatype(MPI_INT)).expect("memory")
}

fn at(rank: usize, displacement: i64, count: usize) -> Place {
    Place { rank: rank as i32, displacement, count, datatype: datatype(MPI_INT) }
}

/// A window of ints, counted in ints.
async fn window_of(call: Call, values: &mut [i32]) -> Arc<Window> {
    let unit = Unit::new(4).expect("positive");
    create(call, values.as_mut_ptr().cast(), 4 * values.len(), unit, &Info::default()).await.expect("a window")
}

/// The same in memory of its own, all of which has the same value.
async fn allocated(call: Call, length: usize, value: i32) -> Arc<Window> {
    let unit = Unit::new(4).expect("positive");
    let window = allocate(call, 4 * length, unit, &Info::default()).await.expect("a window");
    own(&window).fill(value);
    let all = Call::new(window.world, window.comm.clone());
    barrier(&all).await.expect("all have stored theirs");
    window
}

/// This process's part.
#[allow(clippy::mut_from_ref)]
fn own(window: &Window) -> &mut [i32] {
    let Part { base, size, .. } = window.own();
    // SAFETY: the test looks there between operations only.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(base), size / 4) }
}

/// Programs whose ranks are on one machine, on two, and each on its own.
fn machines(size: usize) -> Vec<Ranks> {
    let two: Vec<u32> = (0..size).map(|rank| u32::from(rank >= size / 2)).collect();
    let own: Vec<u32> = (0..size as u32).collect();
    [vec![0; size], two, own].iter().map(|machines| Ranks::on_machines(size, machines)).collect()
}

#[test]
fn what_is_put_between_fences_is_there_and_can_be_got() {
    for lent in [true, false] {
        machines(3).iter().for_each(|ranks| put_between_fences(ranks, lent));
    }
}

fn put_between_fences(ranks: &Ranks, lent: bool) {
    const MANY: usize = 70_000;
    ranks.all(async |call| {
        let (rank, size) = (call.rank(), call.size());
        let mut memory = vec![-1; 2 * MANY];
        let window = if lent { window_of(call, &mut memory).await } else { allocated(call, 2 * MANY, -1).await };
        let own = own(&window);
        window.fence(0).await.expect("a fence");
        // Every other number of the right one, from a row here.
        let spread = Datatype::vector(MANY as i64, 1, 2, &datatype(MPI_INT)).expect("a small datatype");
        spread.commit();
        let mut row: Vec<i32> = (0..MANY as i32).map(|index| index + rank as i32).collect();
        let place = Place { rank: ((rank + 1) % size) as i32, displacement: 0, count: 1, datatype: spread };
        window.put(&ints(&mut row), &place, None).await.expect("inside");
        window.fence(0).await.expect("a fence");
        let left = (rank + size - 1) % size;
        let expected = |index: usize| if index % 2 == 0 { (index / 2 + left) as i32 } else { -1 };
        assert!(own.iter().enumerate().all(|(index, value)| *value == expected(index)));
        let mut back = vec![0; MANY];
        window.get(&ints(&mut back), &place, None).await.expect("inside");
        window.fence(MPI_MODE_NOSUCCEED).await.expect("a fence");
        assert_eq!(back, row);
        let error = window.put(&ints(&mut row[..1]), &at(0, 0, 1), None).await.expect_err("no epoch");
        assert_eq!(error.class, Class::RmaSync);
        window.close().await.expect("it ends");
    });
}

#[test]
fn locks_and_accumulation_lose_nothing() {
    for lent in [true, false] {
        machines(4).iter().for_each(|ranks| lock_and_accumulate(ranks, lent));
    }
}

fn lock_and_accumulate(ranks: &Ranks, lent: bool) {
    const TIMES: i32 = 20;
    let fetched = ranks.all(async |call| {
        let (rank, size) = (call.rank(), call.size() as i32);
        let mut memory = vec![0; 3];
        let window = if lent { window_of(call, &mut memory).await } else { allocated(call, 3, 0).await };
        let own = own(&window);
        let mut fetched = Vec::new();
        for _ in 0..TIMES {
            // Reads, then writes: nobody comes between.
            window.lock(true, 1).await.expect("a lock");
            let mut value = [0];
            window.get(&ints(&mut value), &at(1, 0, 1), None).await.expect("inside");
            window.flush(1).await.expect("it is locked");
            value[0] += 1;
            window.put(&ints(&mut value), &at(1, 0, 1), None).await.expect("inside");
            window.unlock(1).await.expect("it is locked");
            window.lock_all().await.expect("a lock");
            let (mut one, mut old) = ([1], [0]);
            let (one, result) = (ints(&mut one), ints(&mut old));
            window.accumulate(Some(&one), Some(&result), &at(1, 1, 1), MPI_SUM, None).await.expect("inside");
            window.flush_all().await.expect("locked");
            fetched.push(old[0]);
            // Only one of those who see the same value replaces it.
            let (mut next, mut seen) = ([old[0] + 1], [0]);
            let (next, compared, seen) = (ints(&mut next), result.clone(), ints(&mut seen));
            window.compare_and_swap(&next, &compared, &seen, &at(1, 2, 1)).await.expect("inside");
            window.unlock_all().await.expect("locked");
        }
        barrier(&Call::new(window.world, window.comm.clone())).await.expect("all are done");
        if rank == 1 {
            assert_eq!(own[..2], [TIMES * size, TIMES * size]);
        }
        window.close().await.expect("it ends");
        fetched
    });
    let mut fetched = fetched.concat();
    fetched.sort_unstable();
    assert_eq!(fetched, (0..TIMES * 4).collect::<Vec<_>>());
}

#[test]
fn origins_wait_for_their_target_to_post() {
    for lent in [true, false] {
        machines(3).iter().for_each(|ranks| wait_for_posts(ranks, lent));
    }
}

fn wait_for_posts(ranks: &Ranks, lent: bool) {
    ranks.all(async |call| {
        let rank = call.rank();
        let mut memory = vec![0; 3];
        let window = if lent { window_of(call, &mut memory).await } else { allocated(call, 3, 0).await };
        let own = own(&window);
        for turn in 1..4 {
            if rank == 0 {
                let others = Group::new([1, 2]);
                window.post(&others).expect("the first");
                assert_eq!(window.post(&others).expect_err("the second").class, Class::RmaSync);
                window.wait().await.expect("posted");
                assert_eq!(own, [0, turn, turn]);
            } else {
                window.start(&Group::new([0])).expect("the first");
                let mut value = [turn];
                window.put(&ints(&mut value), &at(0, rank as i64, 1), None).await.expect("inside");
                assert!(window.put(&ints(&mut value), &at(1, 0, 1), None).await.is_err());
                window.complete().await.expect("started");
            }
        }
        window.close().await.expect("it ends");
    });
}

/// In shared memory too, where the origin alone checks.
#[test]
fn nothing_outside_of_a_shared_part_is_touched() {
    Ranks::new(2).all(async |call| {
        let rank = call.rank();
        let window = allocated(call, 8, 7).await;
        assert!(window.mapping().is_some_and(|mapping| mapping.has_all()));
        window.lock_all().await.expect("a lock");
        let (mut values, mut old) = ([1, 2, 3], [0; 3]);
        let (buffer, result) = (ints(&mut values), ints(&mut old));
        let spread = Datatype::vector(3, 1, 3, &datatype(MPI_INT)).expect("a small datatype");
        spread.commit();
        let far = Place { rank: 1 - rank as i32, displacement: 2, count: 1, datatype: spread };
        for place in
            [-1, 6, 8, i64::MIN, i64::MAX].map(|displacement| at(1 - rank, displacement, 3)).into_iter().chain([far])
        {
            let outcomes = [
                window.put(&buffer, &place, None).await,
                window.get(&result, &place, None).await,
                window.accumulate(Some(&buffer), None, &place, MPI_SUM, None).await,
                window.accumulate(None, Some(&result), &place, MPI_NO_OP, None).await,
            ];
            assert!(outcomes.into_iter().all(|outcome| outcome.expect_err("outside").class == Class::RmaRange));
        }
        window.unlock_all().await.expect("locked");
        let all = Call::new(window.world, window.comm.clone());
        barrier(&all).await.expect("all are done");
        assert_eq!((own(&window), &old), (&mut [7; 8][..], &[0; 3]));
        window.close().await.expect("it ends");
    });
}

/// What needs no message is done when the call returns, and its request with it.
#[test]
fn what_is_done_in_shared_memory_is_done_at_once() {
    Ranks::new(2).all(async |call| {
        let rank = call.rank();
        let window = allocated(call, 12, 1).await;
        window.fence(0).await.expect("a fence");
        if rank == 0 {
            let spread = Datatype::vector(3, 1, 2, &datatype(MPI_INT)).expect("a small datatype");
            spread.commit();
            let there = |displacement| Place { rank: 1, displacement, count: 1, datatype: spread.clone() };
            let (mut values, mut got) = ([5, 6, 7], [0; 3]);
            let (values, result) = (ints(&mut values), ints(&mut got));
            window.put(&values, &there(0), None).await.expect("inside");
            window.get(&result, &there(0), None).await.expect("inside");
            assert_eq!(got, [5, 6, 7]);
            window.accumulate(Some(&values), Some(&result), &there(1), MPI_SUM, None).await.expect("inside");
            assert_eq!(got, [1, 1, 1]);
            window.accumulate(None, Some(&result), &there(1), MPI_NO_OP, None).await.expect("inside");
            assert_eq!(got, [6, 7, 8]);
            window.accumulate(Some(&values), None, &at(1, 6, 3), MPI_REPLACE, None).await.expect("inside");
            let state = lock(&window.state);
            assert!(state.operations.is_empty() && state.pending == [0, 0]);
        }
        window.fence(MPI_MODE_NOSUCCEED).await.expect("a fence");
        window.lock_all().await.expect("a lock");
        let end = Arc::default();
        let mut value = [9];
        window.put(&ints(&mut value), &at(rank, 11, 1), Some(Arc::clone(&end))).await.expect("inside");
        assert!(end.get().is_some_and(|outcome: &crate::error::Result<()>| outcome.is_ok()));
        window.unlock_all().await.expect("locked");
        let expected =
            if rank == 1 { [5, 6, 6, 7, 7, 8, 5, 6, 7, 1, 1, 9] } else { [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9] };
        assert_eq!(own(&window), expected);
        window.close().await.expect("it ends");
    });
}

fn passed(values: &mut [i32]) -> Passed {
    Passed { start: values.as_mut_ptr().cast(), count: values.len() as i64, datatype: MPI_INT }
}

/// Calls on their shortest way do what the others do, or nothing.
#[test]
fn quick_calls_do_only_what_is_allowed() {
    Ranks::new(2).all(async |call| {
        let (rank, other) = (call.rank(), 1 - call.rank() as i32);
        let window = allocated(call, 4, 5).await;
        let all = Call::new(window.world, window.comm.clone());
        let handle = window.clone().put_handle().expect("room");
        let spot = |displacement, count| Spot { rank: other, displacement, count, datatype: MPI_INT };
        let (mut one, mut old) = ([rank as i32 + 1], [0]);
        let (origin, result) = (passed(&mut one), passed(&mut old));
        let add = |spot, window| quick::accumulate(origin, Some(result.start), spot, MPI_SUM, window);
        assert!(!quick::put(origin, spot(0, 1), handle) && !quick::flush(other, handle), "no epoch");
        window.fence(0).await.expect("a fence");
        assert!(quick::put(origin, spot(0, 1), handle) && !quick::flush(other, handle));
        window.fence(MPI_MODE_NOSUCCEED).await.expect("a fence");
        assert!(!quick::put(origin, spot(0, 1), handle));
        window.lock(false, other).await.expect("a lock");
        assert!(quick::get(result, spot(0, 1), handle) && old == one);
        for wrong in [spot(-1, 1), spot(4, 1), spot(i64::MAX, 1), spot(0, 2), Spot { rank: 2, ..spot(0, 1) }] {
            assert!(!quick::put(origin, wrong, handle) && !quick::get(result, wrong, handle) && !add(wrong, handle));
        }
        assert!(!quick::put(origin, Spot { rank: rank as i32, ..spot(0, 1) }, handle), "it is not locked");
        assert!(add(spot(1, 1), handle) && old == [5]);
        assert!(quick::accumulate(origin, None, spot(2, 1), MPI_REPLACE, handle));
        assert!(!quick::accumulate(origin, None, spot(2, 1), MPI_MINLOC, handle), "it is for pairs");
        let (mut new, mut expected) = ([9], [5]);
        let (new, expected) = (passed(&mut new), passed(&mut expected));
        let swap = |spot| quick::compare_and_swap(new, expected, result, spot, handle);
        assert!(swap(spot(3, 1)) && old == [5]);
        assert!(swap(spot(3, 1)) && old == [9]);
        assert!(!swap(Spot { datatype: MPI_FLOAT, ..spot(3, 1) }), "it is no integer");
        assert!(quick::flush(other, handle));
        window.unlock(other).await.expect("locked");
        assert!(!quick::flush(other, handle));
        barrier(&all).await.expect("all are done");
        assert_eq!(own(&window), [other + 1, 5 + other + 1, other + 1, 9]);
        window.close().await.expect("it ends");
        Window::forget(handle);
        assert!(!quick::put(origin, spot(0, 1), handle) && Window::of(handle).is_err());
    });
}

#[test]
fn nothing_outside_of_a_window_is_touched() {
    Ranks::new(2).all(async |call| {
        let rank = call.rank();
        let mut memory = vec![7; 12];
        let window = window_of(call, &mut memory[4..8]).await;
        window.lock_all().await.expect("a lock");
        let mut values = [1, 2];
        let buffer = ints(&mut values);
        for displacement in [-1, 3, 4, i64::MIN, i64::MAX] {
            let error = window.put(&buffer, &at(1 - rank, displacement, 2), None).await.expect_err("outside");
            assert_eq!(error.class, Class::RmaRange);
        }
        assert_eq!(window.put(&buffer, &at(0, 0, 1), None).await.expect_err("too much").class, Class::Truncate);
        assert_eq!(window.put(&buffer, &at(2, 0, 2), None).await.expect_err("no rank").class, Class::Rank);
        let user = crate::objects::op::Op::user(true, Box::new(|_, _, _, _| ())).put().expect("room");
        let error = window.accumulate(Some(&buffer), None, &at(0, 0, 2), user, None).await.expect_err("not allowed");
        assert_eq!(error.class, Class::Op);
        // An origin that does not check.
        let runs = |offset, length, stride, count| vec![Runs { offset, length, stride, count }];
        for (number, runs) in
            [runs(-4, 4, 0, 1), runs(16, 4, 0, 1), runs(0, 4, -4, 2), runs(0, 4, i64::MAX, 2), runs(0, 0, 0, u64::MAX)]
                .into_iter()
                .enumerate()
        {
            let bytes = runs[0].length.saturating_mul(runs[0].count) as usize;
            let (operation, act) = (number as u64, Act::Put);
            let word = Word::Access { operation, position: 0, act, displacement: 0, runs };
            window.tell(1 - rank, &word, &vec![9; bytes]).expect("a peer");
        }
        let forged = Word::Done { operation: 1000, position: 1 << 60, failure: None };
        window.tell(1 - rank, &forged, &[1, 2, 3]).expect("a peer");
        window.world.engine().send_aside(1 - rank as u32, window.context(), rank as i32, vec![0xff; 30]);
        window.unlock_all().await.expect("locked");
        window.close().await.expect("it ends");
        assert_eq!(memory, [7; 12]);
        assert!(lock(&window.state).operations.is_empty());
    });
}

/// Of a long operation a target is asked for a part at a time: what it has answered may wait in its memory.
#[test]
fn a_long_operation_waits_with_who_calls_it() {
    const MANY: usize = 600 * PIECE / 4;
    Ranks::new(2).all(async |call| {
        let rank = call.rank();
        let mut own: Vec<i32> = (0..MANY as i32).map(|index| index + rank as i32).collect();
        let window = window_of(call, &mut own).await;
        window.lock_all().await.expect("a lock");
        let (mut got, place) = (vec![0; MANY], at(1 - rank, 0, MANY));
        let all = ints(&mut got);
        window.accumulate(None, Some(&all), &place, MPI_NO_OP, None).await.expect("inside");
        window.get(&ints(&mut got[..1]), &at(1 - rank, 1, 1), None).await.expect("inside");
        {
            let state = lock(&window.state);
            assert_eq!((state.asked[1 - rank], state.unasked[1 - rank].len()), (256, 600 + 1 - 256));
        }
        window.unlock_all().await.expect("locked");
        let expected = |index: usize| (index + 1 - rank) as i32;
        assert!((1..MANY).all(|index| got[index] == expected(index)) && got[0] == expected(1), "in their order");
        {
            let state = lock(&window.state);
            assert!(state.asked[1 - rank] == 0 && state.unasked[1 - rank].is_empty());
        }
        window.close().await.expect("it ends");
    });
}

#[test]
fn dynamic_windows_reach_what_is_attached() {
    Ranks::new(2).all(async |call| {
        let rank = call.rank();
        let window = create_dynamic(call, &Info::default()).await.expect("a window");
        let mut memory = vec![0; 8];
        let base: *mut u8 = memory.as_mut_ptr().cast();
        window.attach(base, 16).expect("free");
        assert_eq!(window.attach(base.wrapping_add(12), 16).expect_err("overlaps").class, Class::RmaAttach);
        window.attach(base.wrapping_add(16), 0).expect("empty");
        window.lock_all().await.expect("a lock");
        let mut values = [5, 6];
        let address = base.addr() as i64;
        window.put(&ints(&mut values), &at(rank, address + 8, 2), None).await.expect("the target checks");
        window.flush(rank as i32).await.expect("inside");
        window.put(&ints(&mut values), &at(rank, address + 12, 2), None).await.expect("the target checks");
        assert_eq!(window.flush(rank as i32).await.expect_err("outside").class, Class::RmaRange);
        window.unlock_all().await.expect("told before");
        window.detach(base).expect("attached");
        assert_eq!(window.detach(base).expect_err("detached").class, Class::RmaAttach);
        window.close().await.expect("it ends");
        assert_eq!(memory, [0, 0, 5, 6, 0, 0, 0, 0]);
    });
}

#[test]
fn shared_memory_is_the_same_for_all() {
    Ranks::new(3).all(async |call| {
        let (rank, size) = (call.rank(), call.size());
        let unit = Unit::new(1).expect("positive");
        let window = allocate_shared(call, 10 + rank, unit, &Info::default()).await.expect("one machine");
        let byte = |rank: usize, index: usize| {
            let part = window.shared(rank as i32).expect("a rank");
            assert_eq!(part.size, 10 + rank);
            std::ptr::with_exposed_provenance_mut::<u8>(part.base + index)
        };
        // SAFETY: within the parts.
        unsafe { byte((rank + 1) % size, 9).write(rank as u8 + 1) };
        window.fence(0).await.expect("a fence");
        let left = (rank + size - 1) % size;
        // SAFETY: as above.
        assert_eq!(unsafe { byte(rank, 9).read() }, left as u8 + 1);
        assert_eq!(window.shared(1).expect("a rank").base, window.shared(0).expect("a rank").base + 10);
        window.close().await.expect("it ends");
    });
}

/// Whoever waits for whom: all of it ends, and the window can be freed without the others.
#[test]
fn what_is_under_way_in_a_revoked_window_ends() {
    Ranks::new(3).all(async |call| {
        let (rank, world, others) = (call.rank(), call.world, call.comm.clone());
        let comm = duplicate(call, false).await.expect("another one");
        let mut own = vec![rank as i32; 4];
        let window = window_of(Call::new(world, comm.clone()), &mut own).await;
        let (mut got, end) = ([0; 2], Arc::default());
        match rank {
            0 => {
                window.lock(true, 1).await.expect("it is free");
                window.get(&ints(&mut got), &at(1, 0, 2), Some(Arc::clone(&end))).await.expect("inside");
            }
            1 => window.post(&Group::new([0, 2])).expect("the first"),
            _ => window.start(&Group::new([0])).expect("the first"),
        }
        barrier(&Call::new(world, others)).await.expect("all have begun");
        revoke(world, comm.context);
        let error = match rank {
            0 => window.flush(1).await,
            1 => window.wait().await,
            _ => window.complete().await,
        };
        assert_eq!(error.expect_err("it is revoked").class, Class::Revoked);
        let outcome: Option<&crate::error::Result<()>> = end.get();
        assert!(rank > 0 || outcome.is_some());
        for error in
            [window.fence(0).await, window.lock(true, 0).await, window.put(&ints(&mut got), &at(1, 0, 2), None).await]
        {
            assert_eq!(error.expect_err("it is revoked").class, Class::Revoked);
        }
        let begun = [window.post(&Group::new([0])), window.start(&Group::new([0]))];
        assert!(begun.into_iter().all(|it| it.expect_err("it is revoked").class == Class::Revoked));
        window.close().await.expect("nobody is waited for");
    });
}

/// Between the making of a window's communicator and its being known as that, the program's own is revoked.
#[test]
fn a_communicator_that_serves_a_revoked_one_is_revoked() {
    Ranks::new(1).all(async |call| {
        let world = call.world;
        let comm = duplicate(call, false).await.expect("another one");
        let its = duplicate(Call::new(world, comm.clone()), false).await.expect("another one");
        revoke(world, comm.context);
        assert!(!its.is_revoked());
        its.serve(world, comm.context);
        assert_eq!(barrier(&Call::new(world, its)).await.expect_err("it is revoked").class, Class::Revoked);
    });
}

#[test]
fn windows_that_cannot_be_are_refused() {
    Ranks::new(1).all(async |call| {
        assert_eq!(Unit::new(0).expect_err("zero").class, Class::Disp);
        let unit = Unit::new(1).expect("positive");
        let error = allocate(call.again(), usize::MAX, unit, &Info::default()).await.err().expect("too much");
        assert_eq!(error.class, Class::Size);
        let window = allocate(call, 10, unit, &Info::default()).await.expect("a window");
        window.lock(true, 0).await.expect("a lock");
        for error in [window.close().await, window.fence(0).await, window.lock_all().await, window.complete().await] {
            assert_eq!(error.expect_err("locked").class, Class::RmaSync);
        }
        window.unlock(0).await.expect("locked");
        assert_eq!(window.unlock(0).await.expect_err("not locked").class, Class::RmaSync);
        assert_eq!(window.attach(std::ptr::null_mut(), 0).expect_err("not dynamic").class, Class::RmaFlavor);
        window.close().await.expect("it ends");
    });
}

proptest! {
    // About four in five random runs have no total and are rejected; proptest's own limit is 1024 of these.
    #![proptest_config(ProptestConfig { max_global_rejects: 65_536, ..ProptestConfig::default() })]

    /// Whatever a word says, what is let through is inside.
    #[test]
    fn runs_that_are_let_through_are_inside(
        displacement in prop_oneof![-40i64..200, any::<i64>()],
        offset in prop_oneof![-40i64..200, any::<i64>()],
        stride in prop_oneof![-40i64..40, any::<i64>()],
        length in prop_oneof![0u64..50, any::<u64>()],
        count in prop_oneof![0u64..10, any::<u64>()],
    ) {
        let runs = [Runs { offset, length, stride, count }];
        let regions = BTreeMap::from([(1000, 100), (1100, 28)]);
        prop_assume!(total(&runs).is_ok());
        let inside = |start: i128| (0..count as i128).all(|index| {
            let first = start + offset as i128 + index * stride as i128;
            first >= 0 && first + length as i128 <= 128
        });
        let part = Reach::Part { base: 1000, size: 128, unit: 4 };
        prop_assert_eq!(part.locate(displacement, &runs).is_ok(), inside(displacement as i128 * 4));
        if Reach::Regions(&regions).locate(displacement, &runs).is_ok() {
            prop_assert!(inside(displacement as i128 - 1000));
        }
    }
}
