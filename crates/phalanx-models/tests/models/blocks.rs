//! The blocks of a link behind the handshake, with an attacker on the way who has every block and can alter, drop, repeat
//! and reorder them in every order.
//!
//! The receiver is the real one. At safe and private it opens the blocks that were sent, in that order. No block below the
//! base level of the link is taken. Where the base level is safe or private, no block is missing either, from the first one
//! on. All of this holds across a key update too, which comes when it is due and not before, and for an attacker who has kept
//! the first blocks under the earlier key.

use crate::explore_all;
use phalanx_core::level::{Level, Levels};
use phalanx_models::Model;
use phalanx_net::blocks::{Cut, Opener, Sealer, carried};
use phalanx_net::seal::{Context, HEAD, RECORD_TAIL, RECORDS_PER_KEY, SECRET, Secrets, TAG, head};
use std::fmt::{self, Write};
use std::io;

const ALTERED: &str = "an altered block is refused";
const MOVED: &str = "a block at another place is refused";
const TAKEN: &str = "a protected block is taken";
const FORGED: &str = "an unprotected block is not the one that was sent";
const UPDATED: &str = "a key update is taken";
/// The number of the first block behind a handshake with three records.
const SHAKEN: u64 = 3;
/// Deliveries after which the model stops.
const MOST: usize = 5;

/// A change that the attacker makes to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Whole,
    /// A bit of the byte at this place, counted from the end if it is negative.
    Bit(isize),
    /// Its head says another level.
    Says(Level),
}

/// A block by its number, and what is done to it.
type Delivery = (usize, Way);

struct Link {
    levels: Levels,
    /// The levels of the blocks, in order.
    sent: Vec<Level>,
    /// The number of the first of them.
    number: u64,
    /// The blocks as they are sent, with key updates between them. Behind them are those that the attacker has kept.
    wire: Vec<Vec<u8>>,
}

/// A receiver after these deliveries. Its opener cannot be copied, so it is made anew for each state.
struct Received {
    deliveries: Vec<Delivery>,
    opener: Opener,
    /// Bytes that wait for more.
    kept: Vec<u8>,
    /// The blocks that it has taken, in order.
    taken: Vec<(Level, Vec<u8>)>,
    /// The next block's number.
    number: u64,
    /// Key updates that it has taken.
    updates: usize,
    /// How the sender has used a key for too long, or not for long enough.
    untimely: Option<&'static str>,
    refused: bool,
    note: Option<&'static str>,
}

impl Received {
    /// Cuts and opens what has arrived. A refusal ends the link.
    fn hear(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.kept.extend_from_slice(bytes);
        loop {
            match self.opener.cut(&self.kept)? {
                Cut::Plain(level, payload) => {
                    self.number += u64::from(payload.start > 0); // not for the rest of a payload
                    let used: Vec<u8> = self.kept.drain(..payload.end).collect();
                    self.taken.push((level, used[payload].to_vec()));
                }
                Cut::Whole(block) => {
                    let mut used: Vec<u8> = self.kept.drain(..block.length()).collect();
                    let payload = self.opener.open_at(block, &mut used)?;
                    self.count(block.level(), payload.is_empty());
                    if !payload.is_empty() {
                        self.taken.push((block.level(), used[payload].to_vec()));
                    }
                }
                Cut::Part(_) => return Ok(()),
            }
        }
    }

    /// A protected block was opened. No payload is empty, so a block without one is a key update.
    fn count(&mut self, level: Level, is_update: bool) {
        let is_due = level == Level::Private && self.number >= RECORDS_PER_KEY;
        if is_due != is_update {
            let how = if is_update { "a key update comes before it is due" } else { "a key update is due" };
            self.untimely.get_or_insert(how);
        }
        self.updates += usize::from(is_update);
        self.number = if is_update { 0 } else { self.number + 1 };
    }

    /// Whether the attacker has done nothing yet.
    fn is_untouched(&self) -> bool {
        self.deliveries.iter().enumerate().all(|(at, delivery)| *delivery == (at, Way::Whole))
    }

    fn protected(&self) -> impl Iterator<Item = &(Level, Vec<u8>)> {
        self.taken.iter().filter(|(level, _)| *level >= Level::Safe)
    }
}

/// The keys of the sender, and of the receiver before it knows the number of the first block.
fn keys(number: u64) -> Option<Context> {
    Some(Context::new(Secrets { number, ..Secrets::from([7; SECRET]) }))
}

impl Link {
    /// A link with these blocks behind a handshake.
    fn new(levels: Levels, sent: Vec<Level>) -> Link {
        Link::beginning_at(SHAKEN, levels, sent, &[])
    }

    /// A link on which a key update is due behind the first block. The attacker has kept two blocks of these levels, which
    /// were the first under the earlier key.
    fn with_update(levels: Levels, sent: Vec<Level>, kept: [Level; 2]) -> Link {
        Link::beginning_at(RECORDS_PER_KEY - 1, levels, sent, &kept)
    }

    fn beginning_at(number: u64, levels: Levels, sent: Vec<Level>, kept: &[Level]) -> Link {
        let seal = |number, sent: &[Level], first: usize| {
            let mut sealer = Sealer::new(keys(number), carried(levels));
            let mut bytes = Vec::new();
            for (number, level) in (first..).zip(sent) {
                let payload = Self::payload(number);
                sealer.append(*level, std::iter::once(&payload[..]), &mut bytes).expect("the link carries it");
            }
            cut(&bytes, &Opener::new(keys(0), carried(levels)))
        };
        let wire = [seal(number, &sent, 0), seal(0, kept, sent.len())].concat();
        Link { levels, sent, number, wire }
    }

    fn payload(number: usize) -> Vec<u8> {
        format!("payload number {number}").into()
    }

    fn ways(&self) -> Vec<Way> {
        let says = Level::ALL.into_iter().map(Way::Says);
        [Way::Whole, Way::Bit(1), Way::Bit(5), Way::Bit(-1)].into_iter().chain(says).collect()
    }

    /// The receiver after all these deliveries.
    fn receive(&self, deliveries: &[Delivery]) -> Received {
        let mut received = Received {
            deliveries: deliveries.to_vec(),
            opener: Opener::new(keys(0), carried(self.levels)),
            kept: Vec::new(),
            taken: Vec::new(),
            number: self.number,
            updates: 0,
            untimely: None,
            refused: false,
            note: None,
        };
        received.opener.begin_at(self.number);
        for (number, way) in deliveries {
            received.refused = received.hear(&altered(&self.wire[*number], *way)).is_err();
        }
        received
    }
}

/// Cuts bytes into blocks.
fn cut(mut bytes: &[u8], by: &Opener) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    while let Some(head) = bytes.first_chunk() {
        let (block, rest) = bytes.split_at(by.block(*head).expect("the link carries it").length());
        blocks.push(block.to_vec());
        bytes = rest;
    }
    blocks
}

fn altered(block: &[u8], way: Way) -> Vec<u8> {
    let mut bytes = block.to_vec();
    match way {
        Way::Whole => {}
        Way::Bit(at) => {
            let at = if at < 0 { bytes.len() - at.unsigned_abs() } else { at.unsigned_abs() };
            bytes[at] ^= 1;
        }
        Way::Says(level) => {
            let tail = [0, 0, TAG, RECORD_TAIL][level as usize];
            let payload = bytes.len().saturating_sub(HEAD + tail);
            bytes[..HEAD].copy_from_slice(&head(level, payload));
        }
    }
    bytes
}

impl Model for Link {
    type State = Received;
    type Action = Delivery;

    fn first(&self) -> Received {
        self.receive(&[])
    }

    fn actions(&self, state: &Received) -> Vec<Delivery> {
        if state.refused || state.deliveries.len() == MOST {
            return Vec::new();
        }
        (0..self.wire.len()).flat_map(|number| self.ways().into_iter().map(move |way| (number, way))).collect()
    }

    fn next(&self, before: &Received, delivery: &Delivery) -> Received {
        let mut after = self.receive(&[&before.deliveries[..], &[*delivery]].concat());
        let is_own = *delivery == (before.deliveries.len(), Way::Whole);
        after.note = match delivery {
            _ if after.updates > before.updates => Some(UPDATED),
            _ if after.protected().count() > before.protected().count() => Some(TAKEN),
            (_, Way::Whole) if after.refused => Some(MOVED),
            _ if after.refused => Some(ALTERED),
            _ => (!is_own && after.taken.len() > before.taken.len()).then_some(FORGED),
        };
        after
    }

    fn write(&self, state: &Received, text: &mut dyn Write) -> fmt::Result {
        let Received { deliveries, opener, kept, taken, updates, untimely, refused, .. } = state;
        let (count, is_untouched) = (deliveries.len(), state.is_untouched());
        write!(text, "{count} {is_untouched} {opener:?} {kept:?} {taken:?} {updates} {untimely:?} {refused}")
    }

    fn check(&self, state: &Received, _: bool) -> Result<(), String> {
        if state.is_untouched() && state.refused {
            return Err("what nobody has touched is refused".to_owned());
        }
        if let Some(how) = state.untimely {
            return Err(how.to_owned());
        }
        if let Some((level, _)) = state.taken.iter().find(|(level, _)| *level < self.levels.base) {
            return Err(format!("a block of the level {level} is taken"));
        }
        let sent = self.sent.iter().enumerate().filter(|(_, level)| **level >= Level::Safe);
        let mut sent = sent.map(|(number, level)| (*level, Self::payload(number)));
        // In place of a protected block, an attacker can put one of a base level without protection.
        let skips = self.levels.base < Level::Safe;
        let is_next = |taken: &(Level, Vec<u8>)| {
            if skips { sent.any(|next| next == *taken) } else { sent.next().as_ref() == Some(taken) }
        };
        let wrong = state.protected().map(is_next).position(|is_next| !is_next);
        wrong.map_or(Ok(()), |place| Err(format!("protected block {place} is not the next one of {:?}", state.taken)))
    }

    fn notes(&self, state: &Received) -> Vec<&'static str> {
        state.note.into_iter().collect()
    }
}

#[test]
fn an_attacker_changes_nothing_of_protected_links() {
    for level in [Level::Safe, Level::Private] {
        let link = Link::new(Levels::all(level), vec![level; 4]);
        let explored = explore_all(level.name(), &link, 100_000, &[ALTERED, MOVED, TAKEN]);
        assert!(!explored.notes.contains_key(FORGED));
    }
}

#[test]
fn an_attacker_changes_nothing_of_protected_blocks_among_others() {
    use Level::{Authenticated, Private, Safe};
    let levels = Levels { base: Authenticated, data: Private, code: Safe };
    let link = Link::new(levels, vec![Private, Authenticated, Safe, Authenticated, Private]);
    explore_all("mixed", &link, 1_000_000, &[ALTERED, MOVED, TAKEN, FORGED]);
}

#[test]
fn an_attacker_changes_nothing_across_a_key_update() {
    use Level::{Private, Safe};
    let link = Link::with_update(Levels::all(Private), vec![Private; 4], [Private; 2]);
    explore_all("update", &link, 100_000, &[ALTERED, MOVED, TAKEN, UPDATED]);
    let levels = Levels { base: Safe, data: Private, code: Safe };
    let link = Link::with_update(levels, vec![Safe, Private, Safe, Private], [Private, Safe]);
    explore_all("update among others", &link, 100_000, &[ALTERED, MOVED, TAKEN, UPDATED]);
}
