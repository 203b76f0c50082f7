//! Messages of ranks, of their launcher, and of the machines that start them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_core::wire::machines::{FromMachine, ToMachine};
use phalanx_core::wire::ranks::{FromRank, MOST_FROM_RANK, MOST_TO_RANK, Messages, Seat, ToRank, frame};
use phalanx_core::wire::universe::Members;
use phalanx_fuzz::{cut, same_again};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

fuzz_target!(|bytes: &[u8]| {
    let Some((header, body)) = cut(bytes) else { return };
    same_again::<ToMachine>(header);
    same_again::<FromMachine>(header);
    if let Some(members) = same_again::<Members>(header) {
        assert!(members.list(1000).is_none_or(|list| list.len() <= 1000));
    }
    messages::<FromRank>(MOST_FROM_RANK, body);
    messages::<ToRank>(MOST_TO_RANK, body);
    if let Ok(seat) = String::from_utf8_lossy(body).parse::<Seat>() {
        assert_eq!(seat.to_string().parse::<Seat>().map_err(drop), Ok(seat));
    }
});

fn messages<M: Serialize + DeserializeOwned + PartialEq + Debug>(most: usize, bytes: &[u8]) {
    let mut messages = Messages::new(most);
    messages.feed(bytes);
    while let Ok(Some(message)) = messages.take::<M>() {
        same_again::<M>(&frame(&message)[4..]);
    }
}
