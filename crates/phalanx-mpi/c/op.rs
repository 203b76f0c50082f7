//! Operations of reductions (MPI 5.0, 5.9).

use super::argument::{self, MPI_Count, Number, Out, is_in_place};
use super::datatype::datatype_of;
use super::failure::{Result, fail};
use crate::abi::{MPI_Datatype, MPI_Op};
use phalanx_mpi::constants::MPI_OP_NULL;
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::datatype::Datatype;
use phalanx_mpi::objects::op::{Op, UserFunction};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

type User<Count> = Option<extern "C" fn(*mut c_void, *mut c_void, *mut Count, *mut MPI_Datatype)>;

/// The operation of an argument.
pub fn op_of(handle: MPI_Op) -> Result<Arc<Op>> {
    Ok(Op::of(handle.id())?)
}

/// A C function as an operation. What its count cannot say at once is passed in parts.
fn user<Count: Number + 'static>(
    function: extern "C" fn(*mut c_void, *mut c_void, *mut Count, *mut MPI_Datatype),
    most: usize,
) -> Box<UserFunction> {
    Box::new(move |incoming, inout, elements, handle| {
        let (mut done, extent) = (0, Datatype::of(handle).map_or(0, |datatype| datatype.extent()));
        while done < elements {
            let part = most.min(elements - done);
            let Some(mut number) = Count::narrow(part as i64) else { return };
            let at = extent.wrapping_mul(done as isize);
            let (from, to) = (incoming.wrapping_offset(at), inout.wrapping_offset(at));
            function(from.cast_mut().cast(), to.cast(), &mut number, &mut MPI_Datatype::of(handle));
            done += part;
        }
    })
}

mpi! {
    fn MPI_Op_create(user_fn: User<c_int>, commute: c_int, op: Out<MPI_Op>) {
        let Some(function) = user_fn else { return Ok(()) };
        op.put(MPI_Op::of(Op::user(commute != 0, user(function, c_int::MAX as usize)).put()?));
    }

    fn MPI_Op_create_c(user_fn: User<MPI_Count>, commute: c_int, op: Out<MPI_Op>) {
        let Some(function) = user_fn else { return Ok(()) };
        op.put(MPI_Op::of(Op::user(commute != 0, user(function, isize::MAX as usize)).put()?));
    }

    fn MPI_Op_free(op: Out<MPI_Op>) {
        Op::free(op.get().id())?;
        op.put(MPI_Op::of(MPI_OP_NULL));
    }

    fn MPI_Op_commutative(op: MPI_Op, commute: Out<c_int>) {
        commute.put_flag(op_of(op)?.is_commutative());
    }

    large_fn MPI_Reduce_local(
        inbuf: *const c_void, inoutbuf: *mut c_void, count: Count, datatype: MPI_Datatype, op: MPI_Op,
    ) {
        let (elements, datatype, op) = (argument::count(count, "count")?, datatype_of(datatype)?, op_of(op)?);
        if is_in_place(inbuf) || is_in_place(inoutbuf) {
            return fail(Class::Buffer, "a buffer must not be MPI_IN_PLACE here");
        }
        if elements > 0 && std::ptr::eq(inbuf, inoutbuf) {
            return fail(Class::Buffer, "inbuf and inoutbuf are the same");
        }
        datatype.message(inbuf.cast(), elements)?;
        datatype.message(inoutbuf.cast(), elements)?;
        // SAFETY: C promises that both buffers hold as many elements.
        unsafe { op.apply(inbuf.cast(), inoutbuf.cast(), elements, &datatype)? };
    }
}
