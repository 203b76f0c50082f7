//! Services: what other processes ask of this one beside the messages that its program receives. Whoever makes
//! progress, in whatever call, serves.

use crate::process::engine::Aside;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Serves one context.
pub trait Service: Send + Sync {
    /// Takes a word. Words come one at a time, those of one process in the order in which it sent them; nothing that they
    /// say is checked yet. Must not wait for anything.
    fn take(&self, aside: &Aside);

    /// A process was lost: nothing more comes from it. Must not wait for anything.
    fn lose(&self, process: u32);

    /// Its communicator was revoked: nothing more comes from anybody. Must not wait for anything.
    fn revoke(&self);
}

/// The services of a process, by context.
#[derive(Default)]
pub struct Services {
    by_context: Mutex<HashMap<u64, Arc<dyn Service>>>,
    /// Held by who serves, so that words stay in order.
    turn: Mutex<()>,
}

impl Services {
    /// From now on the service gets the words of this context. Nobody may send one before.
    pub fn open(&self, context: u64, service: Arc<dyn Service>) {
        lock(&self.by_context).insert(context, service);
    }

    /// Words of the context go nowhere from now on.
    pub fn close(&self, context: u64) {
        lock(&self.by_context).remove(&context);
    }

    /// A process was lost.
    pub(crate) fn lose(&self, process: u32) {
        let all: Vec<_> = lock(&self.by_context).values().cloned().collect();
        all.into_iter().for_each(|service| service.lose(process));
    }

    /// The communicator with this context was revoked.
    pub(crate) fn revoke(&self, context: u64) {
        let service = lock(&self.by_context).get(&context).cloned();
        service.into_iter().for_each(|service| service.revoke());
    }

    /// Hands out what has arrived, which `next` takes from the engine for the memory of the last word. Whether there was something.
    pub(crate) fn serve(&self, mut next: impl FnMut(Vec<u8>) -> Option<Aside>) -> bool {
        let _turn = lock(&self.turn);
        let (mut served, mut used) = (false, Vec::new());
        while let Some(aside) = next(used) {
            served = true;
            let service = lock(&self.by_context).get(&aside.context).cloned();
            if let Some(service) = service {
                service.take(&aside);
            }
            used = aside.bytes;
        }
        served
    }
}
