//! Blocking operations of a few bytes between processes of one machine, step by step in the calling thread: a task, which goes
//! on when something has come, would cost more than the messages. They are the same messages as those of [`super::operations`], so
//! it is nobody's business which of the two another process uses. Whatever is unusual about a call is left to those.

use super::operations::Operands;
use super::{Call, Scratch, Span, allgather, alltoall, bcast, dissemination, reduce};
use crate::error::Result;
use crate::objects::comm::Comm;
use crate::objects::datatype::Datatype;
use crate::objects::handle::Held;
use crate::objects::op::{Function, Predefined};
use crate::operations::quick::Passed;
use crate::process::world::{World, world};
use std::sync::Arc;

/// Bytes up to which it is done so: what a channel takes in one piece. Beyond that the copies take longer than a task.
const SHORT: usize = 16 << 10;
/// Ranks up to which requests need no allocation.
const FEW: usize = 8;

/// The communicator, where its operations go in no levels.
fn comm(handle: u32) -> Option<Held<Comm>> {
    let world = world().ok()?;
    Comm::held(handle).filter(|comm| goes_short(world, comm))
}

/// Whether the operations of a communicator go in no levels, and between all of its ranks.
fn goes_short(world: &World, comm: &Comm) -> bool {
    world.machines.is_empty() && comm.remote.is_none() && !comm.is_revoked()
}

/// What came of an operation; None when it is not to be done so.
type Done = Option<Result<()>>;

/// MPI_Barrier.
pub fn short_barrier(handle: u32) -> Done {
    Some(meet(Call::new(world().ok()?, comm(handle)?)))
}

/// A barrier of a communicator that has no handle.
pub fn meet_now(world: &'static World, comm: &Arc<Comm>) -> Done {
    goes_short(world, comm).then(|| meet(Call::new(world, comm.clone())))
}

fn meet(call: Call) -> Result<()> {
    for (to, from) in dissemination::rounds(call.rank(), call.size()) {
        call.swap_now(to, Span::EMPTY, from, Span::EMPTY);
    }
    call.outcome()
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
    let function = function(op, datatype)?;
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

/// MPI_Reduce with a predefined operation. `send` is None in place.
pub fn short_reduce(handle: u32, operands: Operands, root: i32) -> Done {
    let Operands { send, receive, count, datatype, op } = operands;
    let function = function(op, datatype)?;
    let comm = comm(handle)?;
    let root = usize::try_from(root).ok().filter(|root| *root < comm.size())?;
    let result = if comm.rank == root { Some(receive?) } else { None };
    let own = send.or(result).filter(|own| send.is_none() || Some(*own) != result)?;
    let length_at = |start: *mut u8| Passed { start, count, datatype }.bytes(SHORT);
    let length = length_at(own)?;
    if result.is_some_and(|result| length_at(result).is_none()) {
        return None;
    }
    let call = Call::new(world().ok()?, comm);
    // SAFETY: by the contract of the call, the program lends its buffers until the operation is done.
    let (mut mine, result) = unsafe { (Span::new(own, length), result.map(|result| Span::new(result, length))) };
    let mut rooms = [Scratch::new(length), Scratch::new(length)];
    let [one, other] = &mut rooms;
    let (mut theirs, mut next) = (one.span(), other.span());
    let (children, parent) = reduce::tree(call.rank(), call.size(), root);
    for child in children {
        call.get_now(child, theirs);
        // SAFETY: both hold `count` elements of the datatype, which lie in one run.
        unsafe { function(mine.start(), theirs.start(), count as usize) };
        mine = theirs;
        std::mem::swap(&mut theirs, &mut next);
    }
    parent.into_iter().for_each(|parent| call.put_now(parent, mine));
    result.into_iter().for_each(|result| mine.copy_to(result));
    Some(call.outcome())
}

/// A predefined operation for a predefined datatype.
fn function(op: u32, datatype: u32) -> Option<Function> {
    Predefined::of(op)?.for_kind(Datatype::predefined_at(datatype)?.predefined()?).ok()
}

/// The blocks of all ranks as a program passes them, and the length of one. `send` is as long as a block, or None in place.
fn equal_blocks(send: Option<Passed>, receive: Passed, size: usize) -> Option<(Option<Span>, Span, usize)> {
    let each = receive.bytes(SHORT)?;
    if each * size > SHORT || send.is_some_and(|send| send.bytes(SHORT) != Some(each) || send.start == receive.start) {
        return None;
    }
    // SAFETY: by the contract of the call, the program lends its buffers until the operation is done.
    Some(unsafe { (send.map(|send| Span::new(send.start, each)), Span::new(receive.start, each * size), each) })
}

/// MPI_Allgather. `send` is None in place.
pub fn short_allgather(handle: u32, send: Option<Passed>, receive: Passed) -> Done {
    let comm = comm(handle)?;
    let (rank, size) = (comm.rank, comm.size());
    let (own, blocks, each) = equal_blocks(send, receive, size)?;
    if own.is_some_and(|own| each > 0 && own.is_at(blocks.part(rank * each, each))) {
        return None;
    }
    let block = |index: usize| blocks.part((rank + index) % size * each, each);
    let call = Call::new(world().ok()?, comm);
    own.into_iter().for_each(|own| own.copy_to(block(0)));
    if size <= 2 {
        (1..size).for_each(|other| call.swap_now((rank + other) % size, block(0), (rank + other) % size, block(other)));
        return Some(call.outcome());
    }
    let mut kept = Scratch::new(each * size);
    let kept = kept.span();
    block(0).copy_to(kept.part(0, each));
    for (have, more) in allgather::steps(size) {
        let (to, from) = ((rank + size - have) % size, (rank + have) % size);
        call.swap_now(to, kept.part(0, more * each), from, kept.part(have * each, more * each));
    }
    (1..size).for_each(|index| kept.part(index * each, each).copy_to(block(index)));
    Some(call.outcome())
}

/// MPI_Alltoall of few ranks. `send` is None in place.
pub fn short_alltoall(handle: u32, send: Option<Passed>, receive: Passed) -> Done {
    let comm = comm(handle)?;
    let (rank, size) = (comm.rank, comm.size());
    let (own, blocks, each) = equal_blocks(Some(send?), receive, size)?;
    if size > FEW || !alltoall::is_direct(each, size) || each == 0 {
        return None;
    }
    // SAFETY: as above; there is a block for each rank.
    let sent = unsafe { Span::new(own?.start(), each * size) };
    let sent = |rank: usize| sent.part(rank * each, each);
    let room = |rank: usize| blocks.part(rank * each, each);
    let call = Call::new(world().ok()?, comm);
    let mut requests = [None; FEW];
    (1..size).for_each(|distance| {
        let to = (rank + distance) % size;
        requests[distance] = call.start_put(to, sent(to));
    });
    sent(rank).copy_to(room(rank));
    (1..size).map(|distance| (rank + size - distance) % size).for_each(|from| call.get_now(from, room(from)));
    requests.into_iter().for_each(|request| call.finish_now(request));
    Some(call.outcome())
}
