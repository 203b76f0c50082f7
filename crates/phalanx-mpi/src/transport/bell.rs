//! What wakes a process that sleeps: a file that becomes readable (an eventfd on Linux, a pipe elsewhere).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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

    /// Sleeps until the bell rings, one of the others is ready, or `most` has passed.
    pub fn sleep(&self, others: &[BorrowedFd<'_>], most: Duration) {
        let mut waits = vec![PollFd::new(&self.0, PollFlags::IN)];
        waits.extend(others.iter().map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN)));
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        if poll(&mut waits, Some(&most)) != Err(Errno::INTR) && !waits[0].revents().is_empty() {
            let _ = read(&self.0, &mut [0; 64]);
        }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
