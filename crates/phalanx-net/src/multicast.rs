//! Packets to and from all machines of a network: the sockets of multicast DNS. What is in them is the business of
//! [`phalanx_core::lan`].

use phalanx_core::lan::{MOST_PACKET, Segment};
use socket2::{Domain, Protocol, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::Duration;

/// Where multicast DNS is spoken (RFC 6762, section 3).
const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 251), 5353);
/// As the standard demands of all packets (RFC 6762, section 11). Routers do not forward this group.
const HOPS: u32 = 255;
/// Most networks of this machine that are used.
const MOST_SEGMENTS: usize = 32;

/// A socket for packets to all machines of a network.
#[derive(Debug)]
pub struct Multicast(UdpSocket);

/// The networks of this machine in which others may be: neither its loopback nor a line to a single machine.
pub fn segments() -> io::Result<Vec<Segment>> {
    let mut found = Vec::new();
    for interface in if_addrs::get_if_addrs()? {
        let is_of_many = !interface.is_loopback() && interface.is_oper_up() && !interface.is_p2p();
        if let if_addrs::IfAddr::V4(one) = interface.addr {
            let segment = Segment { address: one.ip, mask: one.netmask };
            if is_of_many && one.netmask.to_bits().count_zeros() > 0 && !found.contains(&segment) {
                found.push(segment);
            }
        }
    }
    found.truncate(MOST_SEGMENTS);
    Ok(found)
}

impl Multicast {
    /// A socket that asks. Answers come to a port of its own.
    ///
    /// # Errors
    /// The system gives no socket.
    pub fn asking() -> io::Result<Multicast> {
        Multicast::bound(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))
    }

    /// A socket that hears what others ask, in the networks that it [joins](Multicast::join). Other programs of this machine may
    /// have one, too.
    ///
    /// # Errors
    /// The system gives no socket, or another program does not share the port.
    pub fn hearing() -> io::Result<Multicast> {
        Multicast::bound(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, GROUP.port()))
    }

    fn bound(address: SocketAddrV4) -> io::Result<Multicast> {
        let socket = socket2::Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        if address.port() != 0 {
            socket.set_reuse_address(true)?;
            #[cfg(unix)]
            socket.set_reuse_port(true)?;
        }
        socket.set_multicast_ttl_v4(HOPS)?;
        socket.set_multicast_loop_v4(true)?; // an executor of this machine is found, too
        socket.bind(&SocketAddr::V4(address).into())?;
        Ok(Multicast(socket.into()))
    }

    /// Hears what is sent to all machines of a network.
    ///
    /// # Errors
    /// This machine has no such network any more.
    pub fn join(&self, on: &Segment) -> io::Result<()> {
        self.0.join_multicast_v4(GROUP.ip(), &on.address)
    }

    /// Hears it no more.
    pub fn leave(&self, on: &Segment) {
        let _ = self.0.leave_multicast_v4(GROUP.ip(), &on.address);
    }

    /// Sends a packet to all machines of a network.
    ///
    /// # Errors
    /// The network is gone, or the system refuses.
    pub fn send_to_all(&self, on: &Segment, packet: &[u8]) -> io::Result<()> {
        socket2::SockRef::from(&self.0).set_multicast_if_v4(&on.address)?;
        self.0.send_to(packet, GROUP).map(drop)
    }

    /// Sends a packet to one machine.
    ///
    /// # Errors
    /// The system refuses.
    pub fn send_to(&self, to: SocketAddrV4, packet: &[u8]) -> io::Result<()> {
        self.0.send_to(packet, to).map(drop)
    }

    /// Waits for a packet, at most for `patience`. Returns its sender. `None`: nothing that can be read has come.
    pub fn receive<'a>(&self, buffer: &'a mut Packet, patience: Duration) -> Option<(SocketAddrV4, &'a [u8])> {
        self.0.set_read_timeout(Some(patience.max(Duration::from_millis(1)))).ok()?;
        match self.0.recv_from(buffer).ok()? {
            (length, SocketAddr::V4(from)) => Some((from, &buffer[..length])),
            (_, SocketAddr::V6(_)) => None,
        }
    }
}

/// Room for a packet. One that fills it is too long to be read.
pub type Packet = [u8; MOST_PACKET + 1];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_hears_shares_its_port() {
        let (_one, _other) = (Multicast::hearing().unwrap(), Multicast::hearing().unwrap());
    }

    #[test]
    fn a_packet_comes_with_its_sender() {
        let (asking, other) = (Multicast::asking().unwrap(), Multicast::asking().unwrap());
        let port = asking.0.local_addr().unwrap().port();
        other.send_to(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port), b"hello").unwrap();
        let mut buffer = [0; MOST_PACKET + 1];
        let (from, packet) = asking.receive(&mut buffer, Duration::from_secs(10)).unwrap();
        assert_eq!((from.port(), packet), (other.0.local_addr().unwrap().port(), &b"hello"[..]));
        assert!(asking.receive(&mut buffer, Duration::ZERO).is_none());
    }

    #[test]
    fn the_loopback_is_no_network_of_others() {
        assert!(segments().unwrap().iter().all(|it| !it.address.is_loopback()));
    }
}
