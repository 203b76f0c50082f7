//! Completing requests (MPI 5.0, 3.7).

use super::argument::{Array, Out, OutArray, OutStatus, OutStatuses, count};
use super::failure::{Result, concerns, fail, nobody};
use super::message::{code, fill, fill_empty, fill_one};
use crate::abi::{self, MPI_Request, MPI_Status};
use phalanx_mpi::constants::*;
use phalanx_mpi::error::Class;
use phalanx_mpi::objects::request::{self, Request};
use phalanx_mpi::operations::point;
use phalanx_mpi::process::engine::{EMPTY, Status};
use phalanx_mpi::process::world::world;
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Arc;

fn find(handles: &[MPI_Request]) -> Result<Vec<Option<Arc<Request>>>> {
    Ok(handles.iter().map(|handle| Request::of(handle.id())).collect::<phalanx_mpi::error::Result<_>>()?)
}

/// A request's failures go to the handler of the object that it belongs to.
fn of<T>(request: &Request, outcome: phalanx_mpi::error::Result<T>) -> Result<T> {
    concerns(|| request.owner(), outcome)
}

/// The handle becomes null, unless its request can be started again.
fn end(handle: &mut MPI_Request, request: &Request) {
    if Request::end(handle.id(), request) {
        *handle = MPI_Request::of(MPI_REQUEST_NULL);
    }
}

/// The one request of a call is done.
fn finish(handle: Out<MPI_Request>, request: &Request, done: Status, status: OutStatus) -> Result {
    let mut own = handle.get();
    end(&mut own, request);
    handle.put(own);
    fill(status, &done);
    of(request, point::check(done)).map(drop)
}

/// All requests of a call are done, or are waited for.
fn finish_all(handles: &mut [MPI_Request], requests: &[Option<Arc<Request>>], statuses: OutStatuses) -> Result {
    let mut done = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        let Some(request) = request else {
            done.push((index, EMPTY));
            continue;
        };
        done.push((index, request::in_status(request.wait(world()?))));
        end(&mut handles[index], request);
    }
    fill_all(requests, statuses, &done)
}

/// The shortest way of MPI_Wait, for a send or a receive without an object of its own. Whether it was done.
#[inline]
fn wait_for_point(handle: Out<MPI_Request>, status: OutStatus) -> Result<bool> {
    let own = handle.get();
    if own.id() == MPI_REQUEST_NULL {
        return Ok(false); // its status says more
    }
    let mut outcome = (EMPTY, None);
    let is_done = request::wait_for_points(world()?, 1, |_| own.id(), |_, done, owner| outcome = (done, owner));
    let (done, owner) = outcome;
    if !is_done {
        return Ok(false);
    }
    if !is_pending(&done) {
        handle.put(MPI_Request::of(MPI_REQUEST_NULL));
    }
    fill(status, &done);
    concerns(|| owner.unwrap_or_else(nobody), point::check(done))?;
    Ok(true)
}

/// The same of MPI_Waitall. False when there are other requests, and nothing was done.
#[inline]
fn wait_for_points(handles: &mut [MPI_Request], statuses: OutStatuses) -> Result<bool> {
    let handles = Cell::from_mut(handles).as_slice_of_cells();
    let statuses = statuses.slice(handles.len())?.map(|statuses| Cell::from_mut(statuses).as_slice_of_cells());
    let mut failed = None;
    let done = |index: usize, done: Status, owner| {
        if !is_pending(&done) {
            handles[index].set(MPI_Request::of(MPI_REQUEST_NULL));
        }
        if let Some(statuses) = statuses {
            let mut status = statuses[index].get();
            fill_in(&mut status, &done);
            statuses[index].set(status);
        }
        if done.error.is_some() && failed.is_none() {
            failed = Some(owner);
        }
    };
    if !request::wait_for_points(world()?, handles.len(), |index| handles[index].get().id(), done) {
        return Ok(false);
    }
    let Some(owner) = failed else { return Ok(true) };
    concerns(|| owner.unwrap_or_else(nobody), some_failed())
}

/// Whether it is a receive from anybody that a loss has interrupted, and that goes on.
fn is_pending(status: &Status) -> bool {
    status.error == Some(Class::ProcFailedPending)
}

fn some_failed<T>() -> Result<T> {
    fail(Class::InStatus, "some requests failed: the statuses say which")
}

/// Whether there is nothing to wait for.
fn are_idle(requests: &[Option<Arc<Request>>]) -> bool {
    !requests.iter().flatten().any(|request| request.is_active())
}

/// Statuses of several requests, with their errors. Of those that failed, the first one's handler hears of it.
fn fill_all(requests: &[Option<Arc<Request>>], statuses: OutStatuses, done: &[(usize, Status)]) -> Result {
    if let Some(statuses) = statuses.slice(done.len())? {
        statuses.iter_mut().zip(done).for_each(|(into, (_, status))| fill_in(into, status));
    }
    let Some((index, _)) = done.iter().find(|(_, status)| status.error.is_some()) else { return Ok(()) };
    let owner = || requests[*index].as_ref().map_or_else(nobody, |request| request.owner());
    concerns(owner, some_failed())
}

fn fill_in(status: &mut MPI_Status, with: &Status) {
    fill_one(status, with);
    status.error = abi::ERROR.to_c(code(with));
}

mpi! {
    fn MPI_Wait(request: Out<MPI_Request>, status: OutStatus) {
        if wait_for_point(request, status)? {
            return Ok(());
        }
        match Request::of(request.get().id())? {
            None => fill_empty(status),
            Some(own) => {
                let done = of(&own, own.wait(world()?))?;
                finish(request, &own, done, status)?;
            }
        }
    }

    fn MPI_Test(request: Out<MPI_Request>, flag: Out<c_int>, status: OutStatus) {
        flag.put_flag(true);
        let Some(own) = Request::of(request.get().id())? else {
            fill_empty(status);
            return Ok(());
        };
        match of(&own, own.test(world()?))? {
            None => flag.put_flag(false),
            Some(done) => finish(request, &own, done, status)?,
        }
    }

    fn MPI_Request_get_status(request: MPI_Request, flag: Out<c_int>, status: OutStatus) {
        let own = Request::of(request.id())?;
        let done = own.map_or(Ok(Some(EMPTY)), |own| of(&own, own.test_only(world()?)))?;
        flag.put_flag(done.is_some());
        done.iter().for_each(|done| fill(status, done));
    }

    fn MPI_Waitall(count: c_int, array_of_requests: OutArray<MPI_Request>, array_of_statuses: OutStatuses) {
        let handles = array_of_requests.slice(super::argument::count(count, "count")?)?;
        array_of_statuses.has_room(handles.len())?;
        if !wait_for_points(handles, array_of_statuses)? {
            let requests = find(handles)?;
            finish_all(handles, &requests, array_of_statuses)?;
        }
    }

    fn MPI_Testall(
        count: c_int, array_of_requests: OutArray<MPI_Request>, flag: Out<c_int>, array_of_statuses: OutStatuses
    ) {
        let handles = array_of_requests.slice(super::argument::count(count, "count")?)?;
        let requests = find(handles)?;
        array_of_statuses.has_room(handles.len())?;
        let all = request::are_done(world()?, &requests);
        flag.put_flag(all);
        if all {
            finish_all(handles, &requests, array_of_statuses)?;
        }
    }

    fn MPI_Waitany(
        count: c_int, array_of_requests: OutArray<MPI_Request>, index: Out<c_int>, status: OutStatus
    ) {
        let handles = array_of_requests.slice(super::argument::count(count, "count")?)?;
        let requests = find(handles)?;
        any(handles, &requests, request::wait_any(world()?, &requests), index, status)?;
    }

    fn MPI_Testany(
        count: c_int, array_of_requests: OutArray<MPI_Request>, index: Out<c_int>, flag: Out<c_int>, status: OutStatus
    ) {
        let handles = array_of_requests.slice(super::argument::count(count, "count")?)?;
        let requests = find(handles)?;
        let idle = are_idle(&requests);
        let found = request::test_any(world()?, &requests);
        flag.put_flag(idle || found.is_some());
        if idle || found.is_some() {
            any(handles, &requests, found, index, status)?;
        } else {
            index.put(abi::RANK.to_c(MPI_UNDEFINED));
        }
    }

    fn MPI_Waitsome(
        incount: c_int, array_of_requests: OutArray<MPI_Request>, outcount: Out<c_int>,
        array_of_indices: OutArray<c_int>, array_of_statuses: OutStatuses
    ) {
        let handles = array_of_requests.slice(count(incount, "incount")?)?;
        let requests = find(handles)?;
        array_of_statuses.has_room(handles.len())?;
        let done = request::wait_some(world()?, &requests);
        some(handles, &requests, done, outcount, array_of_indices, array_of_statuses)?;
    }

    fn MPI_Testsome(
        incount: c_int, array_of_requests: OutArray<MPI_Request>, outcount: Out<c_int>,
        array_of_indices: OutArray<c_int>, array_of_statuses: OutStatuses
    ) {
        let handles = array_of_requests.slice(count(incount, "incount")?)?;
        let requests = find(handles)?;
        array_of_statuses.has_room(handles.len())?;
        let idle = are_idle(&requests);
        let done = if idle { None } else { Some(request::test_some(world()?, &requests)) };
        some(handles, &requests, done, outcount, array_of_indices, array_of_statuses)?;
    }

    fn MPI_Request_get_status_any(
        count: c_int, array_of_requests: Array<MPI_Request>, index: Out<c_int>, flag: Out<c_int>, status: OutStatus
    ) {
        let handles = array_of_requests.slice(super::argument::count(count, "count")?)?;
        let requests = find(handles)?;
        index.put(abi::RANK.to_c(MPI_UNDEFINED));
        flag.put_flag(are_idle(&requests));
        for (number, request) in requests.iter().enumerate().filter_map(|(at, one)| Some((at, one.as_ref()?))) {
            if !request.is_active() {
                continue;
            }
            if let Some(done) = of(request, request.test_only(world()?))? {
                index.put(number as c_int);
                flag.put_flag(true);
                fill(status, &done);
                return Ok(());
            }
        }
        fill_empty(status);
    }

    fn MPI_Request_get_status_all(
        count: c_int, array_of_requests: Array<MPI_Request>, flag: Out<c_int>, array_of_statuses: OutStatuses
    ) {
        let handles = array_of_requests.slice(super::argument::count(count, "count")?)?;
        let requests = find(handles)?;
        array_of_statuses.has_room(handles.len())?;
        let all = request::are_done(world()?, &requests);
        flag.put_flag(all);
        if all {
            let world = world()?;
            let look = |request: &Option<Arc<Request>>| match request {
                None => EMPTY,
                Some(request) => request::in_status(request.test_only(world).map(|done| done.unwrap_or(EMPTY))),
            };
            let done: Vec<_> = requests.iter().map(look).enumerate().collect();
            fill_all(&requests, array_of_statuses, &done)?;
        }
    }

    fn MPI_Request_get_status_some(
        incount: c_int, array_of_requests: Array<MPI_Request>, outcount: Out<c_int>,
        array_of_indices: OutArray<c_int>, array_of_statuses: OutStatuses
    ) {
        let handles = array_of_requests.slice(count(incount, "incount")?)?;
        let requests = find(handles)?;
        array_of_statuses.has_room(handles.len())?;
        if are_idle(&requests) {
            outcount.put(abi::RANK.to_c(MPI_UNDEFINED));
            return Ok(());
        }
        let mut done = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            let Some(request) = request.as_ref().filter(|request| request.is_active()) else { continue };
            let outcome = request.test_only(world()?).transpose();
            done.extend(outcome.map(|outcome| (index, request::in_status(outcome))));
        }
        outcount.put(done.len() as c_int);
        let indices = array_of_indices.slice(done.len())?;
        indices.iter_mut().zip(&done).for_each(|(into, (index, _))| *into = *index as c_int);
        fill_all(&requests, array_of_statuses, &done)?;
    }

    fn MPI_Request_free(request: Out<MPI_Request>) {
        Request::free(request.get().id(), world()?)?;
        request.put(MPI_Request::of(MPI_REQUEST_NULL));
    }

    fn MPI_Cancel(request: Out<MPI_Request>) {
        match Request::of(request.get().id())? {
            None => return fail(Class::Request, "request is MPI_REQUEST_NULL"),
            Some(own) => of(&own, own.cancel(world()?))?,
        }
    }

    fn MPI_Start(request: Out<MPI_Request>) {
        start(request.get())?;
    }

    fn MPI_Startall(count: c_int, array_of_requests: OutArray<MPI_Request>) {
        for request in array_of_requests.slice(super::argument::count(count, "count")?)? {
            start(*request)?;
        }
    }
}

fn start(handle: MPI_Request) -> Result {
    match Request::of(handle.id())? {
        None => fail(Class::Request, "request is MPI_REQUEST_NULL"),
        Some(request) => of(&request, request.start()),
    }
}

fn any(
    handles: &mut [MPI_Request],
    requests: &[Option<Arc<Request>>],
    found: Option<(usize, phalanx_mpi::error::Result<Status>)>,
    index: Out<c_int>,
    status: OutStatus,
) -> Result {
    let Some((number, done)) = found else {
        index.put(abi::RANK.to_c(MPI_UNDEFINED));
        fill_empty(status);
        return Ok(());
    };
    index.put(number as c_int);
    let Some(request) = &requests[number] else { return Ok(()) };
    end(&mut handles[number], request);
    let done = of(request, done)?;
    fill(status, &done);
    of(request, point::check(done)).map(drop)
}

fn some(
    handles: &mut [MPI_Request],
    requests: &[Option<Arc<Request>>],
    done: Option<Vec<(usize, Status)>>,
    outcount: Out<c_int>,
    array_of_indices: OutArray<c_int>,
    array_of_statuses: OutStatuses,
) -> Result {
    let Some(done) = done else {
        outcount.put(abi::RANK.to_c(MPI_UNDEFINED));
        return Ok(());
    };
    outcount.put(done.len() as c_int);
    let indices = array_of_indices.slice(done.len())?;
    for (into, (index, _)) in indices.iter_mut().zip(&done) {
        *into = *index as c_int;
        if let Some(request) = &requests[*index] {
            end(&mut handles[*index], request);
        }
    }
    fill_all(requests, array_of_statuses, &done)
}
