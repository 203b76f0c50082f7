//! Messages and stream frames of copies, and requests about files.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::wire::files::{Answer, Ask, decode_found, encode_found};
use phalanx_core::wire::transfer::{
    MOST_PAYLOAD, Message, Packed, Record, decode_chunks, decode_entries, encode_chunk, encode_entry,
};
use phalanx_fuzz::{cut, same_again};

fuzz_target!(|bytes: &[u8]| {
    let Some((header, body)) = cut(bytes) else { return };
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
