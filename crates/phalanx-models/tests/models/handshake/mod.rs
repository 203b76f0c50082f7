//! The handshake, with an attacker on the way who can alter, drop, repeat, delay, reflect and exchange what both ends send.
//!
//! Both ends run the real code: preamble, TLS, offer, choice and keys. If both complete the handshake, their levels and
//! keys are equal. An end that completes it has a level that the other end takes, and never less than without the
//! attacker. An attack can only end the handshake.

mod attack;
mod ends;
mod wire;

use crate::explore_all;
use attack::{Attack, Records};
use ends::{Asks, Client, Ends, Met, Server};
use phalanx_core::level::{Bound, Level, LevelSet, Levels, Mark, Network, Policy, Rule, Usual};
use phalanx_models::Model;
use phalanx_net::preamble::Preamble;
use std::fmt::{self, Write};

const AGREED: &str = "both ends agree";
const HARMLESS: &str = "both ends agree in spite of an attack";
const REFUSED: &str = "neither end has completed the handshake";
const HALF: &str = "one end alone has completed the handshake";

/// The outcome of one connection. An end that fails has none.
struct Handshake {
    ends: Ends,
    /// Attacks on one connection.
    attacks: usize,
    /// The records of an earlier connection of the same ends.
    earlier: Records,
}

/// A connection with these attacks. It is made anew for each state.
struct Connection {
    attacks: Vec<Attack>,
    records: usize,
    met: Met,
}

impl Handshake {
    fn new(ends: Ends, attacks: usize) -> Handshake {
        let (_, earlier) = ends.meet(&[], &Records::default());
        Handshake { ends, attacks, earlier }
    }
}

impl Model for Handshake {
    type State = Connection;
    type Action = Attack;

    fn first(&self) -> Connection {
        let (met, records) = self.ends.meet(&[], &self.earlier);
        Connection { attacks: Vec::new(), records: records.count(), met }
    }

    /// The next attack is on a record behind the one that was attacked last.
    fn actions(&self, connection: &Connection) -> Vec<Attack> {
        if connection.attacks.len() == self.attacks {
            return Vec::new();
        }
        let from = connection.attacks.last().map_or(0, |attack| attack.record + 1);
        (from..connection.records).flat_map(Attack::on).collect()
    }

    fn next(&self, before: &Connection, attack: &Attack) -> Connection {
        let attacks = [&before.attacks[..], &[*attack]].concat();
        let (met, records) = self.ends.meet(&attacks, &self.earlier);
        Connection { attacks, records: records.count(), met }
    }

    fn write(&self, connection: &Connection, text: &mut dyn Write) -> fmt::Result {
        write!(text, "{:?}", connection.attacks)
    }

    fn check(&self, connection: &Connection, _: bool) -> Result<(), String> {
        self.ends.check(&connection.met, connection.attacks.is_empty())
    }

    fn notes(&self, connection: &Connection) -> Vec<&'static str> {
        vec![match (&connection.met.client, &connection.met.server) {
            (Some(_), Some(_)) if connection.attacks.is_empty() => AGREED,
            (Some(_), Some(_)) => HARMLESS,
            (None, None) => REFUSED,
            _ => HALF,
        }]
    }
}

/// Marked data is private, the rest authenticated: the weakest that a policy of the defaults gives on such a network.
fn marked() -> Policy {
    Policy { usual: Usual::Marked, ..Policy::default() }
}

fn prefers(level: Level) -> Policy {
    let rule = Rule { network: Network::Any, role: None, mark: None, bound: Bound::Preferred(level) };
    Policy { rules: vec![rule], ..Policy::default() }
}

#[test]
fn an_attacker_cannot_lower_what_a_client_decides_by_its_policy() {
    let client = Client { preamble: Preamble::Control, asks: Asks::ByPolicy(Policy::default()) };
    let ends = Ends::new(client, Server::ByPolicy(Policy::default()));
    explore_all("private, by policy", &Handshake::new(ends, 2), 100_000, &[HARMLESS, REFUSED, HALF]);
}

#[test]
fn an_attacker_cannot_lower_what_a_client_chooses_ahead() {
    let levels = Levels { base: Level::Safe, data: Level::Private, code: Level::Safe };
    let client = Client { preamble: Preamble::Data { token: [7; 16] }, asks: Asks::Ahead(levels) };
    let ends = Ends::new(client, Server::Exactly(levels));
    explore_all("chosen ahead", &Handshake::new(ends, 2), 100_000, &[HARMLESS, REFUSED, HALF]);
}

#[test]
fn an_attacker_cannot_lower_the_level_of_marked_data() {
    let client = Client { preamble: Preamble::Ranks, asks: Asks::ByPolicy(marked()) };
    let ends = Ends::new(client, Server::ByPolicy(prefers(Level::Authenticated)));
    explore_all("marked", &Handshake::new(ends, 1), 100_000, &[HARMLESS, REFUSED, HALF]);
}

/// Without an attacker: every choice meets every offer, for one mark after the other.
#[test]
fn ends_agree_on_what_one_chooses_and_the_other_offers_or_not_at_all() {
    let (mut agreed, mut refused) = (0, 0);
    for levels in every_choice() {
        for (mark, offer) in Mark::ALL.into_iter().flat_map(|mark| every_set().map(move |set| (mark, set))) {
            let mut offered = [LevelSet::EVERY; 3];
            offered[mark as usize] = offer;
            let client = Client { preamble: Preamble::Transfer, asks: Asks::Ahead(levels) };
            let ends = Ends::new(client, Server::Offers(offered));
            let (met, _) = ends.meet(&[], &Records::default());
            let fits = Mark::ALL.into_iter().all(|mark| offered[mark as usize].contains(levels.of(mark)));
            assert_eq!((met.client.is_some(), met.server.is_some()), (fits, fits), "{levels:?} of {offered:?}");
            ends.check(&met, false).expect("both or none");
            (agreed, refused) = (agreed + usize::from(fits), refused + usize::from(!fits));
        }
    }
    println!("choices and offers: {agreed} agreements, {refused} refusals");
    assert!(agreed > 0 && refused > 0);
}

fn every_choice() -> impl Iterator<Item = Levels> {
    let all = |base| Level::ALL.into_iter().flat_map(move |data| Level::ALL.map(|code| Levels { base, data, code }));
    Level::ALL.into_iter().flat_map(all)
}

fn every_set() -> impl Iterator<Item = LevelSet> {
    let of = |bits: u8| {
        let missing = Level::ALL.into_iter().filter(move |level| bits & (1 << *level as u8) == 0);
        missing.fold(LevelSet::EVERY, LevelSet::without)
    };
    (0..16).map(of)
}
