//! Sends and receives for which the program's handle is their own number: no object stands between the two.

use super::Engine;
use super::request::{Exposed, Request};
use std::num::NonZeroU32;

impl Engine {
    /// The program has a handle for this request, of the communicator with this handle.
    #[inline]
    pub fn expose(&mut self, id: usize, comm: u32) {
        self.exposure(id).into_iter().for_each(|exposed| *exposed = NonZeroU32::new(comm));
    }

    /// The program's handle is gone.
    pub fn hide(&mut self, id: usize) {
        self.expose(id, 0);
    }

    /// The communicator of a request for which the program has a handle. None for every other number.
    #[inline]
    pub fn comm_of_exposed(&self, id: usize) -> Option<u32> {
        match self.requests.get(id)? {
            Request::Send(sending) => sending.exposed,
            Request::Receive(receiving) => receiving.exposed,
        }
        .map(NonZeroU32::get)
    }

    /// The requests of a communicator for which the program has handles.
    pub fn exposed_of(&self, comm: u32) -> Vec<usize> {
        let all = self.requests.iter().map(|(id, _)| id);
        all.filter(|id| self.comm_of_exposed(*id) == Some(comm)).collect()
    }

    #[inline]
    fn exposure(&mut self, id: usize) -> Option<&mut Exposed> {
        Some(match self.requests.get_mut(id)? {
            Request::Send(sending) => &mut sending.exposed,
            Request::Receive(receiving) => &mut receiving.exposed,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::process::engine::Target;
    use crate::process::engine::tests::engines;
    use phalanx_core::spmd::Pattern;

    #[test]
    fn a_number_is_exposed_until_its_request_is_gone() {
        let mut pair = engines(2);
        let (engine, pattern) = (&mut pair[0], Pattern { context: 4, source: None, tag: None });
        let ids: Vec<_> = (0..3).map(|_| engine.receive(pattern, Target::Plain(std::ptr::null_mut(), 0))).collect();
        engine.expose(ids[0], 7);
        engine.expose(ids[2], 7);
        assert_eq!(engine.exposed_of(7), [ids[0], ids[2]]);
        assert_eq!((engine.comm_of_exposed(ids[1]), engine.comm_of_exposed(1 << 20)), (None, None));
        engine.hide(ids[0]);
        engine.cancel(ids[2]);
        assert_eq!(engine.exposed_of(7), [ids[2]]);
        assert!(engine.outcome(ids[2]).is_some_and(|status| status.cancelled));
        assert!(engine.exposed_of(7).is_empty());
    }
}
