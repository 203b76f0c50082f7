//! Datatypes against a naive reading of the standard: a list of (offset, length) for every basic element.

#![allow(clippy::unwrap_used)] // a test that panics has failed

use phalanx_mpi::objects::datatype::{DEFAULT_ARGUMENT, Datatype, Distribution, Kind, Order};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

/// A datatype to be made.
#[derive(Debug, Clone)]
enum Spec {
    Basic(u32),
    Dup(Box<Spec>),
    Contiguous(i64, Box<Spec>),
    Vector(i64, i64, i64, Box<Spec>),
    Hvector(i64, i64, isize, Box<Spec>),
    Indexed(Vec<(i64, i64)>, Box<Spec>),
    Hindexed(Vec<(i64, isize)>, Box<Spec>),
    IndexedBlock(i64, Vec<i64>, Box<Spec>),
    HindexedBlock(i64, Vec<isize>, Box<Spec>),
    Struct(Vec<(i64, isize, Spec)>),
    /// Size, part, start.
    Subarray(Vec<(i64, i64, i64)>, bool, Box<Spec>),
    /// Size, how, argument, processes, and a number that becomes a rank.
    Darray(Vec<(i64, i32, i64, i64)>, i64, bool, Box<Spec>),
    Resized(isize, isize, Box<Spec>),
}

/// The type map as the standard writes it.
#[derive(Debug, Clone, Default)]
struct Naive {
    entries: Vec<(isize, usize)>,
    /// From where to where the datatypes inside reach, with their padding (which the standard counts once, and Open MPI
    /// at each level).
    reaches: Vec<(isize, isize)>,
    lower_marks: Vec<isize>,
    upper_marks: Vec<isize>,
    align: usize,
}

impl Naive {
    fn true_bounds(&self) -> (isize, isize) {
        let low = self.entries.iter().map(|(at, _)| *at).min().unwrap_or(0);
        (low, self.entries.iter().map(|(at, length)| at + *length as isize).max().unwrap_or(0))
    }

    fn lower_bound(&self) -> isize {
        let low = self.reaches.iter().map(|reach| reach.0).min().unwrap_or(0);
        self.lower_marks.iter().copied().min().unwrap_or(low)
    }

    fn extent(&self) -> isize {
        let low = self.reaches.iter().map(|reach| reach.0).min().unwrap_or(0);
        let high = self.reaches.iter().map(|reach| reach.1).max().unwrap_or(0);
        let padded = low + ((high - low) as usize).next_multiple_of(self.align.max(1)) as isize;
        self.upper_marks.iter().copied().max().unwrap_or(padded) - self.lower_bound()
    }

    fn at(&self, by: isize) -> Naive {
        Naive {
            entries: self.entries.iter().map(|(at, length)| (at + by, *length)).collect(),
            reaches: self.reaches.iter().map(|(low, high)| (low + by, high + by)).collect(),
            lower_marks: self.lower_marks.iter().map(|at| at + by).collect(),
            upper_marks: self.upper_marks.iter().map(|at| at + by).collect(),
            align: self.align,
        }
    }

    fn then(&mut self, other: Naive) {
        self.entries.extend(other.entries);
        self.reaches.extend(other.reaches);
        self.lower_marks.extend(other.lower_marks);
        self.upper_marks.extend(other.upper_marks);
        self.align = self.align.max(other.align);
    }

    /// Blocks of elements in a row.
    fn blocks(&self, blocks: impl IntoIterator<Item = (i64, isize)>) -> Naive {
        let mut all = Naive::default();
        for (length, displacement) in blocks {
            (0..length as isize).for_each(|index| all.then(self.at(displacement + index * self.extent())));
        }
        all
    }

    fn marked(self, low: isize, extent: isize) -> Naive {
        Naive { lower_marks: vec![low], upper_marks: vec![low + extent], ..self }
    }

    /// Elements of an array, those that `mine(dimension, index)` has, in the order of memory.
    fn array(&self, sizes: &[i64], c_order: bool, mine: &dyn Fn(usize, i64) -> bool) -> Naive {
        let total: i64 = sizes.iter().product();
        let dimensions: Vec<usize> =
            if c_order { (0..sizes.len()).rev().collect() } else { (0..sizes.len()).collect() };
        let has = |place: &i64| {
            let mut rest = *place;
            dimensions.iter().all(|&dimension| {
                let index = rest % sizes[dimension];
                rest /= sizes[dimension];
                mine(dimension, index)
            })
        };
        let blocks = (0..total).filter(has).map(|place| (1, place as isize * self.extent()));
        self.blocks(blocks).marked(0, total as isize * self.extent())
    }
}

/// Both readings of a spec.
fn made(spec: &Spec) -> (Naive, Arc<Datatype>) {
    let (mut naive, datatype) = unpadded(spec);
    naive.reaches = vec![(naive.lower_bound(), naive.lower_bound() + naive.extent())];
    (naive, datatype)
}

fn unpadded(spec: &Spec) -> (Naive, Arc<Datatype>) {
    match spec {
        Spec::Basic(handle) => {
            let kind = Kind::of(*handle).unwrap();
            let first = kind.numbers().next().unwrap().size();
            let entries = match kind.leaves() {
                1 => vec![(0, kind.size())],
                _ => vec![(0, first), (kind.second() as isize, kind.size() - first)],
            };
            let reaches = entries.iter().map(|(at, length)| (*at, at + *length as isize)).collect();
            (Naive { entries, reaches, align: kind.align(), ..Naive::default() }, Datatype::of(*handle).unwrap())
        }
        Spec::Dup(inner) => {
            let (naive, inner) = made(inner);
            (naive, Datatype::dup(&inner).unwrap())
        }
        Spec::Contiguous(count, inner) => {
            let (naive, inner) = made(inner);
            (naive.blocks([(*count, 0)]), Datatype::contiguous(*count, &inner).unwrap())
        }
        Spec::Vector(count, length, stride, inner) => {
            let (naive, inner) = made(inner);
            let blocks = (0..*count).map(|index| (*length, (index * stride) as isize * naive.extent()));
            (naive.blocks(blocks), Datatype::vector(*count, *length, *stride, &inner).unwrap())
        }
        Spec::Hvector(count, length, stride, inner) => {
            let (naive, inner) = made(inner);
            let blocks = (0..*count).map(|index| (*length, index as isize * stride));
            (naive.blocks(blocks), Datatype::hvector(*count, *length, *stride, &inner).unwrap())
        }
        Spec::Indexed(blocks, inner) => {
            let (naive, inner) = made(inner);
            let (lengths, places): (Vec<i64>, Vec<i64>) = blocks.iter().copied().unzip();
            let bytes = blocks.iter().map(|(length, place)| (*length, *place as isize * naive.extent()));
            (naive.blocks(bytes), Datatype::indexed(&lengths, &places, &inner).unwrap())
        }
        Spec::Hindexed(blocks, inner) => {
            let (naive, inner) = made(inner);
            let (lengths, places): (Vec<i64>, Vec<isize>) = blocks.iter().copied().unzip();
            (naive.blocks(blocks.clone()), Datatype::hindexed(&lengths, &places, &inner).unwrap())
        }
        Spec::IndexedBlock(length, places, inner) => {
            let (naive, inner) = made(inner);
            let blocks = places.iter().map(|place| (*length, *place as isize * naive.extent()));
            (naive.blocks(blocks), Datatype::indexed_block(*length, places, &inner).unwrap())
        }
        Spec::HindexedBlock(length, places, inner) => {
            let (naive, inner) = made(inner);
            let blocks = places.iter().map(|place| (*length, *place));
            (naive.blocks(blocks), Datatype::hindexed_block(*length, places, &inner).unwrap())
        }
        Spec::Struct(blocks) => {
            let (mut all, mut types) = (Naive::default(), Vec::new());
            for (length, place, inner) in blocks {
                let (naive, inner) = made(inner);
                all.then(naive.blocks([(*length, *place)]));
                types.push(inner);
            }
            let lengths: Vec<i64> = blocks.iter().map(|(length, ..)| *length).collect();
            let places: Vec<isize> = blocks.iter().map(|(_, place, _)| *place).collect();
            (all, Datatype::structure(&lengths, &places, &types).unwrap())
        }
        Spec::Subarray(dimensions, c_order, inner) => {
            let (naive, inner) = made(inner);
            let column = |of: fn(&(i64, i64, i64)) -> i64| dimensions.iter().map(of).collect::<Vec<_>>();
            let (sizes, parts, starts) = (column(|it| it.0), column(|it| it.1), column(|it| it.2));
            let mine = |dimension: usize, index: i64| {
                (starts[dimension]..starts[dimension] + parts[dimension]).contains(&index)
            };
            let order = if *c_order { Order::C } else { Order::Fortran };
            let datatype = Datatype::subarray(&sizes, &parts, &starts, order, &inner).unwrap();
            (naive.array(&sizes, *c_order, &mine), datatype)
        }
        Spec::Darray(dimensions, number, c_order, inner) => {
            let (naive, inner) = made(inner);
            let sizes: Vec<i64> = dimensions.iter().map(|it| it.0).collect();
            let processes: i64 = dimensions.iter().map(|it| it.3).product();
            let rank = number % processes;
            let place = |dimension: usize| {
                let below: i64 = dimensions[dimension + 1..].iter().map(|it| it.3).product();
                rank / below % dimensions[dimension].3
            };
            let mine = |dimension: usize, index: i64| {
                let (size, how, argument, processes) = dimensions[dimension];
                let block = match (how, argument) {
                    (17, DEFAULT_ARGUMENT) => (size + processes - 1) / processes,
                    (18, DEFAULT_ARGUMENT) => 1,
                    (16, _) => size,
                    _ => argument,
                };
                index / block % processes == place(dimension)
            };
            let distributions: Vec<Distribution> = dimensions
                .iter()
                .map(|&(_, how, argument, processes)| Distribution { how, argument, processes })
                .collect();
            let order = if *c_order { Order::C } else { Order::Fortran };
            let datatype = Datatype::darray(processes, rank, &sizes, &distributions, order, &inner).unwrap();
            (naive.array(&sizes, *c_order, &mine), datatype)
        }
        Spec::Resized(low, extent, inner) => {
            let (naive, inner) = made(inner);
            (naive.marked(*low, *extent), Datatype::resized(&inner, *low, *extent).unwrap())
        }
    }
}

/// Displacements as programs have them: anywhere, or equally far apart.
fn places(most: i64) -> impl Strategy<Value = Vec<i64>> {
    let even = (-most..most, -most / 3..most / 3, 0..6i64);
    prop_oneof![
        vec(-most..most, 0..5),
        even.prop_map(|(first, step, count)| (0..count).map(|index| first + index * step).collect())
    ]
}

/// Block lengths and displacements.
fn blocks(most: i64) -> impl Strategy<Value = Vec<(i64, i64)>> {
    (places(most), vec(0..3i64, 5), any::<bool>()).prop_map(|(places, lengths, same)| {
        let length = |index: usize| lengths[if same { 0 } else { index % 5 }];
        places.into_iter().enumerate().map(|(index, place)| (length(index), place)).collect()
    })
}

fn spec() -> impl Strategy<Value = Spec> {
    // Characters, integers, doubles, complex and logical numbers, pairs with and without gaps, a long double.
    let handles = [0x243, 0x208, 0x209, 0x214, 0x216, 0x238, 0x229, 0x22b, 0x22c, 0x22d, 0x220];
    let basic = prop::sample::select(handles.to_vec()).prop_map(Spec::Basic);
    basic.prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new).boxed();
        let dimension = (1..4i64)
            .prop_flat_map(|size| (Just(size), 1..=size))
            .prop_flat_map(|(size, part)| (Just(size), Just(part), 0..=size - part));
        let distribution = (1..6i64, 1..4i64, 1..4i64).prop_flat_map(|(size, block, processes)| {
            let enough = (size + processes - 1) / processes;
            prop_oneof![
                Just((size, 16, DEFAULT_ARGUMENT, 1)),
                Just((size, 17, DEFAULT_ARGUMENT, processes)),
                Just((size, 17, enough + block - 1, processes)),
                Just((size, 18, DEFAULT_ARGUMENT, processes)),
                Just((size, 18, block, processes)),
            ]
        });
        prop_oneof![
            boxed.clone().prop_map(Spec::Dup),
            (0..4i64, boxed.clone()).prop_map(|(count, inner)| Spec::Contiguous(count, inner)),
            (0..4i64, 0..3i64, -4..5i64, boxed.clone())
                .prop_map(|(count, length, stride, inner)| { Spec::Vector(count, length, stride, inner) }),
            (0..4i64, 0..3i64, -40..40isize, boxed.clone())
                .prop_map(|(count, length, stride, inner)| { Spec::Hvector(count, length, stride, inner) }),
            (blocks(5), boxed.clone()).prop_map(|(blocks, inner)| Spec::Indexed(blocks, inner)),
            (blocks(40), boxed.clone()).prop_map(|(blocks, inner)| {
                Spec::Hindexed(blocks.into_iter().map(|(length, place)| (length, place as isize)).collect(), inner)
            }),
            (0..3i64, places(5), boxed.clone())
                .prop_map(|(length, places, inner)| Spec::IndexedBlock(length, places, inner)),
            (0..3i64, places(40), boxed.clone()).prop_map(|(length, places, inner)| {
                Spec::HindexedBlock(length, places.into_iter().map(|place| place as isize).collect(), inner)
            }),
            vec((0..3i64, -40..40isize, inner), 0..4).prop_map(Spec::Struct),
            (vec(dimension, 1..4), any::<bool>(), boxed.clone())
                .prop_map(|(dimensions, order, inner)| Spec::Subarray(dimensions, order, inner)),
            (vec(distribution, 1..4), 0..1000i64, any::<bool>(), boxed.clone())
                .prop_map(|(dimensions, rank, order, inner)| Spec::Darray(dimensions, rank, order, inner)),
            (-20..20isize, -20..60isize, boxed).prop_map(|(low, extent, inner)| Spec::Resized(low, extent, inner)),
        ]
    })
}

/// The bytes of `count` elements, by their offsets, in packed order.
fn offsets(naive: &Naive, count: usize) -> Vec<isize> {
    let element = |index: usize| naive.at(index as isize * naive.extent()).entries;
    (0..count).flat_map(element).flat_map(|(at, length)| at..at + length as isize).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn bounds_are_the_standards(spec in spec()) {
        let (naive, datatype) = made(&spec);
        let (low, high) = naive.true_bounds();
        prop_assert_eq!(datatype.size(), naive.entries.iter().map(|(_, length)| length).sum::<usize>());
        prop_assert_eq!((datatype.lower_bound(), datatype.extent()), (naive.lower_bound(), naive.extent()));
        prop_assert_eq!((datatype.true_lower_bound(), datatype.true_extent()), (low, high - low));
    }

    #[test]
    fn bytes_are_packed_and_unpacked_in_any_pieces(spec in spec(), count in 0..4usize, cuts in vec(1..50usize, 1..8)) {
        let (naive, datatype) = made(&spec);
        let offsets = offsets(&naive, count);
        prop_assume!(offsets.len() < 100_000);
        let low = offsets.iter().copied().min().unwrap_or(0);
        let span = (offsets.iter().copied().max().unwrap_or(0) - low + 1) as usize;
        let memory: Vec<u8> = (0..span).map(|index| (index * 7 + index / 251) as u8).collect();
        let expected: Vec<u8> = offsets.iter().map(|at| memory[(at - low) as usize]).collect();
        let (mut packed, mut back, mut untouched) = (vec![0; expected.len()], vec![0xee; span], vec![0xee; span]);
        offsets.iter().for_each(|at| untouched[(at - low) as usize] = memory[(at - low) as usize]);
        let (buffer, target) = (memory.as_ptr().wrapping_offset(-low), back.as_mut_ptr().wrapping_offset(-low));
        let mut position = 0;
        for cut in cuts.iter().cycle() {
            let end = expected.len().min(position + cut);
            // SAFETY: both buffers hold all offsets.
            unsafe {
                let done = datatype.pack(buffer, count, position, &mut packed[position..end]);
                prop_assert_eq!(done, end - position);
                prop_assert_eq!(datatype.unpack(target, count, position, &packed[position..end]), done);
            }
            position = end;
            if position == expected.len() {
                break;
            }
        }
        prop_assert_eq!(packed, expected);
        prop_assert_eq!(back, untouched);
    }

    #[test]
    fn basic_elements_are_counted_to_the_byte(spec in spec()) {
        let (naive, datatype) = made(&spec);
        prop_assume!(naive.entries.len() < 1000);
        let mut ends = std::collections::HashMap::from([(0, 0)]);
        let mut bytes = 0;
        for (index, (_, length)) in naive.entries.iter().chain(&naive.entries).enumerate() {
            bytes += length;
            ends.insert(bytes, index + 1);
        }
        for length in 0..=bytes {
            let elements = ends.get(&length).copied();
            prop_assert_eq!(datatype.elements(length), elements, "{} bytes", length);
            prop_assert!(elements.is_none_or(|elements| datatype.bytes_of(elements) == Some(length)));
        }
    }

    #[test]
    fn runs_cover_what_is_asked_for(spec in spec(), count in 0..3usize, skip in 0..100usize, take in 0..100usize) {
        let (naive, datatype) = made(&spec);
        let mut seen = Vec::new();
        datatype.each_run(count, skip, take, |at, length| seen.extend(at..at + length as isize));
        let expected: Vec<isize> = offsets(&naive, count).into_iter().skip(skip).take(take).collect();
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn the_portable_form_gives_the_numbers_back(spec in spec(), count in 0..3usize) {
        let (naive, datatype) = made(&spec);
        let offsets = offsets(&naive, count);
        prop_assume!(offsets.len() < 10_000);
        let low = offsets.iter().copied().min().unwrap_or(0);
        let span = (offsets.iter().copied().max().unwrap_or(0) - low + 1) as usize;
        // Zero is a number of every kind; that the bytes have their order is tested where the numbers are.
        let memory = vec![0; span];
        let mut back = vec![0xee; span];
        let mut untouched = back.clone();
        offsets.iter().for_each(|at| untouched[(at - low) as usize] = 0);
        let mut external = vec![0xaa; datatype.external_size(count).unwrap()];
        // SAFETY: both buffers hold all offsets.
        unsafe {
            datatype.pack_external(memory.as_ptr().wrapping_offset(-low), count, &mut external).unwrap();
            datatype.unpack_external(back.as_mut_ptr().wrapping_offset(-low), count, &external).unwrap();
        }
        prop_assert!(external.iter().all(|byte| *byte == 0));
        prop_assert_eq!(back, untouched);
    }
}
