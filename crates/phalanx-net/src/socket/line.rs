//! Socket options for bulk data: over long lines, beside other traffic, and within one machine.

use super::Socket;
use std::time::Duration;

/// A line with at least this round trip is long. On shorter ones, these options cost more than they gain.
#[cfg(target_os = "linux")]
const LONG: Duration = Duration::from_millis(5);

/// Send buffer, in bytes, towards a process of this machine. More would leave the processors' caches before it is read.
#[cfg(target_os = "linux")]
const NEAR: usize = 300 << 10;

/// Bytes that the system takes before they can leave. On 10 Gbit/s they last for 0.4 ms; of a line of 100 Mbit/s they are what it
/// carries in 40 ms, where the system by itself would take 4 MB.
#[cfg(target_os = "linux")]
const UNSENT: u32 = 512 << 10;

/// `TC_PRIO_BULK` of linux/pkt_sched.h.
#[cfg(target_os = "linux")]
const BULK: u32 = 2;

#[cfg(target_os = "linux")]
impl Socket {
    /// Lets other traffic leave this machine first, if its queue has priority bands.
    pub fn give_way(&self) {
        let _ = self.raw.set_priority(BULK); // best effort
    }

    /// Keeps a long line from slowing down for every lost packet, if the system supports BBR. BBR adapts to the bytes
    /// that arrive, CUBIC to the packets that are lost.
    pub fn bear_losses(&self) {
        if self.round_trip().is_some_and(|round_trip| round_trip >= LONG) {
            let _ = self.raw.set_tcp_congestion(b"bbr"); // not every kernel has it, and not every administrator allows it
        }
    }

    /// Keeps a sender within this machine from running far ahead of its reader.
    pub fn stay_near(&self) {
        if self.is_within_machine() {
            let _ = self.raw.set_send_buffer_size(NEAR); // best effort
        }
    }

    /// Keeps bytes that cannot be sent yet in this process instead of the system, so that the sender soon sees how fast the
    /// line is.
    pub fn keep_unsent_short(&self) {
        let _ = self.raw.set_tcp_notsent_lowat(UNSENT);
    }

    /// Turns pacing off within this machine. Where BBR is the default, it halves the throughput there, with a timer for
    /// every few packets.
    pub(super) fn go_at_once(&self) {
        if self.is_within_machine() {
            let _ = self.raw.set_tcp_congestion(b"reno"); // every Linux has it, and allows it to every user
        }
    }

    /// The round-trip time of the connection as measured by the system. `None`: this is no TCP connection.
    pub fn round_trip(&self) -> Option<Duration> {
        use std::os::fd::AsRawFd;
        // SAFETY: plain numbers, for which zeros are a value.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut length = size_of_val(&info) as libc::socklen_t;
        let place = (&raw mut info).cast();
        // SAFETY: the system writes at most `length` bytes to what is as long.
        let code =
            unsafe { libc::getsockopt(self.raw.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, place, &mut length) };
        (code == 0).then(|| Duration::from_micros(info.tcpi_rtt.into()))
    }
}

#[cfg(not(target_os = "linux"))]
impl Socket {
    /// This system has no such option.
    pub fn give_way(&self) {}

    /// This system has no such option.
    pub fn stay_near(&self) {}

    /// This system has no such option.
    pub fn keep_unsent_short(&self) {}

    /// This system has no such option.
    pub(super) fn go_at_once(&self) {}

    /// This system has no such option.
    pub fn bear_losses(&self) {}

    /// This system does not tell.
    pub fn round_trip(&self) -> Option<Duration> {
        None
    }
}
