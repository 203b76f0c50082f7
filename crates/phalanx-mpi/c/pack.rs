//! Packing by hand (MPI 5.0, 4.2 and 4.3).

use super::argument::{Number, Out, Text, count};
use super::datatype::datatype_of;
use super::failure::{Result, fail};
use crate::abi::{MPI_Comm, MPI_Datatype};
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::comm::Comm;
use std::ffi::c_void;

/// From a position on, what is left of a buffer of packed bytes; moved on when the call succeeds.
struct Rest<N> {
    position: Out<N>,
    start: usize,
    length: usize,
}

impl<N: Number> Rest<N> {
    fn of(buffer: *const c_void, size: impl Number, position: Out<N>) -> Result<Rest<N>> {
        let size = size.natural(Class::Arg, "size of the packed buffer")?;
        let start = position.get().natural(Class::Arg, "position")?;
        match size.checked_sub(start) {
            Some(length) if length > 0 && buffer.is_null() => fail(Class::Buffer, "the packed buffer is NULL"),
            Some(length) => Ok(Rest { position, start, length }),
            None => fail(Class::Arg, format!("position is {start}, beyond the {size} bytes of the packed buffer")),
        }
    }

    fn bytes<'a>(&self, buffer: *const c_void) -> &'a [u8] {
        match self.length {
            0 => &[],
            // SAFETY: not NULL, and C promises that it has its size.
            length => unsafe { std::slice::from_raw_parts(buffer.cast::<u8>().add(self.start), length) },
        }
    }

    fn bytes_mut<'a>(&self, buffer: *mut c_void) -> &'a mut [u8] {
        match self.length {
            0 => &mut [],
            // SAFETY: not NULL, and C promises that it has its size, for this call alone.
            length => unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>().add(self.start), length) },
        }
    }

    /// That `bytes` are there.
    fn check(&self, bytes: usize) -> Result {
        match bytes > self.length {
            true => fail(Class::Truncate, format!("the packed buffer has {} bytes left of {bytes}", self.length)),
            false => Ok(()),
        }
    }

    fn moved(self, bytes: usize) -> Result {
        match N::narrow((self.start + bytes) as i64) {
            Some(position) => {
                self.position.put(position);
                Ok(())
            }
            None => fail(Class::Arg, "position is too large for its type"),
        }
    }
}

/// For results that are sizes.
fn put_size<N: Number>(size: Out<N>, bytes: usize) -> Result {
    match N::narrow(bytes as i64) {
        Some(bytes) => {
            size.put(bytes);
            Ok(())
        }
        None => fail(Class::ValueTooLarge, format!("size would be {bytes}: call the function for large counts")),
    }
}

fn check_representation(datarep: Text) -> Result {
    match datarep.get().as_str() {
        "external32" => Ok(()),
        other => fail(Class::UnsupportedDatarep, format!("datarep is {other:?}, only \"external32\" is known")),
    }
}

mpi! {
    large_fn MPI_Pack(
        inbuf: *const c_void, incount: Count, datatype: MPI_Datatype, outbuf: *mut c_void, outsize: Count,
        position: Out<Count>, comm: MPI_Comm,
    ) on comm {
        Comm::of(comm.id())?;
        let (elements, datatype) = (count(incount, "incount")?, datatype_of(datatype)?);
        let (bytes, rest) = (datatype.message(inbuf.cast(), elements)?, Rest::of(outbuf, outsize, position)?);
        rest.check(bytes)?;
        // SAFETY: C promises that the buffer holds as many elements.
        unsafe { datatype.pack(inbuf.cast(), elements, 0, rest.bytes_mut(outbuf)) };
        rest.moved(bytes)?;
    }

    large_fn MPI_Unpack(
        inbuf: *const c_void, insize: Count, position: Out<Count>, outbuf: *mut c_void, outcount: Count,
        datatype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        Comm::of(comm.id())?;
        let (elements, datatype) = (count(outcount, "outcount")?, datatype_of(datatype)?);
        let (bytes, rest) = (datatype.message(outbuf.cast(), elements)?, Rest::of(inbuf, insize, position)?);
        rest.check(bytes)?;
        // SAFETY: C promises that the buffer holds as many elements.
        unsafe { datatype.unpack(outbuf.cast(), elements, 0, rest.bytes(inbuf)) };
        rest.moved(bytes)?;
    }

    large_fn MPI_Pack_size(incount: Count, datatype: MPI_Datatype, comm: MPI_Comm, size: Out<Count>) on comm {
        Comm::of(comm.id())?;
        let (elements, datatype) = (count(incount, "incount")?, datatype_of(datatype)?);
        match datatype.packed_size(elements) {
            Some(bytes) => put_size(size, bytes)?,
            None => return fail(Class::Count, format!("incount is {elements}, more than there can be")),
        }
    }

    large_fn MPI_Pack_external(
        datarep: Text, inbuf: *const c_void, incount: Count, datatype: MPI_Datatype, outbuf: *mut c_void,
        outsize: Address, position: Out<Address>,
    ) {
        check_representation(datarep)?;
        let (elements, datatype) = (count(incount, "incount")?, datatype_of(datatype)?);
        datatype.message(inbuf.cast(), elements)?;
        let rest = Rest::of(outbuf, outsize, position)?;
        rest.check(datatype.external_size(elements)?)?;
        // SAFETY: C promises that the buffer holds as many elements.
        let bytes = unsafe { datatype.pack_external(inbuf.cast(), elements, rest.bytes_mut(outbuf))? };
        rest.moved(bytes)?;
    }

    large_fn MPI_Unpack_external(
        datarep: Text, inbuf: *const c_void, insize: Address, position: Out<Address>, outbuf: *mut c_void,
        outcount: Count, datatype: MPI_Datatype,
    ) {
        check_representation(datarep)?;
        let (elements, datatype) = (count(outcount, "outcount")?, datatype_of(datatype)?);
        datatype.message(outbuf.cast(), elements)?;
        let rest = Rest::of(inbuf, insize, position)?;
        rest.check(datatype.external_size(elements)?)?;
        // SAFETY: C promises that the buffer holds as many elements.
        let bytes = unsafe { datatype.unpack_external(outbuf.cast(), elements, rest.bytes(inbuf))? };
        rest.moved(bytes)?;
    }

    large_fn MPI_Pack_external_size(
        datarep: Text, incount: Count, datatype: MPI_Datatype, size: Out<Address>,
    ) {
        check_representation(datarep)?;
        put_size(size, datatype_of(datatype)?.external_size(count(incount, "incount")?)?)?;
    }
}
