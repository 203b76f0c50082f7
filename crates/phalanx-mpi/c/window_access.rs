//! Operations on windows (MPI 5.0, 12.3).

use super::argument::{MPI_Aint, Number, Out, count};
use super::failure::Result;
use super::message::{buffer, passed};
use super::window::{done, find};
use crate::abi::{self, MPI_Datatype, MPI_Op, MPI_Request, MPI_Win};
use phalanx_mpi::constants::MPI_NO_OP;
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::buffer::Buffer;
use phalanx_mpi::objects::datatype::Datatype;
use phalanx_mpi::objects::request::Request;
use phalanx_mpi::operations::window::quick::{self, Spot};
use phalanx_mpi::operations::window::{End, Place, active};
use phalanx_mpi::process::world::world;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

fn place(rank: c_int, displacement: MPI_Aint, elements: impl Number, datatype: MPI_Datatype) -> Result<Place> {
    let (count, datatype) = (count(elements, "target_count")?, Datatype::of(datatype.id())?);
    Ok(Place { rank: abi::RANK.from_c(rank), displacement: displacement.wide(), count, datatype })
}

/// What MPI_NO_OP does not look at.
fn origin(start: *const c_void, elements: impl Number, datatype: MPI_Datatype, op: MPI_Op) -> Result<Option<Buffer>> {
    if op.id() == MPI_NO_OP { Ok(None) } else { Ok(Some(buffer(start, elements, datatype)?)) }
}

/// One element of a predefined datatype.
fn one(start: *const c_void, datatype: MPI_Datatype) -> Result<Buffer> {
    buffer(start, 1 as c_int, datatype)
}

/// The same, of which nothing is looked at yet.
#[inline]
fn spot(rank: c_int, displacement: MPI_Aint, elements: impl Number, datatype: MPI_Datatype) -> Spot {
    let (rank, datatype) = (abi::RANK.from_c(rank), datatype.id());
    Spot { rank, displacement: displacement.wide(), count: elements.wide(), datatype }
}

fn check_predefined(datatype: MPI_Datatype) -> Result {
    match Datatype::of(datatype.id())?.predefined() {
        Some(_) => Ok(()),
        None => super::failure::fail(Class::Type, "datatype is not predefined"),
    }
}

fn put(win: MPI_Win, request: Out<MPI_Request>, end: Arc<End>) -> Result {
    request.put(MPI_Request::of(Request::put(win.into(), active(world()?, end))?));
    Ok(())
}

mpi! {
    large_fn MPI_Put(
        origin_addr: *const c_void, origin_count: Count, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, win: MPI_Win,
    ) on win {
        let quick = spot(target_rank, target_disp, target_count, target_datatype);
        if quick::put(passed(origin_addr, origin_count, origin_datatype), quick, win.id()) {
            return Ok(());
        }
        let place = place(target_rank, target_disp, target_count, target_datatype)?;
        done(find(win)?.put(&buffer(origin_addr, origin_count, origin_datatype)?, &place, None))?;
    }

    large_fn MPI_Rput(
        origin_addr: *const c_void, origin_count: Count, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, win: MPI_Win,
        request: Out<MPI_Request>,
    ) on win {
        let place = place(target_rank, target_disp, target_count, target_datatype)?;
        let end = Arc::new(End::new());
        done(find(win)?.put(&buffer(origin_addr, origin_count, origin_datatype)?, &place, Some(end.clone())))?;
        put(win, request, end)?;
    }

    large_fn MPI_Get(
        origin_addr: *mut c_void, origin_count: Count, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, win: MPI_Win,
    ) on win {
        let quick = spot(target_rank, target_disp, target_count, target_datatype);
        if quick::get(passed(origin_addr, origin_count, origin_datatype), quick, win.id()) {
            return Ok(());
        }
        let place = place(target_rank, target_disp, target_count, target_datatype)?;
        done(find(win)?.get(&buffer(origin_addr, origin_count, origin_datatype)?, &place, None))?;
    }

    large_fn MPI_Rget(
        origin_addr: *mut c_void, origin_count: Count, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, win: MPI_Win,
        request: Out<MPI_Request>,
    ) on win {
        let place = place(target_rank, target_disp, target_count, target_datatype)?;
        let end = Arc::new(End::new());
        done(find(win)?.get(&buffer(origin_addr, origin_count, origin_datatype)?, &place, Some(end.clone())))?;
        put(win, request, end)?;
    }

    large_fn MPI_Accumulate(
        origin_addr: *const c_void, origin_count: Count, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, op: MPI_Op, win: MPI_Win,
    ) on win {
        let quick = spot(target_rank, target_disp, target_count, target_datatype);
        if quick::accumulate(passed(origin_addr, origin_count, origin_datatype), None, quick, op.id(), win.id()) {
            return Ok(());
        }
        let place = place(target_rank, target_disp, target_count, target_datatype)?;
        let origin = origin(origin_addr, origin_count, origin_datatype, op)?;
        done(find(win)?.accumulate(origin.as_ref(), None, &place, op.id(), None))?;
    }

    large_fn MPI_Raccumulate(
        origin_addr: *const c_void, origin_count: Count, origin_datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, target_count: Count, target_datatype: MPI_Datatype, op: MPI_Op, win: MPI_Win,
        request: Out<MPI_Request>,
    ) on win {
        let place = place(target_rank, target_disp, target_count, target_datatype)?;
        let (origin, end) = (origin(origin_addr, origin_count, origin_datatype, op)?, Arc::new(End::new()));
        done(find(win)?.accumulate(origin.as_ref(), None, &place, op.id(), Some(end.clone())))?;
        put(win, request, end)?;
    }

    large_fn MPI_Get_accumulate(
        origin_addr: *const c_void, origin_count: Count, origin_datatype: MPI_Datatype, result_addr: *mut c_void,
        result_count: Count, result_datatype: MPI_Datatype, target_rank: c_int, target_disp: MPI_Aint,
        target_count: Count, target_datatype: MPI_Datatype, op: MPI_Op, win: MPI_Win,
    ) on win {
        let place = place(target_rank, target_disp, target_count, target_datatype)?;
        let origin = origin(origin_addr, origin_count, origin_datatype, op)?;
        let result = buffer(result_addr, result_count, result_datatype)?;
        done(find(win)?.accumulate(origin.as_ref(), Some(&result), &place, op.id(), None))?;
    }

    large_fn MPI_Rget_accumulate(
        origin_addr: *const c_void, origin_count: Count, origin_datatype: MPI_Datatype, result_addr: *mut c_void,
        result_count: Count, result_datatype: MPI_Datatype, target_rank: c_int, target_disp: MPI_Aint,
        target_count: Count, target_datatype: MPI_Datatype, op: MPI_Op, win: MPI_Win, request: Out<MPI_Request>,
    ) on win {
        let place = place(target_rank, target_disp, target_count, target_datatype)?;
        let (origin, end) = (origin(origin_addr, origin_count, origin_datatype, op)?, Arc::new(End::new()));
        let result = buffer(result_addr, result_count, result_datatype)?;
        done(find(win)?.accumulate(origin.as_ref(), Some(&result), &place, op.id(), Some(end.clone())))?;
        put(win, request, end)?;
    }

    fn MPI_Fetch_and_op(
        origin_addr: *const c_void, result_addr: *mut c_void, datatype: MPI_Datatype, target_rank: c_int,
        target_disp: MPI_Aint, op: MPI_Op, win: MPI_Win,
    ) on win {
        let (quick, result) = (spot(target_rank, target_disp, 1 as c_int, datatype), Some(result_addr.cast()));
        if quick::accumulate(passed(origin_addr, 1 as c_int, datatype), result, quick, op.id(), win.id()) {
            return Ok(());
        }
        check_predefined(datatype)?;
        let place = place(target_rank, target_disp, 1 as c_int, datatype)?;
        let (origin, result) = (origin(origin_addr, 1 as c_int, datatype, op)?, one(result_addr, datatype)?);
        done(find(win)?.accumulate(origin.as_ref(), Some(&result), &place, op.id(), None))?;
    }

    fn MPI_Compare_and_swap(
        origin_addr: *const c_void, compare_addr: *const c_void, result_addr: *mut c_void, datatype: MPI_Datatype,
        target_rank: c_int, target_disp: MPI_Aint, win: MPI_Win,
    ) on win {
        let quick = spot(target_rank, target_disp, 1 as c_int, datatype);
        let element = |start| passed(start, 1 as c_int, datatype);
        if quick::compare_and_swap(element(origin_addr), element(compare_addr), element(result_addr), quick, win.id()) {
            return Ok(());
        }
        let place = place(target_rank, target_disp, 1 as c_int, datatype)?;
        let (new, compared) = (one(origin_addr, datatype)?, one(compare_addr, datatype)?);
        done(find(win)?.compare_and_swap(&new, &compared, &one(result_addr, datatype)?, &place))?;
    }
}
