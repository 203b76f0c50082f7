//! Frames between managers, executors, interpreters and hubs, and packets of the local network, as a peer could send them.
//!
//! Nothing may panic or take memory on the peer's word, and whatever is understood must come out as it went in.

#![no_main]

use core::net::{Ipv4Addr, SocketAddrV4};
use libfuzzer_sys::fuzz_target;
use phalanx_core::cage::Kind;
use phalanx_core::hub::Needs;
use phalanx_core::lan::{Announcer, Finder, Segment};
use phalanx_core::wire::hub::{Facts, FromHub, Row, Statuses, ToHub};
use phalanx_core::wire::{
    FromExecutor, FromInterpreter, News, PREFIX, Prefix, Shape, ToExecutor, ToInterpreter, Tokens,
};
use phalanx_fuzz::{cut, same_again};
use std::time::Duration;

fuzz_target!(|bytes: &[u8]| {
    hear(bytes);
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else { return };
    if let Ok(prefix) = Prefix::decode(prefix) {
        assert_eq!(Prefix::decode(&prefix.encode()), Ok(prefix));
    }
    let Some((header, body)) = cut(rest) else { return };
    same_again::<ToExecutor>(header);
    same_again::<FromExecutor>(header);
    same_again::<News>(header);
    same_again::<ToHub>(header);
    same_again::<FromHub>(header);
    same_again::<Statuses>(header);
    for row in same_again::<Vec<Row>>(header).unwrap_or_default() {
        judge(&row.facts);
    }
    if let Some(ToInterpreter::Fire { shape, .. } | ToInterpreter::Ahead { shape, .. }) = same_again(header) {
        tokens(shape, body);
    }
    if let Some(FromInterpreter::Fired { shape, .. } | FromInterpreter::Ahead { shape, .. }) = same_again(header) {
        tokens(shape, body);
    }
});

/// Whatever comes from the local network, an announcer answers with little, and a finder asks once and dials one port.
fn hear(packet: &[u8]) {
    let (here, from) = (Ipv4Addr::new(10, 0, 0, 1), SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), 50_000));
    let on = Segment { address: here, mask: Ipv4Addr::new(255, 255, 255, 0) };
    let reply = Announcer::new(7400, 1).on_packet(Duration::ZERO, &on, from, packet);
    assert!(reply.is_none_or(|reply| reply.packet.len() < 300));
    let mut finder = Finder::default();
    finder.look(Duration::ZERO);
    let number = packet.first_chunk().map_or(0, |first| u16::from_be_bytes(*first));
    assert_eq!(finder.due(Duration::ZERO, number).len(), 1);
    finder.on_packet(Duration::ZERO, &on, from, packet);
    assert!(finder.due(Duration::ZERO, 0).len() <= 1);
}

/// A member meets needs, or lacks something that is told in few words.
fn judge(facts: &Facts) {
    let words = || vec!["ffmpeg".to_owned()];
    let needs = Needs { cores: 2, memory: 1 << 32, gpus: 1, software: words(), labels: words(), cage: Kind::Files };
    assert_eq!(needs.are_met(facts), needs.lacks(facts).is_empty());
    assert!(needs.unmet("lab", &[("ws7", facts)]).len() < 400);
}

/// A shape that fits its body cuts it into tokens, and each of them can be taken alone.
fn tokens(shape: Shape, body: &[u8]) {
    let Ok(tokens) = Tokens::from_wire(shape, body.to_vec().into()) else { return };
    assert_eq!(tokens.bytes(), body.len() as u64);
    for first in 0..tokens.count().min(8) {
        assert!(tokens.slice(first, 1).0.bytes() <= tokens.bytes());
    }
}
