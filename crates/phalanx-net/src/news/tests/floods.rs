//! The other end of a link for news sends as fast as it can.

use super::*;
use crate::link::{Link, Reader};
use crate::socket::Socket;
use phalanx_core::wire::encode;
use std::cell::Cell;
use std::io::Write;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

const LONG: Duration = Duration::from_secs(60);

/// A link over which the other end sends these frames again and again, as long as it can, and the reader of this end.
fn flooded(frame: Vec<u8>) -> (Arc<Link>, Reader, JoinHandle<()>) {
    let (near, mut far) = Socket::pair().unwrap();
    let (link, reader) = Link::new(near, None, phalanx_core::wire::MAX_CONTROL_BODY).unwrap();
    let frames = frame.repeat((1 << 20) / frame.len());
    let flood = thread::spawn(move || while far.until(Instant::now() + LONG).write_all(&frames).is_ok() {});
    (link, reader, flood)
}

#[test]
fn a_flood_of_messages_without_bodies_ends_the_link() {
    let grid = Grid::new();
    let has = encode(&wire::News::Has(wire::NewsDigest { revoked: 0, renewed: [1; 16] }), 0);
    let (_link, reader, flood) = flooded(has);
    let error = crate::news::talk(reader, grid.member("ada").server(), || false, drop).unwrap_err();
    assert_eq!(error.to_string(), "the other end tells too much");
    flood.join().unwrap();
}

/// As a flood of empty blocks, which are no messages, it must not keep a reader from what it does in pauses.
#[test]
fn a_flood_leaves_pauses() {
    let (_link, reader, flood) = flooded(encode(&wire::News::Done, 0));
    let frames = Cell::new(0_u64);
    let on_pause = |link: &Link| {
        if frames.get() > 0 {
            link.close()
        }
    };
    reader.run(Duration::from_millis(20), |_| frames.set(frames.get() + 1), on_pause);
    flood.join().unwrap();
}

#[test]
fn nothing_is_heard_after_the_first_failure() {
    let (grid, heard) = (Grid::new(), Cell::new(0));
    let ada = grid.member("ada");
    let list = grid.list(None, 1);
    let piece =
        |number| [encode(&wire::News::Revoked { number, left: 0 }, list.len() as u64), list.clone().into()].concat();
    let bad = encode(&wire::News::Revoked { number: 1, left: 7 }, 0);
    let (_link, reader, flood) = flooded([bad, piece(1)].concat());
    let learned = |learned: Learned| heard.set(heard.get() + usize::from(learned.list.is_some()));
    let error = crate::news::talk(reader, ada.server(), || false, learned).unwrap_err();
    assert_eq!((error.to_string().as_str(), heard.get()), ("this is no piece of a list", 0));
    flood.join().unwrap();
}

#[test]
fn a_flood_does_not_keep_a_server_from_closing() {
    let (grid, heard) = (Grid::new(), Cell::new(0));
    let has = encode(&wire::News::Has(wire::NewsDigest { revoked: 0, renewed: [1; 16] }), 0);
    let (_link, reader, flood) = flooded(has);
    let is_over = || heard.get() > 0;
    crate::news::talk(reader, grid.member("ada").server(), is_over, |_| heard.set(heard.get() + 1)).unwrap_err();
    assert_eq!(heard.get(), 1);
    flood.join().unwrap();
}
