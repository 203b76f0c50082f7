//! Blocking operations of a few bytes between processes of one machine, step by step in the calling thread: a task, which goes
//! on when something has come, would cost more than the messages. They are the same messages as those of [`super::operations`], so
//! it is nobody's business which of the two another process uses. Whatever is unusual about a call is left to those.

use super::operations::Operands;
use super::{Call, Scratch, Span, barrier, bcast};
use crate::comm::Comm;
use crate::datatype::Datatype;
use crate::error::Result;
use crate::handle::Held;
use crate::op::Predefined;
use crate::quick::Passed;
use crate::world::world;

/// Bytes up to which it is done so.
const SHORT: usize = 1 << 10;

/// The communicator, where its operations go in no levels.
fn comm(handle: u32) -> Option<Held<Comm>> {
    let is_plain = |comm: &Held<Comm>| comm.remote.is_none() && !comm.is_revoked();
    let comm = world().ok().filter(|world| world.machines.is_empty()).and_then(|_| Comm::held(handle));
    comm.filter(is_plain)
}

/// What came of an operation; None when it is not to be done so.
type Done = Option<Result<()>>;

/// MPI_Barrier.
pub fn short_barrier(handle: u32) -> Done {
    let call = Call::new(world().ok()?, comm(handle)?);
    for (to, from) in barrier::rounds(call.rank(), call.size()) {
        call.swap_now(to, Span::EMPTY, from, Span::EMPTY);
    }
    Some(call.outcome())
}

/// MPI_Bcast.
pub fn short_bcast(handle: u32, buffer: Passed, root: i32) -> Done {
    let length = buffer.bytes(SHORT)?;
    let comm = comm(handle)?;
    let root = usize::try_from(root).ok().filter(|root| *root < comm.size())?;
    let call = Call::new(world().ok()?, comm);
    // SAFETY: by the contract of the call, the program lends its buffer until the operation is done.
    let data = unsafe { Span::new(buffer.start, length) };
    let (parent, children) = bcast::tree(call.rank(), call.size(), root);
    if let Some(parent) = parent {
        call.get_now(parent, data);
    }
    children.for_each(|child| call.put_now(child, data));
    Some(call.outcome())
}

/// MPI_Allreduce with a predefined operation, of as many processes as a power of two. `send` is None in place.
pub fn short_allreduce(handle: u32, operands: Operands) -> Done {
    let Operands { send, receive, count, datatype, op } = operands;
    let receive = receive?;
    let length = Passed { start: receive, count, datatype }.bytes(SHORT)?;
    let is_buffer = |start: *mut u8| Passed { start, count, datatype }.bytes(SHORT).is_some() && start != receive;
    if !send.is_none_or(is_buffer) {
        return None;
    }
    let function = Predefined::of(op)?.for_kind(Datatype::predefined_at(datatype)?.predefined()?).ok()?;
    let comm = comm(handle).filter(|comm| comm.size().is_power_of_two())?;
    let call = Call::new(world().ok()?, comm);
    // SAFETY: by the contract of the call, the program lends its buffers until the operation is done.
    let (own, data) = unsafe { (Span::new(send.unwrap_or(receive), length), Span::new(receive, length)) };
    own.copy_to(data);
    let mut other = Scratch::new(length);
    let (mut mine, mut theirs) = (data, other.span());
    let mut distance = 1;
    while distance < call.size() {
        let partner = call.rank() ^ distance;
        call.swap_now(partner, mine, partner, theirs);
        if partner > call.rank() {
            (mine, theirs) = (theirs, mine); // the operand of the lower rank is on the left
        }
        // SAFETY: both hold `count` elements of the datatype, which lie in one run.
        unsafe { function(theirs.start(), mine.start(), count as usize) };
        distance *= 2;
    }
    mine.copy_to(data);
    Some(call.outcome())
}
