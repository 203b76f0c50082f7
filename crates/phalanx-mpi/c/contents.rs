//! How datatypes were made (MPI 5.0, 4.1.13).

use super::argument::{self, MPI_Aint, MPI_Count, Number, Out, OutArray};
use super::datatype::{datatype_of, distribution_argument_to_c, narrowed};
use super::failure::{Result, fail};
use crate::abi::{self, MPI_Datatype};
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::datatype::{Combiner, Contents};
use std::ffi::c_int;

mpi! {
    fn MPI_Type_get_envelope(
        datatype: MPI_Datatype, num_integers: Out<c_int>, num_addresses: Out<c_int>, num_datatypes: Out<c_int>,
        combiner: Out<c_int>,
    ) {
        let datatype = datatype_of(datatype)?;
        let contents = datatype.contents();
        check_small(contents)?;
        num_integers.put(narrowed(contents.integers.len() as i64));
        num_addresses.put(narrowed(contents.addresses.len() as i64));
        num_datatypes.put(narrowed(contents.types.len() as i64));
        combiner.put(abi::COMBINER.to_c(contents.combiner as i32));
    }

    fn MPI_Type_get_envelope_c(
        datatype: MPI_Datatype, num_integers: Out<MPI_Count>, num_addresses: Out<MPI_Count>,
        num_large_counts: Out<MPI_Count>, num_datatypes: Out<MPI_Count>, combiner: Out<c_int>,
    ) {
        let datatype = datatype_of(datatype)?;
        let contents = datatype.contents();
        num_integers.put(contents.integers.len() as i64);
        num_addresses.put(contents.addresses.len() as i64);
        num_large_counts.put(contents.counts.len() as i64);
        num_datatypes.put(contents.types.len() as i64);
        combiner.put(abi::COMBINER.to_c(contents.combiner as i32));
    }

    fn MPI_Type_get_contents(
        datatype: MPI_Datatype, max_integers: c_int, max_addresses: c_int, max_datatypes: c_int,
        array_of_integers: OutArray<c_int>, array_of_addresses: OutArray<MPI_Aint>,
        array_of_datatypes: OutArray<MPI_Datatype>,
    ) {
        let datatype = datatype_of(datatype)?;
        let contents = datatype.contents();
        check_small(contents)?;
        let integers = room(array_of_integers, max_integers, contents.integers.len(), "max_integers")?;
        let addresses = room(array_of_addresses, max_addresses, contents.addresses.len(), "max_addresses")?;
        let types = room(array_of_datatypes, max_datatypes, contents.types.len(), "max_datatypes")?;
        addresses.copy_from_slice(&contents.addresses);
        put_integers(contents, integers);
        put_types(contents, types)?;
    }

    fn MPI_Type_get_contents_c(
        datatype: MPI_Datatype, max_integers: MPI_Count, max_addresses: MPI_Count, max_large_counts: MPI_Count,
        max_datatypes: MPI_Count, array_of_integers: OutArray<c_int>, array_of_addresses: OutArray<MPI_Aint>,
        array_of_large_counts: OutArray<MPI_Count>, array_of_datatypes: OutArray<MPI_Datatype>,
    ) {
        let datatype = datatype_of(datatype)?;
        let contents = datatype.contents();
        let integers = room(array_of_integers, max_integers, contents.integers.len(), "max_integers")?;
        let addresses = room(array_of_addresses, max_addresses, contents.addresses.len(), "max_addresses")?;
        let counts = room(array_of_large_counts, max_large_counts, contents.counts.len(), "max_large_counts")?;
        let types = room(array_of_datatypes, max_datatypes, contents.types.len(), "max_datatypes")?;
        addresses.copy_from_slice(&contents.addresses);
        counts.copy_from_slice(&contents.counts);
        put_integers(contents, integers);
        put_types(contents, types)?;
    }
}

/// What was made with large counts has contents that int may not hold.
fn check_small(contents: &Contents) -> Result {
    match contents.counts.is_empty() {
        true => Ok(()),
        false => fail(Class::Type, "datatype was made with large counts: call the function for large counts"),
    }
}

/// The part of an array that takes `needed` of the `most` elements it has room for.
fn room<'a, T>(array: OutArray<T>, most: impl Number, needed: usize, name: &str) -> Result<&'a mut [T]> {
    match argument::count(most, name)? < needed {
        true => fail(Class::Arg, format!("{name} is {}, the datatype has {needed}", most.wide())),
        false => array.slice(needed),
    }
}

fn put_types(contents: &Contents, types: &mut [MPI_Datatype]) -> Result {
    if contents.combiner == Combiner::Named {
        return fail(Class::Type, "datatype is predefined and has no contents");
    }
    for (place, inner) in types.iter_mut().zip(&contents.types) {
        *place = MPI_Datatype::of(inner.put()?);
    }
    Ok(())
}

/// Numbers that stand for something are this interface's.
fn put_integers(contents: &Contents, integers: &mut [c_int]) {
    for (place, number) in integers.iter_mut().zip(&contents.integers) {
        *place = *number as c_int;
    }
    let Some(last) = integers.len().checked_sub(1) else { return };
    if let Combiner::Subarray | Combiner::Darray = contents.combiner {
        integers[last] = abi::ORDER.to_c(integers[last]);
    }
    if contents.combiner == Combiner::Darray {
        let dimensions = integers[2] as usize;
        let (distribs, dargs) = (last - 3 * dimensions, last - 2 * dimensions);
        integers[distribs..dargs].iter_mut().for_each(|how| *how = abi::DISTRIBUTION.to_c(*how));
        integers[dargs..dargs + dimensions]
            .iter_mut()
            .for_each(|argument| *argument = distribution_argument_to_c(*argument));
    }
}
