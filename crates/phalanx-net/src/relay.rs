//! A relay: it copies bytes between two connections, which it does not understand. The handshake is between the two ends, so the relay
//! sees what the level of their link lets it see.

use crate::socket::Socket;
#[cfg(target_os = "linux")]
use rustix::io::Errno;
#[cfg(target_os = "linux")]
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// A connection whose machine has not responded for this long is ended.
const SILENCE: Duration = Duration::from_secs(30);
/// Bytes that are between the two connections at most, in each direction. A larger pipe would take fewer system calls, and more memory
/// for each link: accounts other than root may have 64 MB in pipes.
const PIECE: usize = 256 << 10;
/// Stack size of a thread of a relayed link, in bytes.
const STACK: usize = 64 << 10;

/// How long one direction may go on without a byte when the other has ended.
const LAST: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(500);

/// Two connections between which bytes are copied.
#[derive(Debug)]
pub struct Relayed {
    ends: [Socket; 2],
    copied: AtomicU64,
}

impl Relayed {
    /// Joins two connections.
    ///
    /// # Errors
    /// One of them is broken.
    pub fn new(one: Socket, other: Socket) -> io::Result<Relayed> {
        for socket in [&one, &other] {
            socket.set_patience(None)?;
            socket.end_when_silent(SILENCE)?;
        }
        Ok(Relayed { ends: [one, other], copied: AtomicU64::new(0) })
    }

    /// Copies both ways until both connections have ended, in threads of its own. When one end has sent everything, the other is told, and
    /// may still answer. Returns how many bytes were copied.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn carry(self: &Arc<Relayed>) -> io::Result<u64> {
        let (sender, ended) = channel();
        for (from, to) in [(0, 1), (1, 0)] {
            let (relayed, sender) = (self.clone(), sender.clone());
            let copy = move || {
                relayed.copy(from, to);
                let _ = sender.send(());
            };
            let thread = thread::Builder::new().name("phalanx-relay".into()).stack_size(STACK).spawn(copy);
            thread.inspect_err(|_| self.end())?;
        }
        let _ = ended.recv();
        let (mut before, mut silent) = (self.copied.load(Ordering::Relaxed), Duration::ZERO);
        while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            let copied = self.copied.load(Ordering::Relaxed);
            silent = if copied == before { silent + PAUSE } else { Duration::ZERO };
            before = copied;
            if silent >= LAST {
                self.end();
            }
        }
        Ok(self.copied.load(Ordering::Relaxed))
    }

    /// How many bytes were copied so far, both ways.
    pub fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Ends both connections.
    pub fn end(&self) {
        self.ends.iter().for_each(Socket::shut_down);
    }

    /// Copies until one end has sent everything, and tells the other.
    fn copy(&self, from: usize, to: usize) {
        match copy_all(&self.ends[from], &self.ends[to], &self.copied) {
            Ok(()) => self.ends[to].end_writing(),
            Err(_) => self.end(), // a link has no use for one direction
        }
    }
}

/// The kernel moves the bytes through a pipe (`splice`), and this process never has them. `io::copy` does that for files only: between
/// two sockets it copies 8 KB at a time.
#[cfg(target_os = "linux")]
fn copy_all(from: &Socket, to: &Socket, copied: &AtomicU64) -> io::Result<()> {
    let (exit, entry) = pipe_with(PipeFlags::CLOEXEC)?;
    let _ = fcntl_setpipe_size(&entry, PIECE); // a smaller one serves too
    let moved = |from: BorrowedFd<'_>, to: BorrowedFd<'_>, most| loop {
        match splice(from, None, to, None, most, SpliceFlags::MOVE) {
            Err(Errno::INTR) => {}
            moved => break moved.map_err(io::Error::from),
        }
    };
    loop {
        let mut waiting = moved(from.raw().as_fd(), entry.as_fd(), PIECE)?;
        if waiting == 0 {
            return Ok(());
        }
        while waiting > 0 {
            let written = moved(exit.as_fd(), to.raw().as_fd(), waiting)?;
            waiting = waiting.checked_sub(written).filter(|_| written > 0).ok_or(io::ErrorKind::WriteZero)?;
            copied.fetch_add(written as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn copy_all(from: &Socket, to: &Socket, copied: &AtomicU64) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.receive(&mut piece, true) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.send_all(&piece[..count])?;
                copied.fetch_add(count as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Listener;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};

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
        let carrying = thread::spawn(move || {
            Arc::new(Relayed::new(for_one, for_other).expect("are open")).carry().expect("starts")
        });
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
        let carrying = thread::spawn(move || {
            Arc::new(Relayed::new(for_one, for_other).expect("are open")).carry().expect("starts")
        });
        drop(one);
        assert_eq!(other.read(&mut [0]).expect("the end is told"), 0);
        drop(other);
        assert_eq!(carrying.join().expect("ends"), 0);
    }
}
