//! Executors without a hub: the engines that announce an executor on the local network, and that find those of a grid there.
//!
//! Both speak multicast DNS (RFC 6762) and its service discovery (RFC 6763). A user asks once in a while, from a port of its own, and
//! whoever announces itself answers that port. So nothing is cached: an executor that has ended does not answer.
//!
//! Every packet is hostile input. An answer says one thing that is used: a port. The address is that of the sender, because an answer
//! that named another machine could point users at anybody. Which executor listens there, and of which grid, only a handshake proves.

mod announcer;
mod finder;
mod message;
#[cfg(test)]
mod tests;

pub use announcer::{Announcer, Reply, To};
pub use finder::{Command, Finder, Outcome};
pub use message::{MOST_PACKET, question};

use core::net::Ipv4Addr;

/// An address of this machine, and how many of its first bits are those of its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segment {
    /// The address of this machine.
    pub address: Ipv4Addr,
    /// The bits that all machines of the network share.
    pub mask: Ipv4Addr,
}

impl Segment {
    /// Whether a machine of this network can have the address.
    pub fn has(&self, other: Ipv4Addr) -> bool {
        let mask = self.mask.to_bits();
        let rest = other.to_bits() & !mask;
        let is_host = mask.count_zeros() < 2 || (rest != 0 && rest != !mask);
        let is_one = !other.is_loopback() && !other.is_multicast() && !other.is_unspecified() && !other.is_broadcast();
        is_one && is_host && other.to_bits() & mask == self.address.to_bits() & mask
    }
}
