//! The thread that notices when a token runs for longer than its timeout, however long user code holds the GIL.

use super::inbox::Inbox;
use phalanx_net::link::Link;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The thread, which sleeps as long as no token can be late.
pub struct Clock {
    thread: Thread,
    base: Instant,
    /// Until when the thread sleeps, in nanoseconds from `base`.
    until: Arc<AtomicU64>,
}

impl Clock {
    /// Starts the thread.
    pub fn start(link: Arc<Link>, inbox: Arc<Inbox>) -> io::Result<Clock> {
        let (base, until) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let own = until.clone();
        let look = move || {
            loop {
                // A firing that begins during the look wakes the thread.
                own.store(u64::MAX, Ordering::SeqCst);
                let wait = inbox.look_at_clock(&link);
                own.store(wait.map_or(u64::MAX, |wait| nanoseconds(base.elapsed() + wait)), Ordering::SeqCst);
                match wait {
                    Some(wait) => thread::park_timeout(wait),
                    None => thread::park(),
                }
            }
        };
        let thread = thread::Builder::new().name("phalanx-clock".into()).stack_size(64 << 10).spawn(look)?;
        Ok(Clock { thread: thread.thread().clone(), base, until })
    }

    /// A firing begins whose tokens may run for `timeout`. The thread is woken if it would sleep for longer.
    pub fn begin(&self, timeout: Duration) {
        if self.until.load(Ordering::SeqCst) > nanoseconds(self.base.elapsed() + timeout) {
            self.thread.unpark();
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
