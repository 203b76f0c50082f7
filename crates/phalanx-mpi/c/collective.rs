//! Collective operations (MPI 5.0, chapter 6), also between neighbours (8.6): each blocking, non-blocking and persistent.

use super::argument::{Array, Number, Out, is_in_place};
use super::failure::Result;
use super::message::passed;
use crate::abi::{self, MPI_Comm, MPI_Datatype, MPI_Info, MPI_Op, MPI_Request};
use phalanx_mpi::error;
use phalanx_mpi::error::{Class, Result as Checked};
use phalanx_mpi::objects::comm::Comm;
use phalanx_mpi::objects::info;
use phalanx_mpi::objects::request::Request;
use phalanx_mpi::operations::collective::operations::{self as of, Operands};
use phalanx_mpi::operations::collective::{self, Argument, Operation, Scan, Shape};
use phalanx_mpi::operations::collective::{
    short_allgather, short_allreduce, short_alltoall, short_barrier, short_bcast, short_reduce,
};
use phalanx_mpi::operations::topology::neighbours;
use phalanx_mpi::process::world::world;
use std::ffi::{c_int, c_void};

fn run<O: Operation>(comm: MPI_Comm, make: impl FnOnce(&Comm) -> Checked<O>) -> Result {
    let comm = Comm::of(comm.id())?;
    let operation = make(&comm)?;
    Ok(collective::run(world()?, comm, operation)?)
}

fn begin<O: Operation>(comm: MPI_Comm, make: impl FnOnce(&Comm) -> Checked<O>, request: Out<MPI_Request>) -> Result {
    let of = Comm::of(comm.id())?;
    let operation = make(&of)?;
    let active = collective::begin(world()?, of, operation);
    request.put(MPI_Request::of(Request::put(comm.into(), active)?));
    Ok(())
}

fn prepare<O: Operation>(
    comm: MPI_Comm,
    make: impl FnOnce(&Comm) -> Checked<O>,
    hints: MPI_Info,
    request: Out<MPI_Request>,
) -> Result {
    info::hints(hints.id())?;
    let of = Comm::of(comm.id())?;
    let operation = make(&of)?;
    let start = collective::persistent(world()?, of, operation);
    request.put(MPI_Request::of(Request::put_persistent(comm.into(), start)?));
    Ok(())
}

/// None is MPI_IN_PLACE.
fn place(buffer: *const c_void) -> Option<*mut u8> {
    (!is_in_place(buffer)).then_some(buffer.cast_mut().cast())
}

/// NULL for MPI_IN_PLACE, which is no memory.
fn in_memory(buffer: *const c_void) -> *const c_void {
    if is_in_place(buffer) { std::ptr::null() } else { buffer }
}

fn equal(name: &'static str, buffer: *const c_void, count: impl Number, datatype: MPI_Datatype) -> Argument<'static> {
    Argument { name, start: place(buffer), shape: Shape::Equal { count: count.wide(), datatype: datatype.id() } }
}

fn vector<'a>(
    name: &'static str,
    buffer: *const c_void,
    datatype: MPI_Datatype,
    block: &'a dyn Fn(usize) -> Checked<(i64, i64)>,
) -> Argument<'a> {
    Argument { name, start: place(buffer), shape: Shape::Vector { block, datatype: datatype.id() } }
}

fn mixed<'a>(
    name: &'static str,
    buffer: *const c_void,
    block: &'a dyn Fn(usize) -> Checked<(i64, i64, u32)>,
) -> Argument<'a> {
    Argument { name, start: place(buffer), shape: Shape::Mixed { block } }
}

/// The element of an array that is only looked at where it is significant.
fn one<T: Copy>(name: &str, array: Array<T>, index: usize) -> Checked<T> {
    if array.pointer().is_null() {
        return error::fail(Class::Arg, format!("{name} is NULL"));
    }
    // SAFETY: C promises as many as there are ranks or neighbours.
    Ok(unsafe { array.pointer().add(index).read_unaligned() })
}

fn operands(
    sendbuf: *const c_void,
    recvbuf: *const c_void,
    count: impl Number,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Operands {
    let (send, receive) = (place(sendbuf), place(recvbuf));
    Operands { send, receive, count: count.wide(), datatype: datatype.id(), op: op.id() }
}

/// A line: how the blocking, the non-blocking and the persistent function are called, and which operation that is.
macro_rules! collectives {
    ($($kind:ident $run:ident $begin:ident $prepare:ident ($($argument:ident: $type:ty),*) on $comm:ident
       $(or $short:expr)? => $make:expr;)*) => {
        mpi! { $(
            $kind $run($($argument: $type),*) on $comm {
                $(if let Some(done) = $short {
                    return Ok(done?);
                })?
                run($comm, $make)?;
            }

            $kind $begin($($argument: $type,)* request: Out<MPI_Request>) on $comm {
                begin($comm, $make, request)?;
            }

            $kind $prepare($($argument: $type,)* info: MPI_Info, request: Out<MPI_Request>) on $comm {
                prepare($comm, $make, info, request)?;
            }
        )* }
    };
}

collectives! {
    fn MPI_Barrier MPI_Ibarrier MPI_Barrier_init(comm: MPI_Comm) on comm or short_barrier(comm.id())
        => |_| Ok(of::barrier());

    large_fn MPI_Bcast MPI_Ibcast MPI_Bcast_init(
        buffer: *mut c_void, count: Count, datatype: MPI_Datatype, root: c_int, comm: MPI_Comm
    ) on comm or short_bcast(comm.id(), passed(in_memory(buffer), count, datatype), abi::RANK.from_c(root))
        => |comm| of::bcast(comm, equal("buffer", buffer, count, datatype), abi::RANK.from_c(root));

    large_fn MPI_Gather MPI_Igather MPI_Gather_init(
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count,
        recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm
    ) on comm => |comm| {
        let send = equal("sendbuf", sendbuf, sendcount, sendtype);
        of::gather(comm, send, equal("recvbuf", recvbuf, recvcount, recvtype), abi::RANK.from_c(root))
    };

    large_fn MPI_Gatherv MPI_Igatherv MPI_Gatherv_init(
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, recvbuf: *mut c_void,
        recvcounts: Array<Count>, displs: Array<Displacement>, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm
    ) on comm => |comm| {
        let send = equal("sendbuf", sendbuf, sendcount, sendtype);
        let block = |rank| Ok((one("recvcounts", recvcounts, rank)?.wide(), one("displs", displs, rank)?.wide()));
        of::gather(comm, send, vector("recvbuf", recvbuf, recvtype, &block), abi::RANK.from_c(root))
    };

    large_fn MPI_Scatter MPI_Iscatter MPI_Scatter_init(
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count,
        recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm
    ) on comm => |comm| {
        let send = equal("sendbuf", sendbuf, sendcount, sendtype);
        of::scatter(comm, send, equal("recvbuf", recvbuf, recvcount, recvtype), abi::RANK.from_c(root))
    };

    large_fn MPI_Scatterv MPI_Iscatterv MPI_Scatterv_init(
        sendbuf: *const c_void, sendcounts: Array<Count>, displs: Array<Displacement>, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm
    ) on comm => |comm| {
        let block = |rank| Ok((one("sendcounts", sendcounts, rank)?.wide(), one("displs", displs, rank)?.wide()));
        let send = vector("sendbuf", sendbuf, sendtype, &block);
        of::scatter(comm, send, equal("recvbuf", recvbuf, recvcount, recvtype), abi::RANK.from_c(root))
    };

    large_fn MPI_Allgather MPI_Iallgather MPI_Allgather_init(
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count,
        recvtype: MPI_Datatype, comm: MPI_Comm
    ) on comm or {
        let send = (!is_in_place(sendbuf)).then(|| passed(sendbuf, sendcount, sendtype));
        short_allgather(comm.id(), send, passed(in_memory(recvbuf), recvcount, recvtype))
    } => |comm| {
        let send = equal("sendbuf", sendbuf, sendcount, sendtype);
        of::allgather(comm, send, equal("recvbuf", recvbuf, recvcount, recvtype))
    };

    large_fn MPI_Allgatherv MPI_Iallgatherv MPI_Allgatherv_init(
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, recvbuf: *mut c_void,
        recvcounts: Array<Count>, displs: Array<Displacement>, recvtype: MPI_Datatype, comm: MPI_Comm
    ) on comm => |comm| {
        let send = equal("sendbuf", sendbuf, sendcount, sendtype);
        let block = |rank| Ok((one("recvcounts", recvcounts, rank)?.wide(), one("displs", displs, rank)?.wide()));
        of::allgather(comm, send, vector("recvbuf", recvbuf, recvtype, &block))
    };

    large_fn MPI_Alltoall MPI_Ialltoall MPI_Alltoall_init(
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count,
        recvtype: MPI_Datatype, comm: MPI_Comm
    ) on comm or {
        let send = (!is_in_place(sendbuf)).then(|| passed(sendbuf, sendcount, sendtype));
        short_alltoall(comm.id(), send, passed(in_memory(recvbuf), recvcount, recvtype))
    } => |comm| {
        let send = equal("sendbuf", sendbuf, sendcount, sendtype);
        of::alltoall(comm, send, equal("recvbuf", recvbuf, recvcount, recvtype))
    };

    large_fn MPI_Alltoallv MPI_Ialltoallv MPI_Alltoallv_init(
        sendbuf: *const c_void, sendcounts: Array<Count>, sdispls: Array<Displacement>, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: Array<Count>, rdispls: Array<Displacement>, recvtype: MPI_Datatype,
        comm: MPI_Comm
    ) on comm => |comm| {
        let sent = |rank| Ok((one("sendcounts", sendcounts, rank)?.wide(), one("sdispls", sdispls, rank)?.wide()));
        let block = |rank| Ok((one("recvcounts", recvcounts, rank)?.wide(), one("rdispls", rdispls, rank)?.wide()));
        let send = vector("sendbuf", sendbuf, sendtype, &sent);
        of::alltoall(comm, send, vector("recvbuf", recvbuf, recvtype, &block))
    };

    large_fn MPI_Alltoallw MPI_Ialltoallw MPI_Alltoallw_init(
        sendbuf: *const c_void, sendcounts: Array<Count>, sdispls: Array<Displacement>,
        sendtypes: Array<MPI_Datatype>, recvbuf: *mut c_void, recvcounts: Array<Count>,
        rdispls: Array<Displacement>, recvtypes: Array<MPI_Datatype>, comm: MPI_Comm
    ) on comm => |comm| {
        let sent = |rank| Ok((
            one("sendcounts", sendcounts, rank)?.wide(),
            one("sdispls", sdispls, rank)?.wide(),
            one("sendtypes", sendtypes, rank)?.id(),
        ));
        let block = |rank| Ok((
            one("recvcounts", recvcounts, rank)?.wide(),
            one("rdispls", rdispls, rank)?.wide(),
            one("recvtypes", recvtypes, rank)?.id(),
        ));
        of::alltoall(comm, mixed("sendbuf", sendbuf, &sent), mixed("recvbuf", recvbuf, &block))
    };

    large_fn MPI_Reduce MPI_Ireduce MPI_Reduce_init(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: MPI_Datatype, op: MPI_Op, root: c_int,
        comm: MPI_Comm
    ) on comm or {
        short_reduce(comm.id(), operands(sendbuf, recvbuf, count, datatype, op), abi::RANK.from_c(root))
    } => |comm| of::reduce_to(comm, operands(sendbuf, recvbuf, count, datatype, op), abi::RANK.from_c(root));

    large_fn MPI_Allreduce MPI_Iallreduce MPI_Allreduce_init(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm
    ) on comm or {
        let operands = operands(sendbuf, recvbuf, count, datatype, op);
        short_allreduce(comm.id(), operands)
    } => |comm| of::allreduce(comm, operands(sendbuf, recvbuf, count, datatype, op));

    large_fn MPI_Reduce_scatter MPI_Ireduce_scatter MPI_Reduce_scatter_init(
        sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: Array<Count>, datatype: MPI_Datatype, op: MPI_Op,
        comm: MPI_Comm
    ) on comm => |comm| {
        let count = |rank| Ok(one("recvcounts", recvcounts, rank)?.wide());
        of::reduce_scatter(comm, operands(sendbuf, recvbuf, 0, datatype, op), &count)
    };

    large_fn MPI_Reduce_scatter_block MPI_Ireduce_scatter_block MPI_Reduce_scatter_block_init(
        sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: Count, datatype: MPI_Datatype, op: MPI_Op,
        comm: MPI_Comm
    ) on comm => |comm| {
        of::reduce_scatter(comm, operands(sendbuf, recvbuf, 0, datatype, op), &|_| Ok(recvcount.wide()))
    };

    large_fn MPI_Scan MPI_Iscan MPI_Scan_init(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm
    ) on comm => |comm| of::scan_up(comm, operands(sendbuf, recvbuf, count, datatype, op), Scan::Inclusive);

    large_fn MPI_Exscan MPI_Iexscan MPI_Exscan_init(
        sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm
    ) on comm => |comm| of::scan_up(comm, operands(sendbuf, recvbuf, count, datatype, op), Scan::Exclusive);

    large_fn MPI_Neighbor_allgather MPI_Ineighbor_allgather MPI_Neighbor_allgather_init(
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count,
        recvtype: MPI_Datatype, comm: MPI_Comm
    ) on comm => |comm| {
        let send = equal("sendbuf", sendbuf, sendcount, sendtype);
        of::neighbour_allgather(neighbours(comm)?, send, equal("recvbuf", recvbuf, recvcount, recvtype))
    };

    large_fn MPI_Neighbor_allgatherv MPI_Ineighbor_allgatherv MPI_Neighbor_allgatherv_init(
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, recvbuf: *mut c_void,
        recvcounts: Array<Count>, displs: Array<Displacement>, recvtype: MPI_Datatype, comm: MPI_Comm
    ) on comm => |comm| {
        let send = equal("sendbuf", sendbuf, sendcount, sendtype);
        let block = |rank| Ok((one("recvcounts", recvcounts, rank)?.wide(), one("displs", displs, rank)?.wide()));
        of::neighbour_allgather(neighbours(comm)?, send, vector("recvbuf", recvbuf, recvtype, &block))
    };

    large_fn MPI_Neighbor_alltoall MPI_Ineighbor_alltoall MPI_Neighbor_alltoall_init(
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, recvbuf: *mut c_void, recvcount: Count,
        recvtype: MPI_Datatype, comm: MPI_Comm
    ) on comm => |comm| {
        let send = equal("sendbuf", sendbuf, sendcount, sendtype);
        of::neighbour_alltoall(neighbours(comm)?, send, equal("recvbuf", recvbuf, recvcount, recvtype))
    };

    large_fn MPI_Neighbor_alltoallv MPI_Ineighbor_alltoallv MPI_Neighbor_alltoallv_init(
        sendbuf: *const c_void, sendcounts: Array<Count>, sdispls: Array<Displacement>, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: Array<Count>, rdispls: Array<Displacement>, recvtype: MPI_Datatype,
        comm: MPI_Comm
    ) on comm => |comm| {
        let sent = |rank| Ok((one("sendcounts", sendcounts, rank)?.wide(), one("sdispls", sdispls, rank)?.wide()));
        let block = |rank| Ok((one("recvcounts", recvcounts, rank)?.wide(), one("rdispls", rdispls, rank)?.wide()));
        let send = vector("sendbuf", sendbuf, sendtype, &sent);
        of::neighbour_alltoall(neighbours(comm)?, send, vector("recvbuf", recvbuf, recvtype, &block))
    };

    large_fn MPI_Neighbor_alltoallw MPI_Ineighbor_alltoallw MPI_Neighbor_alltoallw_init(
        sendbuf: *const c_void, sendcounts: Array<Count>, sdispls: Array<isize>, sendtypes: Array<MPI_Datatype>,
        recvbuf: *mut c_void, recvcounts: Array<Count>, rdispls: Array<isize>, recvtypes: Array<MPI_Datatype>,
        comm: MPI_Comm
    ) on comm => |comm| {
        let sent = |rank| Ok((
            one("sendcounts", sendcounts, rank)?.wide(),
            one("sdispls", sdispls, rank)?.wide(),
            one("sendtypes", sendtypes, rank)?.id(),
        ));
        let block = |rank| Ok((
            one("recvcounts", recvcounts, rank)?.wide(),
            one("rdispls", rdispls, rank)?.wide(),
            one("recvtypes", recvtypes, rank)?.id(),
        ));
        let send = mixed("sendbuf", sendbuf, &sent);
        of::neighbour_alltoall(neighbours(comm)?, send, mixed("recvbuf", recvbuf, &block))
    };
}
