//! Connections with machines that no longer answer.
//!
//! TCP itself gives up after a quarter of an hour, and a limit for what is sent (TCP_USER_TIMEOUT) would end a connection
//! with who merely computes and reads nothing, too. But the kernel knows which of the two it is: it has asked again, and got no
//! answer. Elsewhere than on Linux it does not tell, and TCP's own time counts.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// How long a machine may leave what the kernel asks it unanswered.
const MOST: Duration = Duration::from_secs(8);

/// Since when that is so of a connection.
#[derive(Debug, Default)]
pub struct Silence(Option<Instant>);

impl Silence {
    /// Looks at the connection; whether it has to be given up. To be called a few times a second.
    pub fn look(&mut self, socket: BorrowedFd<'_>, now: Instant) -> bool {
        self.note(is_unanswered(socket), now)
    }

    fn note(&mut self, unanswered: bool, now: Instant) -> bool {
        self.0 = if unanswered { Some(self.0.unwrap_or(now)) } else { None };
        self.0.is_some_and(|since| now - since > MOST)
    }
}

/// Whether something was sent again, or the other end was asked whether it lives, and nothing has come back for so long.
#[cfg(target_os = "linux")]
fn is_unanswered(socket: BorrowedFd<'_>) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: numbers, of which all may be zero.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    let into = (&raw mut info).cast();
    // SAFETY: the kernel writes at most so many bytes.
    let told =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into, &raw mut length) };
    let silent = u128::from(info.tcpi_last_ack_recv) > MOST.as_millis();
    told == 0 && silent && (info.tcpi_retransmits > 0 || info.tcpi_probes > 0)
}

#[cfg(not(target_os = "linux"))]
fn is_unanswered(_socket: BorrowedFd<'_>) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn only_who_is_silent_all_the_time_is_given_up() {
        let (mut silence, start) = (Silence::default(), Instant::now());
        let mut after = |seconds, unanswered| silence.note(unanswered, start + Duration::from_secs(seconds));
        assert!(!after(0, true) && !after(7, true) && !after(8, false));
        assert!(!after(9, true) && !after(17, true) && after(18, true));
    }

    #[test]
    fn who_reads_nothing_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let near = TcpStream::connect(listener.local_addr().expect("it listens")).expect("it is called");
        let (_far, _) = listener.accept().expect("it called");
        near.set_nonblocking(true).expect("a socket");
        while std::io::Write::write(&mut (&near), &[0; 1 << 16]).is_ok() {}
        assert!(!is_unanswered(near.as_fd()));
        let (other, _far) = UnixStream::pair().expect("sockets");
        assert!(!is_unanswered(other.as_fd()));
    }
}
