//! An operation is carried out at once, beside the program, or again and again.

use super::Call;
use crate::error::Result;
use crate::objects::comm::Comm;
use crate::objects::request::{Active, Start};
use crate::process::blocking::block_on;
use crate::process::tasks::{Lent, Task};
use crate::process::world::World;
use std::pin::pin;
use std::sync::Arc;

/// An operation with its checked arguments.
pub trait Operation: AsyncFn(&Call) -> Result<()> + 'static {}

impl<T: AsyncFn(&Call) -> Result<()> + 'static> Operation for T {}

/// Does it now.
#[inline]
pub fn run(world: &'static World, comm: Arc<Comm>, operation: impl Operation) -> Result<()> {
    let call = Call::new(world, comm);
    // Pinned here, since it is large to be moved.
    block_on(world, pin!(operation(&call)))
}

/// Begins it: for a non-blocking call.
pub fn begin(world: &'static World, comm: Arc<Comm>, operation: impl Operation) -> Active {
    let call = Call::new(world, comm);
    Active::Task(Task::begin(world, async move { operation(&call).await }))
}

/// Begins it at each start: for a persistent request.
pub fn persistent(world: &'static World, comm: Arc<Comm>, operation: impl Operation) -> Start {
    let lent = Lent((Call::persistent(world, comm), Arc::new(operation)));
    Box::new(move || {
        let Lent((call, operation)) = &lent;
        let (call, operation) = (call.again(), operation.clone());
        Ok(Active::Task(Task::begin(world, async move { operation(&call).await })))
    })
}
