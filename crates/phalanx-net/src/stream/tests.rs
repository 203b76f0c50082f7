//! Streams over a pair of sockets.

use super::*;
use crate::identity::KeyedCertificate;
use crate::seal::head;
use crate::socket::Socket;
use crate::tls::{choose, offer};
use phalanx_core::level::Levels;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

const CHECKED: Protection = Protection { level: Level::Clear, checked: true };
const UNCHECKED: Protection = Protection { level: Level::Clear, checked: false };

/// What a receiver makes of a frame with this head, if it is protected so.
fn received(protection: Protection, head: [u8; HEAD]) -> io::Result<Option<Vec<u8>>> {
    let (mut far, near) = Socket::pair().expect("sockets");
    let mut incoming = Incoming::new(near, None, protection).expect("it needs no handshake");
    far.write_all(&[&head[..], &[7; 100]].concat()).expect("it listens");
    incoming.receive().map(|payload| payload.map(|payload| payload.to_vec()))
}

#[test]
fn a_frame_of_another_level_than_the_streams_ends_it() {
    for level in Level::ALL {
        for (protection, own) in [(CHECKED, Level::Safe), (UNCHECKED, Level::Clear)] {
            match received(protection, head(level, 10)) {
                Ok(payload) => assert_eq!((level, payload), (Level::Clear, Some(vec![7; 10]))),
                Err(error) => {
                    assert!(level != own || level == Level::Safe, "{error}");
                    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                }
            }
        }
    }
}

#[test]
fn a_frame_longer_than_its_memory_ends_the_stream() {
    for protection in [CHECKED, UNCHECKED] {
        let level = if protection.checked { Level::Safe } else { Level::Clear };
        assert!(received(protection, head(level, PAYLOAD)).expect("it may come").is_none());
        assert!(received(protection, head(level, PAYLOAD + 1)).is_err());
    }
}

#[test]
fn a_protected_stream_needs_a_handshake() {
    for level in [Level::Authenticated, Level::Safe, Level::Private] {
        let (near, far) = Socket::pair().expect("sockets");
        let protection = Protection { level, checked: true };
        assert!(Outgoing::new(near, None, protection).is_err() && Incoming::new(far, None, protection).is_err());
    }
}

#[cfg(unix)]
#[test]
fn a_fork_sends_nothing_and_its_parent_goes_on() {
    use crate::forks::{alone, in_a_fork};
    let _alone = alone();
    for protection in [CHECKED, UNCHECKED] {
        let (near, far) = Socket::pair().expect("sockets");
        let (mut outgoing, mut incoming) = (
            Outgoing::new(near, None, protection).expect("it needs no handshake"),
            Incoming::new(far, None, protection).expect("it needs no handshake"),
        );
        outgoing.payload()[..6].copy_from_slice(b"parent");
        outgoing.seal(6).expect("it is its own");
        assert!(in_a_fork(|| outgoing.send().is_err() && outgoing.seal(6).is_err()));
        assert!(outgoing.send().expect("it is its own"));
        assert_eq!(incoming.receive().expect("nothing was changed").expect("it has come"), b"parent");
        assert!(incoming.receive().expect("nothing was changed").is_none(), "the child has sent something");
    }
}

const PRIVATE: Protection = Protection { level: Level::Private, checked: true };

/// Both ends of a private connection: the client's and the server's.
fn shaken() -> [(Socket, Shaken); 2] {
    let (mut near, mut far) = Socket::pair().expect("sockets");
    let [client, server] = [(); 2].map(|()| KeyedCertificate::ephemeral().expect("a new key"));
    let connection = server.server_of(&client.certificate).expect("it is made so");
    let levels = Levels::all(Level::Private);
    let until = || Instant::now() + Duration::from_secs(60);
    let serving = thread::spawn(move || {
        let shaken = offer(connection, levels.exactly(), &[], &mut far.until(until())).expect("it is a member");
        (far, shaken)
    });
    let connection = client.client_of(&server.certificate).expect("it is made so");
    let shaken = choose(connection, |_| Ok::<_, io::Error>(levels), &[], &mut near.until(until()));
    [(near, shaken.expect("it is a member")), serving.join().expect("it ends")]
}

/// What a receiver makes of bytes that come in portions, until it waits or fails.
fn frames(incoming: &mut Incoming, far: &mut Socket, bytes: &[u8], portion: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut frames = Vec::new();
    for bytes in bytes.chunks(portion) {
        far.write_all(bytes)?;
        while let Some(payload) = incoming.receive()? {
            frames.push(payload.to_vec());
        }
    }
    Ok(frames)
}

#[test]
fn private_frames_of_all_lengths_arrive_in_order_whatever_cuts_the_bytes() {
    let lengths =
        [0, 1, 100, RECORD - LENGTH, RECORD - LENGTH + 1, 3 * RECORD, PAYLOAD - 1, PAYLOAD, PAYLOAD, 7, 50_000];
    for portion in [997, 20_000, 100_000] {
        let [(near, seals), (_, opens)] = shaken();
        let (mut far, arrives) = Socket::pair().expect("sockets");
        let mut outgoing = Outgoing::new(near, Some(seals), PRIVATE).expect("it is private");
        let mut incoming = Incoming::new(arrives, Some(opens), PRIVATE).expect("it is private");
        let sent = lengths.map(|length| (0..length).map(|at| (at * 7 + length + at / 251) as u8).collect::<Vec<_>>());
        let mut bytes = Vec::new();
        for payload in &sent {
            outgoing.payload()[..payload.len()].copy_from_slice(payload);
            outgoing.seal(payload.len()).expect("it fits");
            bytes.extend_from_slice(outgoing.unsent());
        }
        assert!(frames(&mut incoming, &mut far, &bytes, portion).expect("nothing was changed") == sent);
    }
}

#[test]
fn a_private_stream_goes_on_to_other_keys_within_a_frame() {
    for before in 0..20 {
        let [(near, mut seals), (_, mut opens)] = shaken();
        let (mut far, arrives) = Socket::pair().expect("sockets");
        seals.seal.begin_at((1 << 22) - before);
        opens.open.begin_at((1 << 22) - before);
        let mut outgoing = Outgoing::new(near, Some(seals), PRIVATE).expect("it is private");
        let mut incoming = Incoming::new(arrives, Some(opens), PRIVATE).expect("it is private");
        for number in 0..2 {
            outgoing.payload().fill(number);
            outgoing.seal(PAYLOAD).expect("it fits");
            let is_longer = outgoing.unsent().len() > SEALED;
            assert_eq!(is_longer, number == u8::from(before > 16), "{before}");
            let sent = outgoing.unsent().to_vec();
            let frames = frames(&mut incoming, &mut far, &sent, 100_000).expect("nothing was changed");
            assert!(frames == [vec![number; PAYLOAD]], "{before}");
        }
    }
}

#[test]
fn private_frames_may_come_in_the_shortest_blocks_but_not_beyond_their_length() {
    let parts = |length: usize, parts: &[usize]| {
        let [(_, seals), (_, opens)] = shaken();
        let (mut far, arrives) = Socket::pair().expect("sockets");
        let mut sealer = Sealer::new(Some(seals.seal), Level::Private..=Level::Private);
        let mut incoming = Incoming::new(arrives, Some(opens), PRIVATE).expect("it is private");
        let mut bytes = Vec::new();
        sealer.append(Level::Private, [&(length as u32).to_le_bytes()[..]].into_iter(), &mut bytes).expect("it fits");
        for part in parts {
            sealer.append(Level::Private, [&vec![7; *part][..]].into_iter(), &mut bytes).expect("it fits");
        }
        frames(&mut incoming, &mut far, &bytes, 60_000)
    };
    assert!(parts(PAYLOAD, &vec![1; PAYLOAD]).expect("it is as long as it says") == [vec![7; PAYLOAD]]);
    assert!(parts(PAYLOAD, &[RECORD; PAYLOAD / RECORD]).expect("it is as long as it says") == [vec![7; PAYLOAD]]);
    let too_long = [vec![1; PAYLOAD - 1], vec![RECORD]].concat();
    for (length, sent) in
        [(10, &[0, 10][..]), (10, &[4, 7]), (PAYLOAD + 1, &[1]), (usize::MAX, &[1]), (PAYLOAD, &too_long)]
    {
        assert_eq!(parts(length, sent).expect_err("it is refused").kind(), io::ErrorKind::InvalidData, "{length}");
    }
}
