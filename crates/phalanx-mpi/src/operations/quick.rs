//! Blocking sends and receives of a few bytes, as programs call them, on their shortest way. Whatever is unusual about a
//! call is left to [`crate::operations::point`], also what is wrong with it.

use crate::objects::comm::{Comm, Use};
use crate::objects::datatype::Datatype;
use crate::objects::errhandler::Owner;
use crate::objects::handle::Held;
use crate::objects::request::{Active, Request, expose};
use crate::process::engine::{Outgoing, SHORT, Status, Target};
use crate::process::world::world;

/// A buffer as a program passes it, and lends it for a call.
#[derive(Clone, Copy)]
pub struct Passed {
    /// Its address.
    pub start: *mut u8,
    /// The number of elements.
    pub count: i64,
    /// The handle of the datatype.
    pub datatype: u32,
}

impl Passed {
    /// How many bytes it has, at most so many: of a predefined datatype in one run. None for another one, and for no buffer.
    #[inline]
    pub(crate) fn bytes(&self, most: usize) -> Option<usize> {
        let datatype = Datatype::predefined_at(self.datatype)?;
        let bytes = datatype.packed_size(usize::try_from(self.count).ok()?)?;
        let is_plain = bytes <= most && datatype.is_contiguous() && datatype.true_lower_bound() == 0;
        (is_plain && (bytes == 0 || !self.start.is_null())).then_some(bytes)
    }
}

/// The process that a rank is.
#[inline]
fn process(comm: &Held<Comm>, rank: i32) -> Option<u32> {
    let rank = usize::try_from(rank).ok()?;
    if comm.is_revoked() { None } else { comm.peers().processes.get(rank).copied() }
}

/// MPI_Send. False when nothing was done.
#[inline]
pub fn send(buffer: Passed, to: i32, tag: i32, comm: u32) -> bool {
    let sent = || {
        let data = Outgoing::Borrowed(buffer.start, buffer.bytes(SHORT)?);
        let comm = Comm::held(comm)?;
        let process = process(&comm, to).filter(|_| tag >= 0)?;
        Some(world().ok()?.engine().send_short(process, &comm.envelope(Use::Point, tag), &data))
    };
    sent().unwrap_or(false)
}

/// Begins MPI_Irecv; its request. None when nothing was done.
#[inline]
pub fn begin_receive(buffer: Passed, from: i32, tag: i32, handle: u32) -> Option<u32> {
    let bytes = buffer.bytes(usize::MAX)?;
    let pattern = Comm::held(handle)?.pattern(Use::Point, from, tag).ok()??;
    let mut engine = world().ok()?.engine();
    let request = engine.receive(pattern, Target::Plain(buffer.start, bytes));
    let exposed = expose(&mut engine, request, handle);
    drop(engine);
    exposed.or_else(|| Request::put(Owner::comm(handle), Active::Point(request)).ok())
}

/// MPI_Recv, from one rank. None when nothing was done.
#[inline]
pub fn receive(buffer: Passed, from: i32, tag: i32, comm: u32) -> Option<Status> {
    let bytes = buffer.bytes(usize::MAX)?;
    let comm = Comm::held(comm)?;
    let process = process(&comm, from)?;
    let pattern = comm.pattern(Use::Point, from, tag).ok()??;
    // SAFETY: by the contract of the call, the program lends its buffer.
    unsafe { world().ok()?.receive_short(process, &pattern, buffer.start, bytes) }
}
