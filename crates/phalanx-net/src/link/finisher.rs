//! Writes what the sockets did not take at once, for links whose own threads wait elsewhere.

use super::Link;
use crate::sync::lock;
use polling::{Event, Events, PollMode, Poller};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// Longest time until closed links are released.
const PAUSE: Duration = Duration::from_secs(1);

/// One thread that waits for room in the sockets of many links. Dropping the finisher ends the thread.
#[derive(Debug)]
pub struct Finisher {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    poller: Poller,
    links: Mutex<(usize, HashMap<usize, Arc<Link>>)>,
    ended: AtomicBool,
}

impl Finisher {
    /// Starts the thread.
    pub fn start() -> io::Result<Finisher> {
        let inner = Arc::new(Inner { poller: Poller::new()?, links: Mutex::default(), ended: AtomicBool::new(false) });
        let finisher = Finisher { inner: inner.clone() };
        thread::Builder::new().name("phalanx-finisher".into()).spawn(move || inner.run())?;
        Ok(finisher)
    }

    /// Writes what is queued. If the socket is full, the thread writes the rest.
    pub fn flush(&self, link: &Arc<Link>) {
        link.flush();
        if link.is_blocked() {
            self.inner.add(link);
        }
    }
}

impl Drop for Finisher {
    fn drop(&mut self) {
        self.inner.ended.store(true, Ordering::Release);
        let _ = self.inner.poller.notify();
    }
}

impl Inner {
    fn add(&self, link: &Arc<Link>) {
        let mut links = self.links();
        if links.1.values().any(|other| Arc::ptr_eq(other, link)) {
            return;
        }
        links.0 += 1;
        let key = links.0;
        // SAFETY: the socket is deleted from the poller before the link is let go, in `run`.
        let added = unsafe { self.poller.add_with_mode(link.socket().raw(), Event::writable(key), PollMode::Level) };
        match added {
            Ok(()) => drop(links.1.insert(key, link.clone())),
            Err(_) => link.close(), // no thread would write the rest
        }
    }

    fn run(&self) {
        let mut events = Events::new();
        while !self.ended.load(Ordering::Acquire) {
            events.clear();
            if self.poller.wait(&mut events, Some(PAUSE)).is_err() {
                break;
            }
            for event in events.iter() {
                let link = self.links().1.get(&event.key).cloned();
                link.inspect(|link| link.flush());
            }
            self.let_go(|link| !link.is_blocked());
        }
        self.let_go(|_| true);
    }

    fn let_go(&self, done: impl Fn(&Link) -> bool) {
        self.links().1.retain(|_, link| {
            let done = done(link);
            if done {
                let _ = self.poller.delete(link.socket().raw());
            }
            !done
        });
    }

    fn links(&self) -> MutexGuard<'_, (usize, HashMap<usize, Arc<Link>>)> {
        lock(&self.links)
    }
}
