//! Memory for buffered sends, that a program attaches to itself, to a session or to a communicator (MPI 5.0, 3.6).
//!
//! Copies are kept by this library; the program's memory only says how much may be under way, and a send for which that
//! does not suffice fails, as the standard has it.

use crate::error::{Class, Result, fail};
use crate::objects::buffer::Buffer;
use crate::process::engine::Outgoing;
use crate::process::tasks::{Task, outcome};
use crate::process::world::World;
use phalanx_net::copy::copied;
use phalanx_net::sync::lock;
use std::sync::{Arc, Mutex};

/// What a copy costs besides its bytes; programs are told to add more than that (MPI_BSEND_OVERHEAD).
const OVERHEAD: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub struct Attached(Mutex<State>);

#[derive(Debug)]
struct State {
    address: usize,
    bytes: usize,
    /// None: as much as is needed (MPI_BUFFER_AUTOMATIC).
    limit: Option<usize>,
    /// What is under way: requests of the engine, and bytes.
    sends: Vec<(usize, usize)>,
}

const NOTHING: State = State { address: 0, bytes: 0, limit: Some(0), sends: Vec::new() };

impl Default for State {
    fn default() -> State {
        NOTHING
    }
}

/// That of the process, for communicators that have none, nor has the session that they come from.
pub static ATTACHED: Attached = Attached(Mutex::new(NOTHING));

impl Attached {
    /// Whether the program has attached something.
    pub(crate) fn is_there(&self) -> bool {
        lock(&self.0).limit != Some(0)
    }

    /// MPI_Buffer_attach.
    pub fn attach(&self, address: usize, bytes: usize, automatic: bool) -> Result<()> {
        if self.is_there() {
            return fail(Class::Buffer, "a buffer is attached");
        }
        let mut state = lock(&self.0);
        (state.address, state.bytes) = (address, bytes);
        state.limit = (!automatic).then_some(bytes);
        Ok(())
    }

    /// MPI_Buffer_detach: waits until all of it was sent; its address and length.
    pub fn detach(&self, world: &World) -> (usize, usize) {
        self.flush(world);
        let mut state = lock(&self.0);
        state.limit = Some(0);
        (std::mem::take(&mut state.address), std::mem::take(&mut state.bytes))
    }

    /// MPI_Buffer_flush: waits until all of it was sent.
    pub fn flush(&self, world: &World) {
        for (request, _) in std::mem::take(&mut lock(&self.0).sends) {
            world.wait(|engine| engine.outcome(request));
        }
    }

    /// MPI_Buffer_iflush.
    pub fn begin_flush(&self, world: &'static World) -> Arc<Task> {
        let sends = std::mem::take(&mut lock(&self.0).sends);
        Task::begin(world, async move {
            for (request, _) in sends {
                outcome(world, request).await;
            }
            Ok(())
        })
    }

    /// Makes a copy of what is sent.
    pub fn copy(&self, world: &World, buffer: &Buffer) -> Result<Vec<u8>> {
        world.progress();
        let mut state = lock(&self.0);
        let mut engine = world.engine();
        state.sends.retain(|(request, _)| engine.outcome(*request).is_none());
        drop(engine);
        let used: usize = state.sends.iter().map(|(_, bytes)| bytes + OVERHEAD).sum();
        if let Some(limit) = state.limit.filter(|limit| used + buffer.bytes() > *limit) {
            let left = limit.saturating_sub(used);
            return fail(
                Class::Buffer,
                format!("the attached buffer has {left} bytes left of {limit}, {} are sent", buffer.bytes()),
            );
        }
        Ok(match buffer.outgoing() {
            Outgoing::Owned(packed) => packed,
            // SAFETY: the caller of the send lends the memory.
            borrowed => copied(unsafe { borrowed.bytes() }),
        })
    }

    /// A copy is under way.
    pub fn sent(&self, request: usize, bytes: usize) {
        lock(&self.0).sends.push((request, bytes));
    }
}
