//! A user finds the executors of a grid on the local network.
//!
//! The finder decides when to ask, whom to dial, and which executors are here. The driver proves who listens at an address by a
//! handshake, and tells the [`Outcome`].

use super::Segment;
use super::message::{ports, question};
use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Pauses after the first questions, and after all others. The first ones make up for a lost packet, and for many answers at once.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// An executor that has not answered so many questions in a row is not here any more.
const MISSED: u32 = 4;
/// Nothing is asked when nobody has looked for this long.
const IDLE: Duration = Duration::from_secs(20);
/// Most machines that are known at a time, and most ports of each. More of them are those of a hostile machine, or of a network in
/// which a hub serves better.
const MOST_MACHINES: usize = 512;
const MOST_PORTS: usize = 8;
/// Most addresses that are dialled at a time, of which each is at another machine.
const MOST_DIALS: usize = 16;
/// How long a stranger is left alone at first, and at most.
const STRANGER: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(600)];
/// How long an address is left alone at first, and at most, that could not be reached.
const AWAY: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(60)];
/// Failed dials of a machine before the finder slows down to [`SLOW`], because a hostile machine announces ever new ports.
const FREE: u32 = 8;
/// The pause between two dials of such a machine.
const SLOW: Duration = Duration::from_secs(30);
/// What was found is complete if for this long nothing has come, and no dial is under way.
const QUIET: Duration = Duration::from_millis(150);

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Ask all networks with this packet.
    Ask(Vec<u8>),
    /// Find out who listens at this address.
    Dial(SocketAddr),
}

/// Who listens at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The executor of the grid with this name.
    Proved(String),
    /// Somebody else, or an executor that refuses this user.
    Stranger,
    /// Nobody, as far as this machine can tell.
    Away,
}

/// Finds the executors of one grid.
#[derive(Debug, Default)]
pub struct Finder {
    /// The numbers of the two newest questions: an answer to the one before may still come.
    ids: [u16; 2],
    /// How many questions were asked since somebody looks.
    asked: u32,
    next_question: Duration,
    /// When somebody looked last. `None`: nobody does.
    looked: Option<Duration>,
    /// When something was heard or proved last.
    stirred: Duration,
    machines: BTreeMap<Ipv4Addr, Machine>,
}

/// What is known of a machine that has answered.
#[derive(Debug, Default)]
struct Machine {
    ports: BTreeMap<u16, Port>,
    /// Whether a stranger has answered there since an executor of the grid answered last.
    has_stranger: bool,
    /// Failed dials since then.
    failures: u32,
    not_before: Duration,
    heard: Duration,
}

#[derive(Debug)]
struct Port {
    state: State,
    /// How many questions in a row it has not answered.
    missed: u32,
    /// How often somebody else was found there, or nobody.
    failures: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    New,
    Dialled,
    Proved(String, Duration),
    /// Not dialled again before this time.
    Failed(Duration),
}

impl Port {
    /// Whether a new port may replace this one: it has no executor of the grid, or its executor has stopped answering.
    fn is_useless(&self) -> bool {
        matches!(self.state, State::Failed(_)) || self.missed >= MISSED && self.state != State::Dialled
    }
}

impl Machine {
    fn is_dialled(&self) -> bool {
        self.ports.values().any(|port| port.state == State::Dialled)
    }

    /// Whether this machine may be forgotten for another one.
    fn is_useless(&self) -> bool {
        self.ports.values().all(Port::is_useless)
    }

    /// Makes room for one more port.
    fn has_room(&mut self) -> bool {
        if self.ports.len() >= MOST_PORTS {
            let useless = self.ports.iter().filter(|(_, port)| port.is_useless());
            let oldest = useless.max_by_key(|(_, port)| port.missed).map(|(number, _)| *number);
            return oldest.is_some_and(|number| self.ports.remove(&number).is_some());
        }
        true
    }

    /// The port to dial now, if there is one.
    fn next(&self, now: Duration) -> Option<u16> {
        let is_due = |port: &Port| match port.state {
            State::New => true,
            State::Failed(again) => port.missed == 0 && again <= now,
            State::Dialled | State::Proved(..) => false,
        };
        let waits = now < self.not_before || self.is_dialled();
        let due = self.ports.iter().filter(|(_, port)| !waits && is_due(port));
        due.min_by_key(|(_, port)| port.failures).map(|(number, _)| *number)
    }
}

impl Finder {
    /// Somebody looks for executors now.
    pub fn look(&mut self, now: Duration) {
        if self.looked.is_none() {
            (self.asked, self.next_question, self.stirred) = (0, now, now);
        }
        self.looked = Some(now);
    }

    /// What is due. `random` numbers the next question, so that only a machine that hears it can answer.
    pub fn due(&mut self, now: Duration, random: u16) -> Vec<Command> {
        let mut commands = Vec::new();
        if self.looked.is_some_and(|looked| looked + IDLE < now) {
            self.looked = None;
        }
        if self.looked.is_some() && self.next_question <= now {
            let pause = PAUSES[PAUSES.len().min(self.asked as usize + 1) - 1];
            let before = if self.asked == 0 { random } else { self.ids[0] };
            (self.ids, self.asked, self.next_question) = ([random, before], self.asked + 1, now + pause);
            self.machines.values_mut().flat_map(|it| it.ports.values_mut()).for_each(|port| port.missed += 1);
            commands.push(Command::Ask(question(random)));
        }
        commands.extend(self.dials(now).into_iter().map(Command::Dial));
        commands
    }

    /// Whether anything is to be done. Otherwise the driver may rest until somebody looks.
    pub fn is_idle(&self) -> bool {
        self.looked.is_none() && !self.machines.values().any(Machine::is_dialled)
    }

    /// The machines with the fewest failed dials go first.
    fn dials(&mut self, now: Duration) -> Vec<SocketAddr> {
        let under_way = self.machines.values().filter(|it| it.is_dialled()).count();
        let mut due: Vec<_> =
            self.machines.iter().filter_map(|(at, it)| Some((it.failures, *at, it.next(now)?))).collect();
        due.sort_unstable();
        due.truncate(MOST_DIALS.saturating_sub(under_way));
        for (_, at, number) in &due {
            let port = self.machines.get_mut(at).and_then(|it| it.ports.get_mut(number));
            port.into_iter().for_each(|port| port.state = State::Dialled);
        }
        due.into_iter().map(|(_, at, number)| SocketAddrV4::new(at, number).into()).collect()
    }

    /// Takes a packet that came from a network. The machine that has sent it is the only one that it can announce.
    pub fn on_packet(&mut self, now: Duration, on: &Segment, from: SocketAddrV4, packet: &[u8]) {
        let is_awaited = self.asked > 0 && on.has(*from.ip());
        let said = if is_awaited { ports(packet, &self.ids) } else { BTreeSet::new() };
        if said.is_empty() || !self.has_room_for(from.ip()) {
            return;
        }
        let machine = self.machines.entry(*from.ip()).or_default();
        machine.heard = now;
        for number in said {
            if let Some(port) = machine.ports.get_mut(&number) {
                port.missed = 0;
            } else if machine.has_room() {
                machine.ports.insert(number, Port { state: State::New, missed: 0, failures: 0 });
                self.stirred = now;
            }
        }
    }

    /// Makes room for one more machine. Among machines without an executor of the grid, the finder forgets the longest silent one.
    fn has_room_for(&mut self, machine: &Ipv4Addr) -> bool {
        if self.machines.contains_key(machine) || self.machines.len() < MOST_MACHINES {
            return true;
        }
        let useless = self.machines.iter().filter(|(_, it)| it.is_useless());
        let oldest = useless.min_by_key(|(_, it)| it.heard).map(|(at, _)| *at);
        oldest.is_some_and(|at| self.machines.remove(&at).is_some())
    }

    /// Takes who was found at an address.
    pub fn on_outcome(&mut self, now: Duration, at: SocketAddr, outcome: Outcome) {
        let SocketAddr::V4(at) = at else { return };
        let Some(machine) = self.machines.get_mut(at.ip()) else { return };
        let Some(port) = machine.ports.get_mut(&at.port()) else { return };
        self.stirred = now;
        let pauses = match outcome {
            Outcome::Proved(name) => {
                (port.state, port.failures) = (State::Proved(name.to_ascii_lowercase(), now), 0);
                (machine.has_stranger, machine.failures, machine.not_before) = (false, 0, Duration::ZERO);
                return;
            }
            Outcome::Stranger => {
                machine.has_stranger = true;
                STRANGER
            }
            Outcome::Away => AWAY,
        };
        let pause = pauses[0].saturating_mul(1 << port.failures.min(16)).min(pauses[1]);
        (port.state, port.failures) = (State::Failed(now + pause), port.failures.saturating_add(1));
        machine.failures = machine.failures.saturating_add(1);
        if machine.failures >= FREE {
            machine.not_before = now + SLOW;
        }
    }

    /// The names of the executors of the grid that are here.
    pub fn members(&self) -> BTreeSet<&str> {
        self.proved().filter(|(port, ..)| port.missed < MISSED).map(|(_, _, name, _)| name).collect()
    }

    /// Where an executor of the grid has proved its name, and when. The newest proof comes first.
    pub fn addresses(&self, member: &str) -> Vec<(SocketAddr, Duration)> {
        let ours = self.proved().filter(|(_, _, name, _)| name.eq_ignore_ascii_case(member));
        let mut found: Vec<_> = ours.map(|(port, at, _, when)| (port.missed, at, when)).collect();
        found.sort_by_key(|(missed, at, when)| (*missed >= MISSED, std::cmp::Reverse(*when), *at));
        found.into_iter().map(|(_, at, when)| (at, when)).collect()
    }

    /// At how many machines somebody else answers, or an executor that refuses this user.
    pub fn strangers(&self) -> usize {
        self.machines.values().filter(|machine| machine.has_stranger).count()
    }

    /// Whether everybody who has answered so far is known, and nothing has come for a moment.
    pub fn is_settled(&self, now: Duration) -> bool {
        let is_waiting = |machine: &Machine| machine.is_dialled() || machine.next(now).is_some();
        self.asked > 0 && self.stirred + QUIET <= now && !self.machines.values().any(is_waiting)
    }

    fn proved(&self) -> impl Iterator<Item = (&Port, SocketAddr, &str, Duration)> {
        let ports = |(at, machine): (&Ipv4Addr, _)| {
            let at = *at;
            let Machine { ports, .. }: &Machine = machine;
            ports.iter().map(move |(number, port)| (SocketAddr::from(SocketAddrV4::new(at, *number)), port))
        };
        self.machines.iter().flat_map(ports).filter_map(|(at, port)| match &port.state {
            State::Proved(name, when) => Some((port, at, name.as_str(), *when)),
            _ => None,
        })
    }
}
