//! Operations against plain arithmetic, for every predefined datatype, at every alignment.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use phalanx_mpi::error::Class;
use phalanx_mpi::objects::datatype::kind::{Family, KINDS};
use phalanx_mpi::objects::datatype::{Datatype, Kind};
use phalanx_mpi::objects::op::{Op, Predefined};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const INT: u32 = 0x209;
const DOUBLE: u32 = 0x214;
const DOUBLE_INT: u32 = 0x229;
const SHORT_INT: u32 = 0x22c;

fn op(op: Predefined) -> Arc<Op> {
    Op::of(op as u32).unwrap()
}

/// Both arrays are copied to addresses that are multiples of nothing.
fn applied<T: Copy>(which: Predefined, handle: u32, incoming: &[T], inout: &[T]) -> Vec<T> {
    let bytes = |values: &[T]| {
        let mut odd = vec![0u8; 1 + size_of_val(values)];
        // SAFETY: as long as the values are.
        unsafe { odd.as_mut_ptr().add(1).copy_from(values.as_ptr().cast(), size_of_val(values)) };
        odd
    };
    let (from, mut to) = (bytes(incoming), bytes(inout));
    let datatype = Datatype::of(handle).unwrap();
    // SAFETY: both hold as many elements.
    unsafe { op(which).apply(from[1..].as_ptr(), to[1..].as_mut_ptr(), inout.len(), &datatype).unwrap() };
    // SAFETY: as many elements.
    (0..inout.len()).map(|index| unsafe { to[1..].as_ptr().cast::<T>().add(index).read_unaligned() }).collect()
}

proptest! {
    #[test]
    fn integers(pairs in vec((any::<i32>(), any::<i32>()), 0..100)) {
        let (a, b): (Vec<i32>, Vec<i32>) = pairs.iter().copied().unzip();
        let expect = |of: fn(i32, i32) -> i32| pairs.iter().map(|(a, b)| of(*a, *b)).collect::<Vec<_>>();
        prop_assert_eq!(applied(Predefined::Sum, INT, &a, &b), expect(i32::wrapping_add));
        prop_assert_eq!(applied(Predefined::Prod, INT, &a, &b), expect(i32::wrapping_mul));
        prop_assert_eq!(applied(Predefined::Max, INT, &a, &b), expect(i32::max));
        prop_assert_eq!(applied(Predefined::Min, INT, &a, &b), expect(i32::min));
        prop_assert_eq!(applied(Predefined::Band, INT, &a, &b), expect(|a, b| a & b));
        prop_assert_eq!(applied(Predefined::Bxor, INT, &a, &b), expect(|a, b| a ^ b));
        prop_assert_eq!(applied(Predefined::Land, INT, &a, &b), expect(|a, b| (a != 0 && b != 0) as i32));
    }

    #[test]
    fn floating_numbers_and_complex_ones(quads in vec(any::<[f64; 4]>(), 0..50)) {
        let a: Vec<f64> = quads.iter().flat_map(|quad| [quad[0], quad[1]]).collect();
        let b: Vec<f64> = quads.iter().flat_map(|quad| [quad[2], quad[3]]).collect();
        let bits = |numbers: Vec<f64>| numbers.into_iter().map(f64::to_bits).collect::<Vec<_>>();
        let sums: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        prop_assert_eq!(bits(applied(Predefined::Sum, DOUBLE, &a, &b)), bits(sums));
        let product = |[ar, ai, br, bi]: &[f64; 4]| [ar * br - ai * bi, ar * bi + ai * br];
        let products: Vec<f64> = quads.iter().flat_map(product).collect();
        let complex = |numbers: &[f64]| numbers.chunks(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>();
        let found = applied(Predefined::Prod, 0x216, &complex(&a), &complex(&b)).concat();
        prop_assert_eq!(bits(found), bits(products));
    }

    #[test]
    fn the_best_value_has_the_lowest_index(pairs in vec((-3..3i32, 0..9i32, -3..3i32, 0..9i32), 0..50)) {
        #[derive(Clone, Copy, PartialEq, Debug)]
        #[repr(C)]
        struct Pair(f64, i32);
        let a: Vec<Pair> = pairs.iter().map(|pair| Pair(pair.0 as f64, pair.1)).collect();
        let b: Vec<Pair> = pairs.iter().map(|pair| Pair(pair.2 as f64, pair.3)).collect();
        let best = |sign: i32| move |&(av, ai, bv, bi): &(i32, i32, i32, i32)| {
            let (value, index) = (sign * av, ai).min((sign * bv, bi));
            Pair((sign * value) as f64, index)
        };
        let (least, greatest): (Vec<_>, Vec<_>) = pairs.iter().map(|pair| (best(1)(pair), best(-1)(pair))).unzip();
        prop_assert_eq!(applied(Predefined::Minloc, DOUBLE_INT, &a, &b), least);
        prop_assert_eq!(applied(Predefined::Maxloc, DOUBLE_INT, &a, &b), greatest);
    }

    #[test]
    fn a_scattered_target_is_accumulated_in_pieces(
        handle in prop::sample::select(vec![INT, DOUBLE, DOUBLE_INT, SHORT_INT]),
        count in 1..40usize,
        cut in 0..40usize,
        bytes in vec(0..100u8, 6000),
    ) {
        let number = Datatype::of(handle).unwrap();
        let which = if handle == INT || handle == DOUBLE { Predefined::Sum } else { Predefined::Maxloc };
        let vector = Datatype::vector(count as i64, 1, 2, &number).unwrap();
        vector.commit();
        let size = number.size();
        let incoming = &bytes[..size * count];
        let extent = number.extent() as usize;
        let mut target = bytes[3000..3000 + 2 * count * extent].to_vec();
        let mut expected = target.clone();
        for index in 0..count {
            let mut element = vec![0; extent];
            let place = expected[2 * index * extent..].as_mut_ptr();
            // SAFETY: one element each.
            unsafe {
                number.unpack(element.as_mut_ptr(), 1, 0, &incoming[index * size..]);
                op(which).apply(element.as_ptr(), place, 1, &number).unwrap();
            }
        }
        let (first, second) = incoming.split_at(size * cut.min(count));
        // SAFETY: the vector lies within the target.
        unsafe {
            op(which).accumulate(first, target.as_mut_ptr(), 1, 0, &vector).unwrap();
            op(which).accumulate(second, target.as_mut_ptr(), 1, first.len(), &vector).unwrap();
        }
        prop_assert_eq!(target, expected);
    }
}

#[test]
fn operations_are_defined_for_what_the_standard_says_and_others_have() {
    let defined = |which: Predefined, kind: &Kind| op(which).check(&Datatype::of(kind.handle).unwrap()).is_ok();
    for kind in &KINDS {
        let arithmetic = matches!(kind.family, Family::Integer | Family::FortranInteger | Family::Address);
        let floating = kind.family == Family::Floating && kind.name != "MPI_REAL16";
        let complex = kind.family == Family::Complex && kind.name != "MPI_COMPLEX32";
        let logical = matches!(kind.family, Family::Logical | Family::Byte);
        assert_eq!(defined(Predefined::Sum, kind), arithmetic || floating || complex, "{}", kind.name);
        assert_eq!(defined(Predefined::Max, kind), arithmetic || floating, "{}", kind.name);
        assert_eq!(defined(Predefined::Bor, kind), arithmetic || kind.family == Family::Byte, "{}", kind.name);
        assert_eq!(defined(Predefined::Lor, kind), arithmetic || floating || logical, "{}", kind.name);
        assert_eq!(defined(Predefined::Minloc, kind), kind.family == Family::Pair, "{}", kind.name);
        assert!(!defined(Predefined::Replace, kind) && !defined(Predefined::NoOp, kind));
    }
    let error = op(Predefined::Band).check(&Datatype::of(DOUBLE).unwrap()).unwrap_err();
    assert_eq!((error.class, error.text.as_str()), (Class::Op, "MPI_BAND is not defined for MPI_DOUBLE"));
}

#[test]
fn derived_datatypes_are_for_windows_only_and_must_be_of_one_kind() {
    let int = Datatype::of(INT).unwrap();
    let three = Datatype::contiguous(3, &int).unwrap();
    let mixed = Datatype::structure(&[1, 1], &[0, 8], &[int.clone(), Datatype::of(DOUBLE).unwrap()]).unwrap();
    assert_eq!(op(Predefined::Sum).check(&three).unwrap_err().class, Class::Op);
    assert!(op(Predefined::Sum).check_accumulate(&three).is_ok());
    assert!(op(Predefined::Sum).check(&Datatype::dup(&int).unwrap()).is_ok());
    assert_eq!(op(Predefined::Sum).check_accumulate(&mixed).unwrap_err().class, Class::Type);
    assert!(op(Predefined::Replace).check_accumulate(&mixed).is_ok());
    let half = [0u8; 6];
    // SAFETY: refused before anything is touched.
    let cut = unsafe { op(Predefined::Sum).accumulate(&half, std::ptr::null_mut(), 1, 0, &three) };
    assert_eq!(cut.unwrap_err().class, Class::Type);
}

#[test]
fn a_users_operation_sees_a_handle_even_of_a_datatype_that_was_freed() {
    static SEEN: AtomicU32 = AtomicU32::new(0);
    let op = Op::user(
        false,
        Box::new(|_, _, count, handle| {
            assert_eq!((Datatype::of(handle).unwrap().size(), count), (12, 5));
            SEEN.store(handle, Ordering::Relaxed);
        }),
    );
    assert!(!op.is_commutative());
    let three = Datatype::contiguous(3, &Datatype::of(INT).unwrap()).unwrap();
    let handle = three.put().unwrap();
    // SAFETY: the function touches nothing.
    unsafe { op.apply(std::ptr::null(), std::ptr::null_mut(), 5, &three).unwrap() };
    assert_eq!(SEEN.load(Ordering::Relaxed), handle);
    Datatype::free(handle).unwrap();
    // SAFETY: as above.
    unsafe { op.apply(std::ptr::null(), std::ptr::null_mut(), 5, &three).unwrap() };
    assert!(Datatype::of(SEEN.load(Ordering::Relaxed)).is_err(), "it lasts as long as the call");
    let handle = op.put().unwrap();
    Op::free(handle).unwrap();
    assert_eq!(Op::of(handle).unwrap_err().class, Class::Op);
    assert_eq!(Op::free(0x21).unwrap_err().class, Class::Op);
}
