//! Connections with processes of other worlds that are to come.

use crate::process::transport::Listening;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// See the module.
#[derive(Default)]
pub struct Encounters {
    /// The processes; for one that this process listens for, the socket.
    expected: Mutex<HashMap<u32, Option<Listening>>>,
    /// How many these are.
    count: AtomicUsize,
}

impl Encounters {
    /// A connection with the process is to come, until there is one or cannot be. Whether that is new.
    pub(crate) fn expect(&self, process: u32) -> bool {
        let mut expected = lock(&self.expected);
        let is_new = !expected.contains_key(&process);
        expected.entry(process).or_default();
        self.count.store(expected.len(), Ordering::Relaxed);
        is_new
    }

    /// The process will be heard here, if it is still expected.
    pub(crate) fn listen(&self, process: u32, listening: Listening) {
        if let Some(entry) = lock(&self.expected).get_mut(&process) {
            *entry = Some(listening);
        }
    }

    /// Where the process will be heard; nobody listens for it any more.
    pub(crate) fn take_listening(&self, process: u32) -> Option<Listening> {
        lock(&self.expected).get_mut(&process)?.take()
    }

    /// The process was met, or will not be. Whether it was expected.
    pub(crate) fn end(&self, process: u32) -> bool {
        let mut expected = lock(&self.expected);
        let was_expected = expected.remove(&process).is_some();
        self.count.store(expected.len(), Ordering::Relaxed);
        was_expected
    }

    /// Whether a connection with the process is to come.
    pub(crate) fn expects(&self, process: u32) -> bool {
        lock(&self.expected).contains_key(&process)
    }

    /// Whether any are to come, which the launcher will tell of.
    #[inline]
    pub(crate) fn are_expected(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }
}
