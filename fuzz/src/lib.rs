//! What the fuzz targets share.

use phalanx_core::wire::{PREFIX, decode, encode};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// A header and a body. The header's end comes from the first byte, because most random lengths would end the test here.
pub fn cut(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (end, rest) = bytes.split_first()?;
    Some(rest.split_at(usize::from(*end).min(rest.len())))
}

/// A header that is understood means the same after another trip.
pub fn same_again<M: Serialize + DeserializeOwned + PartialEq + Debug>(header: &[u8]) -> Option<M> {
    let message = decode::<M>(header).ok()?;
    assert_eq!(decode::<M>(&encode(&message, 0)[PREFIX..]).as_ref(), Ok(&message));
    Some(message)
}
