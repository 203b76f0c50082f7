//! Point-to-point communication (MPI 5.0, chapter 3).

use super::argument::{Number, Out, OutStatus, count};
use super::failure::{Owner, Result, concerns, nobody};
use super::message::{buffer, fill, passed};
use crate::abi::{self, MPI_Comm, MPI_Datatype, MPI_Message, MPI_Request};
use phalanx_mpi::constants::MPI_REQUEST_NULL;
use phalanx_mpi::objects::attached::ATTACHED;
use phalanx_mpi::objects::buffer::Buffer;
use phalanx_mpi::objects::comm::Comm;
use phalanx_mpi::objects::request::{Active, REQUEST_DONE, REQUEST_NULL, Request};
use phalanx_mpi::operations::point::{self, MESSAGE_NO_PROC, MESSAGE_NULL, Sending};
use phalanx_mpi::operations::quick;
use phalanx_mpi::process::world::world;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// What a send's and a receive's arguments come to.
struct Place {
    comm: Arc<Comm>,
    rank: i32,
    tag: i32,
    handle: u32,
}

fn place(comm: MPI_Comm, rank: c_int, tag: c_int) -> Result<Place> {
    let (rank, tag) = (abi::RANK.from_c(rank), abi::TAG.from_c(tag));
    Ok(Place { comm: Comm::of(comm.id())?, rank, tag, handle: comm.id() })
}

fn send(buffer: Buffer, place: &Place, how: Sending) -> Result {
    Ok(point::send_and_wait(world()?, &place.comm, &buffer, place.rank, place.tag, how)?)
}

/// Whether it is sent on the shortest way.
#[inline]
fn is_sent(
    buf: *const c_void,
    count: impl Number,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> bool {
    let (rank, tag) = (abi::RANK.from_c(dest), abi::TAG.from_c(tag));
    quick::send(passed(buf, count, datatype), rank, tag, comm.id())
}

fn begin_send(buffer: Buffer, place: &Place, how: Sending, request: Out<MPI_Request>) -> Result {
    let active = point::send(world()?, &place.comm, &buffer, place.rank, place.tag, how)?;
    put(request, Request::put(Owner::comm(place.handle), active)?)
}

fn prepare_send(buffer: Buffer, place: Place, how: Sending, request: Out<MPI_Request>) -> Result {
    let handle = place.handle;
    place.comm.destination(place.rank)?;
    let start = move || point::send(world()?, &place.comm, &buffer, place.rank, place.tag, how);
    put(request, Request::put_persistent(Owner::comm(handle), Box::new(start))?)
}

fn put(request: Out<MPI_Request>, handle: u32) -> Result {
    request.put(MPI_Request::of(handle));
    Ok(())
}

macro_rules! sends {
    ($($blocking:ident $begin:ident $prepare:ident $how:ident;)*) => {
        mpi! { $(
            large_fn $blocking(
                buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm
            ) on comm {
                if Sending::$how != Sending::Standard || !is_sent(buf, count, datatype, dest, tag, comm) {
                    send(buffer(buf, count, datatype)?, &place(comm, dest, tag)?, Sending::$how)?;
                }
            }

            large_fn $begin(
                buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
                request: Out<MPI_Request>
            ) on comm {
                if Sending::$how == Sending::Standard && is_sent(buf, count, datatype, dest, tag, comm) {
                    put(request, REQUEST_DONE)?;
                } else {
                    begin_send(buffer(buf, count, datatype)?, &place(comm, dest, tag)?, Sending::$how, request)?;
                }
            }

            large_fn $prepare(
                buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
                request: Out<MPI_Request>
            ) on comm {
                prepare_send(buffer(buf, count, datatype)?, place(comm, dest, tag)?, Sending::$how, request)?;
            }
        )* }
    };
}

// A ready send is a standard one of which more is known.
sends! {
    MPI_Send MPI_Isend MPI_Send_init Standard;
    MPI_Ssend MPI_Issend MPI_Ssend_init Synchronous;
    MPI_Bsend MPI_Ibsend MPI_Bsend_init Buffered;
    MPI_Rsend MPI_Irsend MPI_Rsend_init Standard;
}

mpi! {
    large_fn MPI_Recv(
        buf: *mut c_void, count: Count, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        status: OutStatus
    ) on comm {
        let (from, its_tag) = (abi::RANK.from_c(source), abi::TAG.from_c(tag));
        match quick::receive(passed(buf, count, datatype), from, its_tag, comm.id()) {
            Some(received) => fill(status, &received),
            None => receive(buffer(buf, count, datatype)?, &place(comm, source, tag)?, status)?,
        }
    }

    large_fn MPI_Irecv(
        buf: *mut c_void, count: Count, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>
    ) on comm {
        let (from, its_tag) = (abi::RANK.from_c(source), abi::TAG.from_c(tag));
        match quick::begin_receive(passed(buf, count, datatype), from, its_tag, comm.id()) {
            Some(begun) => put(request, begun)?,
            None => begin_receive(buffer(buf, count, datatype)?, &place(comm, source, tag)?, request)?,
        }
    }

    large_fn MPI_Recv_init(
        buf: *mut c_void, count: Count, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>
    ) on comm {
        let (buffer, place) = (buffer(buf, count, datatype)?, place(comm, source, tag)?);
        let handle = place.handle;
        place.comm.pattern(phalanx_mpi::objects::comm::Use::Point, place.rank, place.tag)?;
        let start = move || point::receive(world()?, &place.comm, &buffer, place.rank, place.tag);
        put(request, Request::put_persistent(Owner::comm(handle), Box::new(start))?)?;
    }

    large_fn MPI_Sendrecv(
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, dest: c_int, sendtag: c_int,
        recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype, source: c_int, recvtag: c_int,
        comm: MPI_Comm, status: OutStatus
    ) on comm {
        let (out, to) = (buffer(sendbuf, sendcount, sendtype)?, place(comm, dest, sendtag)?);
        let (into, from) = (buffer(recvbuf, recvcount, recvtype)?, place(comm, source, recvtag)?);
        exchange(&out, &to, &into, &from, status)?;
    }

    large_fn MPI_Sendrecv_replace(
        buf: *mut c_void, count: Count, datatype: MPI_Datatype, dest: c_int, sendtag: c_int, source: c_int,
        recvtag: c_int, comm: MPI_Comm, status: OutStatus
    ) on comm {
        let (into, from) = (buffer(buf, count, datatype)?, place(comm, source, recvtag)?);
        replace(&into, &place(comm, dest, sendtag)?, &from, status)?;
    }

    large_fn MPI_Isendrecv(
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype, dest: c_int, sendtag: c_int,
        recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype, source: c_int, recvtag: c_int,
        comm: MPI_Comm, request: Out<MPI_Request>
    ) on comm {
        let (out, to) = (buffer(sendbuf, sendcount, sendtype)?, place(comm, dest, sendtag)?);
        let (into, from) = (buffer(recvbuf, recvcount, recvtype)?, place(comm, source, recvtag)?);
        begin_exchange(out, to, into, from, request)?;
    }

    large_fn MPI_Isendrecv_replace(
        buf: *mut c_void, count: Count, datatype: MPI_Datatype, dest: c_int, sendtag: c_int, source: c_int,
        recvtag: c_int, comm: MPI_Comm, request: Out<MPI_Request>
    ) on comm {
        let (into, from) = (buffer(buf, count, datatype)?, place(comm, source, recvtag)?);
        begin_replace(into, place(comm, dest, sendtag)?, from, request)?;
    }

    fn MPI_Probe(source: c_int, tag: c_int, comm: MPI_Comm, status: OutStatus) on comm {
        let place = place(comm, source, tag)?;
        fill(status, &point::probe(world()?, &place.comm, place.rank, place.tag)?);
    }

    fn MPI_Iprobe(source: c_int, tag: c_int, comm: MPI_Comm, flag: Out<c_int>, status: OutStatus) on comm {
        let place = place(comm, source, tag)?;
        let found = point::probe_now(world()?, &place.comm, place.rank, place.tag)?;
        flag.put_flag(found.is_some());
        found.iter().for_each(|found| fill(status, found));
    }

    fn MPI_Mprobe(
        source: c_int, tag: c_int, comm: MPI_Comm, message: Out<MPI_Message>, status: OutStatus
    ) on comm {
        let place = place(comm, source, tag)?;
        let (taken, found) = point::take(world()?, &place.comm, place.handle, place.rank, place.tag)?;
        message.put(MPI_Message::of(taken));
        fill(status, &found);
    }

    fn MPI_Improbe(
        source: c_int, tag: c_int, comm: MPI_Comm, flag: Out<c_int>, message: Out<MPI_Message>, status: OutStatus
    ) on comm {
        let place = place(comm, source, tag)?;
        let found = point::take_now(world()?, &place.comm, place.handle, place.rank, place.tag)?;
        flag.put_flag(found.is_some());
        message.put(MPI_Message::of(found.map_or(MESSAGE_NULL, |(taken, _)| taken)));
        found.iter().for_each(|(_, found)| fill(status, found));
    }

    large_fn MPI_Mrecv(
        buf: *mut c_void, count: Count, datatype: MPI_Datatype, message: Out<MPI_Message>, status: OutStatus
    ) {
        let owner = owner_of(message);
        concerns(|| owner, buffer(buf, count, datatype).and_then(|buffer| receive_taken(message, &buffer, status)))?;
    }

    large_fn MPI_Imrecv(
        buf: *mut c_void, count: Count, datatype: MPI_Datatype, message: Out<MPI_Message>, request: Out<MPI_Request>
    ) {
        let owner = owner_of(message);
        let begin = |buffer| Ok(point::receive_taken(world()?, message.get().id(), &buffer)?);
        let active = concerns(|| owner.clone(), buffer(buf, count, datatype).and_then(begin))?;
        message.put(MPI_Message::of(MESSAGE_NULL));
        put(request, Request::put(owner, active)?)?;
    }

    large_fn MPI_Buffer_attach(buffer: *mut c_void, size: Count) {
        let automatic = std::ptr::eq(buffer, abi::address::BUFFER_AUTOMATIC);
        ATTACHED.attach(buffer as usize, count(size, "size")?, automatic)?;
    }

    large_fn MPI_Buffer_detach(buffer_addr: Out<*mut c_void>, size: Out<Count>) {
        let (address, bytes) = ATTACHED.detach(world()?);
        buffer_addr.put(address as *mut c_void);
        size.put(Count::narrow(bytes as i64).unwrap_or(Count::MAX));
    }

    fn MPI_Buffer_flush() {
        ATTACHED.flush(world()?);
    }

    fn MPI_Buffer_iflush(request: Out<MPI_Request>) {
        let task = ATTACHED.begin_flush(world()?);
        put(request, Request::put(nobody(), Active::Task(task))?)?;
    }
}

fn begin_receive(buffer: Buffer, place: &Place, request: Out<MPI_Request>) -> Result {
    let active = point::receive(world()?, &place.comm, &buffer, place.rank, place.tag)?;
    put(request, Request::put(Owner::comm(place.handle), active)?)
}

fn receive(buffer: Buffer, place: &Place, status: OutStatus) -> Result {
    let received = point::receive_and_wait(world()?, &place.comm, &buffer, place.rank, place.tag)?;
    fill(status, &received);
    point::check(received)?;
    Ok(())
}

/// The communicator that a message was taken out of.
fn owner_of(message: Out<MPI_Message>) -> Owner {
    point::comm_of_taken(message.get().id()).map_or_else(nobody, Owner::comm)
}

fn receive_taken(message: Out<MPI_Message>, buffer: &Buffer, status: OutStatus) -> Result {
    let received = point::finish(world()?, point::receive_taken(world()?, message.get().id(), buffer)?);
    message.put(MPI_Message::of(MESSAGE_NULL));
    fill(status, &received);
    point::check(received)?;
    Ok(())
}

/// Sends and receives at once.
fn exchange(out: &Buffer, to: &Place, into: &Buffer, from: &Place, status: OutStatus) -> Result {
    let world = world()?;
    let receive = point::receive(world, &from.comm, into, from.rank, from.tag)?;
    let send = match point::send(world, &to.comm, out, to.rank, to.tag, Sending::Standard) {
        Ok(send) => send,
        Err(error) => {
            if let Active::Point(receive) = receive {
                let mut engine = world.engine();
                engine.cancel(receive);
                engine.detach(receive);
            }
            return Err(error.into());
        }
    };
    let received = point::finish(world, receive);
    point::check(point::finish(world, send))?;
    fill(status, &received);
    point::check(received)?;
    Ok(())
}

/// What is to be sent, before it is overwritten.
fn copy(buffer: &Buffer) -> Vec<u8> {
    let data = buffer.outgoing();
    // SAFETY: the caller lends the memory for this call.
    unsafe { data.bytes() }.to_vec()
}

fn bytes(data: &[u8]) -> Result<Buffer> {
    let datatype = phalanx_mpi::objects::datatype::Datatype::of(phalanx_mpi::constants::MPI_BYTE)?;
    Ok(Buffer::new(data.as_ptr().cast_mut(), data.len(), datatype)?)
}

fn replace(into: &Buffer, to: &Place, from: &Place, status: OutStatus) -> Result {
    let data = copy(into);
    exchange(&bytes(&data)?, to, into, from, status)
}

fn begin_exchange(out: Buffer, to: Place, into: Buffer, from: Place, request: Out<MPI_Request>) -> Result {
    begin_both(None, out, to, into, from, request)
}

fn begin_replace(into: Buffer, to: Place, from: Place, request: Out<MPI_Request>) -> Result {
    let data = copy(&into);
    let out = bytes(&data)?;
    begin_both(Some(data), out, to, into, from, request)
}

/// Both as one request, whose status is that of the receive.
fn begin_both(
    data: Option<Vec<u8>>,
    out: Buffer,
    to: Place,
    into: Buffer,
    from: Place,
    request: Out<MPI_Request>,
) -> Result {
    let world = world()?;
    to.comm.destination(to.rank)?;
    let receive = point::receive(world, &from.comm, &into, from.rank, from.tag)?;
    let send = point::send(world, &to.comm, &out, to.rank, to.tag, Sending::Standard)?;
    let task = phalanx_mpi::process::tasks::Task::begin_with_status(world, async move {
        let _lent = data;
        let finish = async |active| match active {
            Active::Point(request) => phalanx_mpi::process::tasks::outcome(world, request).await,
            Active::Done(status) => status,
            _ => phalanx_mpi::process::engine::EMPTY,
        };
        let (sent, received) = (finish(send).await, finish(receive).await);
        point::check(sent)?;
        Ok(received)
    });
    put(request, Request::put(Owner::comm(from.handle), Active::Task(task))?)
}

/// So that nobody forgets what a request that is null is.
const _: () = assert!(MPI_REQUEST_NULL == REQUEST_NULL && MESSAGE_NO_PROC == MESSAGE_NULL + 1);
