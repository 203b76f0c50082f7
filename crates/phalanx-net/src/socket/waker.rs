//! Wakes a thread that waits for a socket, where what it waits for comes another way.

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

    /// Wakes one thread. A wake-up that comes while it does not wait ends its next wait.
    #[derive(Debug)]
    pub struct Waker {
        counter: OwnedFd,
    }

    impl Waker {
        /// A waker that no thread waits at yet.
        pub fn new() -> io::Result<Waker> {
            Ok(Waker { counter: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
        }

        /// Ends the wait, or the next one.
        pub fn wake(&self) {
            let _ = write(&self.counter, &1u64.to_ne_bytes()); // full: it was woken often enough
        }

        /// Waits up to `patience` to be woken.
        pub fn wait(&self, patience: Duration) {
            let mut places = [PollFd::new(&self.counter, PollFlags::IN)];
            if poll(&mut places, Some(&timespec(patience))).is_ok_and(|ready| ready > 0) {
                self.forget();
            }
        }

        /// Waits up to `patience` for something to read or to be woken; whether there is something to read.
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

        /// The wake-ups so far end no wait any more.
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

    /// There is none: threads do not wait for sockets on behalf of others here.
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
