//! Datatypes by precision, range and size (MPI 5.0, 19.1.9), and pairs by their parts (5.9.4).

use super::contents::{Combiner, Contents};
use super::map::Map;
use super::{Datatype, Kind};
use crate::constants::*;
use crate::error::{Class, Result, fail};
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

/// Decimal digits, decimal exponents, the types that have them.
const REALS: [(i32, i32, u32, u32); 3] = [(6, 37, 0x2d2, 0x2db), (15, 307, 0x2da, 0x2e3), (33, 4931, 0x2e2, 0x2eb)];
/// Decimal digits of the integers, as powers of ten.
const INTEGERS: [(i32, u32); 5] = [(2, 0x2c1), (4, 0x2c9), (9, 0x2d1), (18, 0x2d9), (38, 0x2e1)];

/// The same arguments give the same datatype; what they may be bounds how many there are.
type Given = HashMap<(Combiner, [i32; 2]), Arc<Datatype>>;
static GIVEN: LazyLock<Mutex<Given>> = LazyLock::new(Mutex::default);

impl Datatype {
    /// Reals with at least these digits and this decimal exponent range; each may be MPI_UNDEFINED.
    pub fn f90_real(precision: i32, range: i32) -> Result<Arc<Datatype>> {
        given(Combiner::F90Real, [precision, range], real(precision, range)?.0)
    }

    /// The same of complex numbers.
    pub fn f90_complex(precision: i32, range: i32) -> Result<Arc<Datatype>> {
        given(Combiner::F90Complex, [precision, range], real(precision, range)?.1)
    }

    /// Integers of at least so many decimal digits.
    pub fn f90_integer(range: i32) -> Result<Arc<Datatype>> {
        match INTEGERS.iter().find(|(digits, _)| (0..=*digits).contains(&range)) {
            Some((_, handle)) => given(Combiner::F90Integer, [range, 0], *handle),
            None => fail(Class::Arg, format!("no integers have the range {range}")),
        }
    }

    /// The predefined datatype of this class and size in bytes.
    pub fn match_size(class: i32, size: i64) -> Result<Arc<Datatype>> {
        let (name, handles): (&str, &[u32]) = match class {
            MPI_TYPECLASS_INTEGER => ("integer", &[0x2c1, 0x2c9, 0x2d1, 0x2d9, 0x2e1]),
            MPI_TYPECLASS_REAL => ("real", &[0x2ca, 0x2d2, 0x2da, 0x2e2]),
            MPI_TYPECLASS_COMPLEX => ("complex", &[0x2d3, 0x2db, 0x2e3, 0x2eb]),
            _ => {
                return fail(Class::Arg, "typeclass is none of MPI_TYPECLASS_REAL, _INTEGER, _COMPLEX");
            }
        };
        let fits = |handle: &&u32| Kind::of(**handle).is_some_and(|kind| kind.size() as i64 == size);
        match handles.iter().find(fits) {
            Some(handle) => Datatype::of(*handle),
            None => fail(Class::Arg, format!("there is no {name} type of {size} bytes")),
        }
    }

    /// The predefined pair of a value and an index; None when there is none.
    pub fn value_index(value: &Datatype, index: &Datatype) -> Option<Arc<Datatype>> {
        let pair = match (value.predefined()?.handle, index.predefined()?.handle) {
            (0x210, 0x209) => 0x228,
            (0x214, 0x209) => 0x229,
            (0x20a, 0x209) => 0x22a,
            (0x209, 0x209) => 0x22b,
            (0x208, 0x209) => 0x22c,
            (0x220, 0x209) => 0x22d,
            (0x21a, 0x21a) => 0x230,
            (0x21c, 0x21c) => 0x231,
            (0x219, 0x219) => 0x232,
            _ => return None,
        };
        Datatype::of(pair).ok()
    }
}

fn real(precision: i32, range: i32) -> Result<(u32, u32)> {
    if precision == MPI_UNDEFINED && range == MPI_UNDEFINED {
        return fail(Class::Arg, "both precision and range are MPI_UNDEFINED");
    }
    let enough = |asked: i32, there: i32| asked == MPI_UNDEFINED || (0..=there).contains(&asked);
    match REALS.iter().find(|(digits, exponents, ..)| enough(precision, *digits) && enough(range, *exponents)) {
        Some((.., real, complex)) => Ok((*real, *complex)),
        None => fail(Class::Arg, format!("no real numbers have precision {precision} and range {range}")),
    }
}

fn given(combiner: Combiner, arguments: [i32; 2], handle: u32) -> Result<Arc<Datatype>> {
    let Some(kind) = Kind::of(handle) else { return fail(Class::Intern, "an unknown predefined datatype") };
    let make = || {
        let count = if combiner == Combiner::F90Integer { 1 } else { 2 };
        let contents = Contents::new(combiner, &[]).integers(arguments[..count].iter().map(|number| *number as i64));
        let datatype = Datatype::made(Map::of(kind), contents);
        datatype.commit();
        Arc::new(datatype)
    };
    Ok(lock(&GIVEN).entry((combiner, arguments)).or_insert_with(make).clone())
}
