//! Wakes an event loop that waits for file descriptors, such as that of asyncio.

use super::Socket;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// A file descriptor that becomes readable when a thread rings.
#[derive(Debug)]
pub struct Bell {
    rung: Socket,
    heard: Socket,
}

impl Bell {
    /// A new bell.
    pub fn new() -> io::Result<Bell> {
        let (rung, heard) = Socket::pair()?;
        rung.set_blocking(false)?;
        heard.set_blocking(false)?;
        Ok(Bell { rung, heard })
    }

    /// Makes the file descriptor readable.
    pub fn ring(&self) {
        let _ = self.rung.send(&[1], false); // where it is full, it is readable anyway
    }

    /// Makes the file descriptor unreadable until the next ring.
    pub fn hush(&self) {
        let mut bytes = [0; 64];
        while self.heard.receive(&mut bytes, false).is_ok_and(|count| count == bytes.len()) {}
    }

    /// The descriptor that the event loop waits for. It is open as long as the bell.
    pub fn file(&self) -> RawFd {
        self.heard.raw().as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bell_is_readable_from_a_ring_until_it_is_hushed() {
        let bell = Bell::new().expect("a pair of sockets");
        let is_readable = || bell.heard.wait_readable(Duration::ZERO).expect("a socket");
        assert!(!is_readable());
        (0..200).for_each(|_| bell.ring());
        assert!(is_readable());
        bell.hush();
        assert!(!is_readable());
        bell.ring();
        assert!(is_readable());
    }
}
