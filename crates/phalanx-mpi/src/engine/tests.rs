//! Conversations of two engines over one segment, in one thread.

use super::*;
use crate::transport::segment_bytes;
use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::AsFd;

pub(crate) type Make = fn(usize) -> Vec<Engine>;

/// Engines that cannot read each other's memory.
pub(crate) fn engines(count: usize) -> Vec<Engine> {
    let mut engines = reading_engines(count);
    engines.iter_mut().for_each(|engine| engine.reads_memory = false);
    engines
}

fn reading_engines(count: usize) -> Vec<Engine> {
    let file = memfd_create("test", MemfdFlags::CLOEXEC).expect("memory");
    ftruncate(&file, segment_bytes(count) as u64).expect("memory");
    let segment = Arc::new(Segment::map(file.as_fd(), count).expect("memory"));
    let bell = || Arc::new(Bell::new(eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd")));
    let path = |me: usize, peer: usize| match me == peer {
        true => Path::Own,
        false => Path::Shared {
            local: peer,
            sender: segment.sender(me, peer),
            receiver: segment.receiver(peer, me),
            bell: bell(),
        },
    };
    let own = std::process::id();
    (0..count).for_each(|local| segment.desk(local).process.store(own, Ordering::Relaxed));
    let engine = |me| Engine::new(me as u32, (0..count).map(|peer| path(me, peer)).collect(), Some(segment.clone()));
    (0..count).map(engine).collect()
}

fn from(source: i32, tag: i32) -> Pattern {
    Pattern { context: 4, source: Some(source), tag: Some(tag) }
}

fn of(source: i32, tag: i32) -> Envelope {
    Envelope { context: 4, source, tag }
}

fn settle(engines: &mut [Engine]) {
    while engines.iter_mut().any(Engine::progress) {}
}

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 + seed * 7 + index / 251) as u8).collect()
}

fn borrowed(data: &[u8]) -> Outgoing {
    Outgoing::Borrowed(data.as_ptr(), data.len())
}

fn room(data: &mut [u8]) -> Target {
    Target::Plain(data.as_mut_ptr(), data.len())
}

#[test]
fn messages_of_every_length_arrive_whether_expected_or_not() {
    for length in [0, 1, 8, 20, 21, 100, 16384, 16385, EAGER, EAGER + 1, 1 << 20] {
        for (expected, make) in
            [true, false].into_iter().flat_map(|expected| [(expected, engines as Make), (expected, reading_engines)])
        {
            let mut pair = make(2);
            let (data, mut got) = (bytes(length, 1), vec![0; length + 5]);
            let early = expected.then(|| pair[1].receive(from(0, 3), room(&mut got)));
            let send = pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard);
            settle(&mut pair);
            let receive = early.unwrap_or_else(|| {
                assert_eq!(pair[1].probe(&from(0, 3)).expect("it came").bytes, length as u64);
                pair[1].receive(from(0, 3), room(&mut got))
            });
            settle(&mut pair);
            let status = pair[1].outcome(receive).expect("it is done");
            assert_eq!((status.source, status.tag, status.bytes, status.error), (0, 3, length as u64, None));
            assert!(send.is_none_or(|send| pair[0].outcome(send).is_some()));
            assert_eq!(got[..length], data);
            assert!(pair.iter().all(|engine| engine.requests.is_empty() && engine.messages.is_empty()));
        }
    }
}

#[test]
fn a_synchronous_send_is_done_when_it_is_matched() {
    for length in [0, 8, 50_000, 500_000] {
        for to in [0, 1] {
            let mut pair = engines(2);
            let (data, mut got) = (bytes(length, 1), vec![0; length]);
            let send = pair[0].send(to, of(0, 3), borrowed(&data), Mode::Synchronous).expect("it is not matched yet");
            settle(&mut pair);
            assert!(pair[0].peek(send).is_none());
            let receive = pair[to as usize].receive(from(0, 3), room(&mut got));
            settle(&mut pair);
            assert!(pair[0].outcome(send).is_some() && pair[to as usize].outcome(receive).is_some());
            assert_eq!(got, data);
        }
    }
}

#[test]
fn what_is_too_long_is_cut_and_said() {
    for (length, make) in
        [8, 50_000, 500_000].into_iter().flat_map(|length| [(length, engines as Make), (length, reading_engines)])
    {
        let mut pair = make(2);
        let (data, mut got) = (bytes(length, 1), vec![0; length]);
        let send = pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard);
        let receive = pair[1].receive(from(0, 3), Target::Plain(got.as_mut_ptr(), 5));
        settle(&mut pair);
        let status = pair[1].outcome(receive).expect("it is done");
        assert_eq!((status.bytes, status.error), (5, Some(Class::Truncate)));
        assert_eq!(got[5..], vec![0; length - 5]);
        assert!(send.is_none_or(|send| pair[0].outcome(send).is_some()));
    }
}

#[test]
fn what_nobody_got_can_be_taken_back() {
    let mut pair = engines(2);
    let (data, mut got) = (bytes(100_000, 1), vec![0; 10]);
    let receive = pair[1].receive(from(0, 3), room(&mut got));
    pair[1].cancel(receive);
    assert!(pair[1].outcome(receive).expect("it is done").cancelled);
    let send = pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard).expect("it is only offered");
    settle(&mut pair);
    pair[0].cancel(send);
    settle(&mut pair);
    assert!(pair[0].outcome(send).expect("it is done").cancelled);
    assert!(pair[1].probe(&from(0, 3)).is_none());
}

#[test]
fn a_slow_receiver_makes_the_sender_wait() {
    let mut pair = engines(2);
    let data = bytes(60_000, 1);
    let sends: Vec<_> = (0..20).map(|_| pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard)).collect();
    assert!(sends.iter().flatten().count() > 10 && pair[0].is_blocked());
    settle(&mut pair);
    assert!(!pair[0].is_blocked());
    assert!(sends.into_iter().flatten().all(|send| pair[0].outcome(send).is_some()));
    for _ in 0..20 {
        let mut got = vec![0; 60_000];
        let receive = pair[1].receive(from(0, 3), room(&mut got));
        assert!(pair[1].outcome(receive).is_some());
        assert_eq!(got, data);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Any mix of lengths and tags, in any order of steps, among three processes.
    #[test]
    fn nothing_is_lost_altered_or_overtaken(
        sends in proptest::collection::vec((0usize..3, 0usize..3, 0i32..2, 0usize..200_000, any::<bool>()), 1..30),
        turns in proptest::collection::vec(0usize..3, 0..60),
        reads in any::<bool>(),
    ) {
        let mut three = if reads { reading_engines(3) } else { engines(3) };
        let data: Vec<_> = sends.iter().enumerate().map(|(seed, send)| bytes(send.3, seed)).collect();
        let mut got: Vec<_> = sends.iter().map(|send| vec![0; send.3]).collect();
        let (mut sent, mut received, mut turns) = (Vec::new(), Vec::new(), turns.into_iter());
        for early in [true, false] {
            for (number, &(source, to, tag, _, expected)) in sends.iter().enumerate() {
                if expected == early {
                    // Of equal envelopes the first receive gets the first message: post them in the order of sending.
                    let same = |other: &&(usize, usize, i32, usize, bool)| (other.0, other.1, other.2) == (source, to, tag);
                    if sends.iter().filter(same).any(|other| other.4 != expected) { continue }
                    received.push((to, three[to].receive(from(source as i32, tag), room(&mut got[number])), number));
                }
            }
            if early {
                for (number, &(source, to, tag, ..)) in sends.iter().enumerate() {
                    let send = three[source].send(to as u32, of(source as i32, tag), borrowed(&data[number]), Mode::Standard);
                    sent.push((source, send));
                    if let Some(turn) = turns.next() { three[turn].progress(); }
                }
            }
        }
        settle(&mut three);
        for (to, receive, number) in received {
            prop_assert!(three[to].outcome(receive).is_some());
            prop_assert_eq!(&got[number], &data[number]);
        }
    }
}
