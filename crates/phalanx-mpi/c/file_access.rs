//! Reading and writing files (MPI 5.0, 14.4).
//!
//! The functions are those that the standard's table of data access routines has: for each place and way one that
//! blocks, one that does not, and a pair of a split operation where there is one.

use super::argument::{MPI_Offset, Out, OutStatus};
use super::failure::Result;
use super::file::find;
use super::message::{buffer, fill};
use crate::abi::{MPI_Datatype, MPI_File, MPI_Request};
use phalanx_mpi::objects::request::{Active, Request};
use phalanx_mpi::operations::file::{Place, Split, Way};
use std::ffi::c_void;

/// A handle for what was begun.
fn give(fh: MPI_File, request: Out<MPI_Request>, active: Active) -> Result {
    request.put(MPI_Request::of(Request::put(fh.into(), active)?));
    Ok(())
}

/// At an offset that is given.
macro_rules! at_offset {
    ($($pointer:ty, $way:expr => { $($blocking:ident)* } { $($beginning:ident)* } { $($split:ident)* })*) => { $(
        $(mpi! {
            large_fn $blocking(
                fh: MPI_File, offset: MPI_Offset, buf: $pointer, count: Count, datatype: MPI_Datatype,
                status: OutStatus,
            ) on fh {
                let buffer = buffer(buf, count, datatype)?;
                fill(status, &find(fh)?.access($way, Place::At(offset), &buffer)?);
            }
        })*
        $(mpi! {
            large_fn $beginning(
                fh: MPI_File, offset: MPI_Offset, buf: $pointer, count: Count, datatype: MPI_Datatype,
                request: Out<MPI_Request>,
            ) on fh {
                let buffer = buffer(buf, count, datatype)?;
                give(fh, request, find(fh)?.begin($way, Place::At(offset), &buffer)?)?;
            }
        })*
        $(mpi! {
            large_fn $split(
                fh: MPI_File, offset: MPI_Offset, buf: $pointer, count: Count, datatype: MPI_Datatype,
            ) on fh {
                find(fh)?.begin_split($way, Place::At(offset), &buffer(buf, count, datatype)?)?;
            }
        })*
    )* };
}

/// Where a file pointer is.
macro_rules! at_pointer {
    ($($pointer:ty, $way:expr, $place:expr => { $($blocking:ident)* } { $($beginning:ident)* } { $($split:ident)* })*) => { $(
        $(mpi! {
            large_fn $blocking(
                fh: MPI_File, buf: $pointer, count: Count, datatype: MPI_Datatype, status: OutStatus,
            ) on fh {
                let buffer = buffer(buf, count, datatype)?;
                fill(status, &find(fh)?.access($way, $place, &buffer)?);
            }
        })*
        $(mpi! {
            large_fn $beginning(
                fh: MPI_File, buf: $pointer, count: Count, datatype: MPI_Datatype, request: Out<MPI_Request>,
            ) on fh {
                let buffer = buffer(buf, count, datatype)?;
                give(fh, request, find(fh)?.begin($way, $place, &buffer)?)?;
            }
        })*
        $(mpi! {
            large_fn $split(fh: MPI_File, buf: $pointer, count: Count, datatype: MPI_Datatype) on fh {
                find(fh)?.begin_split($way, $place, &buffer(buf, count, datatype)?)?;
            }
        })*
    )* };
}

macro_rules! ends {
    ($($name:ident($pointer:ty) => $split:expr;)*) => {
        mpi! {
            $(fn $name(fh: MPI_File, _buf: $pointer, status: OutStatus) on fh {
                fill(status, &find(fh)?.end_split($split)?);
            })*
        }
    };
}

at_offset! {
    *mut c_void, Way::Read =>
        { MPI_File_read_at MPI_File_read_at_all }
        { MPI_File_iread_at MPI_File_iread_at_all }
        { MPI_File_read_at_all_begin }
    *const c_void, Way::Write =>
        { MPI_File_write_at MPI_File_write_at_all }
        { MPI_File_iwrite_at MPI_File_iwrite_at_all }
        { MPI_File_write_at_all_begin }
}

at_pointer! {
    *mut c_void, Way::Read, Place::Own =>
        { MPI_File_read MPI_File_read_all } { MPI_File_iread MPI_File_iread_all } { MPI_File_read_all_begin }
    *const c_void, Way::Write, Place::Own =>
        { MPI_File_write MPI_File_write_all } { MPI_File_iwrite MPI_File_iwrite_all } { MPI_File_write_all_begin }
    *mut c_void, Way::Read, Place::Shared => { MPI_File_read_shared } { MPI_File_iread_shared } {}
    *const c_void, Way::Write, Place::Shared => { MPI_File_write_shared } { MPI_File_iwrite_shared } {}
    *mut c_void, Way::Read, Place::Ordered => { MPI_File_read_ordered } {} { MPI_File_read_ordered_begin }
    *const c_void, Way::Write, Place::Ordered => { MPI_File_write_ordered } {} { MPI_File_write_ordered_begin }
}

ends! {
    MPI_File_read_at_all_end(*mut c_void) => Split::At(Way::Read);
    MPI_File_write_at_all_end(*const c_void) => Split::At(Way::Write);
    MPI_File_read_all_end(*mut c_void) => Split::Own(Way::Read);
    MPI_File_write_all_end(*const c_void) => Split::Own(Way::Write);
    MPI_File_read_ordered_end(*mut c_void) => Split::Ordered(Way::Read);
    MPI_File_write_ordered_end(*const c_void) => Split::Ordered(Way::Write);
}
