//! Any bytes, as a peer could send them, through everything that reads frames.
//!
//! Nothing may panic or take memory on the peer's word, and whatever is understood must come out as it went in.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::wire::{FromExecutor, FromInterpreter, PREFIX, Prefix, Shape, ToExecutor, ToInterpreter, Tokens};
use phalanx_core::wire::{decode, encode};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

fuzz_target!(|bytes: &[u8]| {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else { return };
    if let Ok(prefix) = Prefix::decode(prefix) {
        assert_eq!(Prefix::decode(&prefix.encode()), Ok(prefix));
    }
    // The header's end comes from a byte, not from the prefix: most random prefixes would end the test here.
    let Some((end, rest)) = rest.split_first() else { return };
    let (header, body) = rest.split_at(usize::from(*end).min(rest.len()));
    same_again::<ToExecutor>(header);
    same_again::<FromExecutor>(header);
    if let Some(ToInterpreter::Fire { shape, .. } | ToInterpreter::Ahead { shape, .. }) = same_again(header) {
        cut(shape, body);
    }
    if let Some(FromInterpreter::Fired { shape, .. } | FromInterpreter::Ahead { shape, .. }) = same_again(header) {
        cut(shape, body);
    }
});

/// A header that is understood means the same after another trip.
fn same_again<M: Serialize + DeserializeOwned + PartialEq + Debug>(header: &[u8]) -> Option<M> {
    let message = decode::<M>(header).ok()?;
    assert_eq!(decode::<M>(&encode(&message, 0)[PREFIX..]).as_ref(), Ok(&message));
    Some(message)
}

/// A shape that fits its body cuts it into tokens, and each of them can be taken alone.
fn cut(shape: Shape, body: &[u8]) {
    let Ok(tokens) = Tokens::from_wire(shape, body.to_vec().into()) else { return };
    assert_eq!(tokens.bytes(), body.len() as u64);
    for first in 0..tokens.count().min(8) {
        assert!(tokens.slice(first, 1).0.bytes() <= tokens.bytes());
    }
}
