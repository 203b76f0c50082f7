//! What a link reads: preambles, the handshake, offers and choices of levels, blocks, frames.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::level::{Level, LevelSet, Levels};
use phalanx_fuzz::same_again;
use phalanx_net::blocks::{Cut, Opener};
use phalanx_net::frames::Assembler;
use phalanx_net::identity::KeyedCertificate;
use phalanx_net::preamble::Preamble;
use phalanx_net::seal::{Context, SECRET};
use phalanx_net::tls::{choose_ahead, offer};
use std::io::{self, Read, Write};
use std::sync::LazyLock;

const PRIVATE: Levels = Levels::all(Level::Private);

static OWN: LazyLock<KeyedCertificate> = LazyLock::new(|| KeyedCertificate::ephemeral().expect("a new key"));

fuzz_target!(|bytes: &[u8]| {
    if let Ok(preamble) = Preamble::read(&mut &bytes[..]) {
        assert_eq!(preamble.bytes(), bytes[..23]);
    }
    same_again::<[LevelSet; 3]>(bytes);
    same_again::<Levels>(bytes);
    let server = OWN.server_of(&OWN.certificate).expect("its own certificate");
    assert!(offer(server, PRIVATE.exactly(), b"said", &mut Peer(bytes)).is_err());
    let client = OWN.client_of(&OWN.certificate).expect("its own certificate");
    assert!(choose_ahead(client, PRIVATE, b"said", &mut Peer(bytes)).is_err());
    for least in Level::ALL {
        blocks(least, bytes.to_vec());
    }
    let (mut frames, mut arrived) = (Assembler::new(1 << 20), 0);
    let _ = frames.feed(bytes, &mut |frame| arrived += 16 + frame.header.len() + frame.body.len());
    assert!(arrived <= bytes.len());
});

/// A peer that says this, whatever it hears.
struct Peer<'a>(&'a [u8]);

impl Read for Peer<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Peer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Without the key no protected block opens, and none is below the link's level.
fn blocks(least: Level, mut bytes: Vec<u8>) {
    let mut opener = Opener::new(Some(Context::new([7; SECRET])), least..=Level::Private);
    let mut from = 0;
    while let Ok(cut) = opener.cut(&bytes[from..]) {
        match cut {
            Cut::Plain(level, payload) => {
                assert!(least <= level && level < Level::Safe);
                from += payload.end;
            }
            Cut::Whole(block) => {
                assert!(opener.open_at(block, &mut bytes[from..]).is_err());
                return;
            }
            Cut::Part(_) => return,
        }
    }
}
