//! Conversations of two engines over one segment, in one thread.

mod asides;
mod credit;
mod forgetting;
mod short;

use super::credit::{MOST, WINDOW};
use super::*;
use crate::process::transport::segment_bytes;
use phalanx_core::level::Levels;
use phalanx_core::wire::ranks::MOST_RANKS;
use phalanx_net::blocks::{Sealer, carried};
use phalanx_net::seal::{Context, HEAD, SECRET};
use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

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

/// Engines of as many machines, with links of this level.
pub(crate) fn apart(count: usize, levels: Levels) -> Vec<Engine> {
    let mut paths: Vec<Vec<Path>> = (0..count).map(|_| Vec::new()).collect();
    for one in 0..count {
        for other in one..count {
            if one == other {
                paths[one].push(Path::Own);
                continue;
            }
            let (near, far) = links(levels);
            paths[one].push(Path::Socket(Box::new(near)));
            paths[other].push(Path::Socket(Box::new(far)));
        }
    }
    (0..).zip(paths).map(|(me, paths)| Engine::new(me, paths, None)).collect()
}

fn links(levels: Levels) -> (Link, Link) {
    let (near, far) = UnixStream::pair().expect("sockets");
    let context = |seed| Context::new([seed; SECRET]);
    let link = |stream: UnixStream, seal, open| {
        stream.set_nonblocking(true).expect("a socket");
        Link::new(stream.into(), levels, (context(seal), context(open)))
    };
    (link(near, 1, 2), link(far, 2, 1))
}

fn clear(count: usize) -> Vec<Engine> {
    apart(count, Levels::all(Level::Clear))
}

fn safe(count: usize) -> Vec<Engine> {
    apart(count, Levels::all(Level::Safe))
}

fn private(count: usize) -> Vec<Engine> {
    apart(count, Levels::all(Level::Private))
}

/// Protects what is marked only.
fn mixed(count: usize) -> Vec<Engine> {
    let levels = Levels { base: Level::Authenticated, data: Level::Private, code: Level::Safe };
    let mut engines = apart(count, levels);
    engines[0].mark(4);
    engines
}

const ALL: [Make; 6] = [engines, reading_engines, clear, safe, private, mixed];

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
    for length in [0, 1, 8, 20, 21, 100, 8192, 8193, 16384, 16385, EAGER, EAGER + 1, 1 << 20] {
        for (expected, make) in [true, false].into_iter().flat_map(|expected| ALL.map(|make| (expected, make))) {
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
        for (to, make) in [0, 1].into_iter().flat_map(|to| [(to, engines as Make), (to, private)]) {
            let mut pair = make(2);
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
    for (length, make) in [8, 50_000, 500_000].into_iter().flat_map(|length| ALL.map(|make| (length, make))) {
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
    for make in [engines, private] {
        take_back(make(2));
    }
}

fn take_back(mut pair: Vec<Engine>) {
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
    for make in [engines, clear, private] {
        wait_for(make(2));
    }
}

fn wait_for(mut pair: Vec<Engine>) {
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

/// An engine, and what writes to it as another machine's process would.
fn stranger() -> (Engine, UnixStream) {
    let (near, far) = UnixStream::pair().expect("sockets");
    near.set_nonblocking(true).expect("a socket");
    let contexts = (Context::new([1; SECRET]), Context::new([1; SECRET]));
    let link = Link::new(near.into(), Levels::all(Level::Clear), contexts);
    (Engine::new(0, vec![Path::Own, Path::Socket(Box::new(link))], None), far)
}

#[test]
fn who_sends_what_no_process_sends_is_treated_as_lost() {
    let eager = Header { kind: Kind::Eager as u16, context: 4, tag: 3, length: 8, ..Header::default() };
    for wrong in [
        Header { kind: 0, ..eager },
        Header { kind: 99, ..eager },
        Header { length: u64::MAX, ..eager },
        Header { length: EAGER as u64 + 1, ..eager },
        Header { source: -1, ..eager },
        Header { source: MOST_RANKS as i32, ..eager },
        Header { kind: Kind::Data as u16, id: 0, ..eager },
        Header { kind: Kind::Data as u16, id: u64::MAX, ..eager },
        Header { kind: Kind::Wanted as u16, id: 0, ..eager },
        Header { kind: Kind::Matched as u16, id: 7, length: 0, ..eager },
        Header { kind: Kind::Offer as u16, length: 15, ..eager },
        Header { kind: Kind::Aside as u16, length: MOST_ASIDE as u64 + 1, ..eager },
    ] {
        let (mut engine, mut far) = stranger();
        let mut got = [0; 8];
        let receive = engine.receive(from(1, 3), room(&mut got));
        far.write_all(&wrong.bytes()).expect("it listens");
        while engine.progress() {}
        assert_eq!(engine.ended(), [Ended { peer: 1, left: false }], "{wrong:?}");
        engine.lose(1);
        engine.lose_source(4, 1);
        assert_eq!(engine.outcome(receive).expect("it failed").error, Some(Class::ProcFailed));
        assert!(
            engine
                .send(1, of(0, 3), borrowed(&[0; 8]), Mode::Standard)
                .is_some_and(|send| { engine.outcome(send).expect("it failed").error == Some(Class::ProcFailed) })
        );
    }
}

#[test]
fn what_was_sent_before_the_end_arrives() {
    for make in ALL {
        let mut pair = make(2);
        pair[1].send(0, Envelope { source: 1, ..of(1, 3) }, borrowed(b"last word"), Mode::Standard);
        let mut one = pair.remove(0);
        drop(pair);
        while one.progress() {}
        one.lose(1);
        one.lose_source(4, 1);
        let mut got = [0; 9];
        let receive = one.receive(from(1, 3), room(&mut got));
        assert_eq!(one.outcome(receive).expect("it came").error, None);
        assert_eq!(&got, b"last word");
        let receive = one.receive(from(1, 3), room(&mut got));
        assert_eq!(one.outcome(receive).expect("none came").error, Some(Class::ProcFailed));
    }
}

#[test]
fn a_loss_ends_what_was_under_way() {
    for make in [engines as Make, clear, private] {
        let mut pair = make(2);
        let (data, mut got) = (bytes(3_000_000, 1), vec![0; 3_000_000]);
        let receive = pair[0].receive(from(1, 3), room(&mut got));
        pair[1].send(0, Envelope { source: 1, ..of(1, 3) }, borrowed(&data), Mode::Standard);
        let send = pair[0].send(1, of(0, 5), borrowed(&data), Mode::Standard).expect("it is only offered");
        for _ in 0..3 {
            pair[0].progress();
            pair[1].progress();
        }
        let mut one = pair.remove(0);
        drop(pair);
        one.lose(1);
        for request in [receive, send] {
            assert_eq!(one.outcome(request).expect("it failed").error, Some(Class::ProcFailed));
        }
        assert!(!one.is_blocked() && one.requests.is_empty() && one.messages.is_empty());
    }
}

/// So many that the system is asked which of them can be read.
#[test]
fn messages_of_many_machines_arrive() {
    let mut many = private(8);
    let mut got = vec![[0; 5]; 8];
    for source in 1..8 {
        let envelope = Envelope { source, ..of(source, 3) };
        many[source as usize].send(0, envelope, borrowed(&[source as u8; 5]), Mode::Standard);
    }
    settle(&mut many);
    for (source, got) in (1..8).zip(&mut got) {
        let receive = many[0].receive(from(source, 3), room(got));
        assert!(many[0].outcome(receive).is_some());
        assert_eq!(*got, [source as u8; 5]);
    }
    drop(many.split_off(4));
    settle(&mut many);
    let mut ended: Vec<u32> = many[0].ended().iter().map(|it| it.peer).collect();
    ended.sort_unstable();
    assert_eq!(ended, [4, 5, 6, 7]);
    assert!(!many[0].progress(), "who has ended is not looked at again");
}

#[test]
fn a_farewell_is_no_loss() {
    for make in ALL {
        let mut pair = make(2);
        pair[1].bid_farewell();
        let mut one = pair.remove(0);
        drop(pair);
        while one.progress() {}
        assert_eq!(one.ended(), [Ended { peer: 1, left: true }]);
        assert!(!one.has_losses());
    }
}

#[test]
fn what_is_altered_on_the_way_ends_the_connection() {
    for level in [Level::Safe, Level::Private] {
        let (near, mut far) = UnixStream::pair().expect("sockets");
        near.set_nonblocking(true).expect("a socket");
        let context = |seed| Context::new([seed; SECRET]);
        let link = Link::new(near.into(), Levels::all(level), (context(1), context(2)));
        let mut engine = Engine::new(0, vec![Path::Own, Path::Socket(Box::new(link))], None);
        let header = Header { kind: Kind::Eager as u16, context: 4, source: 1, tag: 3, ..Header::default() };
        let (mut sealer, mut block) = (Sealer::new(Some(context(2)), carried(Levels::all(level))), Vec::new());
        sealer.append(level, [&header.bytes()[..]].into_iter(), &mut block).expect("the link carries it");
        block[HEAD + 20] ^= 1;
        far.write_all(&block).expect("it listens");
        while engine.progress() {}
        assert_eq!(engine.ended(), [Ended { peer: 1, left: false }]);
        assert!(engine.probe(&from(1, 3)).is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Whatever comes over a socket, in whatever pieces.
    #[test]
    fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0u16..11, length in 0u64..40, cut in 0usize..400) {
        let (mut engine, mut far) = stranger();
        let mut got = [0; 16];
        engine.receive(Pattern { context: 4, source: None, tag: None }, room(&mut got));
        let header = Header { kind, length, context: 4, ..Header::default() };
        let all = [&header.bytes()[..], &bytes].concat();
        let (first, rest) = all.split_at(cut.min(all.len()));
        for part in [first, rest] {
            let _ = far.write_all(part); // it may have had enough
            while engine.progress() {}
        }
        engine.lose(1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Any mix of lengths and tags, in any order of steps, among three processes.
    #[test]
    fn nothing_is_lost_altered_or_overtaken(
        sends in proptest::collection::vec((0usize..3, 0usize..3, 0i32..2, 0usize..200_000, any::<bool>()), 1..30),
        turns in proptest::collection::vec(0usize..3, 0..60),
        make in 0..ALL.len(),
    ) {
        let mut three = ALL[make](3);
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

/// Frames of a stranger, as they come.
fn frame(header: Header, payload: &[u8]) -> Vec<u8> {
    [&header.bytes()[..], payload].concat()
}

/// The memory of a send that is done may be freed: only the words that can end it do.
#[test]
fn nobody_ends_a_send_whose_data_has_not_gone() {
    let data = bytes(EAGER, 1);
    for kind in [Kind::Matched, Kind::Withdrawn] {
        let (mut engine, mut far) = stranger();
        let mut fill = || engine.send(1, of(0, 3), borrowed(&data), Mode::Standard);
        let send = std::iter::from_fn(|| Some(fill())).flatten().next().expect("the socket is full at last");
        let header = Header { kind: kind as u16, id: send as u64, ..Header::default() };
        far.write_all(&header.bytes()).expect("it listens");
        while engine.progress() {}
        assert!(engine.peek(send).is_none(), "{kind:?}");
        assert_eq!(engine.ended().len(), usize::from(kind == Kind::Matched));
        engine.lose(1);
        assert_eq!(engine.outcome(send).expect("it failed").error, Some(Class::ProcFailed));
    }
}

#[test]
fn a_synchronous_send_is_matched_once() {
    let (mut engine, mut far) = stranger();
    let data = bytes(EAGER, 1);
    while engine.send(1, of(0, 3), borrowed(&data), Mode::Standard).is_none() {}
    let send = engine.send(1, of(0, 3), borrowed(&data), Mode::Synchronous).expect("it waits");
    let matched = frame(Header { kind: Kind::Matched as u16, id: send as u64, ..Header::default() }, &[]);
    far.write_all(&[&matched[..], &matched].concat()).expect("it listens");
    while engine.progress() {}
    assert!(engine.peek(send).is_none() && engine.ended().len() == 1);
}

/// Whether what an engine writes to a stranger has these bytes in it as they are.
fn is_readable(far: &mut UnixStream, secret: &[u8]) -> bool {
    far.set_nonblocking(true).expect("a socket");
    let mut all = Vec::new();
    let _ = far.read_to_end(&mut all); // ends with: nothing more now
    all.windows(secret.len()).any(|window| window == secret)
}

/// What a program has marked is protected on its way, whether it goes at once or when it is asked for.
#[test]
fn marked_data_is_never_readable() {
    let levels = Levels { base: Level::Authenticated, data: Level::Private, code: Level::Safe };
    let data = bytes(EAGER + 1, 1);
    for (marked, length) in [(true, 1000), (true, EAGER + 1), (false, 1000), (false, EAGER + 1)] {
        let (near, mut far) = UnixStream::pair().expect("sockets");
        near.set_nonblocking(true).expect("a socket");
        let context = |seed| Context::new([seed; SECRET]);
        let link = Link::new(near.into(), levels, (context(1), context(2)));
        let mut engine = Engine::new(0, vec![Path::Own, Path::Socket(Box::new(link))], None);
        if marked {
            engine.mark(4);
        }
        if let Some(send) = engine.send(1, of(0, 3), borrowed(&data[..length]), Mode::Standard) {
            let wanted =
                Header { kind: Kind::Wanted as u16, context: 4, id: send as u64, length: 8, ..Header::default() };
            let payload = frame(wanted, &[0; 8]);
            let begin = phalanx_net::seal::head(Level::Authenticated, payload.len());
            far.write_all(&[&begin[..], &payload].concat()).expect("it listens");
            while engine.progress() {}
        }
        assert_eq!(is_readable(&mut far, &data[100..200]), !marked, "{length}");
    }
}

#[test]
fn a_send_to_who_is_gone_fails_whatever_its_length() {
    for make in ALL {
        let mut pair = make(2);
        pair[0].lose(1);
        for length in [8, EAGER, EAGER + 1] {
            for mode in [Mode::Standard, Mode::Synchronous] {
                let send = pair[0].send(1, of(0, 3), borrowed(&bytes(length, 1)), mode).expect("it failed");
                assert_eq!(pair[0].outcome(send).expect("it failed").error, Some(Class::ProcFailed), "{length}");
            }
        }
        assert!(!pair[0].is_blocked() && pair[0].requests.is_empty());
    }
}

/// Who leaves waits until nothing is blocked.
#[test]
fn nothing_is_blocked_when_the_last_peer_is_lost() {
    for make in [clear as Make, private] {
        let mut pair = make(2);
        let data = bytes(60_000, 1);
        while pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard).is_none() {}
        while !pair[0].pending {
            pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard);
            if !pair[0].progress() && !pair[0].pending {
                break; // the socket was full at the end of a frame
            }
        }
        pair[0].lose(1);
        assert!(!pair[0].is_blocked());
    }
}

#[test]
fn a_message_that_was_taken_out_ends_with_its_sender() {
    for make in [engines as Make, clear, private] {
        for leaves in [true, false] {
            let mut pair = make(2);
            let data = bytes(200_000, 1);
            pair[1].send(0, Envelope { source: 1, ..of(1, 3) }, borrowed(&data), Mode::Standard);
            pair[0].progress();
            let (taken, _) = pair[0].probe_and_take(&from(1, 3)).expect("it was offered");
            match leaves {
                true => pair[1].bid_farewell(),
                false => pair[0].lose(1),
            }
            while pair[0].progress() {}
            let mut got = vec![0; 200_000];
            let receive = pair[0].receive_message(taken, room(&mut got));
            assert_eq!(pair[0].outcome(receive).expect("it failed").error, Some(Class::ProcFailed));
            assert!(pair[0].requests.is_empty() && pair[0].messages.is_empty());
        }
    }
}

#[test]
fn a_farewell_ends_what_was_under_way() {
    for make in [engines as Make, clear, private] {
        let mut pair = make(2);
        let (data, mut got) = (bytes(3_000_000, 1), vec![0; 3_000_000]);
        let receive = pair[0].receive(from(1, 3), room(&mut got));
        pair[1].send(0, Envelope { source: 1, ..of(1, 3) }, borrowed(&data), Mode::Standard);
        let offered = pair[0].send(1, of(0, 5), borrowed(&data), Mode::Standard).expect("it is only offered");
        let unmatched = pair[0].send(1, of(0, 5), borrowed(&data[..8]), Mode::Synchronous).expect("it is not matched");
        pair[0].progress();
        pair[1].bid_farewell();
        while pair[0].progress() {}
        for request in [receive, offered, unmatched] {
            assert_eq!(pair[0].outcome(request).expect("it failed").error, Some(Class::ProcFailed));
        }
        assert!(!pair[0].is_blocked() && pair[0].requests.is_empty() && pair[0].messages.is_empty());
    }
}

/// The launcher may say that a process ended before what it sent was read.
#[test]
fn last_words_are_read_when_a_loss_is_heard_of_first() {
    for make in ALL {
        let mut pair = make(2);
        for tag in 0..40 {
            pair[1].send(0, Envelope { source: 1, ..of(1, tag) }, borrowed(&bytes(1000, 1)), Mode::Standard);
        }
        let mut one = pair.remove(0);
        drop(pair);
        one.lose(1);
        assert!((0..40).all(|tag| one.probe(&from(1, tag)).is_some()));
        assert!(one.is_lost(1) && one.ended().is_empty());
    }
}

#[test]
fn a_receive_from_anybody_waits_until_a_loss_is_acknowledged() {
    let anybody = Pattern { context: 4, source: None, tag: None };
    for make in ALL {
        let mut three = make(3);
        let [mut first, mut second, mut named, mut last] = [[0u8; 3]; 4];
        let early = three[0].receive(anybody, room(&mut first));
        let from_other = three[0].receive(from(1, 9), room(&mut named));
        three[0].lose(2);
        three[0].lose_source(4, 2);
        let late = three[0].receive(anybody, room(&mut second));
        for receive in [early, late] {
            let status = three[0].outcome_or_pending(receive).expect("it is interrupted");
            assert_eq!(status.error, Some(Class::ProcFailedPending));
        }
        assert!(three[0].outcome_or_pending(from_other).is_none());
        assert_eq!(three[0].obstacle(&anybody), Some(Class::ProcFailedPending));
        // Who does not know of such receives gets an end of them.
        let given_up = three[0].receive(anybody, room(&mut last));
        assert_eq!(three[0].outcome(given_up).expect("it ended").error, Some(Class::ProcFailed));

        three[0].acknowledge(4);
        assert!(three[0].outcome_or_pending(early).is_none() && three[0].obstacle(&anybody).is_none());
        for number in 0..2 {
            three[1].send(0, of(1, 3), borrowed(&[number; 3]), Mode::Standard);
        }
        settle(&mut three);
        assert!(
            [early, late]
                .iter()
                .all(|receive| three[0].outcome_or_pending(*receive).is_some_and(|it| it.error.is_none()))
        );
        assert_eq!((first, second), ([0; 3], [1; 3]));
        three[0].lose_source(4, 1);
        assert_eq!(three[0].outcome(from_other).expect("it failed").error, Some(Class::ProcFailed));
        assert!(three[0].requests.is_empty());
    }
}

#[test]
fn nothing_begins_in_a_revoked_communicator() {
    for make in ALL {
        let mut pair = make(2);
        let mut got = vec![0; EAGER + 1];
        pair[1].send(0, of(1, 1), borrowed(&bytes(9, 1)), Mode::Standard);
        settle(&mut pair);
        let (taken, _) = pair[0].probe_and_take(&from(1, 1)).expect("it came");
        pair[0].revoke(4);
        for use_of in 0..=3 {
            let pattern = Pattern { context: 4 | use_of, source: None, tag: None };
            let receive = pair[0].receive(pattern, room(&mut got));
            assert_eq!(pair[0].outcome(receive).expect("it failed").error, Some(Class::Revoked));
            let envelope = Envelope { context: 4 | use_of, ..of(0, 1) };
            for (to, length) in [(0, 8), (1, 8), (1, EAGER + 1)] {
                let data = bytes(length, 1);
                let send = pair[0].send(to, envelope, borrowed(&data), Mode::Standard).expect("it failed");
                assert_eq!(pair[0].outcome(send).expect("it failed").error, Some(Class::Revoked));
            }
        }
        let receive = pair[0].receive_message(taken, room(&mut got));
        assert_eq!(pair[0].outcome(receive).expect("it failed").error, Some(Class::Revoked));
        assert!(pair[0].requests.is_empty() && pair[0].messages.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// Whatever is under way when both hear of it at different times: it ends, memory that was lent is left alone from then
    /// on, and other communicators' messages arrive.
    #[test]
    fn a_revoked_communicator_leaves_nothing_behind(
        sends in proptest::collection::vec((0usize..2, any::<bool>(), 0usize..200_000, any::<bool>(), any::<bool>(), any::<bool>()), 1..12),
        turns in proptest::collection::vec(0usize..2, 0..30),
        first in 0usize..2,
        between in proptest::collection::vec(0usize..2, 0..12),
        make in 0..ALL.len(),
    ) {
        let mut pair = ALL[make](2);
        let data: Vec<_> = sends.iter().enumerate().map(|(seed, send)| bytes(send.2, seed)).collect();
        let mut got: Vec<_> = sends.iter().map(|send| vec![0; send.2]).collect();
        let (mut sent, mut received, mut turns) = (Vec::new(), Vec::new(), turns.into_iter());
        for (number, &(source, kept, _, synchronous, early, expected)) in sends.iter().enumerate() {
            let context = if kept { 8 } else { 4 };
            let to = 1 - source;
            let pattern = Pattern { context, source: Some(source as i32), tag: Some(number as i32) };
            let mut receive = |pair: &mut Vec<Engine>| received.push((to, pair[to].receive(pattern, room(&mut got[number])), number));
            if early && (expected || kept) { receive(&mut pair); }
            let envelope = Envelope { context, source: source as i32, tag: number as i32 };
            let mode = if synchronous { Mode::Synchronous } else { Mode::Standard };
            if let Some(send) = pair[source].send(to as u32, envelope, borrowed(&data[number]), mode) {
                sent.push((source, send, number));
            }
            if let Some(turn) = turns.next() { pair[turn].progress(); }
            if !early && (expected || kept) { receive(&mut pair); }
        }
        turns.for_each(|turn| _ = pair[turn].progress());
        pair[first].revoke(4);
        let lent: Vec<_> = received.iter().filter(|(who, _, number)| *who == first && !sends[*number].1).collect();
        let ended: Vec<usize> = lent.iter().map(|(.., number)| *number).collect();
        prop_assert!(lent.iter().all(|(who, receive, _)| pair[*who].peek(*receive).is_some()));
        for number in &ended { got[*number].fill(0xEE); }
        between.into_iter().for_each(|turn| _ = pair[turn].progress());
        pair[1 - first].revoke(4);
        settle(&mut pair);
        for (who, send, number) in sent {
            let outcome = pair[who].outcome(send);
            prop_assert!(outcome.is_some(), "send {number}");
            prop_assert!(!sends[number].1 || outcome.is_some_and(|it| it.error.is_none()));
        }
        for (who, receive, number) in received {
            let outcome = pair[who].outcome(receive);
            prop_assert!(outcome.is_some(), "receive {number}");
            prop_assert!(!sends[number].1 || outcome.is_some_and(|it| it.error.is_none()));
            if sends[number].1 { prop_assert_eq!(&got[number], &data[number]); }
        }
        for number in ended { prop_assert!(got[number].iter().all(|byte| *byte == 0xEE)); }
        prop_assert!(pair.iter().all(|engine| engine.requests.is_empty() && !engine.is_blocked()));
        prop_assert!(pair.iter().all(|engine| engine.messages.is_empty() && engine.ended().is_empty()));
        prop_assert!(balances(&pair));
    }
}

/// All that was sent between two was taken, and is known or about to be known to be.
fn balances(pair: &[Engine]) -> bool {
    let account = |me: usize| &pair[me].peers[1 - me].account;
    account(0).balances(account(1)) && account(1).balances(account(0))
}

#[test]
fn what_nobody_receives_stays_with_its_sender() {
    for make in ALL {
        for length in [5_000, 20_000] {
            let mut pair = make(2);
            let (data, count) = (bytes(length, 1), 2 * WINDOW / (length + 128));
            let mut waiting = Vec::new();
            for _ in 0..count {
                waiting.extend(pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard));
                settle(&mut pair);
            }
            let kept = |it: &Message| if let Content::Here(kept) = &it.content { kept.len() + 128 } else { 0 };
            assert!(pair[1].messages.iter().map(|(_, it)| kept(it)).sum::<usize>() <= WINDOW);
            assert!((count / 2 - 1..=count / 2 + 1).contains(&waiting.len()));
            let mut got = vec![0; length];
            for _ in 0..count {
                let receive = pair[1].receive(from(0, 3), room(&mut got));
                settle(&mut pair);
                assert_eq!(pair[1].outcome(receive).expect("it came").error, None);
                assert_eq!(got, data);
            }
            assert!(waiting.into_iter().all(|send| pair[0].outcome(send).is_some()));
            assert!(pair[0].send(1, of(0, 3), borrowed(&data), Mode::Standard).is_none(), "there is room again");
        }
    }
}

#[test]
fn who_sends_more_than_there_is_room_for_is_treated_as_lost() {
    let (mut engine, mut far) = stranger();
    let message = frame(
        Header { kind: Kind::Eager as u16, context: 4, source: 1, length: 60_000, ..Header::default() },
        &[0; 60_000],
    );
    let count = 2 * MOST / message.len();
    for _ in 0..count {
        if far.write_all(&message).is_err() {
            break; // it has had enough
        }
        while engine.progress() {}
    }
    assert_eq!(engine.ended(), [Ended { peer: 1, left: false }]);
    assert!((WINDOW / 60_000..=MOST / 60_000).contains(&engine.messages.len()));
}

/// Who does not protect what is sent in a marked communicator is not believed, and its connection ends.
#[test]
fn what_is_marked_is_refused_at_a_lower_level() {
    let levels = Levels { base: Level::Authenticated, data: Level::Private, code: Level::Safe };
    for (context, refused) in [(4, false), (MARKED | 4, true)] {
        let (near, mut far) = UnixStream::pair().expect("sockets");
        near.set_nonblocking(true).expect("a socket");
        let keys = |seed| Context::new([seed; SECRET]);
        let link = Link::new(near.into(), levels, (keys(1), keys(2)));
        let mut engine = Engine::new(0, vec![Path::Own, Path::Socket(Box::new(link))], None);
        let eager = Header { kind: Kind::Eager as u16, context, length: 8, source: 1, tag: 3, ..Header::default() };
        let payload = frame(eager, &[7; 8]);
        for part in [&payload[..20], &payload[20..]] {
            let head = phalanx_net::seal::head(Level::Authenticated, part.len());
            far.write_all(&[&head[..], part].concat()).expect("it listens");
        }
        while engine.progress() {}
        assert_eq!(engine.ended().len(), usize::from(refused));
        assert_eq!(engine.probe(&Pattern { context, source: Some(1), tag: Some(3) }).is_some(), !refused);
    }
}

/// An attacker makes a frame without protection longer, so that it would swallow the protected bytes behind it.
#[test]
fn a_frame_goes_on_at_its_own_level_only() {
    let levels = Levels { base: Level::Authenticated, data: Level::Private, code: Level::Safe };
    for (level, refused) in [(Level::Authenticated, false), (Level::Safe, true), (Level::Private, true)] {
        let (near, mut far) = UnixStream::pair().expect("sockets");
        near.set_nonblocking(true).expect("a socket");
        let keys = |seed| Context::new([seed; SECRET]);
        let link = Link::new(near.into(), levels, (keys(1), keys(2)));
        let mut engine = Engine::new(0, vec![Path::Own, Path::Socket(Box::new(link))], None);
        let mut sealer = Sealer::new(Some(keys(2)), carried(levels));
        let payload = frame(
            Header { kind: Kind::Eager as u16, context: 4, length: 16, source: 1, tag: 3, ..Header::default() },
            &[7; 16],
        );
        let (begin, end) = payload.split_at(payload.len() - 8);
        let mut blocks = Vec::new();
        for (level, part) in [(Level::Authenticated, begin), (level, end)] {
            sealer.append(level, std::iter::once(part), &mut blocks).expect("the link carries it");
        }
        far.write_all(&blocks).expect("it listens");
        while engine.progress() {}
        assert_eq!(engine.ended().len(), usize::from(refused), "{level}");
    }
}

#[test]
fn what_is_marked_arrives_whatever_its_length() {
    for (length, make) in [8, 8192, EAGER, 1 << 20].into_iter().flat_map(|length| ALL.map(|make| (length, make))) {
        let mut pair = make(2);
        let (data, mut got) = (bytes(length, 1), vec![0; length]);
        let send = pair[0].send(1, Envelope { context: MARKED | 8, ..of(0, 3) }, borrowed(&data), Mode::Synchronous);
        settle(&mut pair);
        let receive = pair[1].receive(Pattern { context: MARKED | 8, ..from(0, 3) }, room(&mut got));
        settle(&mut pair);
        assert!(send.is_some_and(|send| pair[0].outcome(send).is_some_and(|it| it.error.is_none())));
        assert!(pair[1].outcome(receive).is_some() && got == data);
        assert!(pair.iter().all(|engine| engine.ended().is_empty()));
    }
}
