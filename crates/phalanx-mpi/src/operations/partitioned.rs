//! Messages in partitions, which several threads fill (MPI 5.0, chapter 4). The message goes when all of it is ready.
//!
//! Sends and receives match in the order in which they are prepared, whatever is started first. So a send that is
//! prepared chooses a channel, and announces it in a message with the program's tag; the receive that was prepared for
//! that tag hears of it. What is sent at each start has the channel as its tag.

use crate::constants::MPI_ANY_TAG;
use crate::error::{Class, Result, fail};
use crate::objects::buffer::Buffer;
use crate::objects::comm::{ANY_SOURCE, Comm, Use};
use crate::objects::errhandler::Owner;
use crate::objects::partitions::Partitions;
use crate::objects::request::{Active, Request};
use crate::operations::point;
use crate::process::engine::{Mode, Outgoing, Scatter, Status, Target};
use crate::process::tasks::{Task, outcome};
use crate::process::world::{World, world};
use phalanx_core::spmd::Pattern;
use phalanx_net::sync::lock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// The next channel. Channels are negative, so that they differ from the program's tags.
static NEXT_CHANNEL: AtomicI32 = AtomicI32::new(0);

/// A message that tells a receive its channel.
#[derive(Default)]
struct Announcement(Mutex<[u8; 4]>);

impl Scatter for Announcement {
    fn capacity(&self) -> usize {
        4
    }

    fn put(&self, position: usize, bytes: &[u8]) {
        lock(&self.0)[position..][..bytes.len()].copy_from_slice(bytes);
    }
}

/// What a receive knows of its channel: nothing yet, or why there is none.
type Channel = Arc<Mutex<Option<Result<i32>>>>;

/// Chooses the channel of a send, and tells the receive.
fn announce(world: &World, comm: &Comm, process: u32, tag: i32) -> i32 {
    let channel = -1 - (NEXT_CHANNEL.fetch_add(1, Ordering::Relaxed) & i32::MAX);
    let (envelope, data) = (comm.envelope(Use::Partitioned, tag), Outgoing::Owned(channel.to_le_bytes().to_vec()));
    let mut engine = world.engine();
    if let Some(request) = engine.send(process, envelope, data, Mode::Standard) {
        engine.detach(request);
    }
    channel
}

/// Hears of a channel. This has its turn among the receives of its tag even if the request is freed before.
fn hear(world: &'static World, pattern: Pattern) -> Channel {
    let (announcement, channel) = (Arc::new(Announcement::default()), Channel::default());
    let request = world.engine().receive(pattern, Target::Scattered(announcement.clone()));
    let heard = channel.clone();
    Task::begin(world, async move {
        let outcome = point::check(outcome(world, request).await);
        *lock(&heard) = Some(outcome.map(|_| i32::from_le_bytes(*lock(&announcement.0))));
        Ok(())
    });
    channel
}

/// MPI_Psend_init: the request's handle.
pub fn prepare_send(comm: (u32, Arc<Comm>), buffer: Buffer, partitions: usize, to: i32, tag: i32) -> Result<u32> {
    let ((handle, comm), world) = (comm, world()?);
    if tag < 0 {
        return fail(Class::Tag, format!("tag {tag} is negative"));
    }
    let channel = comm.destination(to)?.map(|process| (process, announce(world, &comm, process, tag)));
    let parts = Partitions::new(partitions, true);
    let own = parts.clone();
    let start = move || {
        own.begin();
        let (buffer, comm, parts) = (buffer.clone(), comm.clone(), own.clone());
        Ok(Active::Task(Task::begin(world, async move {
            std::future::poll_fn(|_| match parts.are_ready() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            let Some((process, channel)) = channel else { return Ok(()) };
            let (envelope, data) = (comm.envelope(Use::Partitioned, channel), buffer.outgoing());
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
    if from == ANY_SOURCE || tag == MPI_ANY_TAG {
        let (class, name) =
            if tag == MPI_ANY_TAG { (Class::Tag, "MPI_ANY_TAG") } else { (Class::Rank, "MPI_ANY_SOURCE") };
        return fail(class, format!("a receive in partitions cannot have {name}: it matches one send for good"));
    }
    let channel = comm.pattern(Use::Partitioned, from, tag)?.map(|pattern| (pattern, hear(world, pattern)));
    let start = move || {
        let Some((pattern, channel)) = channel.clone() else { return Ok(Active::Done(point::NOBODY)) };
        let buffer = buffer.clone();
        Ok(Active::Task(Task::begin_with_status(world, async move {
            let known = std::future::poll_fn(|_| match &*lock(&channel) {
                Some(known) => Poll::Ready(known.clone()),
                None => Poll::Pending,
            });
            let pattern = Pattern { tag: Some(known.await?), ..pattern };
            let request = world.engine().receive(pattern, buffer.target());
            Ok(Status { tag, ..outcome(world, request).await })
        })))
    };
    Request::put_partitioned(Owner::comm(handle), Box::new(start), Some(Partitions::new(partitions, false)))
}
