//! How much a status says that was received, in elements of a datatype (MPI 5.0, 3.2.5, 4.1.11 and 13.3).

use super::argument::{self, In, MPI_Count, Number, Out};
use super::datatype::datatype_of;
use super::failure::{Result, fail};
use crate::abi::{MPI_Datatype, MPI_Status};
use phalanx_mpi::constants::MPI_UNDEFINED;
use phalanx_mpi::error::Class;

/// MPI_UNDEFINED when it is no number of elements, or one that is too large.
fn number<N: Number>(elements: Option<usize>) -> N {
    let number = elements.and_then(|elements| N::narrow(i64::try_from(elements).ok()?));
    number.or(N::narrow(MPI_UNDEFINED as i64)).expect("small enough for int")
}

fn elements(status: In<MPI_Status>, handle: MPI_Datatype) -> Result<Option<usize>> {
    Ok(datatype_of(handle)?.elements(status.get().bytes() as usize))
}

fn set_elements(status: Out<MPI_Status>, handle: MPI_Datatype, number: impl Number) -> Result {
    let elements = argument::count(number, "count")?;
    let Some(bytes) = datatype_of(handle)?.bytes_of(elements) else {
        return fail(Class::Arg, format!("count is {elements}, more basic elements than there can be"));
    };
    let mut filled = status.get();
    filled.set_bytes(bytes as u64);
    status.put(filled);
    Ok(())
}

mpi! {
    large_fn MPI_Get_count(status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<Count>) {
        count.put(number(datatype_of(datatype)?.count(status.get().bytes() as usize)));
    }

    large_fn MPI_Get_elements(status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<Count>) {
        count.put(number(elements(status, datatype)?));
    }

    fn MPI_Get_elements_x(status: In<MPI_Status>, datatype: MPI_Datatype, count: Out<MPI_Count>) {
        count.put(number(elements(status, datatype)?));
    }

    large_fn MPI_Status_set_elements(status: Out<MPI_Status>, datatype: MPI_Datatype, count: Count) {
        set_elements(status, datatype, count)?;
    }

    fn MPI_Status_set_elements_x(status: Out<MPI_Status>, datatype: MPI_Datatype, count: MPI_Count) {
        set_elements(status, datatype, count)?;
    }
}
