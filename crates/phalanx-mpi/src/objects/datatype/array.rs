//! Parts of arrays: MPI_Type_create_subarray and MPI_Type_create_darray (MPI 5.0, 4.1.3 and 4.1.4).

use super::Datatype;
use super::contents::{Combiner, Contents};
use super::map::{Map, too_large};
use crate::constants::*;
use crate::error::{Class, Result, fail};
use std::sync::Arc;

/// Which index changes fastest in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The last.
    C,
    /// The first.
    Fortran,
}

impl Order {
    /// From the standard interface's number.
    pub fn of(number: i32) -> Result<Order> {
        match number {
            MPI_ORDER_C => Ok(Order::C),
            MPI_ORDER_FORTRAN => Ok(Order::Fortran),
            _ => fail(Class::Arg, "order is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN"),
        }
    }

    fn number(self) -> i64 {
        if self == Order::C { MPI_ORDER_C as i64 } else { MPI_ORDER_FORTRAN as i64 }
    }

    /// The dimensions, fastest first.
    fn dimensions(self, count: usize) -> Box<dyn Iterator<Item = usize>> {
        if self == Order::C { Box::new((0..count).rev()) } else { Box::new(0..count) }
    }
}

/// How one dimension of an array is given to the processes along it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distribution {
    /// MPI_DISTRIBUTE_MPI_DISTRIBUTE_NONE, _BLOCK or _CYCLIC: the standard interface's number.
    pub how: i32,
    /// Elements of a block, or [`DEFAULT_ARGUMENT`].
    pub argument: i64,
    /// Processes along this dimension.
    pub processes: i64,
}

/// For MPI_DISTRIBUTE_DFLT_DARG, whose numbers in the two interfaces are not all impossible as block lengths.
pub const DEFAULT_ARGUMENT: i64 = -1;

impl Datatype {
    /// The part of an array of `sizes` elements that begins at `starts` and has `subsizes` elements in each dimension;
    /// its extent is the whole array's.
    pub fn subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        inner: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        check_dimensions(sizes)?;
        let (mut map, mut stride) = (inner.map.clone(), inner.extent);
        for dimension in order.dimensions(sizes.len()) {
            let (size, subsize, start) = (sizes[dimension], subsizes[dimension], starts[dimension]);
            if !(1..=size).contains(&subsize) {
                return fail(Class::Arg, format!("subsizes[{dimension}] is {subsize}, not in 1..={size}"));
            }
            if !(0..=size - subsize).contains(&start) {
                return fail(Class::Arg, format!("starts[{dimension}] is {start}, not in 0..={}", size - subsize));
            }
            map = map.repeated(subsize as usize, stride)?.shifted(product(stride, start)?)?;
            stride = product(stride, size)?;
        }
        let count = [sizes.len() as i64];
        let integers = [&count, sizes, subsizes, starts, &[order.number()]].concat();
        Datatype::derived(map.marked(0, stride)?, Contents::new(Combiner::Subarray, &[inner]).integers(integers))
    }

    /// What process `rank` of `size` has of an array of `sizes` elements that is distributed over a grid of processes
    /// (in C's order, as the standard has it); its extent is the whole array's.
    pub fn darray(
        size: i64,
        rank: i64,
        sizes: &[i64],
        distributions: &[Distribution],
        order: Order,
        inner: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        check_dimensions(sizes)?;
        let places = places_in_grid(size, rank, distributions)?;
        let (mut map, mut stride) = (inner.map.clone(), inner.extent);
        for dimension in order.dimensions(sizes.len()) {
            map = distributed(&map, stride, sizes[dimension], distributions[dimension], places[dimension])?;
            stride = product(stride, sizes[dimension])?;
        }
        let column = |of: fn(&Distribution) -> i64| distributions.iter().map(of).collect::<Vec<i64>>();
        let (how, arguments, processes) =
            (column(|it| it.how as i64), column(|it| it.argument), column(|it| it.processes));
        let first = [size, rank, sizes.len() as i64];
        let integers = [&first, sizes, &how, &arguments, &processes, &[order.number()]].concat();
        Datatype::derived(map.marked(0, stride)?, Contents::new(Combiner::Darray, &[inner]).integers(integers))
    }
}

fn check_dimensions(sizes: &[i64]) -> Result<()> {
    if sizes.is_empty() {
        return fail(Class::Arg, "ndims is not positive");
    }
    match sizes.iter().position(|size| *size < 1) {
        Some(dimension) => fail(Class::Arg, format!("sizes[{dimension}] is {}, not positive", sizes[dimension])),
        None => Ok(()),
    }
}

/// The process's place along each dimension of the grid.
fn places_in_grid(size: i64, rank: i64, distributions: &[Distribution]) -> Result<Vec<i64>> {
    if let Some(wrong) = distributions.iter().find(|distribution| distribution.processes < 1) {
        return fail(Class::Arg, format!("psizes has {}, which is not positive", wrong.processes));
    }
    let cells = distributions.iter().try_fold(1i64, |cells, distribution| cells.checked_mul(distribution.processes));
    if cells != Some(size) {
        return fail(Class::Arg, format!("the grid of psizes has not size {size}"));
    }
    if !(0..size).contains(&rank) {
        return fail(Class::Arg, format!("rank {rank} is not in 0..{size}"));
    }
    let (mut cells, mut rest) = (size, rank);
    let place = |distribution: &Distribution| {
        cells /= distribution.processes;
        let place = rest / cells;
        rest %= cells;
        place
    };
    Ok(distributions.iter().map(place).collect())
}

/// What the process at `place` has of one dimension whose elements are `map`s, `stride` bytes apart.
fn distributed(map: &Map, stride: isize, size: i64, distribution: Distribution, place: i64) -> Result<Map> {
    let Distribution { how, argument, processes } = distribution;
    match (how, argument) {
        (MPI_DISTRIBUTE_NONE, _) if processes == 1 => cyclic(map, stride, size, size, 1, 0),
        (MPI_DISTRIBUTE_NONE, _) => {
            fail(Class::Arg, format!("psizes has {processes} for a dimension that is not distributed"))
        }
        (MPI_DISTRIBUTE_BLOCK, DEFAULT_ARGUMENT) => {
            cyclic(map, stride, size, (size - 1) / processes + 1, processes, place)
        }
        (MPI_DISTRIBUTE_CYCLIC, DEFAULT_ARGUMENT) => cyclic(map, stride, size, 1, processes, place),
        (MPI_DISTRIBUTE_BLOCK | MPI_DISTRIBUTE_CYCLIC, block) if block < 1 => {
            fail(Class::Arg, format!("dargs has {block}, not positive"))
        }
        (MPI_DISTRIBUTE_BLOCK, block) if block.checked_mul(processes).is_some_and(|all| all < size) => {
            fail(Class::Arg, format!("dargs has {block}: too small for {size} elements on {processes} processes"))
        }
        (MPI_DISTRIBUTE_BLOCK, block) => cyclic(map, stride, size, block.min(size), processes, place),
        (MPI_DISTRIBUTE_CYCLIC, block) => cyclic(map, stride, size, block.min(size), processes, place),
        _ => fail(
            Class::Arg,
            format!("distribs has {how}, which is none of MPI_DISTRIBUTE_MPI_DISTRIBUTE_NONE, _BLOCK, _CYCLIC"),
        ),
    }
}

/// Every `processes`th block of `block` elements, from the `place`th on; the last one may be shorter.
fn cyclic(map: &Map, stride: isize, size: i64, block: i64, processes: i64, place: i64) -> Result<Map> {
    let blocks = (size - 1) / block + 1;
    if place >= blocks {
        return Ok(Map::EMPTY);
    }
    let mine = (blocks - place - 1) / processes + 1;
    let round = product(product(stride, block)?, processes)?;
    let last = (mine - 1) * processes + place;
    let whole = if size - last * block < block { mine - 1 } else { mine };
    let mut parts = vec![map.repeated(block as usize, stride)?.repeated(whole as usize, round)?];
    if whole < mine {
        parts.push(map.repeated((size - last * block) as usize, stride)?.shifted(product(round, whole)?)?);
    }
    Map::list(parts)?.shifted(product(product(stride, block)?, place)?)
}

fn product(stride: isize, count: i64) -> Result<isize> {
    isize::try_from(count).ok().and_then(|count| stride.checked_mul(count)).ok_or_else(too_large)
}
