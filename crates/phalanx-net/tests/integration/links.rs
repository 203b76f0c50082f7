//! Links over real sockets: what is sent arrives, in order, at every level, and an attacker on the wire ends the link.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use bytes::Bytes;
use phalanx_core::level::{Level, Levels, Mark};
use phalanx_core::wire::{MAX_BODY, ToInterpreter, encode};
use phalanx_net::frames::Frame;
use phalanx_net::identity::KeyedCertificate;
use phalanx_net::link::{Link, LinkError, Reader};
use phalanx_net::seal::{HEAD, TAG, head};
use phalanx_net::socket::Socket;
use phalanx_net::tls::{Shaken, choose_ahead, offer};
use proptest::prelude::*;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

type End = (Arc<Link>, Reader);

/// Two ends of a link; they shake hands first where the level asks for it.
fn ends(levels: Levels) -> (End, End) {
    let (one, other) = Socket::pair().unwrap();
    if !levels.need_handshake() {
        return (Link::new(one, None, MAX_BODY).unwrap(), Link::new(other, None, MAX_BODY).unwrap());
    }
    let ((one, client), (other, server)) = shake_hands(one, other, levels, levels);
    (Link::new(one, Some(client), MAX_BODY).unwrap(), Link::new(other, Some(server), MAX_BODY).unwrap())
}

fn shake_hands(
    mut one: Socket,
    mut other: Socket,
    ours: Levels,
    theirs: Levels,
) -> ((Socket, Shaken), (Socket, Shaken)) {
    let (client, server) = (KeyedCertificate::ephemeral().unwrap(), KeyedCertificate::ephemeral().unwrap());
    let accepting = server.server_of(&client.certificate).unwrap();
    let serving = thread::spawn(move || {
        let shaken = offer(accepting, theirs.exactly(), &[], &mut other.until(soon())).unwrap();
        (other, shaken)
    });
    let connection = client.client_of(&server.certificate).unwrap();
    let shaken = choose_ahead(connection, ours, &[], &mut one.until(soon())).unwrap();
    ((one, shaken), serving.join().unwrap())
}

/// Reads an end in a thread; frames and at last the error come over the channel.
fn read(reader: Reader) -> Receiver<Result<Frame, LinkError>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let error = reader.run(PAUSE, |frame| drop(sender.send(Ok(frame))), |_| ());
        let _ = sender.send(Err(error));
    });
    receiver
}

fn start(body: &[u8]) -> Vec<u8> {
    encode(&ToInterpreter::Beat, body.len() as u64)
}

fn body(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + number) as u8).collect()
}

#[test]
fn frames_of_all_sizes_arrive_in_order_in_both_directions() {
    for level in Level::ALL {
        let (one, other) = ends(Levels::all(level));
        assert_eq!(one.0.levels(), Levels::all(level));
        let (from_other, from_one) = (read(one.1), read(other.1));
        let sizes = [0, 1, 100, 16_384, 65_536, 1 << 20, 5 << 20, 3];
        for (sender, receiver) in [(&one.0, &from_one), (&other.0, &from_other)] {
            let sent: Vec<_> = sizes.iter().enumerate().map(|(number, size)| body(number, *size)).collect();
            for body in &sent {
                sender.send(Mark::None, start(body), vec![Bytes::from(body.clone())]).unwrap();
            }
            for body in &sent {
                assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().unwrap().body, *body, "{level:?}");
            }
        }
    }
}

#[test]
fn a_slow_reader_slows_the_writer_down() {
    for level in Level::ALL {
        let (one, other) = ends(Levels::all(level));
        let _from_other = read(one.1);
        let (sent, done) = channel();
        let sender = one.0.clone();
        thread::spawn(move || {
            for number in 0..100 {
                let body = body(number, 1 << 20);
                sender.send(Mark::None, start(&body), vec![body.into()]).unwrap();
                sender.settle(); // which must not make room
                sent.send(number).unwrap();
            }
        });
        // Nobody reads: what the sockets and the outbox do not hold stays with the writer.
        let mut written = 0;
        while done.recv_timeout(Duration::from_millis(500)).is_ok() {
            written += 1;
        }
        assert!(written < 50, "{level}: {written} MiB have no reader, and the writer did not wait");
        let from_one = read(other.1);
        for number in 0..100 {
            assert_eq!(from_one.recv_timeout(PATIENCE).unwrap().unwrap().body, body(number, 1 << 20));
        }
    }
}

/// The other end answers only after it has received everything, so a writer that waited in a read would never be done.
#[test]
fn who_waits_for_an_answer_writes_what_is_left_meanwhile() {
    let (mut one, other) = ends(Levels::all(Level::Clear));
    let received = read(other.1);
    one.0.queue(Mark::None, start(&body(1, 8 << 20)), vec![body(1, 8 << 20).into()]);
    one.0.flush();
    let answering = thread::spawn(move || {
        assert_eq!(received.recv().unwrap().unwrap().body, body(1, 8 << 20));
        other.0.send(Mark::None, start(&[7]), vec![vec![7].into()]).unwrap();
    });
    let (mut answer, deadline) = (None, Instant::now() + PATIENCE);
    while answer.is_none() {
        assert!(Instant::now() < deadline);
        if one.0.finish_or_hear(PATIENCE * 2).unwrap() {
            one.1.read_all(&mut |frame| answer = Some(frame.body)).unwrap();
        }
    }
    assert_eq!(answer.unwrap(), [7][..]);
    answering.join().unwrap();
}

#[test]
fn what_was_sent_may_change_after_it_settled() {
    Level::ALL.into_iter().for_each(settles);
}

fn settles(level: Level) {
    let (one, other) = ends(Levels::all(level));
    let sent = body(1, 8 << 20);
    let memory = Arc::new(sent.clone());
    one.0.queue(Mark::None, start(&sent), vec![Bytes::from_owner(Owned(memory.clone()))]);
    one.0.flush();
    one.0.settle();
    assert_eq!(Arc::strong_count(&memory), 1, "the link still refers to the sender's memory");
    let _from_other = read(one.1);
    assert_eq!(read(other.1).recv_timeout(PATIENCE).unwrap().unwrap().body, sent);
}

struct Owned(Arc<Vec<u8>>);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[test]
fn the_end_of_one_end_is_the_end_of_the_other() {
    for level in Level::ALL {
        let (one, other) = ends(Levels::all(level));
        let from_one = read(other.1);
        one.0.close();
        assert!(matches!(from_one.recv_timeout(PATIENCE).unwrap(), Err(LinkError::Ended)));
    }
}

#[test]
fn a_body_over_the_limit_ends_the_link() {
    let (one, other) = Socket::pair().unwrap();
    let (link, _reader) = Link::new(one, None, MAX_BODY).unwrap();
    let (_link, reader) = Link::new(other, None, 1000).unwrap();
    link.send(Mark::None, start(&[0; 1001]), vec![vec![0; 1001].into()]).unwrap();
    assert!(matches!(read(reader).recv_timeout(PATIENCE).unwrap(), Err(LinkError::Wire(_))));
}

/// Passes what a link's client sends through `attack`, block by block; what the server makes of it.
fn attacked(level: Level, attack: impl FnOnce(Vec<Vec<u8>>) -> Vec<Vec<u8>>) -> Vec<Result<Frame, LinkError>> {
    let (client, server) = Socket::pair().unwrap();
    let levels = Levels::all(level);
    let ((client, shaken), (_server, accepted)) = shake_hands(client, server, levels, levels);
    drop(client);
    // The same secrets over another wire, which is the attacker's.
    let (client, mut wire_in) = Socket::pair().unwrap();
    let (mut wire_out, server) = Socket::pair().unwrap();
    let (link, _reader) = Link::new(client, Some(shaken), MAX_BODY).unwrap();
    for number in 0..3 {
        link.send(Mark::None, start(&sent(number)), vec![sent(number).into()]).unwrap();
    }
    link.close();
    let mut bytes = Vec::new();
    wire_in.read_to_end(&mut bytes).unwrap();
    let (_link, reader) = Link::new(server, Some(accepted), MAX_BODY).unwrap();
    let received = read(reader);
    for block in attack(blocks(&bytes)) {
        let _ = wire_out.write_all(&block); // the link may have ended already
    }
    wire_out.shut_down();
    received.iter().collect()
}

/// Bodies of one block with their frame's start, and one of several blocks of their own.
fn sent(number: usize) -> Vec<u8> {
    body(number, [100, 600_000, 1000][number])
}

fn blocks(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    while let Some(head) = bytes.first_chunk::<HEAD>() {
        let behind = match head {
            [0x17, 3, 3, length @ ..] => u16::from_be_bytes(*length).into(),
            [mark, length @ ..] => u32::from_le_bytes(*length) as usize + if *mark == 0x5a { TAG } else { 0 },
        };
        let (block, rest) = bytes.split_at(HEAD + behind);
        blocks.push(block.to_vec());
        bytes = rest;
    }
    blocks
}

/// Whether the link ended with an error after some of the true frames, in order.
fn caught(received: &[Result<Frame, LinkError>]) -> bool {
    let (last, frames) = received.split_last().unwrap();
    let true_so_far = frames.iter().enumerate().all(|(number, frame)| frame.as_ref().unwrap().body == sent(number));
    // A block made longer waits for bytes until the wire ends.
    let ended = matches!(last, Err(LinkError::Ended)) && frames.len() < 3;
    true_so_far && (ended || matches!(last, Err(LinkError::Failed(_))))
}

#[test]
fn an_untouched_wire_delivers_everything() {
    for level in [Level::Authenticated, Level::Safe, Level::Private] {
        let received = attacked(level, |blocks| blocks);
        assert_eq!(received.iter().filter(|frame| frame.is_ok()).count(), 3);
    }
}

#[test]
fn altered_dropped_repeated_and_swapped_blocks_end_a_safe_and_a_private_link() {
    for level in [Level::Safe, Level::Private] {
        let mut count = 0;
        attacked(level, |blocks| {
            count = blocks.len();
            blocks
        });
        assert!(count >= 6, "three frames, one of them in several blocks");
        for index in 0..count {
            for place in [0, 1, 3, 4, 20, usize::MAX] {
                let altered = attacked(level, |mut blocks| {
                    let place = place.min(blocks[index].len() - 1);
                    blocks[index][place] ^= 1;
                    blocks
                });
                assert!(caught(&altered), "byte {place} of block {index}");
            }
            assert!(caught(&attacked(level, |mut blocks| {
                blocks.insert(index, blocks[index].clone());
                blocks
            })));
        }
        for index in 0..count - 1 {
            assert!(caught(&attacked(level, |mut blocks| {
                blocks.remove(index);
                blocks
            })));
            assert!(caught(&attacked(level, |mut blocks| {
                blocks.swap(index, index + 1);
                blocks
            })));
        }
    }
}

#[test]
fn blocks_of_another_link_or_direction_are_not_taken() {
    for level in [Level::Safe, Level::Private] {
        let mut recorded = Vec::new();
        attacked(level, |blocks| {
            recorded = blocks.clone();
            blocks
        });
        assert!(caught(&attacked(level, |_| recorded)));
        // What the server itself sent comes back to it.
        let (client, server) = Socket::pair().unwrap();
        let (_client, (_server, accepted)) = shake_hands(client, server, Levels::all(level), Levels::all(level));
        let (mut mirror, server) = Socket::pair().unwrap();
        let (link, reader) = Link::new(server, Some(accepted), MAX_BODY).unwrap();
        link.send(Mark::None, start(&sent(0)), vec![sent(0).into()]).unwrap();
        let mut bytes = vec![0; 4096];
        let count = mirror.read(&mut bytes).unwrap();
        mirror.write_all(&bytes[..count]).unwrap();
        assert!(matches!(read(reader).recv_timeout(PATIENCE).unwrap(), Err(LinkError::Failed(_))));
    }
}

#[test]
fn a_block_weaker_than_the_link_ends_it() {
    for (level, weaker) in [(Level::Safe, 0x59), (Level::Private, 0x5a), (Level::Private, 0x58)] {
        let received = attacked(level, |mut blocks| {
            blocks[0][0] = weaker;
            blocks
        });
        assert!(matches!(received[0], Err(LinkError::Failed(_))));
    }
}

/// An attacker makes an unprotected frame longer, so that it would swallow the start of a protected one.
#[test]
fn a_frame_goes_on_in_blocks_of_its_own_level_only() {
    let levels = Levels { base: Level::Authenticated, data: Level::Private, code: Level::Private };
    let (client, server) = Socket::pair().unwrap();
    let ((_client, shaken), (_server, accepted)) = shake_hands(client, server, levels, levels);
    let (client, mut wire_in) = Socket::pair().unwrap();
    let (mut wire_out, server) = Socket::pair().unwrap();
    let (link, _reader) = Link::new(client, Some(shaken), MAX_BODY).unwrap();
    link.send(Mark::None, start(&sent(0)), vec![sent(0).into()]).unwrap();
    link.send(Mark::Data, start(&sent(2)), vec![sent(2).into()]).unwrap();
    link.close();
    let mut bytes = Vec::new();
    wire_in.read_to_end(&mut bytes).unwrap();
    let mut blocks = blocks(&bytes);
    assert_eq!(blocks.iter().map(|block| block[0]).collect::<Vec<_>>(), [0x59, 0x17]);
    let length = sent(0).len() as u64 + 500;
    blocks[0][HEAD + 8..][..8].copy_from_slice(&length.to_le_bytes());
    let (_link, reader) = Link::new(server, Some(accepted), MAX_BODY).unwrap();
    let received = read(reader);
    wire_out.write_all(&blocks.concat()).unwrap();
    wire_out.shut_down();
    let received: Vec<_> = received.iter().collect();
    assert!(matches!(&received[..], [Err(LinkError::Failed(_))]), "{received:?}");
}

/// A client and a server that may mean different things: the client's link, and what the server makes of the handshake.
fn meet(ours: (Levels, &[u8]), theirs: (Levels, &'static [u8])) -> (End, Socket, io::Result<Shaken>) {
    let (mut one, mut other) = Socket::pair().unwrap();
    let (client, server) = (KeyedCertificate::ephemeral().unwrap(), KeyedCertificate::ephemeral().unwrap());
    let accepting = server.server_of(&client.certificate).unwrap();
    let serving = thread::spawn(move || {
        let shaken = offer(accepting, theirs.0.exactly(), theirs.1, &mut other.until(soon()));
        (other, shaken)
    });
    let connection = client.client_of(&server.certificate).unwrap();
    let shaken = choose_ahead(connection, ours.0, ours.1, &mut one.until(soon())).unwrap();
    let (other, accepted) = serving.join().unwrap();
    (Link::new(one, Some(shaken), MAX_BODY).unwrap(), other, accepted)
}

#[test]
fn a_client_that_chooses_ahead_what_is_not_offered_is_refused_and_hears_so() {
    let marked = Levels { base: Level::Safe, data: Level::Private, code: Level::Safe };
    let ((_link, reader), _server, accepted) = meet((Levels::all(Level::Safe), &[]), (marked, &[]));
    assert!(accepted.unwrap_err().to_string().contains("the peer wants safe, which is not offered"));
    let error = read(reader).recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert!(error.to_string().contains("the peer does not offer safe"), "{error}");
}

#[test]
fn a_preamble_that_was_changed_on_the_way_ends_the_handshake_at_every_level() {
    for level in [Level::Clear, Level::Authenticated, Level::Safe, Level::Private] {
        let levels = Levels::all(level);
        let (_client, _server, accepted) = meet((levels, b"a copy"), (levels, b"another copy"));
        assert!(accepted.unwrap_err().to_string().contains("which was changed on the way"), "{level}");
    }
}

#[test]
fn marked_frames_are_private_among_others_and_the_order_stays() {
    for base in [Level::Clear, Level::Authenticated, Level::Safe] {
        let levels = Levels { base, data: Level::Private, code: Level::Private };
        let (client, server) = Socket::pair().unwrap();
        let ((_client, shaken), (_server, accepted)) = shake_hands(client, server, levels, levels);
        let (client, mut wire_in) = Socket::pair().unwrap();
        let (mut wire_out, server) = Socket::pair().unwrap();
        let (link, _reader) = Link::new(client, Some(shaken), MAX_BODY).unwrap();
        let (_link, reader) = Link::new(server, Some(accepted), MAX_BODY).unwrap();
        let received = read(reader);
        let (open, secret) = (b"everybody may read this".repeat(5000), b"nobody may ever read it".repeat(5000));
        let passing = thread::spawn(move || {
            let mut bytes = Vec::new();
            wire_in.read_to_end(&mut bytes).unwrap();
            wire_out.write_all(&bytes).unwrap();
            bytes
        });
        for number in 0..20 {
            let (mark, body) = if number % 3 == 1 { (Mark::Data, &secret) } else { (Mark::None, &open) };
            link.send(mark, start(body), vec![body.clone().into()]).unwrap();
            if number == 10 {
                link.settle();
            }
        }
        let arrived = Instant::now() + PATIENCE;
        while !link.is_idle() && Instant::now() < arrived {
            link.wait(PAUSE).unwrap();
        }
        link.close();
        let wire = passing.join().unwrap();
        assert!(contains(&wire, b"everybody may read this") && !contains(&wire, b"nobody may"));
        for number in 0..20 {
            let frame = received.recv_timeout(PATIENCE).unwrap().unwrap();
            assert_eq!(frame.body, if number % 3 == 1 { &secret[..] } else { &open[..] }, "frame {number}");
        }
        let spent = &link.counters().levels;
        assert!(spent[Level::Private as usize].bytes.load(Ordering::Relaxed) > 7 * secret.len() as u64);
        assert!(spent[base as usize].bytes.load(Ordering::Relaxed) > 13 * open.len() as u64);
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn blocks_arrive_whole_however_the_wire_cuts_them() {
    for level in [Level::Authenticated, Level::Safe, Level::Private] {
        for step in [1, 7, 1000, 40_000] {
            let received = attacked(level, |blocks| blocks.concat().chunks(step).map(<[u8]>::to_vec).collect());
            let frames: Vec<_> = received.iter().flatten().collect();
            assert_eq!(frames.len(), 3);
            assert!(frames.iter().enumerate().all(|(number, frame)| frame.body == sent(number)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn hostile_bytes_end_a_link_and_nothing_else(
        level in (0..4usize).prop_map(|index| Level::ALL[index]),
        begins_well in any::<bool>(),
        length in 0usize..300,
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let (mut eve, server) = Socket::pair().unwrap();
        let shaken = (level > Level::Clear).then(|| {
            let (one, other) = Socket::pair().unwrap();
            shake_hands(one, other, Levels::all(level), Levels::all(level)).1.1
        });
        let (_link, reader) = Link::new(server, shaken, MAX_BODY).unwrap();
        let received = read(reader);
        if begins_well {
            eve.write_all(&head(level, length)).unwrap();
        }
        let _ = eve.write_all(&bytes);
        eve.shut_down();
        let received: Vec<_> = received.iter().collect();
        prop_assert!(received.last().unwrap().is_err());
        prop_assert!(level < Level::Safe || received.len() == 1, "a frame out of nothing");
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
