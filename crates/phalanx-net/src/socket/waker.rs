//! Wakes a thread that waits for a socket, when the awaited data arrives by another path.

#[cfg(target_os = "linux")]
pub use with_eventfd::Waker;
#[cfg(not(target_os = "linux"))]
pub use without::Waker;

#[cfg(target_os = "linux")]
mod with_eventfd {
    use crate::socket::Socket;
    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
    use rustix::io::{Errno, read, write};
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    /// Wakes one thread. A wake-up while the thread does not wait ends its next wait.
    #[derive(Debug)]
    pub struct Waker {
        counter: OwnedFd,
    }

    impl Waker {
        /// A new waker.
        pub fn new() -> io::Result<Waker> {
            Ok(Waker { counter: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
        }

        /// Ends the current wait, or the next one.
        pub fn wake(&self) {
            let _ = write(&self.counter, &1u64.to_ne_bytes()); // if the counter is full, there were enough wake-ups
        }

        /// Waits up to `patience` for a wake-up.
        pub fn wait(&self, patience: Duration) {
            let mut places = [PollFd::new(&self.counter, PollFlags::IN)];
            if poll(&mut places, Some(&timespec(patience))).is_ok_and(|ready| ready > 0) {
                self.forget();
            }
        }

        /// Waits up to `patience` for data or for a wake-up. Returns whether there is something to read.
        pub(crate) fn wait_beside(&self, socket: &Socket, patience: Duration) -> io::Result<bool> {
            let mut places = [PollFd::new(&socket.raw, PollFlags::IN), PollFd::new(&self.counter, PollFlags::IN)];
            match poll(&mut places, Some(&timespec(patience))) {
                Ok(_) => {}
                Err(Errno::INTR) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            let [is_readable, is_woken] = places.map(|place| !place.revents().is_empty());
            if is_woken {
                self.forget();
            }
            Ok(is_readable)
        }

        /// Discards the wake-ups so far.
        fn forget(&self) {
            let _ = read(&self.counter, &mut [0; 8]);
        }
    }

    fn timespec(time: Duration) -> Timespec {
        Timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos().into() }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const LONG: Duration = Duration::from_secs(60);

        #[test]
        fn a_wake_up_ends_one_wait() {
            let (waker, (one, _other)) = (Waker::new().unwrap(), Socket::pair().unwrap());
            waker.wake(); // before the wait
            waker.wake();
            assert!(!waker.wait_beside(&one, LONG).unwrap());
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| waker.wait_beside(&one, LONG).unwrap());
                waker.wake();
                assert!(!waiting.join().unwrap());
            });
        }

        #[test]
        fn a_wait_without_a_socket_ends_once_too() {
            let waker = Waker::new().unwrap();
            waker.wake();
            waker.wait(LONG);
            let began = std::time::Instant::now();
            waker.wait(Duration::from_millis(5));
            assert!(began.elapsed() >= Duration::from_millis(5));
        }

        #[test]
        fn bytes_are_told_beside_a_wake_up() {
            let (waker, (one, other)) = (Waker::new().unwrap(), Socket::pair().unwrap());
            assert!(!waker.wait_beside(&one, Duration::ZERO).unwrap());
            drop(other); // the end is something to read
            waker.wake();
            assert!(waker.wait_beside(&one, LONG).unwrap());
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod without {
    use std::io;

    /// Does not exist on this system: no thread waits for sockets on behalf of others here.
    #[derive(Debug)]
    pub enum Waker {}

    impl Waker {
        /// Always an error.
        pub fn new() -> io::Result<Waker> {
            Err(io::ErrorKind::Unsupported.into())
        }

        /// Never called: there is no waker.
        pub fn wake(&self) {
            match *self {}
        }
    }
}
