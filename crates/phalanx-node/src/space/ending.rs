//! Before a process ends, it tells durable spaces which of the tuples it took have arrived.

use super::Client;
use phalanx_net::forks;
use phalanx_net::sync::lock;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The state of this process. A forked process makes its own, because the parent's locks may be held by a thread that the fork
/// does not have.
static OWN: AtomicPtr<Ending> = AtomicPtr::new(ptr::null_mut());

struct Ending {
    process: u32,
    is_ending: AtomicBool,
    clients: Mutex<Vec<Weak<Client>>>,
    /// Number of threads that report arrivals to a space over a new connection, after the old one has ended.
    saying: Mutex<usize>,
    fewer: Condvar,
}

fn own() -> &'static Ending {
    let process = forks::process();
    let known = OWN.load(Ordering::Acquire);
    // SAFETY: what is stored there is never freed.
    if let Some(known) = unsafe { known.as_ref() }.filter(|known| known.process == process) {
        return known;
    }
    let (is_ending, clients) = (AtomicBool::new(false), Mutex::default());
    let new = Box::into_raw(Box::new(Ending {
        process,
        is_ending,
        clients,
        saying: Mutex::default(),
        fewer: Condvar::new(),
    }));
    let stored = OWN.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire);
    // SAFETY: as above. If another thread stored its value first, the one made here is never used.
    unsafe { &*stored.map_or_else(|other| other, |_| new) }
}

/// Whether this process is about to end.
pub(super) fn is_ending() -> bool {
    own().is_ending.load(Ordering::Relaxed)
}

/// Remembers a client of a durable space, because it may have arrivals to report when this process ends.
pub(super) fn remember(client: &Arc<Client>) {
    let mut clients = lock(&own().clients);
    clients.retain(|client| client.strong_count() > 0);
    clients.push(Arc::downgrade(client));
}

/// Held by a thread while it reports arrivals to a space.
pub(super) struct Saying(());

impl Saying {
    pub fn begin() -> Saying {
        *lock(&own().saying) += 1;
        Saying(())
    }
}

impl Drop for Saying {
    fn drop(&mut self) {
        *lock(&own().saying) -= 1;
        own().fewer.notify_all();
    }
}

/// Call this when the process ends. Waits until all durable spaces know which tuples have arrived, for `patience` at most,
/// including spaces whose server is away. `false`: some do not know. Tuples that the program has not read yet go back to their
/// space.
pub fn end_process(patience: Duration) -> bool {
    let (own, end) = (own(), Instant::now() + patience);
    own.is_ending.store(true, Ordering::Relaxed);
    let clients = lock(&own.clients).clone();
    let left = || end.saturating_duration_since(Instant::now());
    // Each connection that has ended, or ends now, has a thread that reports to the space.
    let silent =
        clients.iter().filter_map(Weak::upgrade).filter(|client| !client.confirm(left()) && !client.has_ended());
    let all_answer = silent.count() == 0;
    let waited = own.fewer.wait_timeout_while(lock(&own.saying), left(), |saying| *saying > 0);
    all_answer && !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
}
