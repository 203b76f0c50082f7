//! Work that the calling thread does until it is done, making progress meanwhile.

use crate::process::world::World;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Does the work here and now, which may need nothing but the first look at it.
#[inline]
pub fn block_on_quick<T>(world: &World, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => block_on(world, work),
    }
}

/// Does the work here and now.
pub fn block_on<T>(world: &World, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        let seen = world.engine().completions;
        if let Poll::Ready(outcome) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return outcome;
        }
        world.wait(|engine| (engine.completions != seen).then_some(()));
    }
}
