//! The messages of multicast DNS that phalanx writes and reads: a question for executors, and the answer of one.

use core::net::Ipv4Addr;
use std::collections::BTreeSet;

/// Longest packet that is read: that of a network without jumbo frames (RFC 6762, section 17).
pub const MOST_PACKET: usize = 1500;
/// Most ports that are taken from one answer.
pub(super) const MOST_PORTS: usize = 8;
/// Most records of a packet that are looked at.
const MOST_RECORDS: u16 = 64;
/// Most labels of a name.
const MOST_LABELS: usize = 16;

/// The service that executors announce.
const SERVICE: [&[u8]; 3] = [b"_phalanx", b"_tcp", b"local"];
const DOMAIN: [&[u8]; 1] = [b"local"];

const HEADER: usize = 12;
const ANSWERS: u16 = 0x8000;
const AUTHORITATIVE: u16 = 0x0400;
/// The bits of a message that is a usual query or its answer, without an error: the kind of query, and the code of the error.
const UNUSUAL: u16 = 0x780f;
const INTERNET: u16 = 1;
/// In a question: the answer is to come to the one who asks. In a record: it replaces older ones.
const TOP: u16 = 0x8000;
const A: u16 = 1;
const PTR: u16 = 12;
const TXT: u16 = 16;
const SRV: u16 = 33;
const ANY: u16 = 255;

/// A question for executors, as an announcer hears it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub id: u16,
    /// Whether the answer is to come to the one who asks.
    pub directly: bool,
}

/// The records of one executor.
#[derive(Debug)]
pub(super) struct Records<'a> {
    pub instance: &'a str,
    pub host: &'a str,
    pub port: u16,
    pub address: Ipv4Addr,
    /// How many seconds they are good for.
    pub lasts: u32,
}

/// Asks which executors there are.
pub fn question(id: u16) -> Vec<u8> {
    let mut packet = header(id, 0, 1, 0);
    put_question(&mut packet);
    packet
}

/// Writes an answer. `asked`: the question that is repeated in it, as the one who asks from a port of its own expects
/// (RFC 6762, section 6.7).
pub(super) fn answer(records: &Records<'_>, asked: Option<u16>) -> Vec<u8> {
    let Records { instance, host, port, address, lasts } = *records;
    let mut packet = header(asked.unwrap_or(0), ANSWERS | AUTHORITATIVE, u16::from(asked.is_some()), 4);
    if asked.is_some() {
        put_question(&mut packet);
    }
    let (named, at) = ([&[instance.as_bytes()][..], &SERVICE].concat(), [&[host.as_bytes()][..], &DOMAIN].concat());
    let own = if asked.is_some() { INTERNET } else { INTERNET | TOP };
    put_record(&mut packet, &SERVICE, PTR, INTERNET, lasts, &name(&named));
    let mut place = vec![0, 0, 0, 0];
    place.extend(port.to_be_bytes());
    place.extend(name(&at));
    put_record(&mut packet, &named, SRV, own, lasts, &place);
    put_record(&mut packet, &named, TXT, own, lasts, &[0]);
    put_record(&mut packet, &at, A, own, lasts, &address.octets());
    packet
}

/// The question for executors in a packet, if it has one.
pub(super) fn asked(packet: &[u8]) -> Option<Asked> {
    let mut reading = Reading::begin(packet)?;
    if reading.flags & ANSWERS != 0 {
        return None;
    }
    for _ in 0..reading.questions.min(MOST_RECORDS) {
        let (labels, kind, class) = (reading.name()?, reading.number()?, reading.number()?);
        if are(&labels, &SERVICE) && [PTR, ANY].contains(&kind) && class & !TOP == INTERNET {
            return Some(Asked { id: reading.id, directly: class & TOP != 0 });
        }
    }
    None
}

/// The ports of executors in the answer to a question with one of these numbers. Anything else has none.
pub(super) fn ports(packet: &[u8], ids: &[u16]) -> BTreeSet<u16> {
    let mut found = BTreeSet::new();
    let is_answer = |it: &Reading<'_>| it.flags & ANSWERS != 0 && ids.contains(&it.id);
    if let Some(reading) = Reading::begin(packet).filter(is_answer) {
        let _ = read_ports(reading, &mut found);
    }
    found
}

/// Ends at the first damage; what came before it counts.
fn read_ports(mut reading: Reading<'_>, found: &mut BTreeSet<u16>) -> Option<()> {
    for _ in 0..reading.questions.min(MOST_RECORDS) {
        reading.name()?;
        reading.take(4)?;
    }
    for _ in 0..reading.records.min(MOST_RECORDS) {
        let (labels, kind, class) = (reading.name()?, reading.number()?, reading.number()?);
        let lasts = reading.take(4)?;
        let length = reading.number()?;
        let data = reading.take(usize::from(length))?;
        let is_one = kind == SRV && class & !TOP == INTERNET && are(labels.get(1..).unwrap_or_default(), &SERVICE);
        let port = data.get(4..6).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
        if is_one && port != 0 && lasts != [0; 4] && found.len() < MOST_PORTS {
            found.insert(port);
        }
    }
    Some(())
}

fn header(id: u16, flags: u16, questions: u16, answers: u16) -> Vec<u8> {
    [id, flags, questions, answers, 0, 0].iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn name(labels: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in labels {
        let length = u8::try_from(label.len()).ok().filter(|length| *length < 64);
        bytes.push(length.expect("labels of phalanx are short"));
        bytes.extend(*label);
    }
    bytes.push(0);
    bytes
}

fn put_question(packet: &mut Vec<u8>) {
    packet.extend(name(&SERVICE));
    [PTR, INTERNET].iter().for_each(|number| packet.extend(number.to_be_bytes()));
}

fn put_record(packet: &mut Vec<u8>, labels: &[&[u8]], kind: u16, class: u16, lasts: u32, data: &[u8]) {
    packet.extend(name(labels));
    [kind, class].iter().for_each(|number| packet.extend(number.to_be_bytes()));
    packet.extend(lasts.to_be_bytes());
    packet.extend((data.len() as u16).to_be_bytes());
    packet.extend(data);
}

fn are(labels: &[&[u8]], wanted: &[&[u8]]) -> bool {
    labels.len() == wanted.len() && labels.iter().zip(wanted).all(|(one, other)| one.eq_ignore_ascii_case(other))
}

/// Reads a packet from its beginning. `None` means that it is damaged.
struct Reading<'a> {
    packet: &'a [u8],
    at: usize,
    id: u16,
    flags: u16,
    questions: u16,
    /// Answers, and what comes with them.
    records: u16,
}

impl<'a> Reading<'a> {
    fn begin(packet: &'a [u8]) -> Option<Reading<'a>> {
        let mut reading = Reading { packet, at: 0, id: 0, flags: 0, questions: 0, records: 0 };
        let mut numbers = [0; HEADER / 2];
        for number in &mut numbers {
            *number = reading.number()?;
        }
        let [id, flags, questions, answers, authorities, more] = numbers;
        let records = answers.saturating_add(authorities).saturating_add(more);
        let is_usual = packet.len() <= MOST_PACKET && flags & UNUSUAL == 0;
        is_usual.then_some(Reading { id, flags, questions, records, ..reading })
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let found = self.packet.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(found)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2).map(|found| u16::from_be_bytes([found[0], found[1]]))
    }

    /// Reads a name. Its end may stand at an earlier place of the packet, to which two bytes point. Each place lies before the one
    /// that points to it, so that this ends.
    fn name(&mut self) -> Option<Vec<&'a [u8]>> {
        let (mut labels, mut at, mut end, mut before) = (Vec::new(), self.at, None, self.at);
        loop {
            let length = usize::from(*self.packet.get(at)?);
            match length >> 6 {
                0 if length == 0 => break,
                0 if labels.len() < MOST_LABELS => labels.push(self.packet.get(at + 1..at + 1 + length)?),
                3 => {
                    let to = (length & 0x3f) << 8 | usize::from(*self.packet.get(at + 1)?);
                    if to >= before {
                        return None;
                    }
                    end = end.or(Some(at + 2));
                    (at, before) = (to, to);
                    continue;
                }
                _ => return None,
            }
            at += 1 + length;
        }
        self.at = end.unwrap_or(at + 1);
        Some(labels)
    }
}
