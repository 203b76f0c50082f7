//! The sending end's blocks.

use super::{Carried, longest};
use crate::copy::append;
use crate::forks::Owner;
use crate::seal::{Context, HEAD, TAG, has_tag, head};
use phalanx_core::level::Level;
use std::io::{Error, ErrorKind, Result};

/// What stands before and behind a block's payload.
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

    /// Protects a payload in place, which encrypts it if the level is private.
    #[inline]
    pub fn seal(&mut self, level: Level, payload: &mut [u8]) -> Result<Around> {
        if level < Level::Private {
            return self.enclose(level, payload.len(), std::iter::once(&*payload));
        }
        let head = self.begin(level, payload.len())?;
        let tag = self.keys.as_mut().map(|keys| keys.seal(head, payload));
        Ok(Around { head, tag })
    }

    /// Protects a payload of `length` bytes that goes as it is, in pieces: not a private one.
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

    /// Appends a block with a copy of the payload's pieces.
    #[inline]
    pub fn append<'a>(
        &mut self,
        level: Level,
        pieces: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD]);
        pieces.for_each(|piece| append(out, piece));
        match self.seal(level, &mut out[start + HEAD..]) {
            Ok(Around { head, tag }) => {
                out[start..start + HEAD].copy_from_slice(&head);
                tag.iter().for_each(|tag| out.extend_from_slice(tag));
                Ok(())
            }
            Err(error) => {
                out.truncate(start);
                Err(error)
            }
        }
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
