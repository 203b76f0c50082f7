//! Absurd arguments: an error, never a panic, an endless walk or memory without bound.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use phalanx_mpi::error::{Class, Result};
use phalanx_mpi::objects::datatype::{DEFAULT_ARGUMENT, Datatype, Distribution, Order};
use std::sync::Arc;

fn int() -> Arc<Datatype> {
    Datatype::of(0x209).unwrap()
}

fn class<T>(result: Result<T>) -> Option<Class> {
    result.err().map(|error| error.class)
}

#[test]
fn negative_numbers_are_refused() {
    let int = int();
    assert_eq!(class(Datatype::contiguous(-1, &int)), Some(Class::Count));
    assert_eq!(class(Datatype::vector(2, -1, 3, &int)), Some(Class::Arg));
    assert_eq!(class(Datatype::indexed(&[1, i64::MIN], &[0, 1], &int)), Some(Class::Arg));
    assert_eq!(class(Datatype::subarray(&[4], &[5], &[0], Order::C, &int)), Some(Class::Arg));
    assert_eq!(class(Datatype::subarray(&[4], &[2], &[3], Order::C, &int)), Some(Class::Arg));
    assert_eq!(class(Datatype::subarray(&[], &[], &[], Order::C, &int)), Some(Class::Arg));
    assert_eq!(class(Datatype::f90_real(-32766, -32766)), Some(Class::Arg));
    assert_eq!(class(Datatype::f90_integer(i32::MIN)), Some(Class::Arg));
}

#[test]
fn what_leaves_the_address_space_is_refused() {
    let int = int();
    let most = isize::MAX;
    assert_eq!(class(Datatype::contiguous(i64::MAX, &int)), Some(Class::Arg));
    assert_eq!(class(Datatype::vector(i64::MAX, 1, i64::MAX, &int)), Some(Class::Arg));
    assert_eq!(class(Datatype::hvector(3, 1, most, &int)), Some(Class::Arg));
    assert_eq!(class(Datatype::hindexed(&[1, 1], &[most - 8, isize::MIN], &int)), Some(Class::Arg));
    assert_eq!(class(Datatype::hindexed(&[i64::MAX, i64::MAX], &[0, 0], &int)), Some(Class::Arg));
    assert_eq!(class(Datatype::structure(&[1, 1], &[most, 0], &[int.clone(), int.clone()])), Some(Class::Arg));
    assert_eq!(class(Datatype::resized(&int, most, most)), Some(Class::Arg));
    assert_eq!(class(Datatype::subarray(&[i64::MAX; 2], &[1; 2], &[0; 2], Order::C, &int)), Some(Class::Arg));
    let half = Datatype::contiguous(1 << 60, &int).unwrap();
    assert_eq!(class(Datatype::hindexed(&[1, 1], &[0, 0], &half)), Some(Class::Arg));
    assert_eq!(half.packed_size(2), None);
    // At the very end of it there is room for one number.
    let last = Datatype::hindexed(&[1], &[most - 7], &int).unwrap();
    assert_eq!((last.lower_bound(), last.extent()), (most - 7, 4));
}

#[test]
fn grids_without_a_meaning_are_refused() {
    let grid = |how, argument, processes| [Distribution { how, argument, processes }];
    let darray = |size, rank, gsize: i64, grid: &[Distribution]| {
        class(Datatype::darray(size, rank, &[gsize], grid, Order::C, &int()))
    };
    assert_eq!(darray(4, 4, 10, &grid(17, DEFAULT_ARGUMENT, 4)), Some(Class::Arg));
    assert_eq!(darray(4, 0, 10, &grid(17, DEFAULT_ARGUMENT, 0)), Some(Class::Arg));
    assert_eq!(darray(4, 0, 10, &grid(17, 2, 4)), Some(Class::Arg));
    assert_eq!(darray(4, 0, 10, &grid(18, -5, 4)), Some(Class::Arg));
    assert_eq!(darray(4, 0, 10, &grid(99, 1, 4)), Some(Class::Arg));
    assert_eq!(darray(4, 0, 10, &grid(16, 1, 4)), Some(Class::Arg));
    assert_eq!(darray(i64::MAX, 3, i64::MAX, &grid(18, i64::MAX, i64::MAX)), Some(Class::Arg));
    assert_eq!(darray(1 << 40, 3, 1 << 40, &grid(18, 1 << 39, 1 << 40)), None);
}

#[test]
fn datatypes_are_not_nested_without_end() {
    let deeper = |inner: &Arc<Datatype>| Datatype::structure(&[1, 1], &[0, 8], &[inner.clone(), int()]);
    let (mut datatype, mut depth) = (int(), 0);
    let refused = loop {
        match deeper(&datatype) {
            Ok(next) => (datatype, depth) = (next, depth + 1),
            Err(error) => break error,
        }
    };
    assert_eq!((refused.class, depth), (Class::Type, 999));
    let bytes = datatype.size();
    assert_eq!((bytes, datatype.elements(bytes - 4)), (4000, Some(999)));
    let mut external = vec![0; bytes];
    let numbers = vec![7u8; 4096];
    // SAFETY: the numbers are within sixteen bytes.
    unsafe { datatype.pack_external(numbers.as_ptr(), 1, &mut external).unwrap() };
    assert!(external.iter().all(|byte| *byte == 7));
}

#[test]
fn what_doubles_at_each_level_is_never_walked_whole() {
    let mut datatype = int();
    for _ in 0..50 {
        let extent = datatype.extent();
        datatype = Datatype::structure(&[1, 1], &[0, extent + 4], &[datatype.clone(), datatype]).unwrap();
    }
    assert_eq!(datatype.size(), 4 << 50);
    assert_eq!(datatype.external_size(1).unwrap(), 4 << 50);
    assert_eq!(datatype.elements((4 << 50) - 4), Some((1 << 50) - 1));
    assert_eq!(datatype.signature(1), Datatype::contiguous(1 << 50, &int()).unwrap().signature(1));
    let mut runs = 0;
    datatype.each_run(1, (4 << 50) - 10, 8, |_, length| runs += length);
    assert_eq!(runs, 8);
}

#[test]
fn a_million_blocks_are_one_loop_and_are_entered_anywhere() {
    let places: Vec<i64> = (0..1 << 20).map(|index| 3 * index).collect();
    let blocks = Datatype::indexed_block(1, &places, &int()).unwrap();
    let vector = Datatype::vector(1 << 20, 1, 3, &int()).unwrap();
    assert_eq!(format!("{blocks:?}").matches("stride").count(), format!("{vector:?}").matches("stride").count());
    let many = Datatype::contiguous(1 << 20, &vector).unwrap();
    let mut seen = Vec::new();
    many.each_run(3, 5 << 40, 12, |at, length| seen.push((at, length)));
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[1].0 - seen[0].0, 12);
    let size = |count: i64| Datatype::vector(count, 1, 2, &int()).unwrap().packed_size(1 << 20).unwrap();
    assert_eq!(size(1 << 31), 4 << 51);
}

#[test]
fn handles_of_freed_and_foreign_things_are_no_datatypes() {
    let handle = Datatype::contiguous(3, &int()).unwrap().put().unwrap();
    let outer = Datatype::contiguous(2, &Datatype::of(handle).unwrap()).unwrap();
    Datatype::free(handle).unwrap();
    assert_eq!(class(Datatype::of(handle)), Some(Class::Type));
    assert_eq!(class(Datatype::free(handle)), Some(Class::Type));
    assert_eq!(class(Datatype::free(0x209)), Some(Class::Type));
    assert_eq!(class(Datatype::of(0x200)), Some(Class::Type));
    assert_eq!(class(Datatype::of(u32::MAX)), Some(Class::Type));
    // What used it goes on.
    assert_eq!(outer.contents().types[0].size(), 12);
    let again = outer.contents().types[0].put().unwrap();
    assert_eq!(Datatype::of(again).unwrap().extent(), 12);
}

#[test]
fn buffers_that_are_no_memory_are_noticed() {
    let int = int();
    let check = |address: usize, count| class(int.message(std::ptr::without_provenance(address), count));
    assert_eq!(check(0, 1), Some(Class::Buffer));
    assert_eq!(check(1, 1), Some(Class::Buffer));
    assert_eq!(check(usize::MAX, 1), Some(Class::Buffer));
    assert_eq!((check(0, 0), check(1 << 20, 1), check(1 << 20, usize::MAX)), (None, None, Some(Class::Count)));
    let absolute = Datatype::hindexed(&[1], &[1 << 20], &int).unwrap();
    assert_eq!(class(absolute.message(std::ptr::null(), 1)), Some(Class::Type), "not committed");
    absolute.commit();
    assert_eq!(class(absolute.message(std::ptr::null(), 1)), None);
}
