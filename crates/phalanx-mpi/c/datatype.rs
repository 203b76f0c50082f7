//! Datatypes (MPI 5.0, chapter 4 and 19.1.9): made, described, committed, freed.

use super::argument::{self, Array, MPI_Count, Number, Out, OutText, Text};
use super::failure::Result;
use crate::abi::{self, MPI_Datatype, longest};
use phalanx_mpi::constants::*;
use phalanx_mpi::error::{Class, Error};
use phalanx_mpi::objects::attribute;
use phalanx_mpi::objects::datatype::{DEFAULT_ARGUMENT, Datatype, Distribution, Order};
use std::ffi::c_int;
use std::sync::Arc;

/// The datatype of an argument.
pub fn datatype_of(handle: MPI_Datatype) -> Result<Arc<Datatype>> {
    Ok(Datatype::of(handle.id())?)
}

/// Gives a new datatype away; `C` is what the call has for counts.
fn give<C: Number>(newtype: Out<MPI_Datatype>, made: Arc<Datatype>) -> Result {
    let made = if is_large::<C>() { made.large() } else { made };
    newtype.put(MPI_Datatype::of(made.put()?));
    Ok(())
}

fn is_large<C>() -> bool {
    size_of::<C>() > size_of::<c_int>()
}

fn wide<N: Number>(array: Array<N>, length: usize) -> Result<Vec<i64>> {
    Ok(array.slice(length)?.iter().map(|number| number.wide()).collect())
}

fn places<N: Number>(array: Array<N>, length: usize) -> Result<Vec<isize>> {
    Ok(array.slice(length)?.iter().map(|number| number.wide() as isize).collect())
}

/// A structure, in which members of the types MPI_LB and MPI_UB, which MPI 3.0 has removed, say where it begins and ends.
fn structure(lengths: &[i64], places: &[isize], handles: &[MPI_Datatype]) -> Result<Arc<Datatype>> {
    let (mut low, mut high) = (None, None);
    let mut members = (Vec::new(), Vec::new(), Vec::new());
    for ((length, place), handle) in lengths.iter().zip(places).zip(handles) {
        match abi::bound(*handle) {
            Some(abi::Bound::Lower) => low = Some(low.map_or(*place, |low: isize| low.min(*place))),
            Some(abi::Bound::Upper) => high = Some(high.map_or(*place, |high: isize| high.max(*place))),
            None => {
                members.0.push(*length);
                members.1.push(*place);
                members.2.push(datatype_of(*handle)?);
            }
        }
    }
    let made = Datatype::structure(&members.0, &members.1, &members.2)?;
    if low.is_none() && high.is_none() {
        return Ok(made);
    }
    let low = low.unwrap_or(made.lower_bound());
    let extent = high.unwrap_or(made.lower_bound() + made.extent()).checked_sub(low);
    Ok(Datatype::resized(&made, low, extent.ok_or_else(|| Error::new(Class::Arg, "the bounds are too far apart"))?)?)
}

/// As programs know it.
fn name_of(handle: MPI_Datatype) -> Result<String> {
    if handle.id() == MPI_DATATYPE_NULL {
        return Ok("MPI_DATATYPE_NULL".to_string());
    }
    match abi::bound(handle) {
        Some(abi::Bound::Lower) => Ok("MPI_LB".to_string()),
        Some(abi::Bound::Upper) => Ok("MPI_UB".to_string()),
        None => Ok(datatype_of(handle)?.name()),
    }
}

mpi! {
    large_fn MPI_Type_contiguous(count: Count, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
        give::<Count>(newtype, Datatype::contiguous(count.wide(), &datatype_of(oldtype)?)?)?;
    }

    large_fn MPI_Type_vector(
        count: Count, blocklength: Count, stride: Count, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let oldtype = datatype_of(oldtype)?;
        give::<Count>(newtype, Datatype::vector(count.wide(), blocklength.wide(), stride.wide(), &oldtype)?)?;
    }

    large_fn MPI_Type_create_hvector(
        count: Count, blocklength: Count, stride: Address, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let stride = stride.wide() as isize;
        let made = Datatype::hvector(count.wide(), blocklength.wide(), stride, &datatype_of(oldtype)?)?;
        give::<Count>(newtype, made)?;
    }

    large_fn MPI_Type_indexed(
        count: Count, array_of_blocklengths: Array<Count>, array_of_displacements: Array<Count>,
        oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let count = argument::count(count, "count")?;
        let (lengths, places) = (wide(array_of_blocklengths, count)?, wide(array_of_displacements, count)?);
        give::<Count>(newtype, Datatype::indexed(&lengths, &places, &datatype_of(oldtype)?)?)?;
    }

    large_fn MPI_Type_create_hindexed(
        count: Count, array_of_blocklengths: Array<Count>, array_of_displacements: Array<Address>,
        oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let count = argument::count(count, "count")?;
        let (lengths, places) = (wide(array_of_blocklengths, count)?, places(array_of_displacements, count)?);
        give::<Count>(newtype, Datatype::hindexed(&lengths, &places, &datatype_of(oldtype)?)?)?;
    }

    large_fn MPI_Type_create_indexed_block(
        count: Count, blocklength: Count, array_of_displacements: Array<Count>,
        oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let places = wide(array_of_displacements, argument::count(count, "count")?)?;
        give::<Count>(newtype, Datatype::indexed_block(blocklength.wide(), &places, &datatype_of(oldtype)?)?)?;
    }

    large_fn MPI_Type_create_hindexed_block(
        count: Count, blocklength: Count, array_of_displacements: Array<Address>,
        oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let places = places(array_of_displacements, argument::count(count, "count")?)?;
        give::<Count>(newtype, Datatype::hindexed_block(blocklength.wide(), &places, &datatype_of(oldtype)?)?)?;
    }

    large_fn MPI_Type_create_struct(
        count: Count, array_of_blocklengths: Array<Count>, array_of_displacements: Array<Address>,
        array_of_types: Array<MPI_Datatype>, newtype: Out<MPI_Datatype>,
    ) {
        let count = argument::count(count, "count")?;
        let (lengths, places) = (wide(array_of_blocklengths, count)?, places(array_of_displacements, count)?);
        give::<Count>(newtype, structure(&lengths, &places, array_of_types.slice(count)?)?)?;
    }

    large_fn MPI_Type_create_subarray(
        ndims: c_int, array_of_sizes: Array<Count>, array_of_subsizes: Array<Count>, array_of_starts: Array<Count>,
        order: c_int, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let ndims = ndims.natural(Class::Arg, "ndims")?;
        let (sizes, starts) = (wide(array_of_sizes, ndims)?, wide(array_of_starts, ndims)?);
        let (subsizes, order) = (wide(array_of_subsizes, ndims)?, Order::of(abi::ORDER.from_c(order))?);
        give::<Count>(newtype, Datatype::subarray(&sizes, &subsizes, &starts, order, &datatype_of(oldtype)?)?)?;
    }

    large_fn MPI_Type_create_darray(
        size: c_int, rank: c_int, ndims: c_int, array_of_gsizes: Array<Count>, array_of_distribs: Array<c_int>,
        array_of_dargs: Array<c_int>, array_of_psizes: Array<c_int>, order: c_int, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let ndims = ndims.natural(Class::Arg, "ndims")?;
        let sizes = wide(array_of_gsizes, ndims)?;
        let (distribs, dargs) = (array_of_distribs.slice(ndims)?, array_of_dargs.slice(ndims)?);
        let distribution = |((how, argument), processes): ((&c_int, &c_int), &c_int)| Distribution {
            how: abi::DISTRIBUTION.from_c(*how),
            argument: distribution_argument_from_c(*argument),
            processes: *processes as i64,
        };
        let grid = distribs.iter().zip(dargs).zip(array_of_psizes.slice(ndims)?).map(distribution).collect::<Vec<_>>();
        let order = Order::of(abi::ORDER.from_c(order))?;
        let made = Datatype::darray(size as i64, rank as i64, &sizes, &grid, order, &datatype_of(oldtype)?)?;
        give::<Count>(newtype, made)?;
    }

    large_fn MPI_Type_create_resized(
        oldtype: MPI_Datatype, lb: Address, extent: Address, newtype: Out<MPI_Datatype>,
    ) {
        let made = Datatype::resized(&datatype_of(oldtype)?, lb.wide() as isize, extent.wide() as isize)?;
        give::<Count>(newtype, made)?;
    }

    fn MPI_Type_dup(oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
        newtype.put(MPI_Datatype::of(MPI_DATATYPE_NULL));
        let made = Datatype::dup(&datatype_of(oldtype)?)?.put()?;
        if let Err(error) = attribute::copy_all(oldtype.id(), made) {
            attribute::delete_all(made)?;
            Datatype::free(made)?;
            return Err(error.into());
        }
        newtype.put(MPI_Datatype::of(made));
    }

    fn MPI_Type_create_f90_real(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) {
        newtype.put(MPI_Datatype::of(Datatype::f90_real(p, r)?.put()?));
    }

    fn MPI_Type_create_f90_complex(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) {
        newtype.put(MPI_Datatype::of(Datatype::f90_complex(p, r)?.put()?));
    }

    fn MPI_Type_create_f90_integer(r: c_int, newtype: Out<MPI_Datatype>) {
        newtype.put(MPI_Datatype::of(Datatype::f90_integer(r)?.put()?));
    }

    fn MPI_Type_match_size(typeclass: c_int, size: c_int, datatype: Out<MPI_Datatype>) {
        datatype.put(MPI_Datatype::of(Datatype::match_size(abi::TYPECLASS.from_c(typeclass), size as i64)?.put()?));
    }

    fn MPI_Type_get_value_index(
        value_type: MPI_Datatype, index_type: MPI_Datatype, pair_type: Out<MPI_Datatype>,
    ) {
        let (value, index) = (datatype_of(value_type)?, datatype_of(index_type)?);
        let pair = Datatype::value_index(&value, &index);
        pair_type.put(MPI_Datatype::of(pair.map_or(Ok(MPI_DATATYPE_NULL), |pair| pair.put())?));
    }

    fn MPI_Type_commit(datatype: Out<MPI_Datatype>) {
        datatype_of(datatype.get())?.commit();
    }

    fn MPI_Type_free(datatype: Out<MPI_Datatype>) {
        let handle = datatype.get().id();
        Datatype::check_free(handle)?;
        attribute::delete_all(handle)?;
        Datatype::free(handle)?;
        datatype.put(MPI_Datatype::of(MPI_DATATYPE_NULL));
    }
}

/// Of one number to another's type: MPI_UNDEFINED for what is too large.
pub fn narrowed<N: Number>(number: i64) -> N {
    N::narrow(number).or(N::narrow(MPI_UNDEFINED as i64)).expect("small enough for int")
}

mpi! {
    large_fn MPI_Type_size(datatype: MPI_Datatype, size: Out<Count>) {
        size.put(narrowed(datatype_of(datatype)?.size() as i64));
    }

    fn MPI_Type_size_x(datatype: MPI_Datatype, size: Out<MPI_Count>) {
        size.put(datatype_of(datatype)?.size() as i64);
    }

    large_fn MPI_Type_get_extent(datatype: MPI_Datatype, lb: Out<Address>, extent: Out<Address>) {
        let datatype = datatype_of(datatype)?;
        lb.put(narrowed(datatype.lower_bound() as i64));
        extent.put(narrowed(datatype.extent() as i64));
    }

    fn MPI_Type_get_extent_x(datatype: MPI_Datatype, lb: Out<MPI_Count>, extent: Out<MPI_Count>) {
        let datatype = datatype_of(datatype)?;
        lb.put(datatype.lower_bound() as i64);
        extent.put(datatype.extent() as i64);
    }

    large_fn MPI_Type_get_true_extent(datatype: MPI_Datatype, true_lb: Out<Address>, true_extent: Out<Address>) {
        let datatype = datatype_of(datatype)?;
        true_lb.put(narrowed(datatype.true_lower_bound() as i64));
        true_extent.put(narrowed(datatype.true_extent() as i64));
    }

    fn MPI_Type_get_true_extent_x(datatype: MPI_Datatype, true_lb: Out<MPI_Count>, true_extent: Out<MPI_Count>) {
        let datatype = datatype_of(datatype)?;
        true_lb.put(datatype.true_lower_bound() as i64);
        true_extent.put(datatype.true_extent() as i64);
    }

    fn MPI_Type_set_name(datatype: MPI_Datatype, type_name: Text) {
        datatype_of(datatype)?.set_name(&type_name.get());
    }

    fn MPI_Type_get_name(datatype: MPI_Datatype, type_name: OutText, resultlen: Out<c_int>) {
        let name = name_of(datatype)?;
        resultlen.put(type_name.put(&name, longest::OBJECT_NAME) as c_int);
    }
}

fn distribution_argument_from_c(argument: c_int) -> i64 {
    let default = argument == distribution_argument_to_c(DEFAULT_ARGUMENT as c_int);
    if default { DEFAULT_ARGUMENT } else { argument as i64 }
}

pub fn distribution_argument_to_c(argument: c_int) -> c_int {
    let default = argument as i64 == DEFAULT_ARGUMENT;
    if default { abi::DISTRIBUTION_ARGUMENT.to_c(MPI_DISTRIBUTE_DFLT_DARG) } else { argument }
}
