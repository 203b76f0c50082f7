//! Files that users write, and that phalanx has written: rules, access rules, known members, checkpoints of BSP, ranges of
//! partial files.
//!
//! The other libraries of these crates take minutes to compile, so their parsers are compiled alone.

#![no_main]

use access::{Access, Verb, Who};
use libfuzzer_sys::fuzz_target;
use phalanx_core::transfer::Ranges;
use snapshot::Snapshot;

#[allow(dead_code, reason = "what is not used here is used in phalanx-node")]
#[path = "../../crates/phalanx-node/src/space/access.rs"]
mod access;
#[allow(dead_code, reason = "what is not used here is used in phalanx-mpi")]
#[path = "../../crates/phalanx-mpi/src/error.rs"]
mod error;
#[path = "../../crates/phalanx-node/src/known_members"]
mod known_members {
    pub mod lines;
    pub mod member;
}
#[path = "../../crates/phalanx-node/src/rules.rs"]
mod rules;
#[path = "../../crates/phalanx-mpi/src/bsp/snapshot.rs"]
mod snapshot;
#[path = "../../crates/phalanx-node/src/tables.rs"]
mod tables;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(snapshot) = Snapshot::decode(bytes) {
        assert_eq!(snapshot.encode(), bytes);
    }
    ranges(bytes);
    known_members(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = rules::parse(text);
    let _ = rules::parse_network(text);
    if let Ok(access) = Access::parse(text) {
        let rights = access.rights(&Who::user("ada"), "jobs");
        let all = [Verb::Out, Verb::Rd, Verb::In, Verb::Create];
        assert!(rights.are_any() || !all.iter().any(|verb| rights.allow(*verb, None)));
    }
});

/// A line that is understood says the same again. A damaged line is one of the file's.
fn known_members(bytes: &[u8]) {
    match known_members::lines::parse(bytes) {
        Ok(members) => members.iter().for_each(|(_, it)| assert_eq!(it.to_string().parse().as_ref(), Ok(it))),
        Err(damage) => assert!((1..=bytes.split(|byte| *byte == b'\n').count()).contains(&damage.line)),
    }
}

/// The ranges of a state file are refused, or are those of the file.
fn ranges(bytes: &[u8]) {
    let numbers: Vec<u64> =
        bytes.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes"))).collect();
    let Some((end, numbers)) = numbers.split_first() else { return };
    let pairs: Vec<(u64, u64)> = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let Some(ranges) = Ranges::from_pairs(&pairs, *end) else { return };
    assert_eq!(ranges.pairs(), pairs);
    let missing: u64 = ranges.missing(*end).iter().map(|(from, to)| to - from).sum();
    assert_eq!(missing + ranges.bytes(), *end);
}
