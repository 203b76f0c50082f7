//! Messages in partitions (MPI 5.0, chapter 4).

use super::argument::{Array, MPI_Count, Out, count};
use super::failure::{Result, concerns, fail};
use super::message::buffer;
use crate::abi::{self, MPI_Comm, MPI_Datatype, MPI_Info, MPI_Request};
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::buffer::Buffer;
use phalanx_mpi::objects::comm::Comm;
use phalanx_mpi::objects::partitions::Partitions;
use phalanx_mpi::objects::request::Request;
use phalanx_mpi::operations::partitioned;
use phalanx_mpi::process::world::world;
use std::ffi::{c_int, c_void};

/// The whole message and the number of its partitions.
fn whole(start: *const c_void, partitions: c_int, each: MPI_Count, datatype: MPI_Datatype) -> Result<(Buffer, usize)> {
    let partitions = count(partitions, "partitions")?;
    let Some(all) = count(each, "count")?.checked_mul(partitions).and_then(|all| i64::try_from(all).ok()) else {
        return fail(Class::Count, format!("{partitions} partitions of {each} elements are too many"));
    };
    Ok((buffer(start, all, datatype)?, partitions))
}

/// Does this with a request of a message in partitions.
fn with<T>(request: MPI_Request, work: impl FnOnce(&Request, &Partitions) -> Result<T>) -> Result<T> {
    let Some(request) = Request::of(request.id())? else { return fail(Class::Request, "request is MPI_REQUEST_NULL") };
    let done = match &request.partitions {
        Some(parts) => work(&request, parts),
        None => fail(Class::Request, "the request is of no message in partitions"),
    };
    concerns(|| request.owner(), done)
}

fn make_ready(request: MPI_Request, partition: c_int) -> Result {
    with(request, |request, parts| match request.is_active() {
        true => Ok(parts.make_ready(world()?, partition)?),
        false => fail(Class::Request, "the request was not started"),
    })
}

mpi! {
    fn MPI_Psend_init(
        buf: *const c_void, partitions: c_int, count: MPI_Count, datatype: MPI_Datatype, dest: c_int, tag: c_int,
        comm: MPI_Comm, info: MPI_Info, request: Out<MPI_Request>
    ) on comm {
        phalanx_mpi::objects::info::hints(info.id())?;
        let (whole, partitions) = whole(buf, partitions, count, datatype)?;
        let (of, to, tag) = ((comm.id(), Comm::of(comm.id())?), abi::RANK.from_c(dest), abi::TAG.from_c(tag));
        request.put(MPI_Request::of(partitioned::prepare_send(of, whole, partitions, to, tag)?));
    }

    fn MPI_Precv_init(
        buf: *mut c_void, partitions: c_int, count: MPI_Count, datatype: MPI_Datatype, source: c_int, tag: c_int,
        comm: MPI_Comm, info: MPI_Info, request: Out<MPI_Request>
    ) on comm {
        phalanx_mpi::objects::info::hints(info.id())?;
        let (whole, partitions) = whole(buf, partitions, count, datatype)?;
        let (of, from, tag) = ((comm.id(), Comm::of(comm.id())?), abi::RANK.from_c(source), abi::TAG.from_c(tag));
        request.put(MPI_Request::of(partitioned::prepare_receive(of, whole, partitions, from, tag)?));
    }

    fn MPI_Pready(partition: c_int, request: MPI_Request) {
        make_ready(request, partition)?;
    }

    fn MPI_Pready_range(partition_low: c_int, partition_high: c_int, request: MPI_Request) {
        for partition in partition_low..=partition_high {
            make_ready(request, partition)?;
        }
    }

    fn MPI_Pready_list(length: c_int, array_of_partitions: Array<c_int>, request: MPI_Request) {
        for partition in array_of_partitions.slice(count(length, "length")?)? {
            make_ready(request, *partition)?;
        }
    }

    fn MPI_Parrived(request: MPI_Request, partition: c_int, flag: Out<c_int>) {
        let arrived = with(request, |request, parts| {
            parts.check_arriving(partition)?;
            Ok(request.is_done(world()?))
        })?;
        flag.put_flag(arrived);
    }
}
