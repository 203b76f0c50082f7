//! Datatypes as they lie in files in "external32" (MPI 5.0, 14.5.1 and 14.5.2).

use super::contents::Combiner;
use super::{Datatype, Distribution, Order};
use crate::constants::MPI_BYTE;
use crate::error::{Class, Result, fail};
use std::collections::HashMap;
use std::sync::Arc;

impl Datatype {
    /// The same with the sizes that numbers have in "external32", where there are no gaps between them. What counts in
    /// elements counts those; displacements in bytes stay as they are, since the standard has them be given as in the file.
    pub fn in_external(self: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        Translation::default().of(self)
    }
}

/// What was translated already: a datatype may be in many others.
#[derive(Default)]
struct Translation(HashMap<*const Datatype, Arc<Datatype>>);

impl Translation {
    fn of(&mut self, datatype: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        if let Some(known) = self.0.get(&Arc::as_ptr(datatype)) {
            return Ok(known.clone());
        }
        let types = datatype.contents.types.iter().map(|inner| self.of(inner)).collect::<Result<Vec<_>>>()?;
        let made = made_of(datatype, &types)?;
        self.0.insert(Arc::as_ptr(datatype), made.clone());
        Ok(made)
    }
}

/// By the same call, of other datatypes.
fn made_of(datatype: &Datatype, types: &[Arc<Datatype>]) -> Result<Arc<Datatype>> {
    let contents = &datatype.contents;
    let (i, a) = contents.arguments();
    let first = i.first().map_or(0, |first| *first as usize);
    match (contents.combiner, types) {
        (combiner, _) if combiner.is_predefined() => {
            Datatype::contiguous(datatype.external_size(1)? as i64, &Datatype::of(MPI_BYTE)?)
        }
        (Combiner::Struct, types) => Datatype::structure(&i[1..], &a, types),
        (Combiner::Dup, [inner]) => Ok(inner.clone()),
        (Combiner::Contiguous, [inner]) => Datatype::contiguous(i[0], inner),
        (Combiner::Vector, [inner]) => Datatype::vector(i[0], i[1], i[2], inner),
        (Combiner::Hvector, [inner]) => Datatype::hvector(i[0], i[1], a[0], inner),
        (Combiner::Indexed, [inner]) => Datatype::indexed(&i[1..=first], &i[1 + first..], inner),
        (Combiner::Hindexed, [inner]) => Datatype::hindexed(&i[1..], &a, inner),
        (Combiner::IndexedBlock, [inner]) => Datatype::indexed_block(i[1], &i[2..], inner),
        (Combiner::HindexedBlock, [inner]) => Datatype::hindexed_block(i[1], &a, inner),
        (Combiner::Resized, [inner]) => Datatype::resized(inner, a[0], a[1]),
        (Combiner::Subarray, [inner]) => {
            let column = |number: usize| &i[1 + number * first..][..first];
            Datatype::subarray(column(0), column(1), column(2), Order::of(i[i.len() - 1] as i32)?, inner)
        }
        (Combiner::Darray, [inner]) => {
            let count = i[2] as usize;
            let column = |number: usize| &i[3 + number * count..][..count];
            let distribution = |at: usize| Distribution {
                how: column(1)[at] as i32,
                argument: column(2)[at],
                processes: column(3)[at],
            };
            let grid: Vec<Distribution> = (0..count).map(distribution).collect();
            Datatype::darray(i[0], i[1], column(0), &grid, Order::of(i[i.len() - 1] as i32)?, inner)
        }
        (combiner, _) => fail(Class::Intern, format!("a datatype of {combiner:?} is not known in files")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: u32 = 0x209;
    const LONG: u32 = 0x20a;
    const DOUBLE_INT: u32 = 0x229;

    fn of(handle: u32) -> Arc<Datatype> {
        Datatype::of(handle).expect("predefined")
    }

    fn runs(datatype: &Datatype) -> Vec<(isize, usize)> {
        let mut runs = Vec::new();
        datatype.each_run(1, 0, usize::MAX, |at, length| runs.push((at, length)));
        runs
    }

    fn external(datatype: Result<Arc<Datatype>>) -> Arc<Datatype> {
        datatype.expect("it is made").in_external().expect("it is translated")
    }

    #[test]
    fn what_counts_elements_counts_those_of_files() {
        let long = external(Ok(of(LONG)));
        assert_eq!((long.size(), long.extent()), (4, 4));
        let pair = external(Ok(of(DOUBLE_INT)));
        assert_eq!((pair.size(), pair.extent()), (12, 12));
        let vector = external(Datatype::vector(2, 1, 3, &of(LONG)));
        assert_eq!((runs(&vector), vector.extent()), (vec![(0, 4), (12, 4)], 16));
        assert_eq!(runs(&external(Datatype::indexed(&[1, 2], &[1, 4], &of(LONG)))), [(4, 4), (16, 8)]);
        assert_eq!(runs(&external(Datatype::indexed_block(2, &[0, 3], &of(LONG)))), [(0, 8), (12, 8)]);
        let part = external(Datatype::subarray(&[2, 3], &[2, 1], &[0, 1], Order::C, &of(LONG)));
        assert_eq!((runs(&part), part.extent()), (vec![(4, 4), (16, 4)], 24));
        let block = Distribution { how: crate::constants::MPI_DISTRIBUTE_BLOCK, argument: -1, processes: 2 };
        let share = external(Datatype::darray(2, 1, &[4], &[block], Order::Fortran, &of(LONG)));
        assert_eq!((runs(&share), share.extent()), (vec![(8, 8)], 16));
    }

    #[test]
    fn displacements_in_bytes_are_those_of_files() {
        assert_eq!(runs(&external(Datatype::hvector(2, 1, 5, &of(LONG)))), [(0, 4), (5, 4)]);
        assert_eq!(runs(&external(Datatype::hindexed(&[1, 1], &[3, 9], &of(LONG)))), [(3, 4), (9, 4)]);
        assert_eq!(runs(&external(Datatype::hindexed_block(1, &[3, 9], &of(LONG)))), [(3, 4), (9, 4)]);
        let both = external(Datatype::structure(&[1, 1], &[0, 6], &[of(LONG), of(DOUBLE_INT)]));
        assert_eq!((runs(&both), both.extent()), (vec![(0, 4), (6, 12)], 18));
        let spread = external(Datatype::resized(&of(LONG), 0, 10));
        assert_eq!((spread.size(), spread.extent()), (4, 10));
    }

    #[test]
    fn calls_for_large_counts_are_translated_alike() {
        let plain = |datatype: Result<Arc<Datatype>>| runs(&external(datatype));
        let large = |datatype: Result<Arc<Datatype>>| runs(&external(datatype.map(Datatype::large)));
        let makers: [fn() -> Result<Arc<Datatype>>; 7] = [
            || Datatype::vector(2, 1, 3, &of(LONG)),
            || Datatype::hvector(2, 1, 5, &of(LONG)),
            || Datatype::hindexed(&[1, 1], &[3, 9], &of(INT)),
            || Datatype::structure(&[1, 1], &[0, 8], &[of(LONG), of(INT)]),
            || Datatype::subarray(&[2, 3], &[2, 1], &[0, 1], Order::C, &of(LONG)),
            || Datatype::hindexed_block(1, &[3, 9], &of(LONG)),
            || Datatype::resized(&of(LONG), 0, 10),
        ];
        makers.into_iter().for_each(|make| assert_eq!(plain(make()), large(make())));
    }

    /// Each level holds the one below twice: walked anew each time that would be 2^900 calls.
    #[test]
    fn what_is_in_many_others_is_translated_once() {
        let empty = Datatype::contiguous(0, &of(LONG)).expect("nothing");
        let twice = |inner: Arc<Datatype>, _| Datatype::structure(&[1, 1], &[0, 0], &[inner.clone(), inner]);
        let deep = (0..900).try_fold(empty, twice).expect("it is made");
        assert_eq!(external(Ok(deep)).size(), 0);
    }
}
