//! Conversations of announcers and finders, and of finders with strangers.

use super::finder::{Command, Finder, Outcome};
use super::message::{Asked, Records, answer, asked, ports, question};
use super::{Announcer, Reply, Segment, To};
use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const DESK: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const NET: Segment = Segment { address: DESK, mask: Ipv4Addr::new(255, 255, 255, 0) };

fn at(last: u8, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), port)
}

fn seconds(number: f64) -> Duration {
    Duration::from_secs_f64(number)
}

fn said(port: u16, id: u16) -> Vec<u8> {
    answer(&Records { instance: "i", host: "h", port, address: DESK, lasts: 10 }, Some(id))
}

/// A finder in a network, whose clock goes on in steps of a tenth of a second.
struct Net {
    finder: Finder,
    now: Duration,
    announcers: BTreeMap<u8, Announcer>,
    /// Who listens at which address.
    there: BTreeMap<SocketAddr, Outcome>,
    dialled: Vec<SocketAddr>,
    asked: usize,
}

impl Net {
    fn new() -> Net {
        let (announcers, there) = (BTreeMap::new(), BTreeMap::new());
        let mut finder = Finder::default();
        finder.look(Duration::ZERO);
        Net { finder, now: Duration::ZERO, announcers, there, dialled: Vec::new(), asked: 0 }
    }

    fn add(&mut self, last: u8, port: u16, outcome: Outcome) {
        self.announcers.insert(last, Announcer::new(port, u128::from(last)));
        self.there.insert(at(last, port).into(), outcome);
    }

    /// Says something to the finder in answer to its newest question.
    fn say(&mut self, from: SocketAddrV4, port: u16) {
        let id = self.asked as u16;
        self.finder.on_packet(self.now, &NET, from, &said(port, id));
    }

    fn step(&mut self) {
        self.now += seconds(0.1);
        let mut dials = Vec::new();
        for command in self.finder.due(self.now, self.asked as u16 + 1) {
            match command {
                Command::Ask(packet) => {
                    self.asked += 1;
                    for (last, announcer) in &mut self.announcers {
                        let here = Segment { address: *at(*last, 0).ip(), ..NET };
                        let reply = announcer.on_packet(self.now, &here, at(1, 50_000), &packet).expect("was asked");
                        assert_eq!(reply.to, To::One(at(1, 50_000)));
                        self.finder.on_packet(self.now, &NET, at(*last, 5353), &reply.packet);
                    }
                }
                Command::Dial(address) => dials.push(address),
            }
        }
        dials.extend(self.finder.due(self.now, 0).into_iter().map(|it| match it {
            Command::Dial(address) => address,
            Command::Ask(_) => panic!("asked twice"),
        }));
        let machines: BTreeSet<_> = dials.iter().map(SocketAddr::ip).collect();
        assert!(dials.len() <= 16 && machines.len() == dials.len(), "one port of a machine at a time: {dials:?}");
        for address in dials {
            self.dialled.push(address);
            let outcome = self.there.get(&address).cloned().unwrap_or(Outcome::Away);
            self.finder.on_outcome(self.now, address, outcome);
        }
    }

    fn run(&mut self, whole: f64) {
        let until = self.now + seconds(whole);
        while self.now < until {
            self.finder.look(self.now);
            self.step();
        }
    }

    fn members(&self) -> Vec<&str> {
        self.finder.members().into_iter().collect()
    }
}

fn proved(name: &str) -> Outcome {
    Outcome::Proved(name.to_owned())
}

#[test]
fn executors_of_the_grid_are_found_by_the_names_that_they_prove_and_strangers_are_not() {
    let mut net = Net::new();
    net.add(7, 7400, proved("WS7"));
    net.add(8, 7400, proved("ws8"));
    net.add(9, 7400, Outcome::Stranger);
    assert!(!net.finder.is_settled(net.now), "nothing was asked");
    net.run(0.5);
    assert!(net.finder.is_settled(net.now));
    assert_eq!(net.members(), ["ws7", "ws8"]);
    assert_eq!(net.finder.addresses("ws7"), [(at(7, 7400).into(), seconds(0.1))]);
    assert_eq!(net.finder.strangers(), 1);
}

#[test]
fn an_executor_that_starts_later_is_found_and_one_that_is_killed_is_not_here_any_more() {
    let mut net = Net::new();
    net.add(7, 7400, proved("ws7"));
    net.run(1.0);
    net.add(8, 7400, proved("ws8"));
    net.run(5.0);
    assert_eq!(net.members(), ["ws7", "ws8"]);
    net.announcers.remove(&7);
    net.run(20.0);
    assert_eq!(net.members(), ["ws8"]);
    net.add(7, 7401, proved("ws7"));
    net.run(5.0);
    assert_eq!(net.members(), ["ws7", "ws8"]);
    let addresses: Vec<_> = net.finder.addresses("ws7").into_iter().map(|(at, _)| at).collect();
    assert_eq!(addresses, [at(7, 7401).into(), at(7, 7400).into()], "the newest goes first");
}

#[test]
fn nothing_is_asked_while_nobody_looks() {
    let mut net = Net::new();
    net.run(10.0);
    let before = net.asked;
    assert!((3..10).contains(&before), "{before} questions in 10 s");
    for _ in 0..600 {
        net.step();
    }
    assert!(net.finder.is_idle() && net.asked < before + 7, "{} questions", net.asked);
    net.finder.look(net.now);
    net.step();
    assert!(!net.finder.is_idle());
}

#[test]
fn a_stranger_is_dialled_once_in_a_while() {
    let mut net = Net::new();
    net.add(9, 7400, Outcome::Stranger);
    net.run(3600.0);
    assert!((6..=12).contains(&net.dialled.len()), "{} dials in an hour", net.dialled.len());
}

#[test]
fn an_executor_that_could_not_be_reached_is_found_when_it_can_be() {
    let mut net = Net::new();
    net.add(7, 7400, Outcome::Away);
    net.run(2.0);
    assert!(net.members().is_empty());
    net.there.insert(at(7, 7400).into(), proved("ws7"));
    net.run(10.0);
    assert_eq!(net.members(), ["ws7"]);
}

#[test]
fn a_machine_announces_nothing_but_itself() {
    let mut net = Net::new();
    net.run(0.2);
    // The record of the address says 10.0.0.1. It is not read: the sender counts.
    net.say(at(66, 5353), 7400);
    net.run(0.2);
    assert_eq!(net.dialled, [at(66, 7400).into()]);
}

#[test]
fn what_is_not_of_the_network_is_refused() {
    let mut net = Net::new();
    net.run(0.2);
    let others =
        ["10.0.1.9", "127.0.0.1", "8.8.8.8", "224.0.0.251", "10.0.0.0", "10.0.0.255", "0.0.0.0", "255.255.255.255"];
    for other in others {
        net.say(SocketAddrV4::new(other.parse().unwrap(), 5353), 7400);
    }
    net.say(at(66, 5353), 0);
    net.run(0.5);
    assert!(net.dialled.is_empty(), "{:?}", net.dialled);
}

#[test]
fn an_answer_to_no_question_is_refused() {
    let mut net = Net::new();
    net.finder.on_packet(net.now, &NET, at(66, 5353), &said(7400, 0));
    net.run(0.2);
    for wrong in
        [said(7400, 999), answer(&Records { instance: "i", host: "h", port: 7400, address: DESK, lasts: 120 }, None)]
    {
        net.finder.on_packet(net.now, &NET, at(66, 5353), &wrong);
    }
    net.run(0.5);
    assert!(net.dialled.is_empty(), "{:?}", net.dialled);
}

#[test]
fn a_flood_of_ports_of_one_machine_is_bounded_and_hides_no_other_machine() {
    let mut net = Net::new();
    net.run(0.2);
    for number in 0..100_000_u32 {
        net.say(at(66, 5353), (number % 65_535 + 1) as u16);
    }
    net.add(7, 7400, proved("ws7"));
    net.run(5.0);
    assert_eq!(net.members(), ["ws7"]);
    for _ in 0..600 {
        for number in 0..20 {
            let port = (net.now.as_millis() % 60_000) as u16 + number + 1;
            net.there.insert(at(66, port).into(), Outcome::Stranger);
            net.say(at(66, 5353), port);
        }
        net.run(0.1);
    }
    let hostile = net.dialled.iter().filter(|it| it.ip() == *at(66, 0).ip()).count();
    assert!(hostile <= 8 + 8 + 4, "{hostile} dials of a machine that names ever new ports, in a minute");
}

#[test]
fn a_flood_of_machines_is_bounded_and_ends() {
    let wide = Segment { mask: Ipv4Addr::new(255, 0, 0, 0), ..NET };
    let mut net = Net::new();
    net.run(0.2);
    for number in 0..100_000_u32 {
        let from = Ipv4Addr::from_bits(DESK.to_bits() + 300 + number);
        net.finder.on_packet(net.now, &wide, SocketAddrV4::new(from, 5353), &said(7400, net.asked as u16));
    }
    net.run(4.0);
    assert!(net.dialled.len() <= 600, "{} dials", net.dialled.len());
    net.add(7, 7400, proved("ws7"));
    net.run(5.0);
    assert_eq!(net.members(), ["ws7"], "a new machine takes the place of one where nobody was");
}

#[test]
fn a_machine_that_lets_every_dial_wait_is_dialled_ever_more_rarely() {
    let mut net = Net::new();
    for number in 0..600 {
        net.say(at(66, 5353), 7000 + number % 40);
        net.run(0.1);
    }
    assert!(
        net.dialled.len() <= 8 + 8 + 4,
        "{} dials of a machine where nobody answers, in a minute",
        net.dialled.len()
    );
}

#[test]
fn executors_that_have_gone_make_room_for_new_ones() {
    let mut net = Net::new();
    net.run(0.2);
    for port in 7000..7008 {
        net.there.insert(at(7, port).into(), proved("ws7"));
        net.say(at(7, 5353), port);
    }
    net.run(1.0);
    assert_eq!((net.members(), net.dialled.len()), (vec!["ws7"], 8));
    net.there.clear();
    net.run(20.0);
    net.add(7, 8000, proved("ws7"));
    net.run(5.0);
    assert_eq!(net.members(), ["ws7"], "at a new port of the machine");
}

#[test]
fn the_same_address_under_many_names_is_one() {
    let mut net = Net::new();
    net.add(7, 7400, proved("ws7"));
    net.run(0.2);
    for number in 0..1000 {
        let (instance, id) = (format!("other-{number}"), net.asked as u16);
        let records = Records { instance: &instance, host: "h", port: 7400, address: DESK, lasts: 10 };
        net.finder.on_packet(net.now, &NET, at(7, 5353), &answer(&records, Some(id)));
    }
    net.run(1.0);
    assert_eq!((net.members(), net.dialled.len()), (vec!["ws7"], 1));
}

#[test]
fn an_announcer_answers_at_a_bounded_rate_and_only_its_network() {
    let mut announcer = Announcer::new(7400, 1);
    let mut answers = |now, from| announcer.on_packet(now, &NET, from, &question(5)).is_some();
    assert!(!answers(seconds(1.0), SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, 9), 50_000)));
    assert!(!answers(seconds(1.0), at(9, 0)));
    assert_eq!((0..1000).filter(|_| answers(seconds(1.0), at(9, 50_000))).count(), 8);
    assert_eq!((0..=255).filter(|last| answers(seconds(1.5), at(*last, 50_001))).count(), 248, "256 in all");
    assert!(answers(seconds(2.0), at(9, 50_000)));
    assert_eq!((0..1000).filter(|_| answers(seconds(2.0), at(9, 5353))).count(), 1, "all are told once a second");
}

#[test]
fn an_announcement_says_nothing_but_a_port_and_an_address() {
    let (one, other) = (Announcer::new(7400, 1).goodbye(&NET), Announcer::new(7400, 2).goodbye(&NET));
    assert_eq!(one.len(), other.len());
    let packet = Announcer::new(7400, u128::MAX).announcement(seconds(1.0), &NET);
    let text = String::from_utf8_lossy(&packet).replace(|c: char| !c.is_ascii_graphic(), " ");
    let words: BTreeSet<_> = text.split_whitespace().filter(|word| word.len() > 3).collect();
    assert_eq!(words, BTreeSet::from(["_phalanx", "_tcp", "local", "ffffffffffffffff"]), "{text}");
    assert!(ports(&one, &[0]).is_empty(), "a goodbye announces nothing");
    assert_eq!(ports(&packet, &[0]), BTreeSet::from([7400]));
}

#[test]
fn an_answer_with_pointers_in_its_names_is_read_and_pointers_in_a_ring_are_not() {
    let mut packet = question(3);
    (packet[2], packet[7]) = (0x84, 1);
    packet.extend([1, b'i', 0xc0, 12]); // the name of the question
    packet.extend([0, 33, 0x80, 1, 0, 0, 0, 9, 0, 7, 0, 0, 0, 0, 0x1c, 0xe8, 0]);
    assert_eq!(ports(&packet, &[3]), BTreeSet::from([7400]));
    let place = packet.len() - 21 + 2;
    (packet[place], packet[place + 1]) = (0xc0, place as u8);
    assert!(ports(&packet, &[3]).is_empty());
}

proptest! {
    #[test]
    fn no_packet_makes_an_engine_panic_or_an_announcer_announce_twice(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        cut in 0..200_usize,
        flips in prop::collection::vec((0..200_usize, any::<u8>()), 0..4),
        id in any::<u16>(),
    ) {
        let mut changed = said(7400, id);
        changed.truncate(cut);
        for (place, byte) in flips {
            changed.get_mut(place).into_iter().for_each(|old| *old = byte);
        }
        for packet in [&bytes, &changed] {
            let found = ports(packet, &[id]);
            prop_assert!(found.len() <= 8 && !found.contains(&0));
            let _ = asked(packet);
            let reply = Announcer::new(1, 2).on_packet(seconds(1.0), &NET, at(9, 5353), packet);
            prop_assert!(reply.is_none() || asked(packet).is_some());
        }
    }

    #[test]
    fn what_is_written_is_read(port in 1..u16::MAX, id in any::<u16>()) {
        prop_assert_eq!(asked(&question(id)), Some(Asked { id, directly: false }));
        prop_assert_eq!(ports(&said(port, id), &[id]), BTreeSet::from([port]));
        prop_assert_eq!(asked(&said(port, id)), None);
        let reply = Announcer::new(port, 7).on_packet(seconds(1.0), &NET, at(9, 50_000), &question(id));
        let Some(Reply { to: To::One(to), packet }) = reply else { panic!("was asked") };
        prop_assert_eq!((to, ports(&packet, &[id])), (at(9, 50_000), BTreeSet::from([port])));
    }
}
