//! Changes of a space, from the disk of a durable one or from another member of a replicated one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::space::Limits;
use phalanx_core::space::change::{decode, encode};

fuzz_target!(|bytes: &[u8]| {
    let Ok(changes) = decode(bytes, &Limits::default()) else { return };
    assert_eq!(decode(&encode(&changes), &Limits::default()).as_ref(), Ok(&changes));
    changes.iter().for_each(|change| assert!(change.size() > 0));
});
