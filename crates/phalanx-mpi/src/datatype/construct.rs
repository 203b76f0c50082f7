//! Making datatypes of datatypes (MPI 5.0, 4.1.2 and 4.1.7).

use super::Datatype;
use super::contents::{Combiner, Contents};
use super::map::Map;
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

    fn derived(map: Map, contents: Contents) -> Result<Arc<Datatype>> {
        let datatype = Datatype::made(map, contents);
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
        let map = inner.map.repeated(number("count", count)?, inner.extent)?;
        Datatype::derived(map, Contents::new(Combiner::Contiguous, &[inner]).integers([count]))
    }
}

/// A count of the caller's.
fn number(name: &str, value: i64) -> Result<usize> {
    usize::try_from(value).or_else(|_| fail(Class::Count, format!("{name} is {value}, which is negative")))
}
