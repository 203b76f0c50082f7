//! Making datatypes of datatypes (MPI 5.0, 4.1.2 and 4.1.7).

use super::Datatype;
use super::contents::{Combiner, Contents};
use super::map::{Map, too_large};
use crate::error::{Class, Result, fail};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// How deeply datatypes may be nested: they are walked, and dropped, by functions that call themselves.
pub const DEEPEST: usize = 1000;

impl Datatype {
    pub(super) fn made(map: Map, contents: Contents) -> Datatype {
        let span = map.bounds.span();
        Datatype {
            lower_bound: span.map_or(0, |span| span.low),
            extent: map.extent(),
            depth: 1 + contents.types.iter().map(|datatype| datatype.depth).max().unwrap_or(0),
            map,
            contents,
            committed: AtomicBool::new(false),
            name: Mutex::new(None),
            handle: AtomicU32::new(0),
        }
    }

    pub(super) fn derived(map: Map, contents: Contents) -> Result<Arc<Datatype>> {
        let bounds = map.bounds.padded().ok_or_else(too_large)?;
        let datatype = Datatype::made(Map { bounds, ..map }, contents);
        match datatype.depth > DEEPEST {
            true => fail(Class::Type, format!("datatypes are nested more than {DEEPEST} deep")),
            false => Ok(Arc::new(datatype)),
        }
    }

    /// The same again; committed when the original is.
    pub fn dup(original: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let datatype = Datatype::derived(original.map.clone(), Contents::new(Combiner::Dup, &[original]))?;
        datatype.committed.store(original.committed.load(Ordering::Relaxed), Ordering::Relaxed);
        Ok(datatype)
    }

    /// `count` elements in a row.
    pub fn contiguous(count: i64, inner: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let map = inner.map.repeated(counted(count)?, inner.extent)?;
        Datatype::derived(map, Contents::new(Combiner::Contiguous, &[inner]).integers([count]))
    }

    /// `count` blocks, `stride` elements apart.
    pub fn vector(count: i64, blocklength: i64, stride: i64, inner: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let contents = Contents::new(Combiner::Vector, &[inner]).integers([count, blocklength, stride]);
        Datatype::strided(count, blocklength, in_bytes(stride, inner)?, inner, contents)
    }

    /// `count` blocks, `stride` bytes apart.
    pub fn hvector(count: i64, blocklength: i64, stride: isize, inner: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let contents = Contents::new(Combiner::Hvector, &[inner]).integers([count, blocklength]).addresses([stride]);
        Datatype::strided(count, blocklength, stride, inner, contents)
    }

    fn strided(
        count: i64,
        blocklength: i64,
        stride: isize,
        inner: &Arc<Datatype>,
        contents: Contents,
    ) -> Result<Arc<Datatype>> {
        let (count, length) = (counted(count)?, positive("blocklength", blocklength)?);
        Datatype::derived(inner.map.repeated(length, inner.extent)?.repeated(count, stride)?, contents)
    }

    /// Blocks of as many elements as `blocklengths` says, at displacements counted in elements.
    pub fn indexed(blocklengths: &[i64], displacements: &[i64], inner: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let contents = Contents::new(Combiner::Indexed, &[inner]).integers(listed(&[blocklengths, displacements]));
        let places =
            displacements.iter().map(|displacement| in_bytes(*displacement, inner)).collect::<Result<Vec<_>>>()?;
        Datatype::derived(inner.map.blocks(&lengths(blocklengths)?, &places)?, contents)
    }

    /// Blocks of as many elements as `blocklengths` says, at displacements in bytes.
    pub fn hindexed(blocklengths: &[i64], displacements: &[isize], inner: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let contents = Contents::new(Combiner::Hindexed, &[inner]).integers(listed(&[blocklengths]));
        let map = inner.map.blocks(&lengths(blocklengths)?, displacements)?;
        Datatype::derived(map, contents.addresses(displacements.iter().copied()))
    }

    /// Blocks of `blocklength` elements each, at displacements counted in elements.
    pub fn indexed_block(blocklength: i64, displacements: &[i64], inner: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let integers = [displacements.len() as i64, blocklength].into_iter().chain(displacements.iter().copied());
        let contents = Contents::new(Combiner::IndexedBlock, &[inner]).integers(integers);
        let places =
            displacements.iter().map(|displacement| in_bytes(*displacement, inner)).collect::<Result<Vec<_>>>()?;
        let length = positive("blocklength", blocklength)?;
        Datatype::derived(inner.map.blocks(&vec![length; places.len()], &places)?, contents)
    }

    /// Blocks of `blocklength` elements each, at displacements in bytes.
    pub fn hindexed_block(blocklength: i64, displacements: &[isize], inner: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let contents = Contents::new(Combiner::HindexedBlock, &[inner])
            .integers([displacements.len() as i64, blocklength])
            .addresses(displacements.iter().copied());
        let length = positive("blocklength", blocklength)?;
        Datatype::derived(inner.map.blocks(&vec![length; displacements.len()], displacements)?, contents)
    }

    /// Blocks of different datatypes, at displacements in bytes.
    pub fn structure(blocklengths: &[i64], displacements: &[isize], types: &[Arc<Datatype>]) -> Result<Arc<Datatype>> {
        let block = |((length, displacement), inner): ((&usize, &isize), &Arc<Datatype>)| match length {
            0 => Ok(Map::EMPTY),
            _ => inner.map.repeated(*length, inner.extent)?.shifted(*displacement),
        };
        let lengths = lengths(blocklengths)?;
        let parts = lengths.iter().zip(displacements).zip(types).map(block).collect::<Result<Vec<_>>>()?;
        let contents = Contents::new(Combiner::Struct, &types.iter().collect::<Vec<_>>())
            .integers(listed(&[blocklengths]))
            .addresses(displacements.iter().copied());
        Datatype::derived(Map::list(parts)?, contents)
    }

    /// The same data with other bounds.
    pub fn resized(inner: &Arc<Datatype>, lower_bound: isize, extent: isize) -> Result<Arc<Datatype>> {
        let map = inner.map.clone().marked(lower_bound, extent)?;
        Datatype::derived(map, Contents::new(Combiner::Resized, &[inner]).addresses([lower_bound, extent]))
    }

    /// As if made by the call for large counts: the contents tell.
    pub fn large(self: Arc<Datatype>) -> Arc<Datatype> {
        let Datatype { map, contents, committed, .. } = match Arc::try_unwrap(self) {
            Ok(datatype) => datatype,
            // In use already, by the one who made it.
            Err(shared) => return shared,
        };
        Arc::new(Datatype { committed, ..Datatype::made(map, contents.large()) })
    }
}

/// As the standard gives arrays back: how many elements the first of them has, and all of them in a row.
fn listed(arrays: &[&[i64]]) -> Vec<i64> {
    [&[arrays[0].len() as i64], arrays.concat().as_slice()].concat()
}

/// A displacement in elements.
fn in_bytes(displacement: i64, inner: &Datatype) -> Result<isize> {
    isize::try_from(displacement).ok().and_then(|count| count.checked_mul(inner.extent)).ok_or_else(too_large)
}

fn lengths(blocklengths: &[i64]) -> Result<Vec<usize>> {
    blocklengths.iter().map(|length| positive("blocklength", *length)).collect()
}

fn counted(count: i64) -> Result<usize> {
    usize::try_from(count).or_else(|_| fail(Class::Count, format!("count {count} is negative")))
}

/// Not negative, that is.
pub(super) fn positive(name: &str, value: i64) -> Result<usize> {
    usize::try_from(value).or_else(|_| fail(Class::Arg, format!("{name} {value} is negative")))
}
