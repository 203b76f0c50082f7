//! Frames between managers, executors, interpreters and hubs, as a peer could send them.
//!
//! Nothing may panic or take memory on the peer's word, and whatever is understood must come out as it went in.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::hub::Needs;
use phalanx_core::wire::hub::{Facts, FromHub, Row, Statuses, ToHub};
use phalanx_core::wire::{
    FromExecutor, FromInterpreter, News, PREFIX, Prefix, Shape, ToExecutor, ToInterpreter, Tokens,
};
use phalanx_fuzz::{cut, same_again};

fuzz_target!(|bytes: &[u8]| {
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

/// A member meets needs, or lacks something that is told in few words.
fn judge(facts: &Facts) {
    let words = || vec!["ffmpeg".to_owned()];
    let needs = Needs { cores: 2, memory: 1 << 32, gpus: 1, software: words(), labels: words() };
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
