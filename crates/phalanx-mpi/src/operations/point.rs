//! Point-to-point communication of a program (MPI 5.0, chapter 3), with its datatypes.

use crate::constants::MPI_ANY_TAG;
use crate::error::{Class, Error, Result, fail};
use crate::objects::buffer::Buffer;
use crate::objects::comm::{Comm, PROC_NULL, Use};
use crate::objects::handle::Table;
use crate::objects::request::Active;
use crate::process::engine::{EMPTY, Engine, Mode, Outgoing, Status, Taken};
use crate::process::wait::Wait;
use crate::process::world::World;
use phalanx_core::spmd::Pattern;
use std::sync::Arc;

/// How a send is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// The send is done when the buffer may be used again.
    Standard,
    /// The send is done when a receive has matched it.
    Synchronous,
    /// From a copy, in the memory that the program attached for it.
    Buffered,
}

/// What a status says of messages from and to nobody.
pub const NOBODY: Status = Status { source: PROC_NULL, tag: MPI_ANY_TAG, ..EMPTY };

/// Begins a send.
pub fn send(world: &World, comm: &Comm, buffer: &Buffer, to: i32, tag: i32, how: Sending) -> Result<Active> {
    if tag < 0 {
        return fail(Class::Tag, format!("tag {tag} is negative"));
    }
    let Some(process) = comm.destination(to)? else { return Ok(Active::Done(NOBODY)) };
    let (mode, data) = match how {
        Sending::Standard => (Mode::Standard, buffer.outgoing()),
        Sending::Synchronous => (Mode::Synchronous, buffer.outgoing()),
        Sending::Buffered => (Mode::Standard, Outgoing::Owned(comm.attached_memory().copy(world, buffer)?)),
    };
    let request = world.engine().send(process, comm.envelope(Use::Point, tag), data, mode);
    if how == Sending::Buffered {
        if let Some(request) = request {
            comm.attached_memory().sent(request, buffer.bytes());
        }
        return Ok(Active::Done(EMPTY));
    }
    Ok(request.map_or(Active::Done(EMPTY), Active::Point))
}

/// Sends, and waits until the buffer may be used again.
#[inline]
pub fn send_and_wait(world: &World, comm: &Comm, buffer: &Buffer, to: i32, tag: i32, how: Sending) -> Result<()> {
    match send(world, comm, buffer, to, tag, how)? {
        Active::Point(request) => check(world.wait_so(Wait::beside_copy(), |engine| engine.outcome(request))).map(drop),
        _ => Ok(()),
    }
}

/// Begins a receive.
#[inline]
pub fn receive(world: &World, comm: &Comm, buffer: &Buffer, from: i32, tag: i32) -> Result<Active> {
    match comm.pattern(Use::Point, from, tag)? {
        None => Ok(Active::Done(NOBODY)),
        Some(pattern) => Ok(Active::Point(world.engine().receive(pattern, buffer.target()))),
    }
}

/// Receives; who sent what. A status with an error is returned as one, after the status was noted.
#[inline]
pub fn receive_and_wait(world: &World, comm: &Comm, buffer: &Buffer, from: i32, tag: i32) -> Result<Status> {
    let Some(pattern) = comm.pattern(Use::Point, from, tag)? else { return Ok(NOBODY) };
    let mut engine = world.engine();
    let request = engine.receive(pattern, buffer.target());
    Ok(world.wait_on(engine, Wait::default(), |engine| engine.outcome(request)))
}

/// Waits for what was begun.
#[inline]
pub fn finish(world: &World, active: Active) -> Status {
    match active {
        Active::Point(request) => world.wait(|engine| engine.outcome(request)),
        Active::Done(status) => status,
        _ => EMPTY,
    }
}

/// Fails with what a status says.
pub fn check(status: Status) -> Result<Status> {
    match status.error {
        None => Ok(status),
        Some(Class::Truncate) => {
            let Status { source, tag, bytes, .. } = status;
            let text =
                format!("the message of rank {source} with tag {tag} is longer than the buffer of {bytes} bytes");
            fail(Class::Truncate, text)
        }
        Some(class) => Err(explain(class)),
    }
}

/// Waits for a message without receiving it.
pub fn probe(world: &World, comm: &Comm, from: i32, tag: i32) -> Result<Status> {
    match comm.pattern(Use::Point, from, tag)? {
        None => Ok(NOBODY),
        Some(pattern) => {
            world.wait(|engine| look(engine, &pattern, |engine, pattern| engine.probe(pattern))).map_err(explain)
        }
    }
}

/// Whether there is a message.
pub fn probe_now(world: &World, comm: &Comm, from: i32, tag: i32) -> Result<Option<Status>> {
    let Some(pattern) = comm.pattern(Use::Point, from, tag)? else { return Ok(Some(NOBODY)) };
    world.progress();
    let found = look(&mut world.engine(), &pattern, |engine, pattern| engine.probe(pattern));
    found.transpose().map_err(explain)
}

/// What a probe finds; why not, where nothing can be found any more.
fn look<T>(
    engine: &mut Engine,
    pattern: &Pattern,
    probe: impl Fn(&mut Engine, &Pattern) -> Option<T>,
) -> Option<std::result::Result<T, Class>> {
    match probe(engine, pattern) {
        Some(found) => Some(Ok(found)),
        None => engine.obstacle(pattern).map(|class| match class {
            Class::ProcFailedPending => Err(Class::ProcFailed),
            class => Err(class),
        }),
    }
}

fn explain(class: Class) -> Error {
    Error::new(class, class.words())
}

/// Canonical handles of messages.
pub const MESSAGE_NULL: u32 = 0x128;
/// MPI_MESSAGE_NO_PROC.
pub const MESSAGE_NO_PROC: u32 = 0x129;

/// A message that was taken out by a probe.
pub struct Message {
    /// The handle of the communicator.
    pub comm: u32,
    taken: Taken,
}

static MESSAGES: Table<Message> = Table::new(9);

/// Waits for a message and takes it out (MPI_Mprobe).
pub fn take(world: &World, comm: &Comm, handle: u32, from: i32, tag: i32) -> Result<(u32, Status)> {
    match comm.pattern(Use::Point, from, tag)? {
        None => Ok((MESSAGE_NO_PROC, NOBODY)),
        Some(pattern) => {
            let taken = world.wait(|engine| look(engine, &pattern, Engine::probe_and_take));
            keep(handle, taken.map_err(explain)?)
        }
    }
}

/// Takes a message out if there is one (MPI_Improbe).
pub fn take_now(world: &World, comm: &Comm, handle: u32, from: i32, tag: i32) -> Result<Option<(u32, Status)>> {
    let Some(pattern) = comm.pattern(Use::Point, from, tag)? else { return Ok(Some((MESSAGE_NO_PROC, NOBODY))) };
    world.progress();
    let taken = look(&mut world.engine(), &pattern, Engine::probe_and_take);
    taken.transpose().map_err(explain)?.map(|taken| keep(handle, taken)).transpose()
}

fn keep(comm: u32, (taken, status): (Taken, Status)) -> Result<(u32, Status)> {
    let message = MESSAGES.put(Arc::new(Message { comm, taken }));
    Ok((message.ok_or_else(|| Error::new(Class::Other, "too many messages were taken out"))?, status))
}

/// The communicator that a message was taken out of; None for what is no such message.
pub fn comm_of_taken(message: u32) -> Option<u32> {
    MESSAGES.get(message).map(|message| message.comm)
}

/// Begins to receive a message that was taken out.
pub fn receive_taken(world: &World, message: u32, buffer: &Buffer) -> Result<Active> {
    if message == MESSAGE_NO_PROC {
        return Ok(Active::Done(NOBODY));
    }
    match MESSAGES.take(message) {
        Some(message) => Ok(Active::Point(world.engine().receive_message(message.taken, buffer.target()))),
        None => fail(Class::Request, "message is MPI_MESSAGE_NULL, or was received"),
    }
}
