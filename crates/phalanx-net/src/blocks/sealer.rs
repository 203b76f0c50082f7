//! The sending end's blocks.

use super::{Carried, longest};
use crate::copy::append;
use crate::forks::Owner;
use crate::seal::{Context, HEAD, RECORD_TAIL, TAG, UPDATE, has_tag, head};
use phalanx_core::level::Level;
use std::io::{Error, ErrorKind, Result};

/// The head and the tag of a block that is not private.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Around {
    /// The bytes before the payload.
    pub head: [u8; HEAD],
    /// The bytes behind it. `None` at the levels that have none.
    pub tag: Option<[u8; TAG]>,
}

/// Makes the blocks of one direction of a link, in order.
///
/// A fork of the process has a copy of the keys and of the next block's number. Two blocks under one number would show an
/// attacker the difference of their payloads, and the key that authenticates all others. So every function fails in a fork.
#[derive(Debug)]
pub struct Sealer {
    /// `None`: blocks have heads only.
    keys: Option<Context>,
    carried: Carried,
    owner: Owner,
}

impl Sealer {
    /// The sealer of a link that this process has made. `keys`: `None` where no block has a tag.
    pub fn new(keys: Option<Context>, carried: Carried) -> Sealer {
        Sealer { keys, carried, owner: Owner::this() }
    }

    /// Fails in a fork of the process that made the link.
    #[inline]
    pub fn check_owner(&self) -> Result<()> {
        self.owner.check()
    }

    /// Makes the head and the tag of a block whose payload of `length` bytes is sent as it is, in pieces. Fails for a private block.
    pub fn enclose<'a>(
        &mut self,
        level: Level,
        length: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Around> {
        if level == Level::Private {
            return Err(invalid("a private block is encrypted before it is sent"));
        }
        let head = self.begin(level, length)?;
        let tag = match &mut self.keys {
            Some(keys) if has_tag(level) => Some(keys.tag(head, pieces)),
            Some(keys) => {
                keys.pass();
                None
            }
            None => None,
        };
        Ok(Around { head, tag })
    }

    /// Appends a block with a copy of the payload's pieces. The payload of a private block is encrypted in `out`.
    #[inline]
    pub fn append<'a>(
        &mut self,
        level: Level,
        pieces: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let length = pieces.clone().map(<[u8]>::len).sum();
        if level == Level::Private {
            self.begin(level, length)?;
            let Some(keys) = &mut self.keys else { return Ok(()) };
            let mut update = [0; UPDATE];
            if keys.update_due(&mut update) {
                out.extend_from_slice(&update);
            }
            let start = out.len();
            out.extend_from_slice(&[0; HEAD]);
            pieces.for_each(|piece| append(out, piece));
            out.extend_from_slice(&[0; RECORD_TAIL]);
            keys.seal_record(&mut out[start..]);
            return Ok(());
        }
        let Around { head, tag } = self.enclose(level, length, pieces.clone())?;
        out.extend_from_slice(&head);
        pieces.for_each(|piece| append(out, piece));
        tag.iter().for_each(|tag| out.extend_from_slice(tag));
        Ok(())
    }

    /// Writes the key update of TLS into `out` if one must precede the next private block. Returns whether it did.
    #[inline]
    pub fn update_due(&mut self, out: &mut [u8; UPDATE]) -> bool {
        self.owner.check().is_ok() && self.keys.as_mut().is_some_and(|keys| keys.update_due(out))
    }

    /// Makes a private block of these bytes: a head to be filled in, the payload, and [`RECORD_TAIL`] bytes more. An
    /// [update](Sealer::update_due) must not be due.
    #[inline]
    pub fn seal(&mut self, block: &mut [u8]) -> Result<()> {
        let payload = block.len().checked_sub(HEAD + RECORD_TAIL);
        self.begin(Level::Private, payload.ok_or_else(|| invalid("a block has a head and a tail"))?)?;
        self.keys.iter_mut().for_each(|keys| keys.seal_record(block));
        Ok(())
    }

    /// The head of the next block, if this process may send it.
    #[inline]
    fn begin(&self, level: Level, length: usize) -> Result<[u8; HEAD]> {
        self.owner.check()?;
        if !self.carried.contains(&level) || (has_tag(level) && self.keys.is_none()) {
            return Err(invalid("the link carries no blocks of this level"));
        }
        match length <= longest(level) {
            true => Ok(head(level, length)),
            false => Err(invalid("a block is longer than its level allows")),
        }
    }
}

#[cold]
fn invalid(text: &'static str) -> Error {
    Error::new(ErrorKind::InvalidInput, text)
}
