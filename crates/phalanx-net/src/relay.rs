//! A relay: it copies bytes between two connections, which it does not understand. The handshake is between the two ends, so the relay
//! sees what the level of their link lets it see.

use crate::socket::Socket;
use std::io;
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

/// A connection whose machine has not responded for this long is ended.
const SILENCE: Duration = Duration::from_secs(30);
/// Stack size of the second thread of a relayed link, in bytes.
const STACK: usize = 64 << 10;

/// Copies both ways until both connections have ended, in this thread and one more. When one end has sent everything, the other is told.
/// Returns how many bytes were copied.
///
/// # Errors
/// The system starts no thread.
pub fn carry(one: Socket, other: Socket) -> io::Result<u64> {
    for socket in [&one, &other] {
        socket.set_patience(None)?;
        socket.end_when_silent(SILENCE)?;
    }
    let (from_one, to_other) = (one.try_clone()?, other.try_clone()?);
    let there = thread::Builder::new().name("phalanx-relay".into()).stack_size(STACK);
    let there = there.spawn(move || copy(from_one, to_other))?;
    let back = copy(other, one);
    Ok(there.join().unwrap_or_default() + back)
}

/// The kernel copies from socket to socket (`splice`) where the system can do that.
fn copy(from: Socket, to: Socket) -> u64 {
    let (mut from, mut to) = (from.into_stream(), to.into_stream());
    let copied = io::copy(&mut from, &mut to);
    // A connection that has broken breaks the other one: a link has no use for one direction.
    let how = if copied.is_ok() { Shutdown::Write } else { Shutdown::Both };
    let _ = to.shutdown(how);
    if copied.is_err() {
        let _ = from.shutdown(Shutdown::Both);
    }
    copied.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Listener;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// An end, and what the relay has of it.
    fn ends() -> (TcpStream, Socket) {
        let listener = Listener::bind("127.0.0.1:0").expect("binds");
        let end = TcpStream::connect(listener.address().expect("has one")).expect("connects");
        let (socket, _) = listener.accept().expect("accepts");
        (end, socket)
    }

    #[test]
    fn bytes_pass_both_ways_and_each_end_hears_of_the_other_ends_end() {
        let ((mut one, for_one), (mut other, for_other)) = (ends(), ends());
        let carrying = thread::spawn(move || carry(for_one, for_other).expect("starts"));
        let much = vec![7; 3 << 20];
        let sent = much.clone();
        let sending = thread::spawn(move || {
            one.write_all(&sent).expect("is read");
            one.shutdown(Shutdown::Write).expect("is open");
            let mut answer = String::new();
            one.read_to_string(&mut answer).expect("is sent");
            answer
        });
        let mut got = Vec::new();
        other.read_to_end(&mut got).expect("is sent");
        assert!(got == much);
        other.write_all(b"thanks").expect("is read");
        drop(other);
        assert_eq!(sending.join().expect("ends"), "thanks");
        assert_eq!(carrying.join().expect("ends"), (3 << 20) + 6);
    }

    #[test]
    fn an_end_that_is_gone_takes_the_other_with_it() {
        let ((one, for_one), (mut other, for_other)) = (ends(), ends());
        let carrying = thread::spawn(move || carry(for_one, for_other).expect("starts"));
        drop(one);
        assert_eq!(other.read(&mut [0]).expect("the end is told"), 0);
        drop(other);
        assert_eq!(carrying.join().expect("ends"), 0);
    }
}
