//! What wakes a process that sleeps: a file that becomes readable (an eventfd on Linux, a pipe elsewhere).

use phalanx_net::sync::lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The bell of one process of this machine; all of them can ring it.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// The file must not block.
    pub fn new(file: OwnedFd) -> Bell {
        Bell(file)
    }

    /// Wakes who sleeps. A bell that cannot be rung more has been rung.
    pub fn ring(&self) {
        let _ = write(&self.0, &1u64.to_ne_bytes());
    }

    /// Sleeps until the bell rings, there is something to read from `control`, a socket has something to read or, where
    /// that is awaited, room to write, or `most` has passed. The bell goes on ringing until [`Bell::hush`].
    pub fn sleep(&self, control: Option<BorrowedFd<'_>>, sockets: &[(Arc<OwnedFd>, bool)], most: Duration) -> Woken {
        let mut waits = Vec::with_capacity(2 + sockets.len());
        waits.push(PollFd::new(&self.0, PollFlags::IN));
        let wants = |blocked: bool| if blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        waits.extend(sockets.iter().map(|(socket, blocked)| PollFd::new(socket, wants(*blocked))));
        waits.extend(control.map(|control| PollFd::from_borrowed_fd(control, PollFlags::IN)));
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        if poll(&mut waits, Some(&most)) == Err(Errno::INTR) {
            return Woken::default();
        }
        let mut ready = waits.iter().map(|wait| !wait.revents().is_empty());
        let bell = ready.next() == Some(true);
        let socket = ready.by_ref().take(sockets.len()).fold(false, |any, ready| any | ready);
        Woken { bell, socket, control: ready.next() == Some(true) }
    }

    /// Ends the ringing.
    pub fn hush(&self) {
        let _ = read(&self.0, &mut [0; 64]);
    }
}

/// What has ended a sleep.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Woken {
    /// Another process has rung.
    pub bell: bool,
    /// Something has come from another machine.
    pub socket: bool,
    /// The launcher has sent something.
    pub control: bool,
}

/// The threads of this process that sleep at its bell. All of them hear each ring: the last to leave ends it, and nobody
/// comes in between.
#[derive(Debug, Default)]
pub struct Sleepers {
    count: AtomicU32,
    /// Some have heard the bell, and some have not left yet.
    rung: Mutex<bool>,
}

impl Sleepers {
    /// Comes in, and says so to other processes by `sleeps`. False when others have still to hear the last ring.
    pub fn enter(&self, sleeps: &AtomicU32) -> bool {
        let rung = lock(&self.rung);
        if !*rung {
            self.count.fetch_add(1, Ordering::SeqCst);
            sleeps.store(1, Ordering::SeqCst);
        }
        !*rung
    }

    /// Leaves, having heard the bell or not.
    pub fn leave(&self, heard: bool, bell: &Bell, sleeps: &AtomicU32) {
        let mut rung = lock(&self.rung);
        *rung |= heard;
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            sleeps.store(0, Ordering::SeqCst);
            if std::mem::take(&mut *rung) {
                bell.hush();
            }
        }
    }

    /// How many threads sleep.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::sync::mpsc::channel;

    /// Each ring is heard by every thread that sleeps, and by nobody twice.
    #[test]
    fn a_ring_wakes_all_who_sleep() {
        let bell = Arc::new(Bell::new(eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd")));
        let (sleepers, sleeps) = (Arc::new(Sleepers::default()), Arc::new(AtomicU32::new(0)));
        for _ in 0..200 {
            let (tell, told) = channel();
            for _ in 0..3 {
                let (bell, sleepers, sleeps, tell) = (bell.clone(), sleepers.clone(), sleeps.clone(), tell.clone());
                std::thread::spawn(move || {
                    while !sleepers.enter(&sleeps) {
                        std::thread::yield_now();
                    }
                    let woken = bell.sleep(None, &[], Duration::from_secs(60));
                    sleepers.leave(woken.bell, &bell, &sleeps);
                    tell.send(woken.bell)
                });
            }
            while sleepers.count() < 3 {
                std::thread::yield_now();
            }
            assert_eq!(sleeps.swap(0, Ordering::SeqCst), 1);
            bell.ring();
            for _ in 0..3 {
                assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(true));
            }
            assert_eq!((sleepers.count(), sleeps.load(Ordering::SeqCst)), (0, 0));
            assert_eq!(bell.sleep(None, &[], Duration::ZERO), Woken::default());
        }
    }

    #[test]
    fn a_sleep_that_the_bell_did_not_end_leaves_the_others_asleep() {
        let bell = Bell::new(eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd"));
        let (sleepers, sleeps) = (Sleepers::default(), AtomicU32::new(0));
        assert!(sleepers.enter(&sleeps) && sleepers.enter(&sleeps));
        sleepers.leave(false, &bell, &sleeps);
        assert_eq!((sleepers.count(), sleeps.load(Ordering::SeqCst)), (1, 1), "other processes still ring");
        sleepers.leave(false, &bell, &sleeps);
        assert_eq!((sleepers.count(), sleeps.load(Ordering::SeqCst)), (0, 0));
    }
}
