//! The network between the ends, and the attacker who is the network.

use super::wire::{Side, Wire};
use std::collections::VecDeque;

/// Bytes of a preamble.
const PREAMBLE: usize = 23;
/// Bytes before a TLS record.
const HEAD: usize = 5;

/// An attack on one record, by its number among those that the network carries. The preamble is the first one.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    pub record: usize,
    way: Way,
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Drop,
    /// It arrives a second time.
    Repeat,
    /// The record behind it arrives before it.
    Reorder,
    /// It goes back to its sender too.
    Reflect,
    /// In its place comes the record that an earlier connection had there.
    Exchange,
    /// A bit of this byte is another one.
    Alter(Place),
    /// It is one byte shorter, and says so.
    Shorten,
    /// The connection ends before it.
    Cut,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// The byte with the kind of the record or the preamble.
    Kind,
    /// The first byte behind the head, or behind the kind of a preamble.
    First,
    Last,
}

impl Attack {
    /// Every attack on this record.
    pub fn on(record: usize) -> Vec<Attack> {
        use Way::{Alter, Cut, Drop, Exchange, Reflect, Reorder, Repeat, Shorten};
        let altered = [Place::Kind, Place::First, Place::Last].map(Alter);
        let ways = [Drop, Repeat, Reorder, Reflect, Exchange, Shorten, Cut].into_iter().chain(altered);
        ways.map(|way| Attack { record, way }).collect()
    }
}

/// The bytes that both ends have sent, cut into records.
#[derive(Debug, Clone, Default)]
pub struct Records([Vec<Vec<u8>>; 2]);

impl Records {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

/// The network of one connection.
pub struct Network<'a> {
    wire: &'a Wire,
    attacks: &'a [Attack],
    earlier: &'a Records,
    /// All that was sent.
    records: Records,
    waiting: [VecDeque<Vec<u8>>; 2],
    /// The start of a record.
    rest: [Vec<u8>; 2],
    carried: usize,
}

impl<'a> Network<'a> {
    pub fn new(wire: &'a Wire, attacks: &'a [Attack], earlier: &'a Records) -> Network<'a> {
        let (records, waiting, rest) = Default::default();
        Network { wire, attacks, earlier, records, waiting, rest, carried: 0 }
    }

    /// Carries records until none is left, and then closes the connection. Both ends wait, or are gone, whenever a record
    /// is carried. So it does not matter which direction comes first.
    pub fn run(mut self) -> Records {
        loop {
            self.cut();
            let Some(side) =
                [Side::Client, Side::Server].into_iter().find(|side| !self.waiting[*side as usize].is_empty())
            else {
                break;
            };
            if !self.carry(side) {
                break;
            }
        }
        self.wire.close();
        self.records
    }

    /// Cuts what the ends have written into records.
    fn cut(&mut self) {
        for (side, bytes) in self.wire.settle().into_iter().enumerate() {
            self.rest[side].extend(bytes);
            while let Some(length) = self.length(side) {
                let record: Vec<u8> = self.rest[side].drain(..length).collect();
                self.records.0[side].push(record.clone());
                self.waiting[side].push_back(record);
            }
        }
    }

    /// The length of the record at the start of the rest, if it is whole.
    fn length(&self, side: usize) -> Option<usize> {
        let is_preamble = side == Side::Client as usize && self.records.0[side].is_empty();
        let length = match (is_preamble, &self.rest[side][..]) {
            (true, _) => PREAMBLE,
            (false, [_, _, _, high, low, ..]) => HEAD + usize::from(u16::from_be_bytes([*high, *low])),
            _ => return None,
        };
        (self.rest[side].len() >= length).then_some(length)
    }

    /// Carries the next record of a direction. Returns whether the connection is still there.
    fn carry(&mut self, from: Side) -> bool {
        let queue = &mut self.waiting[from as usize];
        let place = self.records.0[from as usize].len() - queue.len();
        let is_preamble = from == Side::Client && place == 0;
        let Some(mut record) = queue.pop_front() else { return true };
        let attack = self.attacks.iter().find(|attack| attack.record == self.carried);
        self.carried += 1;
        match attack.map(|attack| attack.way) {
            None => {}
            Some(Way::Drop) => return true,
            Some(Way::Cut) => return false,
            Some(Way::Repeat) => self.wire.give(from.other(), &record),
            Some(Way::Reflect) => self.wire.give(from, &record),
            Some(Way::Reorder) => {
                if let Some(next) = queue.pop_front() {
                    self.carried += 1;
                    self.wire.give(from.other(), &next);
                }
            }
            Some(Way::Exchange) => {
                let earlier = self.earlier.0[from as usize].get(place);
                record = earlier.cloned().unwrap_or_default();
            }
            Some(Way::Alter(byte)) => alter(&mut record, byte, is_preamble),
            Some(Way::Shorten) => shorten(&mut record, is_preamble),
        }
        self.wire.give(from.other(), &record);
        true
    }
}

fn alter(record: &mut [u8], place: Place, is_preamble: bool) {
    let last = record.len() - 1;
    let (kind, first) = if is_preamble { (6, 7) } else { (0, HEAD.min(last)) };
    record[[kind, first, last][place as usize]] ^= 1;
}

fn shorten(record: &mut Vec<u8>, is_preamble: bool) {
    record.pop();
    if !is_preamble {
        let length = record.len().saturating_sub(HEAD) as u16;
        record[3..HEAD].copy_from_slice(&length.to_be_bytes());
    }
}
