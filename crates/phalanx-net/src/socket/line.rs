//! What the system is asked for where much is sent: over long lines, beside others, and within one machine.

use super::Socket;
use std::time::Duration;

/// Round trips from which on a line is long. On short ones what is asked for here costs more than it gains.
#[cfg(target_os = "linux")]
const LONG: Duration = Duration::from_millis(5);

/// Bytes on their way to a process of this machine: more would leave the caches of its processors before they are read.
#[cfg(target_os = "linux")]
const NEAR: usize = 300 << 10;

/// `TC_PRIO_BULK` of linux/pkt_sched.h.
#[cfg(target_os = "linux")]
const BULK: u32 = 2;

#[cfg(target_os = "linux")]
impl Socket {
    /// What is sent leaves this machine after what others send, where its queue has bands.
    pub fn give_way(&self) {
        let _ = self.raw.set_priority(BULK); // a courtesy
    }

    /// What is sent over a long line does not slow down for every lost packet, where the system can do that: BBR goes by what
    /// arrives, CUBIC by what is lost.
    pub fn bear_losses(&self) {
        if self.round_trip().is_some_and(|round_trip| round_trip >= LONG) {
            let _ = self.raw.set_tcp_congestion(b"bbr"); // not every kernel has it, not every owner allows it
        }
    }

    /// What is sent within this machine does not run far ahead of who reads it.
    pub fn stay_near(&self) {
        if self.is_within_machine() {
            let _ = self.raw.set_send_buffer_size(NEAR); // as far as its owner allows
        }
    }

    /// What is sent within this machine is paced by no estimate of a line: where BBR is usual, it halves what passes there, with a
    /// timer for every few packets.
    pub(super) fn go_at_once(&self) {
        if self.is_within_machine() {
            let _ = self.raw.set_tcp_congestion(b"reno"); // every Linux has it, for everybody
        }
    }

    /// How long the line takes there and back, as the system has seen it; none: this is no TCP connection.
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
    /// What is sent leaves when it can.
    pub fn give_way(&self) {}

    /// How far it runs ahead is left to the system.
    pub fn stay_near(&self) {}

    /// How fast is left to the system.
    pub(super) fn go_at_once(&self) {}

    /// What is sent over a long line is left to the system.
    pub fn bear_losses(&self) {}

    /// The system does not say.
    pub fn round_trip(&self) -> Option<Duration> {
        None
    }
}
