//! Conversations of a sealer with an opener, and what hostile bytes and forks come to.

use super::*;
use crate::seal::{Context, HEAD, SECRET, head};
use proptest::prelude::*;
use std::io::{ErrorKind, Result};
use std::mem::MaybeUninit;

const ANY: Carried = Level::Clear..=Level::Private;

fn ends(carried: Carried) -> (Sealer, Opener) {
    let keys = || Some(Context::new([7; SECRET]));
    (Sealer::new(keys(), carried.clone()), Opener::new(keys(), carried))
}

fn payload(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + number * 31 + index / 251) as u8).collect()
}

/// A block of this level, made in one of the ways in which links make blocks.
fn block(sealer: &mut Sealer, level: Level, payload: &[u8], way: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![9; 3];
    match way % 2 {
        1 if level < Level::Private => {
            let around = sealer.enclose(level, payload.len(), payload.chunks(5))?;
            bytes.extend(whole(around, payload));
        }
        _ => sealer.append(level, payload.chunks(5), &mut bytes)?,
    }
    Ok(bytes.split_off(3))
}

fn whole(Around { head, tag }: Around, payload: &[u8]) -> Vec<u8> {
    let tag = tag.map_or_else(Vec::new, |tag| tag.to_vec());
    [&head[..], payload, &tag].concat()
}

/// A receiver, which gets bytes in portions. What it has received: the bytes of each level.
struct Receiver {
    opener: Opener,
    kept: Vec<u8>,
    /// Blocks with a payload of this length or more are received where they stay.
    places: usize,
    placed: Option<(Placed, Vec<MaybeUninit<u8>>)>,
    received: Vec<(Level, u8)>,
}

impl Receiver {
    fn new(opener: Opener, places: usize) -> Receiver {
        Receiver { opener, kept: Vec::new(), places, placed: None, received: Vec::new() }
    }

    fn note(&mut self, level: Level, bytes: &[u8]) {
        self.received.extend(bytes.iter().map(|byte| (level, *byte)));
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        while let Some((mut placed, mut place)) = self.placed.take() {
            let filled = placed.payload();
            let count = bytes.len().min(place.len() - filled + placed.spare().len());
            let (here, later) = bytes.split_at(count);
            let (of_payload, behind) = here.split_at(here.len().min(place.len() - filled));
            for (to, from) in place[filled..].iter_mut().zip(of_payload) {
                to.write(*from);
            }
            placed.spare()[..behind.len()].copy_from_slice(behind);
            bytes = later;
            if !placed.advance(count) {
                self.placed = Some((placed, place));
                return Ok(());
            }
            // SAFETY: every byte of the payload has come.
            let whole: Vec<u8> = place.iter().map(|byte| unsafe { byte.assume_init() }).collect();
            self.opener.check_placed(&placed, &whole)?;
            self.note(placed.block().level(), &whole);
            self.kept = placed.next().to_vec();
        }
        self.kept.extend_from_slice(bytes);
        self.cut()
    }

    fn cut(&mut self) -> Result<()> {
        loop {
            match self.opener.cut(&self.kept)? {
                Cut::Plain(level, payload) => {
                    let used: Vec<u8> = self.kept.drain(..payload.end).collect();
                    self.note(level, &used[payload]);
                }
                Cut::Whole(block) => {
                    let mut used: Vec<u8> = self.kept.drain(..block.length()).collect();
                    let payload = self.opener.open_at(block, &mut used)?;
                    self.note(block.level(), &used[payload]);
                }
                Cut::Part(Some(block)) if block.stays() && block.payload() >= self.places => {
                    let mut place = vec![MaybeUninit::uninit(); block.payload()];
                    let placed = Placed::begin(block, &self.kept[HEAD..], &mut place);
                    self.kept.clear();
                    self.placed = Some((placed, place));
                    return Ok(());
                }
                Cut::Part(_) => return Ok(()),
            }
        }
    }
}

fn levels() -> impl Strategy<Value = Level> {
    (0..Level::ALL.len()).prop_map(|index| Level::ALL[index])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn blocks_of_all_levels_arrive_whatever_cuts_the_bytes(
        sent in proptest::collection::vec((levels(), 0usize..300, 0usize..2), 1..20),
        cuts in proptest::collection::vec(1usize..200, 1..50),
        places in 0usize..300,
    ) {
        let (mut sealer, opener) = ends(ANY);
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (number, (level, length, way)) in sent.into_iter().enumerate() {
            let payload = payload(number, length);
            bytes.extend(block(&mut sealer, level, &payload, way).expect("the link carries it"));
            expected.extend(payload.into_iter().map(|byte| (level, byte)));
        }
        let mut receiver = Receiver::new(opener, places);
        let (mut rest, mut cuts) = (&bytes[..], cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(cuts.next().unwrap_or(1)));
            receiver.take(now).expect("nothing was changed");
            rest = later;
        }
        prop_assert!(receiver.received == expected);
    }

    #[test]
    fn hostile_bytes_are_an_error_or_wait_for_more(
        least in levels(),
        has_keys in any::<bool>(),
        marks in any::<bool>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        places in 0usize..300,
    ) {
        let opener = Opener::new(has_keys.then(|| Context::new([7; SECRET])), least..=Level::Private);
        let mut receiver = Receiver::new(opener, places);
        let begin = if marks { head(least, bytes.len()).to_vec() } else { Vec::new() };
        let _ = begin.chunks(1).chain(bytes.chunks(33)).try_for_each(|bytes| receiver.take(bytes));
        prop_assert!(receiver.received.iter().all(|(level, _)| *level < Level::Safe), "a payload out of nothing");
        prop_assert!(receiver.received.iter().all(|(level, _)| *level >= least));
    }
}

#[test]
fn an_altered_block_opens_nowhere() {
    for (level, places) in [Level::Safe, Level::Private].into_iter().flat_map(|level| [(level, 0), (level, 1000)]) {
        let (mut sealer, _) = ends(ANY);
        let bytes = block(&mut sealer, level, &payload(1, 100), 0).expect("the link carries it");
        for at in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[at] ^= 1;
            let mut receiver = Receiver::new(ends(ANY).1, places);
            let outcome = altered.chunks(50).try_for_each(|bytes| receiver.take(bytes));
            assert!(outcome.is_err() || receiver.received.is_empty(), "byte {at}");
        }
    }
}

/// The rule of every link, for both of its ends.
#[test]
fn a_level_that_the_link_does_not_carry_is_neither_sent_nor_taken() {
    for (least, most) in Level::ALL.into_iter().flat_map(|least| Level::ALL.map(|most| (least, most))) {
        for level in Level::ALL {
            let (mut sealer, mut opener) = ends(least..=most);
            let carries = least <= level && level <= most;
            for way in 0..2 {
                assert_eq!(block(&mut sealer, level, &[1; 10], way).is_ok(), carries, "{level} of {least} to {most}");
            }
            let cut = opener.cut(&head(level, 10));
            assert_eq!(cut.is_ok(), carries, "{level} of {least} to {most}");
            assert!(cut.map_or_else(|error| error.kind() == ErrorKind::InvalidData, |_| true));
        }
    }
}

#[test]
fn what_needs_keys_is_neither_sent_nor_taken_without_them() {
    for level in Level::ALL {
        let (mut sealer, mut opener) = (Sealer::new(None, ANY), Opener::new(None, ANY));
        assert_eq!(block(&mut sealer, level, &[1; 10], 0).is_ok(), level < Level::Safe);
        assert_eq!(opener.cut(&head(level, 10)).is_ok(), level < Level::Safe);
    }
}

#[test]
fn lengths_have_limits() {
    for level in Level::ALL {
        let (mut sealer, opener) = ends(ANY);
        let longest = longest(level);
        let mut out = Vec::new();
        assert!(sealer.append(level, [&vec![0; longest][..]].into_iter(), &mut out).is_ok());
        let length = out.len();
        assert!(sealer.append(level, [&vec![0; longest + 1][..]].into_iter(), &mut out).is_err());
        assert_eq!(out.len(), length, "nothing is left of what failed");
        assert!(opener.with_longest(100).block(head(level, 101)).is_err());
        assert!(ends(ANY).1.with_longest(100).block(head(level, 100)).is_ok());
    }
}

/// Parent and child would protect different payloads with one key and one number.
#[cfg(unix)]
#[test]
fn a_fork_seals_nothing() {
    use crate::forks::{alone, in_a_fork};
    let _alone = alone();
    for (level, way) in Level::ALL.into_iter().flat_map(|level| (0..2).map(move |way| (level, way))) {
        let (mut sealer, opener) = ends(ANY);
        block(&mut sealer, level, b"before", way).expect("the link carries it");
        let refused =
            |error: std::io::Error| error.kind() == ErrorKind::Unsupported && error.to_string().contains("fork");
        assert!(in_a_fork(|| block(&mut sealer, level, b"child", way).is_err_and(refused)));
        assert!(in_a_fork(|| block(&mut ends(ANY).0, level, b"its own", way).is_ok()), "a link of its own");
        let mut receiver = Receiver::new(opener, 1000);
        receiver.take(&block(&mut ends(ANY).0, level, b"before", way).expect("the same keys")).expect("it opens");
        receiver.take(&block(&mut sealer, level, b"after", way).expect("it is the parent's")).expect("the next number");
    }
}
