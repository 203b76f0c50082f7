//! The partitions of a message, which several threads fill (MPI 5.0, chapter 4).

use crate::error::{Class, Result, fail};
use crate::process::tasks;
use crate::process::world::World;
use phalanx_net::sync::lock;
use std::sync::{Arc, Mutex};

/// Which partitions of a message are ready.
pub struct Partitions {
    ready: Mutex<Vec<bool>>,
    sends: bool,
}

impl Partitions {
    /// Of a message with so many, none of which is ready.
    pub fn new(count: usize, sends: bool) -> Arc<Partitions> {
        Arc::new(Partitions { ready: Mutex::new(vec![false; count]), sends })
    }

    /// The message is begun again: none is ready.
    pub(crate) fn begin(&self) {
        lock(&self.ready).iter_mut().for_each(|ready| *ready = false);
    }

    /// Whether all are ready, so that the message may go.
    pub(crate) fn are_ready(&self) -> bool {
        lock(&self.ready).iter().all(|ready| *ready)
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
        tasks::poll(world);
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
