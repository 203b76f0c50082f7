//! The end of connections when this process leaves the program.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ends sending, and reads on until the other ends have done so too, or until `patience` is over: where something unread is
/// left when a process ends, the system resets the connection, and what the other end has not taken yet is gone.
pub fn part(sockets: &[Arc<OwnedFd>], patience: Duration) {
    let deadline = Instant::now() + patience;
    let mut open: Vec<&OwnedFd> = sockets.iter().map(AsRef::as_ref).collect();
    open.retain(|socket| shutdown(socket, Shutdown::Write).is_ok());
    while !open.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut waits: Vec<_> = open.iter().map(|socket| PollFd::new(*socket, PollFlags::IN)).collect();
        match poll(&mut waits, Some(&left)) {
            Ok(0) => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        drop(waits);
        let mut bytes = [0; 1 << 14];
        open.retain(|socket| match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((_, count)) => count > 0,
            Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
        });
        if Instant::now() >= deadline {
            return; // somebody goes on sending
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        (one, listener.accept().expect("a connection").0)
    }

    #[test]
    fn who_is_busy_gets_all_though_the_other_end_left_something_unread() {
        let (mut leaves, mut busy) = pair();
        leaves.set_nonblocking(true).expect("a socket");
        let (mut sent, bytes) = (0, vec![7; 1 << 16]);
        while let Ok(count) = leaves.write(&bytes) {
            sent += count;
        }
        busy.write_all(b"nobody takes this").expect("room");
        let leaving = std::thread::spawn(move || part(&[Arc::new(leaves.into())], PATIENCE));
        let mut heard = Vec::new();
        busy.read_to_end(&mut heard).expect("no reset");
        assert_eq!(heard.len(), sent);
        drop(busy);
        leaving.join().expect("no panic");
    }

    #[test]
    fn nobody_is_waited_for_for_ever() {
        let (leaves, silent) = pair();
        part(&[Arc::new(leaves.into())], Duration::from_millis(10));
        drop(silent);
    }
}
