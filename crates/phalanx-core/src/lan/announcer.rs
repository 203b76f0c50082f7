//! An executor announces that it listens.

use super::Segment;
use super::message::{Asked, Records, answer, asked};
use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::HashMap;
use std::time::Duration;

/// The port of multicast DNS.
const PORT: u16 = 5353;
/// How many seconds an announcement is good for, and one that goes to a single machine (RFC 6762, sections 6.7 and 10).
const LASTS: [u32; 2] = [120, 10];
/// Time between two answers to all machines of a network (RFC 6762, section 6).
const PAUSE: Duration = Duration::from_secs(1);
/// Most answers a second to one machine, and to all. A stranger who writes another machine's address into questions makes this end send
/// no more than that.
const MOST_ANSWERS: [u32; 2] = [8, 256];

/// Where an answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// To all machines of the network.
    All,
    /// To the one that asked.
    One(SocketAddrV4),
}

/// An answer to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Where it goes.
    pub to: To,
    /// The packet.
    pub packet: Vec<u8>,
}

/// Announces one executor. Its records have random names, a port and an address: nothing in them says whose it is.
#[derive(Debug)]
pub struct Announcer {
    instance: String,
    host: String,
    port: u16,
    /// When all machines of each network were told last.
    told: HashMap<Ipv4Addr, Duration>,
    /// The second in which answers are counted, and how many went to each machine.
    second: u64,
    answers: HashMap<Ipv4Addr, u32>,
}

impl Announcer {
    /// Announces what listens at the port. `random` must be new at each start, so that nobody recognises a machine by it.
    pub fn new(port: u16, random: u128) -> Announcer {
        let (instance, host) = (format!("{:016x}", (random >> 64) as u64), format!("{:016x}", random as u64));
        Announcer { instance, host, port, told: HashMap::new(), second: 0, answers: HashMap::new() }
    }

    /// Tells all machines of a network that this one listens.
    pub fn announcement(&mut self, now: Duration, on: &Segment) -> Vec<u8> {
        self.told.retain(|_, when| now < *when + PAUSE);
        self.told.insert(on.address, now);
        self.records(on, LASTS[0], None)
    }

    /// Tells all machines of a network that this one listens no more.
    pub fn goodbye(&self, on: &Segment) -> Vec<u8> {
        self.records(on, 0, None)
    }

    /// Answers a packet that came from a network, if it asks for executors.
    pub fn on_packet(&mut self, now: Duration, on: &Segment, from: SocketAddrV4, packet: &[u8]) -> Option<Reply> {
        let Asked { id, directly } = asked(packet)?;
        if !on.has(*from.ip()) || from.port() == 0 {
            return None;
        }
        if from.port() == PORT && !directly {
            let is_early = self.told.get(&on.address).is_some_and(|told| now < *told + PAUSE);
            return (!is_early).then(|| Reply { to: To::All, packet: self.announcement(now, on) });
        }
        if !self.may_answer(now, *from.ip()) {
            return None;
        }
        let asked = (from.port() != PORT).then_some(id);
        Some(Reply { to: To::One(from), packet: self.records(on, LASTS[1], asked) })
    }

    fn may_answer(&mut self, now: Duration, one: Ipv4Addr) -> bool {
        if self.second != now.as_secs() {
            (self.second, self.answers) = (now.as_secs(), HashMap::new());
        }
        let may = self.answers.values().sum::<u32>() < MOST_ANSWERS[1]
            && self.answers.get(&one).is_none_or(|count| *count < MOST_ANSWERS[0]);
        if may {
            *self.answers.entry(one).or_default() += 1;
        }
        may
    }

    fn records(&self, on: &Segment, lasts: u32, asked: Option<u16>) -> Vec<u8> {
        let Announcer { instance, host, port, .. } = self;
        answer(&Records { instance, host, port: *port, address: on.address, lasts }, asked)
    }
}
