//! The engine, held for a moment by the thread that uses it.

use crate::process::engine::Engine;
use crate::process::turn::Taken;
use crate::process::world::World;
use std::ops::{Deref, DerefMut};

impl World {
    /// The engine, for a moment.
    #[inline]
    pub fn engine(&self) -> Hold<'_> {
        let engine = self.engine.take();
        Hold { before: engine.completions, engine, world: self }
    }

    /// Something has come that a thread of this process may sleep for.
    pub(crate) fn wake(&self) {
        self.note_completion();
        self.bell.iter().for_each(|bell| bell.ring());
    }

    /// Something other than a send or a receive was completed.
    pub fn note_completion(&self) {
        self.engine().completions += 1;
    }

    /// Other threads of this process may wait for what this one has done; so many sleepers are not other ones.
    #[inline]
    pub(super) fn tell_sleepers(&self, own: u32) {
        if self.sleepers.count() > own {
            self.bell.as_ref().inspect(|bell| bell.ring());
        }
    }
}

/// The engine in use. Other threads may sleep until something is done that is done here: they hear of it at the end.
pub struct Hold<'a> {
    engine: Taken<'a, Engine>,
    before: u64,
    world: &'a World,
}

impl Deref for Hold<'_> {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for Hold<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

impl Drop for Hold<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.engine.completions != self.before {
            self.world.tell_sleepers(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::engine::{Mode, Outgoing, Target};
    use crate::process::transport::Bell;
    use phalanx_core::spmd::{Envelope, Pattern};
    use rustix::event::{EventfdFlags, eventfd};
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    /// A thread may sleep until its receive is done by another thread's send.
    #[test]
    fn what_one_thread_does_wakes_the_others() {
        let bell = Arc::new(Bell::new(eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd")));
        let world = World { bell: Some(bell.clone()), ..World::alone() };
        let (sleeps, mut got) = (AtomicU32::new(0), [0; 3]);
        let rings = || bell.sleep(None, &[], Duration::ZERO).bell;
        let pattern = Pattern { context: 4, source: None, tag: None };
        let receive = world.engine().receive(pattern, Target::Plain(got.as_mut_ptr(), got.len()));
        assert!(world.sleepers.enter(&sleeps) && !rings());
        let envelope = Envelope { context: 4, source: 0, tag: 3 };
        assert!(world.engine().send(0, envelope, Outgoing::Owned(vec![1, 2, 3]), Mode::Standard).is_none());
        assert!(rings() && world.engine().outcome(receive).is_some());
        assert_eq!(got, [1, 2, 3]);
    }
}
