//! Collective operations (MPI 5.0, chapter 6), as straight-line code over sends and receives: each is an `async fn` on
//! packed bytes. A blocking call works on it until it is done, a non-blocking one makes it a task.

mod barrier;

pub use barrier::barrier;

use crate::comm::{Comm, Use};
use crate::engine::{Mode, Outgoing, Status, Target};
use crate::error::{Error, Result};
use crate::tasks;
use crate::world::World;
use std::sync::Arc;

/// One collective operation, at this process.
pub struct Call {
    pub world: &'static World,
    pub comm: Arc<Comm>,
    tag: i32,
}

impl Call {
    /// The communicator's next one. Made in the order of the program's calls, before anything waits.
    pub fn new(world: &'static World, comm: Arc<Comm>) -> Call {
        let tag = comm.next_turn();
        Call { world, comm, tag }
    }

    pub fn rank(&self) -> usize {
        self.comm.rank
    }

    pub fn size(&self) -> usize {
        self.comm.size()
    }

    /// Begins to send to a rank of the peers (the remote group of an intercommunicator).
    pub fn start_send(&self, to: usize, bytes: &[u8]) -> Option<usize> {
        let process = self.comm.peers().processes[to];
        let data = Outgoing::Borrowed(bytes.as_ptr(), bytes.len());
        self.world.engine().send(process, self.comm.envelope(Use::Collective, self.tag), data, Mode::Standard)
    }

    /// Begins to receive from a rank of the peers.
    pub fn start_receive(&self, from: usize, bytes: &mut [u8]) -> usize {
        let envelope = self.comm.envelope(Use::Collective, self.tag);
        let pattern =
            phalanx_core::spmd::Pattern { context: envelope.context, source: Some(from as i32), tag: Some(self.tag) };
        self.world.engine().receive(pattern, Target::Plain(bytes.as_mut_ptr(), bytes.len()))
    }

    /// Waits for a send that was begun.
    pub async fn sent(&self, request: Option<usize>) -> Result<()> {
        match request {
            Some(request) => check(tasks::outcome(self.world, request).await).map(drop),
            None => Ok(()),
        }
    }

    /// Waits for a receive that was begun; bytes received.
    pub async fn received(&self, request: usize) -> Result<usize> {
        check(tasks::outcome(self.world, request).await).map(|status| status.bytes as usize)
    }

    pub async fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        self.sent(self.start_send(to, bytes)).await
    }

    pub async fn receive(&self, from: usize, bytes: &mut [u8]) -> Result<usize> {
        self.received(self.start_receive(from, bytes)).await
    }

    /// Both at once. Waits for both also when one fails, since the memory is lent to both.
    pub async fn exchange(&self, to: usize, bytes: &[u8], from: usize, into: &mut [u8]) -> Result<usize> {
        let receive = self.start_receive(from, into);
        let send = self.start_send(to, bytes);
        let (sent, received) = (self.sent(send).await, self.received(receive).await);
        sent.and(received)
    }
}

fn check(status: Status) -> Result<Status> {
    match status.error {
        None => Ok(status),
        Some(class) => Err(Error::new(class, class.words())),
    }
}
