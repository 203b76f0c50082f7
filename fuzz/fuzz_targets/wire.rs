//! Any bytes, as a peer could send them, through everything that reads frames.
//!
//! Nothing may panic or take memory on the peer's word, and whatever is understood must come out as it went in.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::ids::SessionId;
use phalanx_core::space::{Asker, Get, Limits, Options, OutOptions, Space, Template, Tuple};
use phalanx_core::wire::files::{Answer, Ask, decode_found, encode_found};
use phalanx_core::wire::machines::{FromMachine, ToMachine};
use phalanx_core::wire::ranks::{FromRank, MOST_FROM_RANK, Messages, Seat, frame};
use phalanx_core::wire::space::{FromSpace, ToSpace};
use phalanx_core::wire::transfer::{
    MOST_PAYLOAD, Message, Packed, Record, decode_chunks, decode_entries, encode_chunk, encode_entry,
};
use phalanx_core::wire::{FromExecutor, FromInterpreter, PREFIX, Prefix, Shape, ToExecutor, ToInterpreter, Tokens};
use phalanx_core::wire::{decode, encode};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;
use std::time::Duration;

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
    same_again::<ToMachine>(header);
    same_again::<FromMachine>(header);
    let mut messages = Messages::new(MOST_FROM_RANK);
    messages.feed(body);
    while let Ok(Some(message)) = messages.take::<FromRank>() {
        same_again::<FromRank>(&frame(&message)[4..]);
    }
    let _ = String::from_utf8_lossy(body).parse::<Seat>();
    if let Some(ToInterpreter::Fire { shape, .. } | ToInterpreter::Ahead { shape, .. }) = same_again(header) {
        cut(shape, body);
    }
    if let Some(FromInterpreter::Fired { shape, .. } | FromInterpreter::Ahead { shape, .. }) = same_again(header) {
        cut(shape, body);
    }
    if let Some(ask) = same_again::<Ask>(header) {
        let _ = ask.check();
    }
    if let Some(Answer::Page { count, .. }) = same_again(header) {
        page(count, body);
    }
    match same_again::<Message>(header) {
        Some(Message::Entries { count }) => entries(count, body),
        Some(Message::Chunks { count, .. }) => chunks(count, body),
        _ => {}
    }
    payload(body);
    same_again::<FromSpace>(header);
    match same_again::<ToSpace>(header) {
        Some(ToSpace::Get { get, .. }) => ask(&get, body),
        Some(ToSpace::Out { tuples, options, .. }) => put(tuples, &options, body),
        _ => {}
    }
});

/// A page of a folder that is understood comes out as it went in.
fn page(count: u32, body: &[u8]) {
    let Ok(found) = decode_found(count, body) else { return };
    let again = found.iter().fold(Vec::new(), |body, one| encode_found(one, body));
    assert_eq!(decode_found(count, &again).as_ref(), Ok(&found));
}

/// Entries of a copy that are understood come out as they went in.
fn entries(count: u32, body: &[u8]) {
    let Ok(entries) = decode_entries(count, body) else { return };
    for (number, entry) in (0..).zip(&entries) {
        let _ = entry.check(number);
    }
    let again = entries.iter().fold(Vec::new(), |body, one| encode_entry(one, body));
    assert_eq!(decode_entries(count, &again).as_ref(), Ok(&entries));
}

/// The same of chunks' digests.
fn chunks(count: u32, body: &[u8]) {
    let Ok(chunks) = decode_chunks(count, body) else { return };
    let mut again = Vec::new();
    chunks.iter().for_each(|chunk| encode_chunk(chunk, &mut again));
    assert_eq!(again, body);
}

/// A frame of a stream is either compressed or records, each of which comes out as it went in.
fn payload(mut bytes: &[u8]) {
    if let Ok(Some((packed, _))) = Packed::split(bytes) {
        assert!(packed.length as usize <= MOST_PAYLOAD);
        assert_eq!(packed.encode(), bytes[..16]);
        assert!(Record::split(bytes).is_err());
    }
    while let Ok((record, _, rest)) = Record::split(bytes) {
        assert_eq!(record.encode(), bytes[..16]);
        bytes = rest;
    }
}

/// Tuples that are understood come out as they went in.
fn put(tuples: u32, options: &OutOptions, body: &[u8]) {
    let body = body.to_vec().into();
    let Ok(tuples) = Tuple::check_all(&body, tuples.into(), &Limits::default()) else { return };
    for tuple in &tuples {
        assert_eq!(Tuple::of(&tuple.values()), *tuple);
    }
    let Ok(mut space) = Space::new(Options::default()) else { return };
    let _ = space.out(Duration::ZERO, &tuples, options, None);
}

/// A template that is understood finds what it matches in a space of a tuple that it may match.
fn ask(get: &Get, body: &[u8]) {
    let (template, tuple) = body.split_at(body.len() / 2);
    let Ok(template) = Template::decode(template, &Limits::default()) else { return };
    let mut again = Vec::new();
    template.encode(&mut again);
    assert_eq!(Template::decode(&again, &Limits::default()).as_ref(), Ok(&template));
    let Ok(tuple) = Tuple::check(tuple.to_vec().into(), &Limits::default()) else { return };
    let Ok(mut space) = Space::new(Options::default()) else { return };
    let _ = space.out(Duration::ZERO, std::slice::from_ref(&tuple), &OutOptions::default(), None);
    let asker = Asker { session: SessionId(0), request: 0, acknowledges: false };
    let found = space.get(Duration::ZERO, asker, &template, get, None);
    let plain = get.key.is_none() && get.label.is_none() && get.after.is_none();
    assert!(found.is_ok_and(|page| !plain || page.tuples.len() == usize::from(template.matches(tuple.bytes()))));
}

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
