//! Operations that compute.

use super::super::{Blocks, Call, Reducer, Scan, Span, allreduce, levels, reduce, scan};
use super::{MACHINES, Ranks, blocks};
use crate::objects::datatype::Datatype;
use crate::objects::op::Op;

/// A 2 x 2 matrix: their product depends on the order.
type Matrix = [u64; 4];
const UNIT: usize = size_of::<Matrix>();

fn product(a: Matrix, b: Matrix) -> Matrix {
    let entry = |row: usize, column: usize| {
        let (one, two) = (a[row * 2].wrapping_mul(b[column]), a[row * 2 + 1].wrapping_mul(b[column + 2]));
        one.wrapping_add(two)
    };
    [entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)]
}

fn multiply(left: *const u8, inout: *mut u8, count: usize, _: u32) {
    for index in 0..count {
        let (left, inout) = (left.cast::<Matrix>(), inout.cast::<Matrix>());
        // SAFETY: both have `count` matrices.
        unsafe { *inout.add(index) = product(*left.add(index), *inout.add(index)) };
    }
}

/// In the order of ranks, or, when every matrix is diagonal, in any.
fn reducer(commutative: bool) -> Reducer {
    let number = Datatype::of(0x259).expect("MPI_UINT64_T");
    let matrix = Datatype::contiguous(4, &number).expect("a datatype");
    matrix.commit();
    Reducer::new(Op::user(commutative, Box::new(multiply)), matrix).expect("an operation")
}

fn matrices(rank: usize, count: usize, commutative: bool) -> Vec<Matrix> {
    let matrix = |index| {
        let (rank, index) = (rank as u64, index as u64);
        let off = if commutative { 0 } else { 1 };
        [2 * rank + 3, off * (index + 1), off * (rank + 5), 2 * index + rank + 1]
    };
    (0..count).map(matrix).collect()
}

fn raw(matrices: &[Matrix]) -> Vec<u8> {
    matrices.iter().flatten().flat_map(|number| number.to_ne_bytes()).collect()
}

/// One after the other, as the standard defines it.
fn combined(ranks: std::ops::Range<usize>, count: usize, commutative: bool) -> Vec<u8> {
    let all = ranks.map(|rank| matrices(rank, count, commutative));
    let whole = all.reduce(|left, right| left.into_iter().zip(right).map(|(a, b)| product(a, b)).collect());
    raw(&whole.expect("at least one rank"))
}

/// In matrices: around the points where algorithms change, and not divisible by the number of ranks.
const COUNTS: [usize; 7] = [0, 1, 4, 5, 100, 1030, 4200];

fn everywhere(test: impl Fn(&Ranks, usize, bool, &Reducer)) {
    let all = (1..=9).map(Ranks::new);
    for ranks in all.chain(MACHINES.map(|machines| Ranks::on_machines(machines.len(), machines))) {
        for commutative in [true, false] {
            let reducer = reducer(commutative);
            COUNTS.iter().for_each(|count| test(&ranks, *count, commutative, &reducer));
        }
    }
}

#[test]
fn the_root_gets_the_product_in_the_order_of_ranks() {
    everywhere(|ranks, count, commutative, reducer| {
        let size = ranks.size();
        for (root, in_place, by) in [(0, false, 0), (size / 2, true, 0), (size - 1, false, 1), (0, true, 1)] {
            let got = ranks.all(async |call: Call| {
                let mut own = raw(&matrices(call.rank(), count, commutative));
                let before = own.clone();
                let mut result = vec![0; own.len()];
                let here = call.rank() == root;
                let span = Span::of(&mut own);
                let into = here.then(|| if in_place { span } else { Span::of(&mut result) });
                match (by, commutative) {
                    (1, true) => reduce::by_parts(&call, span, into, root, reducer).await,
                    _ => levels::reduce(&call, span, into, root, reducer).await,
                }
                assert_eq!(call.outcome(), Ok(()));
                assert!((here && in_place) || own == before, "operands are only read");
                if here && in_place { own } else { result }
            });
            assert_eq!(got[root], combined(0..size, count, commutative), "{size} {count} {root} {in_place}");
        }
    });
}

#[test]
fn everybody_gets_the_same_product() {
    everywhere(|ranks, count, commutative, reducer| {
        let size = ranks.size();
        for (in_place, by) in [(false, 0), (true, 0), (false, 1), (true, 1)] {
            let got = ranks.all(async |call: Call| {
                let mut own = raw(&matrices(call.rank(), count, commutative));
                let mut result = vec![0; own.len()];
                let span = Span::of(&mut own);
                let into = if in_place { span } else { Span::of(&mut result) };
                match (by, commutative) {
                    (1, true) => allreduce::by_parts(&call, span, into, reducer).await,
                    _ => levels::allreduce(&call, span, into, reducer).await,
                }
                call.outcome().map(|()| if in_place { own } else { result })
            });
            let expected = Ok(combined(0..size, count, commutative));
            assert!(got.iter().all(|result| *result == expected), "{size} {count} {in_place} {by}");
        }
    });
}

#[test]
fn everybody_gets_its_part_of_the_product() {
    everywhere(|ranks, count, commutative, reducer| {
        let size = ranks.size();
        let counts = |rank: usize| (count / 10 + 1) * (rank % 3);
        let lengths: Vec<usize> = (0..size).map(|rank| counts(rank) * UNIT).collect();
        let total: usize = (0..size).map(counts).sum();
        for in_place in [false, true] {
            let got = ranks.all(async |call: Call| {
                let mut own = raw(&matrices(call.rank(), total, commutative));
                let length = lengths[call.rank()];
                let mut result = vec![0; length];
                let all = Span::of(&mut own);
                let parts = blocks(&mut own, lengths.iter().copied());
                let into = if in_place { all.part(0, length) } else { Span::of(&mut result) };
                reduce::reduce_scatter(&call, all, &parts, into, reducer).await;
                call.outcome().map(|()| if in_place { own[..length].to_vec() } else { result })
            });
            let mut whole = combined(0..size, total, commutative);
            for (rank, result) in got.into_iter().enumerate() {
                let rest = whole.split_off(lengths[rank]);
                assert_eq!(result, Ok(whole), "{size} {count} {in_place}");
                whole = rest;
            }
        }
    });
}

#[test]
fn each_gets_the_product_of_those_before_it() {
    everywhere(|ranks, count, commutative, reducer| {
        for (kind, in_place) in
            [(Scan::Inclusive, false), (Scan::Inclusive, true), (Scan::Exclusive, false), (Scan::Exclusive, true)]
        {
            let got = ranks.all(async |call: Call| {
                let mut own = raw(&matrices(call.rank(), count, commutative));
                let mut result = vec![7; own.len()];
                let span = Span::of(&mut own);
                let into = if in_place { span } else { Span::of(&mut result) };
                scan::scan(&call, span, into, kind, reducer).await;
                call.outcome().map(|()| if in_place { own } else { result })
            });
            for (rank, result) in got.into_iter().enumerate() {
                let end = rank + usize::from(kind == Scan::Inclusive);
                let untouched = || if in_place { raw(&matrices(0, count, commutative)) } else { vec![7; count * UNIT] };
                let expected = if end == 0 { untouched() } else { combined(0..end, count, commutative) };
                assert_eq!(result, Ok(expected), "{count} {kind:?} {in_place}");
            }
        }
    });
}

#[test]
fn operands_with_gaps_are_combined_as_they_lie_in_memory() {
    // MPI_DOUBLE_INT: 12 bytes of data in 16; MPI_MAXLOC.
    let reducer = Reducer::new(Op::of(0x39).expect("MPI_MAXLOC"), Datatype::of(0x229).expect("MPI_DOUBLE_INT"));
    let reducer = reducer.expect("defined for it");
    assert_eq!(reducer.unit(), 12);
    let pair = |value: f64, index: i32| [value.to_ne_bytes().to_vec(), index.to_ne_bytes().to_vec()].concat();
    let mut left = [pair(1.0, 3), pair(5.0, 3), pair(2.0, 3)].concat();
    let mut inout = [pair(2.0, 4), pair(4.0, 4), pair(2.0, 4)].concat();
    reducer.apply(Span::of(&mut left), Span::of(&mut inout)).expect("an operation");
    assert_eq!(inout, [pair(2.0, 4), pair(5.0, 3), pair(2.0, 3)].concat());
}

#[test]
fn a_user_operation_gets_elements_with_their_gaps_also_when_they_lie_backwards() {
    let number = Datatype::of(0x259).expect("MPI_UINT64_T");
    // Three numbers, 16 bytes apart, the last of them first; elements 8 bytes apart the other way.
    let backwards = Datatype::hvector(3, 1, -16, &number).expect("a datatype");
    let backwards = Datatype::resized(&backwards, 0, -64).expect("a datatype");
    backwards.commit();
    let add = |left: *const u8, inout: *mut u8, count: usize, _: u32| {
        for (element, number) in (0..count as isize).flat_map(|element| (0..3).map(move |number| (element, number))) {
            let at = element * -64 + number * -16;
            // SAFETY: where the datatype has a number.
            unsafe {
                let (left, inout) = (left.offset(at).cast::<u64>(), inout.offset(at).cast::<u64>());
                *inout += *left * 10;
            }
        }
    };
    let reducer = Reducer::new(Op::user(false, Box::new(add)), backwards).expect("an operation");
    let raw = |numbers: [u64; 6]| numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<_>>();
    let (mut left, mut inout) = (raw([1, 2, 3, 4, 5, 6]), raw([0, 1, 0, 1, 0, 1]));
    reducer.apply(Span::of(&mut left), Span::of(&mut inout)).expect("an operation");
    assert_eq!(inout, raw([10, 21, 30, 41, 50, 61]));
}

#[test]
fn data_is_divided_between_elements() {
    let mut data = vec![0; 10 * UNIT];
    let parts = Blocks::divide(Span::of(&mut data), 4, UNIT);
    let lengths: Vec<_> = (0..4).map(|rank| parts.at(rank).length() / UNIT).collect();
    assert_eq!(lengths, [3, 3, 3, 1]);
    let parts = Blocks::divide(Span::of(&mut data[..UNIT]), 4, UNIT);
    assert_eq!((0..4).map(|rank| parts.at(rank).length()).collect::<Vec<_>>(), [UNIT, 0, 0, 0]);
}
