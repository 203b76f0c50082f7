//! The blocks of a link behind the handshake, with an attacker on the way who has every block and can alter, drop, repeat
//! and reorder them in every order.
//!
//! The receiver is the real one. At safe and private it opens the blocks that were sent, in that order. No block below the
//! base level of the link is taken. Where the base level is safe or private, no block is missing either, from the first one
//! on.

use crate::explore_all;
use phalanx_core::level::{Level, Levels};
use phalanx_models::Model;
use phalanx_net::blocks::{Cut, Opener, Sealer, carried};
use phalanx_net::seal::{Context, HEAD, RECORD_TAIL, SECRET, TAG, head};
use std::fmt::{self, Write};
use std::io;

const ALTERED: &str = "an altered block is refused";
const MOVED: &str = "a block at another place is refused";
const TAKEN: &str = "a protected block is taken";
const FORGED: &str = "an unprotected block is not the one that was sent";
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
}

/// A receiver after these deliveries. Its opener cannot be copied, so it is made anew for each state.
struct Received {
    deliveries: Vec<Delivery>,
    opener: Opener,
    /// Bytes that wait for more.
    kept: Vec<u8>,
    /// The blocks that it has taken, in order.
    taken: Vec<(Level, Vec<u8>)>,
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
                    let used: Vec<u8> = self.kept.drain(..payload.end).collect();
                    self.taken.push((level, used[payload].to_vec()));
                }
                Cut::Whole(block) => {
                    let mut used: Vec<u8> = self.kept.drain(..block.length()).collect();
                    let payload = self.opener.open_at(block, &mut used)?;
                    self.taken.push((block.level(), used[payload].to_vec()));
                }
                Cut::Part(_) => return Ok(()),
            }
        }
    }

    fn protected(&self) -> impl Iterator<Item = &(Level, Vec<u8>)> {
        self.taken.iter().filter(|(level, _)| *level >= Level::Safe)
    }
}

impl Link {
    fn payload(number: usize) -> Vec<u8> {
        format!("payload number {number}").into()
    }

    /// The blocks as they were sent.
    fn blocks(&self) -> Vec<Vec<u8>> {
        let mut sealer = Sealer::new(Some(Context::new([7; SECRET])), carried(self.levels));
        let block = |(number, level): (usize, &Level)| {
            let (payload, mut block) = (Self::payload(number), Vec::new());
            sealer.append(*level, std::iter::once(&payload[..]), &mut block).expect("the link carries it");
            block
        };
        self.sent.iter().enumerate().map(block).collect()
    }

    fn ways(&self) -> Vec<Way> {
        let says = Level::ALL.into_iter().map(Way::Says);
        [Way::Whole, Way::Bit(1), Way::Bit(5), Way::Bit(-1)].into_iter().chain(says).collect()
    }

    /// The receiver after all these deliveries.
    fn receive(&self, deliveries: &[Delivery]) -> Received {
        let opener = Opener::new(Some(Context::new([7; SECRET])), carried(self.levels));
        let (deliveries, kept, taken) = (deliveries.to_vec(), Vec::new(), Vec::new());
        let mut received = Received { deliveries, opener, kept, taken, refused: false, note: None };
        let blocks = self.blocks();
        for (number, way) in received.deliveries.clone() {
            received.refused = received.hear(&altered(&blocks[number], way)).is_err();
        }
        received
    }
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
        (0..self.sent.len()).flat_map(|number| self.ways().into_iter().map(move |way| (number, way))).collect()
    }

    fn next(&self, before: &Received, delivery: &Delivery) -> Received {
        let mut after = self.receive(&[&before.deliveries[..], &[*delivery]].concat());
        let is_own = *delivery == (before.deliveries.len(), Way::Whole);
        after.note = match delivery {
            _ if after.protected().count() > before.protected().count() => Some(TAKEN),
            (_, Way::Whole) if after.refused => Some(MOVED),
            _ if after.refused => Some(ALTERED),
            _ => (!is_own && after.taken.len() > before.taken.len()).then_some(FORGED),
        };
        after
    }

    fn write(&self, state: &Received, text: &mut dyn Write) -> fmt::Result {
        let Received { deliveries, opener, kept, taken, refused, .. } = state;
        write!(text, "{} {opener:?} {kept:?} {taken:?} {refused}", deliveries.len())
    }

    fn check(&self, state: &Received, _: bool) -> Result<(), String> {
        let is_untouched = state.deliveries.iter().enumerate().all(|(at, delivery)| *delivery == (at, Way::Whole));
        if is_untouched && state.refused {
            return Err("what nobody has touched is refused".to_owned());
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
        let link = Link { levels: Levels::all(level), sent: vec![level; 4] };
        let explored = explore_all(level.name(), &link, 100_000, &[ALTERED, MOVED, TAKEN]);
        assert!(!explored.notes.contains_key(FORGED));
    }
}

#[test]
fn an_attacker_changes_nothing_of_protected_blocks_among_others() {
    use Level::{Authenticated, Private, Safe};
    let levels = Levels { base: Authenticated, data: Private, code: Safe };
    let link = Link { levels, sent: vec![Private, Authenticated, Safe, Authenticated, Private] };
    explore_all("mixed", &link, 1_000_000, &[ALTERED, MOVED, TAKEN, FORGED]);
}
