//! Streams over a pair of sockets.

use super::*;
use crate::seal::head;
use crate::socket::Socket;
use std::io::Write;

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
