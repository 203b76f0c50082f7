//! Messages in partitions, which several threads fill (MPI 5.0, chapter 4). The message goes when all of it is ready.

use crate::comm::{Comm, Use};
use crate::engine::Mode;
use crate::errhandler::Owner;
use crate::error::{Class, Result, fail};
use crate::point::{self, Buffer};
use crate::request::{Active, Request};
use crate::tasks::{Task, outcome};
use crate::world::{World, world};
use phalanx_net::sync::lock;
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// Which partitions of a message are ready.
pub struct Partitions {
    ready: Mutex<Vec<bool>>,
    sends: bool,
}

impl Partitions {
    fn new(count: usize, sends: bool) -> Arc<Partitions> {
        Arc::new(Partitions { ready: Mutex::new(vec![false; count]), sends })
    }

    /// MPI_Pready.
    pub fn make_ready(&self, world: &World, partition: i32) -> Result<()> {
        if !self.sends {
            return fail(Class::Request, "the request is no send in partitions");
        }
        let mut ready = lock(&self.ready);
        let count = ready.len();
        match usize::try_from(partition).ok().and_then(|partition| ready.get_mut(partition)) {
            None => return fail(Class::Arg, format!("partition {partition} is not in 0..{count}")),
            Some(true) => return fail(Class::Arg, format!("partition {partition} is ready already")),
            Some(ready) => *ready = true,
        }
        drop(ready);
        world.note_completion();
        crate::tasks::poll(world);
        Ok(())
    }

    /// MPI_Parrived: partitions arrive together.
    pub fn check_arriving(&self, partition: i32) -> Result<()> {
        let count = lock(&self.ready).len();
        if self.sends {
            return fail(Class::Request, "the request is no receive in partitions");
        }
        if !usize::try_from(partition).is_ok_and(|partition| partition < count) {
            return fail(Class::Arg, format!("partition {partition} is not in 0..{count}"));
        }
        Ok(())
    }
}

/// MPI_Psend_init: the request's handle.
pub fn prepare_send(comm: (u32, Arc<Comm>), buffer: Buffer, partitions: usize, to: i32, tag: i32) -> Result<u32> {
    let ((handle, comm), world) = (comm, world()?);
    let process = comm.destination(to)?;
    let parts = Partitions::new(partitions, true);
    let own = parts.clone();
    let start = move || {
        lock(&own.ready).iter_mut().for_each(|ready| *ready = false);
        let (buffer, envelope, parts) = (buffer.clone(), comm.envelope(Use::Partitioned, tag), own.clone());
        Ok(Active::Task(Task::begin(world, async move {
            std::future::poll_fn(|_| match lock(&parts.ready).iter().all(|ready| *ready) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            let Some(process) = process else { return Ok(()) };
            let data = buffer.outgoing();
            let request = world.engine().send(process, envelope, data, Mode::Standard);
            match request {
                Some(request) => point::check(outcome(world, request).await).map(drop),
                None => Ok(()),
            }
        })))
    };
    Request::put_partitioned(Owner::comm(handle), Box::new(start), Some(parts))
}

/// MPI_Precv_init: the request's handle.
pub fn prepare_receive(comm: (u32, Arc<Comm>), buffer: Buffer, partitions: usize, from: i32, tag: i32) -> Result<u32> {
    let ((handle, comm), world) = (comm, world()?);
    let pattern = comm.pattern(Use::Partitioned, from, tag)?;
    let start = move || {
        let Some(pattern) = pattern else { return Ok(Active::Done(point::NOBODY)) };
        Ok(Active::Point(world.engine().receive(pattern, buffer.target())))
    };
    Request::put_partitioned(Owner::comm(handle), Box::new(start), Some(Partitions::new(partitions, false)))
}
