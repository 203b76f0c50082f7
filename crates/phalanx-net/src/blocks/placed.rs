//! Blocks whose payload is received where it stays.

use super::Block;
use crate::copy::copy;
use crate::seal::{HEAD, TAG};
use std::mem::MaybeUninit;

/// Bytes that are received behind the payload: the block's tag, and the next block's head in the same system call.
pub const TAIL: usize = TAG + HEAD;

/// A safe block that is being received: its payload into the memory where it stays, its tag here. The receiver says
/// how many bytes have come, those of the payload first.
#[derive(Debug)]
pub struct Placed {
    block: Block,
    /// Bytes received of the payload and the tail.
    filled: usize,
    tail: [u8; TAIL],
}

impl Placed {
    /// Copies what has come of the block, `here` from behind its head on, to its place. Panics if the place is shorter than
    /// the payload, or if all of the block is here.
    pub fn begin(block: Block, here: &[u8], place: &mut [MaybeUninit<u8>]) -> Placed {
        let (payload, behind) = here.split_at(here.len().min(block.payload()));
        assert!(block.payload() <= place.len() && behind.len() < TAG);
        // SAFETY: the place has room for all of the payload.
        unsafe { copy(payload.as_ptr(), place.as_mut_ptr().cast(), payload.len()) };
        let mut tail = [0; TAIL];
        tail[..behind.len()].copy_from_slice(behind);
        Placed { block, filled: here.len(), tail }
    }

    /// The block.
    pub fn block(&self) -> Block {
        self.block
    }

    /// How many bytes of the payload have come.
    pub fn payload(&self) -> usize {
        self.filled.min(self.block.payload())
    }

    /// What has come behind the payload.
    pub fn behind(&self) -> &[u8] {
        &self.tail[..self.filled - self.payload()]
    }

    /// Where the next bytes behind the payload go.
    pub fn spare(&mut self) -> &mut [u8] {
        let from = self.behind().len();
        &mut self.tail[from..]
    }

    /// Says that so many bytes have come. Returns whether all of the block has.
    pub fn advance(&mut self, count: usize) -> bool {
        self.filled += count;
        self.behind().len() >= TAG
    }

    /// The block's tag, once all of the block has come.
    pub(super) fn tag(&self) -> &[u8] {
        &self.tail[..TAG]
    }

    /// The first bytes of the next block, once all of this one has come.
    pub fn next(&self) -> &[u8] {
        &self.behind()[TAG..]
    }
}
