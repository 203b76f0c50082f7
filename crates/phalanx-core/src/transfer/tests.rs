//! Both engines in conversation: no socket, no disk, no thread.

use super::*;
use crate::error::WireError;
use crate::wire::transfer::{Chunk, Entry, Kind, RECORD, Record, Share, There, Totals};
use core::time::Duration;
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};

fn file(size: u64) -> Entry {
    Entry {
        parent: Some(0),
        name: b"file".into(),
        kind: Kind::File { size },
        mode: None,
        modified: (0, 0),
        attributes: None,
    }
}

fn folder() -> Entry {
    Entry { parent: None, kind: Kind::Folder, ..file(0) }
}

/// Two ends, and streams between them on which records wait.
struct Pair {
    sending: Sending,
    receiving: Receiving,
    streams: HashMap<u32, VecDeque<Vec<Record>>>,
    /// What the receiving end has put in its place, and how often.
    placed: HashMap<u32, u32>,
    /// Of which entries the source changes.
    changed: Vec<u32>,
}

impl Pair {
    /// Offers a folder with files of these sizes, of which `there` is there.
    fn new(sizes: &[u64], streams: u32, there: &HashMap<u32, Ranges>) -> Pair {
        let entries: Vec<_> = std::iter::once(folder()).chain(sizes.iter().map(|size| file(*size))).collect();
        let (mut sending, mut receiving) = (Sending::default(), Receiving::default());
        sending.on_offered(&entries);
        sending.on_all_offered();
        receiving.on_entries(&entries).unwrap();
        receiving.on_all_entries();
        let known = (0..).zip(&entries).filter_map(|(number, entry)| match entry.kind {
            Kind::File { size } if size > 0 => {
                receiving.on_there(number, there.get(&number).unwrap_or(&Ranges::default()))
            }
            _ => {
                receiving.on_ended(number, Outcome::Copied);
                receiving.nothing_of(number)
            }
        });
        let known: Vec<There> = known.collect();
        sending.on_wanted(entries.len() as u32, &known, &[]).unwrap();
        let streams = (0..streams).map(|stream| (stream, VecDeque::new())).collect();
        Pair { sending, receiving, streams, placed: HashMap::new(), changed: Vec::new() }
    }

    /// Reads and sends a frame; false: there is nothing to send.
    fn send(&mut self, stream: u32) -> bool {
        let Next::Frame(pieces) = self.sending.next(stream) else { return false };
        let bytes: usize = pieces.iter().map(|piece| RECORD + piece.length as usize).sum();
        assert!(bytes <= FRAME as usize, "a frame holds it");
        let mut records = Vec::new();
        for Piece { entry, offset, length } in pieces {
            let settles = self.sending.on_read(stream, 0);
            if settles && self.changed.contains(&entry) {
                if self.sending.on_failed(entry) {
                    self.receiving.on_ended(entry, Outcome::Failed);
                }
                continue;
            }
            records.push(Record { entry, offset, length, settles, hole: false });
        }
        self.streams.get_mut(&stream).unwrap().push_back(records);
        true
    }

    /// Takes a frame off a stream; false: there is none.
    fn receive(&mut self, stream: u32, tells: bool) -> bool {
        let Some(records) = self.streams.get_mut(&stream).and_then(VecDeque::pop_front) else { return false };
        for record in records {
            let whole = match self.receiving.accept(&record).unwrap() {
                Accept::Nothing | Accept::TooMany => false,
                Accept::Whole => true,
                Accept::Part => self.receiving.on_written(&record),
            };
            if whole {
                *self.placed.entry(record.entry).or_default() += 1;
                assert!(self.receiving.on_ended(record.entry, Outcome::Copied));
            }
        }
        if tells {
            self.sending.on_taken(stream, 1).unwrap();
        }
        true
    }

    fn lose(&mut self, stream: u32, instead: u32) {
        self.streams.remove(&stream);
        self.streams.insert(instead, VecDeque::new());
        self.sending.on_lost(stream);
    }

    /// Sends and receives until nothing moves.
    fn run(&mut self) -> Totals {
        let streams: Vec<_> = self.streams.keys().copied().collect();
        while streams.iter().any(|stream| self.send(*stream) | self.receive(*stream, true)) {}
        assert!(self.receiving.is_ended());
        self.receiving.totals()
    }
}

const MANY: u64 = 10 * PART as u64 + 17;

#[test]
fn small_files_share_a_frame_and_large_ones_are_cut() {
    let mut pair = Pair::new(&[100; 50], 1, &HashMap::new());
    assert!(pair.send(0));
    assert!(!pair.send(0), "all of them went in one frame");
    assert_eq!(pair.run(), Totals { files: 50, folders: 1, bytes: 5000, ..Totals::default() });
    let mut pair = Pair::new(&[MANY], 1, &HashMap::new());
    let frames = std::iter::from_fn(|| pair.send(0).then_some(())).count();
    assert_eq!(frames, 11);
    assert_eq!(pair.run().bytes, MANY);
}

#[test]
fn nothing_is_sent_of_empty_files_and_of_what_is_there() {
    let mut pair = Pair::new(&[0, 0], 1, &HashMap::new());
    assert!(!pair.send(0));
    assert_eq!(pair.run().files, 2);
    let there = Ranges::from_pairs(&[(0, 5 * u64::from(PART))], MANY).unwrap();
    let mut pair = Pair::new(&[MANY], 1, &HashMap::from([(1, there)]));
    let frames = std::iter::from_fn(|| pair.send(0).then_some(())).count();
    assert_eq!(frames, 6);
    assert_eq!(pair.run().bytes, MANY);
}

#[test]
fn a_file_that_is_wholly_there_is_settled_by_its_last_block() {
    let there = Ranges::from_pairs(&[(0, MANY)], MANY).unwrap();
    let mut pair = Pair::new(&[MANY], 1, &HashMap::from([(1, there)]));
    assert_eq!(pair.run().files, 1, "the word that the source is unchanged comes with a block");
}

#[test]
fn a_changed_source_fails_and_the_rest_goes_on() {
    let mut pair = Pair::new(&[MANY, 5, MANY], 2, &HashMap::new());
    pair.changed = vec![1];
    let totals = pair.run();
    assert_eq!((totals.files, totals.failed), (2, 1));
    assert!(!pair.placed.contains_key(&1));
}

#[test]
fn what_a_lost_stream_carried_is_sent_again_also_if_its_word_came_late() {
    let mut pair = Pair::new(&[MANY, 5, 6], 1, &HashMap::new());
    while pair.send(0) {}
    pair.receive(0, true);
    pair.receive(0, false);
    pair.lose(0, 1);
    pair.sending.on_taken(0, 1).unwrap(); // too late: it is sent again, and dropped at the other end
    assert_eq!(pair.run().files, 3);
    assert!(pair.placed.values().all(|times| *times == 1));
}

#[test]
fn a_stream_that_is_lost_while_a_thread_reads_for_it_takes_no_word_with_it() {
    let mut pair = Pair::new(&[100], 2, &HashMap::new());
    assert!(matches!(pair.sending.next(0), Next::Frame(_)));
    pair.lose(0, 2);
    assert!(matches!(pair.sending.next(1), Next::Frame(_)));
    assert!(pair.sending.on_read(1, 0), "nobody else reads it for a stream that is there");
    assert!(!pair.sending.on_read(0, 0), "that was for nothing");
}

#[test]
fn what_is_read_again_after_a_change_is_not_mixed_with_what_came_before() {
    let size = 2 * u64::from(PART);
    let mut pair = Pair::new(&[size], 2, &HashMap::new());
    assert!(pair.send(0) && pair.send(1));
    assert!(pair.receive(1, false), "the last part, with the word that the source did not change before");
    pair.changed = vec![1];
    pair.lose(0, 2);
    pair.lose(1, 3);
    let totals = pair.run();
    assert_eq!((totals.files, totals.failed), (0, 1));
    assert!(pair.placed.is_empty());
}

#[test]
fn what_was_not_answered_does_not_come() {
    let mut receiving = Receiving::default();
    receiving.on_entries(&[folder(), file(2 * u64::from(PART))]).unwrap();
    let record = Record { entry: 1, offset: 0, length: PART, settles: false, hole: false };
    assert_eq!(receiving.accept(&record), Err(WireError::UnexpectedAnswer));
    assert_eq!(receiving.on_there(1, &Ranges::default()), None);
    assert_eq!(receiving.accept(&record), Ok(Accept::Part));
    let there = Ranges::from_pairs(&[(0, 5)], 10).unwrap();
    assert_eq!(receiving.on_there(1, &there), None, "it was answered");
    assert!(!receiving.on_written(&record));
}

#[test]
fn sizes_and_paths_that_nobody_can_have_are_refused() {
    let mut receiving = Receiving::default();
    let huge = file(i64::MAX as u64);
    assert!(receiving.on_entries(&[folder(), huge.clone(), huge.clone(), huge]).is_err());
    let mut receiving = Receiving::default();
    receiving.on_entries(&[folder()]).unwrap();
    let deeper = |parent| Entry { parent: Some(parent), name: vec![b'a'; 255], ..folder() };
    assert!((0..100_000).any(|parent| receiving.on_entries(&[deeper(parent)]).is_err()), "paths grow with depth");
}

#[test]
fn what_ended_is_not_remembered_and_what_was_kept_is_there() {
    let mut receiving = Receiving::default();
    receiving.on_entries(&[folder()]).unwrap();
    for entry in 1..4_000_000 {
        receiving.on_entries(&[file(7)]).unwrap();
        receiving.on_ended(entry, Outcome::Kept);
    }
    assert_eq!(receiving.progress().0, 7 * 3_999_999);
}

#[test]
fn what_is_no_entry_is_counted_when_it_fails() {
    let mut pair = Pair::new(&[5], 1, &HashMap::new());
    pair.receiving.on_skipped();
    let totals = pair.run();
    assert_eq!((totals.files, totals.failed), (1, 1));
    pair.sending.on_done(&totals).unwrap();
}

#[test]
fn it_is_not_done_before_all_was_answered_and_sent() {
    let offered = |sizes: &[u64]| {
        let mut sending = Sending::default();
        sending.on_offered(&sizes.iter().map(|size| file(*size)).collect::<Vec<_>>());
        sending
    };
    let totals = Totals { files: 2, ..Totals::default() };
    let mut sending = offered(&[10, MANY]);
    assert!(sending.on_done(&totals).is_err(), "there may be more");
    sending.on_all_offered();
    assert!(sending.on_done(&totals).is_err(), "nothing was answered");
    sending.on_wanted(2, &[], &[]).unwrap();
    assert!(sending.on_done(&totals).is_err(), "nothing was sent");
    while let Next::Frame(pieces) = sending.next(0) {
        let looked = pieces.iter().filter(|_| sending.on_read(0, 0)).count();
        assert!(looked <= pieces.len());
    }
    assert!(sending.on_done(&Totals { files: 1, ..totals }).is_err(), "one is not counted");
    sending.on_done(&totals).unwrap(); // what was taken may be told after that
    assert_eq!(sending.next(0), Next::Ended);
}

#[test]
fn a_peer_that_names_what_was_not_offered_or_sent_is_refused() {
    let mut pair = Pair::new(&[MANY], 1, &HashMap::new());
    assert_eq!(pair.sending.on_wanted(1, &[], &[]), Err(WireError::UnexpectedAnswer));
    assert_eq!(pair.sending.on_taken(0, 1), Err(WireError::UnexpectedAnswer));
    let mut sending = Sending::default();
    sending.on_offered(&[file(10)]);
    assert_eq!(sending.on_refused(1), Err(WireError::UnexpectedAnswer));
    assert_eq!(sending.on_refused(u32::MAX), Err(WireError::UnexpectedAnswer));
    assert_eq!(sending.on_refused(0), Ok(true));
    assert_eq!(sending.on_refused(0), Ok(false), "it was told");
    let there = |entry, ranges: &[(u64, u64)]| [There { entry, ranges: ranges.to_vec() }];
    assert!(sending.on_wanted(1, &there(7, &[]), &[]).is_err());
    let mut sending = Sending::default();
    sending.on_offered(&[file(10)]);
    assert!(sending.on_wanted(1, &there(0, &[(5, 11)]), &[]).is_err());
    let mut sending = Sending::default();
    sending.on_offered(&[file(10)]);
    sending.on_wanted(1, &[], &[]).unwrap();
    assert!(matches!(sending.next(0), Next::Frame(_)));
    assert_eq!(sending.on_taken(0, 1), Err(WireError::UnexpectedAnswer), "it was not sent yet");
    let record = |entry, offset, length| Record { entry, offset, length, settles: true, hole: false };
    for wrong in [record(9, 0, 1), record(0, 0, 1), record(1, MANY, 1), record(1, 0, 0), record(1, u64::MAX, 1)] {
        assert!(pair.receiving.accept(&wrong).is_err(), "{wrong:?}");
    }
    let mut receiving = Receiving::default();
    let inside_a_file = Entry { parent: Some(1), ..file(1) };
    assert!(receiving.on_entries(&[folder(), file(1), inside_a_file]).is_err());
}

/// A sender that sends every second byte has the receiver remember each.
#[test]
fn a_sender_that_scatters_the_bytes_of_files_is_refused() {
    let mut receiving = Receiving::default();
    let files = 100;
    let entries: Vec<_> = std::iter::once(folder()).chain((0..files).map(|_| file(1 << 40))).collect();
    receiving.on_entries(&entries).unwrap();
    (1..=files).for_each(|entry| drop(receiving.on_there(entry, &Ranges::default())));
    let mut send = |number: u64| -> Result<Accept, WireError> {
        let entry = 1 + (number % u64::from(files)) as u32;
        let record = Record { entry, offset: 2 * number, length: 1, settles: false, hole: number % 3 == 0 };
        let accepted = receiving.accept(&record)?;
        receiving.on_written(&record);
        Ok(accepted)
    };
    let accepted = (0..10_000_000).take_while(|number| send(*number) == Ok(Accept::Part)).count();
    assert_eq!(accepted, 1 << 16);
    let refused = send(0).unwrap_err();
    assert!(refused.to_string().contains("come in more pieces than the 65536"), "{refused}");
    for entry in 1..=files {
        receiving.on_ended(entry, Outcome::Failed);
    }
    receiving.on_entries(&[file(MANY)]).unwrap();
    receiving.on_there(files + 1, &Ranges::default());
    let record = Record { entry: files + 1, offset: 0, length: PART, settles: false, hole: false };
    assert_eq!(receiving.accept(&record), Ok(Accept::Part), "what has ended takes no room");
}

#[test]
fn a_receiver_that_has_a_file_in_countless_pieces_is_refused() {
    let mut sending = Sending::default();
    sending.on_offered(&[file(1 << 30)]);
    let ranges = (0..1000).map(|piece| (2 * piece, 2 * piece + 1)).collect();
    assert_eq!(sending.on_wanted(1, &[There { entry: 0, ranges }], &[]), Err(WireError::Lengths));
}

/// How many streams there are in the end on a line of this round trip, over which `rate` bytes/s cross with so many.
fn grown(mut growth: Growth, milliseconds: u64, rate: impl Fn(u16) -> u64) -> u16 {
    growth.on_round_trip(Duration::from_millis(milliseconds));
    let (mut bytes, mut there) = (0, 0);
    for tick in 0..2000 {
        there = growth.on_progress(Duration::from_millis(tick * 50), bytes, there);
        bytes += rate(there) / 20;
    }
    there
}

#[test]
fn streams_grow_while_more_of_them_carry_more() {
    let line = |each: u64, all: u64| move |streams: u16| (each * u64::from(streams)).min(all);
    assert_eq!(grown(Growth::new(2, 64), 100, line(1_000_000, 10_000_000)), 32, "16 carry all, 32 were a try");
    assert_eq!(grown(Growth::new(2, 64), 100, line(50_000_000, 100_000_000)), 8);
    assert_eq!(grown(Growth::new(2, 64), 100, line(500_000, u64::MAX)), 64, "up to the bound");
    assert_eq!(grown(Growth::new(3, 3), 100, line(1, 1000)), 3, "as many as were asked for");
    assert_eq!(grown(Growth::new(2, 64), 0, line(1_000_000, 10_000_000)), 2, "nothing is gained on a short line");
    assert_eq!(grown(Growth::new(2, 64), 100, |_| 0), 4, "where nothing moves");
}

#[test]
fn files_in_parts_do_not_all_begin_at_once() {
    let sizes = vec![MANY; 200];
    let mut pair = Pair::new(&sizes, 1, &HashMap::new());
    let frames = std::iter::from_fn(|| pair.send(0).then_some(())).count();
    assert_eq!(frames, 128 * 10 + 1, "until something is taken; the end of one and a part of the next share a frame");
    assert_eq!(pair.run().files, 200);
}

#[test]
fn of_a_sender_that_begins_thousands_of_files_only_some_are_open() {
    let mut receiving = Receiving::default();
    let entries: Vec<_> = std::iter::once(folder()).chain((0..1000).map(|_| file(MANY))).collect();
    receiving.on_entries(&entries).unwrap();
    let begin = |receiving: &mut Receiving, entry| {
        receiving.on_there(entry, &Ranges::default());
        receiving.accept(&Record { entry, offset: 0, length: PART, settles: false, hole: false })
    };
    assert!((1..=256).all(|entry| begin(&mut receiving, entry) == Ok(Accept::Part)));
    assert_eq!(begin(&mut receiving, 257), Ok(Accept::TooMany));
    assert!(receiving.on_ended(257, Outcome::Failed));
    assert!(receiving.on_ended(1, Outcome::Failed));
    assert_eq!(begin(&mut receiving, 258), Ok(Accept::Part), "there is room again");
}

#[test]
fn a_rate_is_not_measured_before_the_streams_are_there() {
    let mut growth = Growth::new(4, 64);
    growth.on_round_trip(Duration::from_millis(100));
    for tick in 0..100 {
        assert_eq!(growth.on_progress(Duration::from_millis(tick * 100), tick * 1_000_000, 3), 4);
    }
}

proptest! {
    #[test]
    fn every_file_is_placed_once_whatever_streams_are_lost(
        sizes in proptest::collection::vec(prop_oneof![0u64..3000, 0..MANY], 1..12),
        steps in proptest::collection::vec((0u8..10, any::<bool>(), 0usize..4), 0..120),
    ) {
        let mut pair = Pair::new(&sizes, 3, &HashMap::new());
        let mut next = 3;
        for (what, tells, which) in steps {
            let mut streams: Vec<_> = pair.streams.keys().copied().collect();
            streams.sort_unstable();
            let stream = streams[which % streams.len()];
            match what {
                0 => {
                    pair.lose(stream, next);
                    next += 1;
                }
                1..5 => drop(pair.send(stream)),
                // A word that does not come, comes with the stream's end.
                _ if tells => drop(pair.receive(stream, true)),
                _ => if pair.receive(stream, false) {
                    pair.lose(stream, next);
                    next += 1;
                }
            }
        }
        let totals = pair.run();
        prop_assert_eq!(totals.files as usize, sizes.len());
        prop_assert_eq!(totals.bytes, sizes.iter().sum::<u64>());
        prop_assert!(pair.placed.values().all(|times| *times == 1));
    }

    #[test]
    fn ranges_are_the_set_of_their_bytes(added in proptest::collection::vec((0u64..40, 0u64..10), 0..20), end in 0u64..60) {
        let (mut ranges, mut bytes) = (Ranges::default(), [false; 60]);
        for (from, length) in added {
            ranges.add(from, from + length);
            (from..from + length).for_each(|at| bytes[at as usize] = true);
        }
        prop_assert_eq!(ranges.bytes(), bytes.iter().filter(|there| **there).count() as u64);
        prop_assert_eq!(&Ranges::from_pairs(&ranges.pairs(), 60).unwrap(), &ranges);
        let missing: Vec<u64> = ranges.up_to(end).missing(end).iter().flat_map(|(from, to)| *from..*to).collect();
        let expected: Vec<u64> = (0..end).filter(|at| !bytes[*at as usize]).collect();
        prop_assert_eq!(missing, expected);
    }

    #[test]
    fn pairs_from_a_file_or_a_peer_are_checked(pairs in proptest::collection::vec((0u64..50, 0u64..50), 0..5), end in 0u64..50) {
        if let Some(ranges) = Ranges::from_pairs(&pairs, end) {
            prop_assert_eq!(ranges.pairs(), pairs);
            prop_assert!(ranges.up_to(end) == ranges);
        }
    }
}

#[test]
fn a_hole_is_no_longer_than_a_part() {
    let mut receiving = Receiving::default();
    receiving.on_entries(&[folder(), file(1 << 30)]).unwrap();
    receiving.on_there(1, &Ranges::default());
    let hole = |length| Record { entry: 1, offset: 0, length, settles: false, hole: true };
    assert!(receiving.accept(&hole(PART + 1)).is_err());
    assert_eq!(receiving.accept(&hole(PART)), Ok(Accept::Part));
}

#[test]
fn shares_bring_a_file_together_and_the_copy_that_follows_only_settles_it() {
    let size = 3 * SPLIT + 5;
    let shares = (0..3).map(|index| Share { index, count: 3 });
    let (mut there, mut blocks) = (Ranges::default(), 0);
    for share in shares {
        let known = share.without(&there, size);
        let mut pair = Pair::new(&[size], 2, &HashMap::from([(1, known)]));
        blocks += std::iter::from_fn(|| pair.send(0).then_some(())).count() as u64;
        assert_eq!(pair.run().files, 1);
        there = share.real(&there, &[(0, size)], size);
    }
    assert_eq!(blocks, size.div_ceil(u64::from(PART)), "no block comes twice");
    assert_eq!(there.bytes(), size);
    let mut pair = Pair::new(&[size], 2, &HashMap::from([(1, there)]));
    assert_eq!(std::iter::from_fn(|| pair.send(0).then_some(())).count(), 1);
    assert_eq!(pair.run().files, 1);
}

#[test]
fn a_share_that_was_lost_is_what_the_copy_that_follows_sends() {
    let (size, lost) = (2 * SPLIT, Share { index: 1, count: 2 });
    let there = Share { index: 0, count: 2 }.real(&Ranges::default(), &[(0, size)], size);
    let mut pair = Pair::new(&[size], 1, &HashMap::from([(1, there)]));
    let blocks = std::iter::from_fn(|| pair.send(0).then_some(())).count() as u64;
    let (from, to) = lost.range(size);
    assert_eq!(blocks, (to - from).div_ceil(u64::from(PART)));
    assert_eq!(pair.run().bytes, size);
}

#[test]
fn what_others_bring_is_not_overwritten_in_a_share_and_what_is_there_counts_as_there() {
    let (size, share) = (2 * SPLIT, Share { index: 1, count: 2 });
    let mut receiving = Receiving::new(Some(share));
    receiving.on_entries(&[folder(), file(size), file(size)]).unwrap();
    receiving.on_there(1, &share.without(&Ranges::default(), size)).unwrap();
    let record = |offset, hole| Record { entry: 1, offset, length: PART, settles: false, hole };
    let (from, _) = share.range(size);
    for hole in [false, true] {
        assert_eq!(receiving.accept(&record(0, hole)), Err(WireError::Lengths));
        assert_eq!(receiving.accept(&record(from - 1, hole)), Err(WireError::Lengths));
        assert_eq!(receiving.accept(&record(from, hole)), Ok(Accept::Part));
    }
    let before = receiving.progress().0;
    assert!(receiving.on_ended(2, Outcome::Shared));
    assert_eq!(receiving.progress().0, before + size);
}

/// One that has reached four streams on a long line, and wants eight.
fn growing() -> (Growth, Duration) {
    let mut growth = Growth::new(2, 64);
    growth.on_round_trip(Duration::from_millis(100));
    let mut now = Duration::ZERO;
    while growth.on_progress(now, now.as_millis() as u64 * 1000, 4) < 8 {
        now += Duration::from_millis(100);
        assert!(now < Duration::from_secs(60), "it grows");
    }
    (growth, now)
}

#[test]
fn where_no_more_streams_can_be_opened_those_that_are_there_have_to_do() {
    let (mut growth, now) = growing();
    assert_eq!((growth.on_failure(6, 0), growth.wanted()), (0, 8), "once may be chance");
    assert_eq!((growth.on_failure(6, 1), growth.wanted()), (1, 7), "of eight that were wanted, one is under way");
    assert_eq!(growth.on_failure(6, 0), 1);
    assert_eq!(growth.wanted(), 6);
    assert_eq!(growth.on_progress(now + Duration::from_secs(60), u64::MAX / 2, 6), 6, "and it does not try again");
    assert_eq!(growth.on_failure(5, 0), 0, "a sixth that was there is opened again");
    assert_eq!(growth.wanted(), 6);
    let mut asked = Growth::new(16, 16);
    assert_eq!((asked.on_failure(3, 0), asked.wanted()), (0, 16), "who asked for so many gets them, or an error");
}

#[test]
fn what_was_there_before_does_not_cross_streams() {
    let there = Ranges::from_pairs(&[(0, 5 * u64::from(PART))], MANY).unwrap();
    let mut pair = Pair::new(&[MANY], 1, &HashMap::from([(1, there)]));
    pair.run();
    assert_eq!(pair.receiving.progress().0, MANY);
    assert_eq!(pair.receiving.crossed(), MANY - 5 * u64::from(PART));
    let hole = Record { entry: 1, offset: 0, length: PART, settles: false, hole: true };
    let mut pair = Pair::new(&[MANY], 1, &HashMap::new());
    assert_eq!(pair.receiving.accept(&hole).unwrap(), Accept::Part);
    assert_eq!(pair.receiving.crossed(), 0);
}

/// One file of this size that has an older version, whose chunks were asked for.
fn versions(size: u64, there: &Ranges) -> Pair {
    versions_of(None, size, there)
}

/// As `versions`, where the receiving end takes only a share of the copy.
fn versions_of(share: Option<Share>, size: u64, there: &Ranges) -> Pair {
    let (mut sending, mut receiving) = (Sending::default(), Receiving::new(share));
    let entries = [folder(), file(size)];
    sending.on_offered(&entries);
    sending.on_all_offered();
    receiving.on_entries(&entries).unwrap();
    receiving.on_all_entries();
    receiving.on_ended(0, Outcome::Copied);
    let (known, compares) = receiving.on_older(1, there);
    assert_eq!(compares, is_comparable(size));
    let older: Vec<u32> = compares.then_some(1).into_iter().collect();
    sending.on_wanted(2, &known.into_iter().collect::<Vec<_>>(), &older).unwrap();
    let streams = HashMap::from([(0, VecDeque::new())]);
    Pair { sending, receiving, streams, placed: HashMap::new(), changed: Vec::new() }
}

/// Chunks of a file of this size, as long as any may be.
fn chunks(size: u64) -> Vec<Chunk> {
    chunks_in(size, (0, size))
}

/// Chunks of a part of it.
fn chunks_in(size: u64, (from, to): (u64, u64)) -> Vec<Chunk> {
    let (most, length) = (Chunking::of(size).most() as u64, to - from);
    let chunk = |at: u64| Chunk { length: most.min(length - at * most) as u32, digest: [at as u8; 16] };
    (0..length.div_ceil(most)).map(chunk).collect()
}

fn ranges(pairs: &[(u64, u64)]) -> Ranges {
    Ranges::from_pairs(pairs, u64::MAX).unwrap()
}

impl Pair {
    /// The receiver says what it found in the older version.
    fn compare(&mut self, found: &[(u64, u64)], ended: bool) {
        let told = self.receiving.on_same(1, &ranges(found));
        self.sending.on_same(1, &told.pairs(), ended).unwrap();
        assert!(!ended || self.receiving.on_compared(1));
    }
}

#[test]
fn what_an_older_version_has_is_not_sent() {
    let size = 10 << 20;
    let mut pair = versions(size, &Ranges::default());
    assert!(!pair.send(0), "nothing goes before the versions were compared");
    assert_eq!(pair.sending.next_older(), Some(Version { entry: 1, size, span: (0, size) }));
    assert_eq!(pair.sending.next_older(), None);
    let all = chunks(size);
    let (first, rest) = all.split_at(3);
    for (some, is_all) in [(first, false), (rest, true)] {
        assert!(pair.sending.on_chunks_told(1, some.len() as u32));
        assert_eq!(pair.receiving.on_chunks(1, some).unwrap().is_some(), is_all);
    }
    pair.compare(&[(0, 1 << 20)], false);
    assert!(!pair.send(0), "more may be found");
    pair.compare(&[(2 << 20, size)], true);
    let (there, total, _) = pair.sending.progress();
    assert_eq!(
        (there, total),
        (size - (1 << 20) - 4096, size),
        "the last bytes come with the word that nothing changed"
    );
    assert_eq!(pair.receiving.progress().0, there);
    let totals = pair.run();
    assert_eq!((totals.files, totals.bytes, totals.reused), (1, size, there));
    assert_eq!(pair.receiving.crossed(), size - there + all.len() as u64 * 20);
    pair.sending.on_done(&totals).unwrap();
}

#[test]
fn a_file_whose_older_version_has_all_of_it_or_nothing_becomes_whole() {
    for found in [&[(0, 5 << 20)][..], &[]] {
        for there in [&[(0, 1 << 20)][..], &[(1 << 20, 5 << 20)], &[]] {
            let mut pair = versions(5 << 20, &ranges(there));
            let version = pair.sending.next_older().unwrap();
            let from = if there == [(0, 1 << 20)] { 1 << 20 } else { 0 };
            assert_eq!(version.span, (from, 5 << 20), "chunks of what is there are not told");
            let told = pair.receiving.on_chunks(1, &chunks_in(5 << 20, version.span)).unwrap();
            assert_eq!(told.map(|(version, _)| version), Some(version));
            pair.compare(found, true);
            let totals = pair.run();
            pair.sending.on_done(&totals).unwrap();
        }
    }
}

#[test]
fn of_a_share_only_its_own_range_is_compared() {
    for index in 0..3 {
        let (size, share) = (2 * SPLIT + 777, Share { index, count: 3 });
        let (from, to) = share.range(size);
        let mut pair = versions_of(Some(share), size, &share.without(&Ranges::default(), size));
        let version = pair.sending.next_older().unwrap();
        assert_eq!(version.span, (from, to));
        let all = chunks_in(size, version.span);
        assert!(pair.receiving.on_chunks(1, &all).unwrap().is_some());
        pair.compare(&[(from, to)], true);
        assert_eq!(pair.run().reused, to - from - 4096);
        assert_eq!(pair.receiving.crossed(), 4096 + all.len() as u64 * 20);
    }
}

#[test]
fn chunks_that_nobody_asked_for_or_that_are_none_of_the_file_end_the_copy() {
    let size = 10 << 20;
    let fresh = || versions(size, &Ranges::default()).receiving;
    let all = chunks(size);
    assert_eq!(fresh().on_chunks(0, &all), Ok(None), "it ended here, which the other end may not have known");
    assert!(fresh().on_chunks(7, &all).is_err(), "never offered");
    assert!(fresh().on_chunks(1, &[]).is_err(), "nothing, for ever");
    let mut twice = fresh();
    assert!(twice.on_chunks(1, &all).unwrap().is_some());
    assert!(twice.on_chunks(1, &all).is_err(), "longer than the file");
    for length in [0, 1, Chunking::of(size).most() as u32 + 1, u32::MAX] {
        assert!(fresh().on_chunks(1, &[Chunk { length, digest: [0; 16] }]).is_err(), "{length}");
    }
    let record = Record { entry: 1, offset: 0, length: 10, settles: false, hole: false };
    assert_eq!(fresh().accept(&record), Err(WireError::UnexpectedAnswer), "bytes before the versions were compared");
    let mut compared = fresh();
    assert!(compared.on_compared(1));
    assert!(compared.on_chunks(1, &all).is_err(), "after they were compared");
}

#[test]
fn words_of_an_older_version_that_cannot_be_end_the_copy() {
    let size = 10 << 20;
    let asked = || {
        let mut sending = versions(size, &Ranges::default()).sending;
        sending.next_older().unwrap();
        sending
    };
    assert!(versions(size, &Ranges::default()).sending.on_same(1, &[], true).is_err(), "nothing was told");
    for (entry, from, to) in [(0, 0, 1), (7, 0, 1), (1, 5, 5), (1, 9, 5), (1, 0, size + 1), (1, u64::MAX, u64::MAX)] {
        assert!(asked().on_same(entry, &[(from, to)], false).is_err(), "{entry} {from} {to}");
    }
    let mut twice = asked();
    twice.on_same(1, &[(0, 100)], true).unwrap();
    assert!(twice.on_same(1, &[(0, 200)], true).is_err());
    let scattered: Vec<_> = (0..2 * u64::from(MOST_CHUNKS) + 1).map(|at| (2 * at, 2 * at + 1)).collect();
    assert!(asked().on_same(1, &scattered, false).is_err(), "more than there are chunks");
    let mut offered = Sending::default();
    offered.on_offered(&[folder(), file(100), file(size), folder()]);
    for older in [&[0][..], &[1], &[2, 2], &[3], &[9]] {
        assert!(versions(size, &Ranges::default()).sending.on_wanted(1, &[], older).is_err(), "{older:?}");
    }
    assert!(offered.on_wanted(4, &[], &[1]).is_err(), "too small to be compared");
}

#[test]
fn a_file_that_fails_while_it_is_compared_is_forgotten_at_both_ends() {
    let size = 10 << 20;
    let mut pair = versions(size, &Ranges::default());
    pair.sending.next_older().unwrap();
    assert!(pair.sending.on_failed(1));
    assert!(!pair.sending.on_chunks_told(1, 9));
    assert_eq!(pair.sending.on_same(1, &[(0, 9)], true), Ok(()), "the other end did not know");
    assert!(pair.receiving.on_ended(1, Outcome::Failed));
    assert_eq!(pair.receiving.on_chunks(1, &chunks(size)), Ok(None));
    assert!(!pair.receiving.on_compared(1));
    assert_eq!(pair.receiving.on_same(1, &ranges(&[(0, 9)])), Ranges::default());
    assert_eq!(pair.run().failed, 1);
}

#[test]
fn versions_of_many_files_are_compared_a_few_at_a_time() {
    let mut sending = Sending::default();
    let entries: Vec<_> = std::iter::once(folder()).chain((0..100).map(|_| file(2 << 20))).collect();
    sending.on_offered(&entries);
    sending.on_all_offered();
    sending.on_wanted(101, &[], &(1..=100).collect::<Vec<_>>()).unwrap();
    let begun: Vec<_> = std::iter::from_fn(|| sending.next_older()).collect();
    assert_eq!(begun.len(), 32);
    assert!(sending.on_failed(1));
    assert_eq!(sending.next_older().map(|version| version.entry), Some(33));
    assert_eq!(sending.next_older(), None);
}

#[test]
fn versions_of_other_sizes_are_not_compared() {
    assert!(is_similar(100, 400) && is_similar(400, 100) && is_similar(u64::MAX, u64::MAX));
    assert!(!is_similar(100, 401) && !is_similar(401, 100) && !is_similar(0, 1 << 20));
}
