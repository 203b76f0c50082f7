//! The receiving end's blocks.

use super::{Carried, Placed, longest, tail_length};
use crate::seal::{Context, HEAD, Opened, PLAIN_BLOCK, TAG, altered, has_tag, head, parse};
use phalanx_core::level::Level;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;

/// A block that a peer has begun. Its level is one that the link carries, and its length is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    level: Level,
    payload: usize,
}

impl Block {
    /// Its level.
    pub fn level(self) -> Level {
        self.level
    }

    /// The length of its payload, in bytes.
    pub fn payload(self) -> usize {
        self.payload
    }

    /// The length of all of it, in bytes.
    pub fn length(self) -> usize {
        HEAD + self.payload + tail_length(self.level)
    }

    /// Whether its payload can be received where it stays. A private one is decrypted first.
    pub fn stays(self) -> bool {
        self.level == Level::Safe
    }

    /// Its first bytes.
    pub fn head(self) -> [u8; HEAD] {
        head(self.level, self.payload)
    }
}

/// What stands at the start of the received bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Cut {
    /// Bytes of a payload without protection, of this level, at this range. They are used up to its end.
    Plain(Level, Range<usize>),
    /// A whole protected block, for [`Opener::open_at`] or [`Opener::open`].
    Whole(Block),
    /// The first bytes of a protected block. `None`: of a head.
    Part(Option<Block>),
}

/// Cuts the blocks of one direction of a link out of its bytes, in order, and opens them.
#[derive(Debug)]
pub struct Opener {
    /// `None`: blocks have heads only.
    keys: Option<Context>,
    carried: Carried,
    /// Longest payload without a tag, in bytes.
    longest: usize,
    /// Bytes left of a payload without protection, and its level.
    plain: usize,
    plain_level: Level,
}

impl Opener {
    /// The opener of a link that carries these levels. `keys`: `None` where no block has a tag.
    pub fn new(keys: Option<Context>, carried: Carried) -> Opener {
        Opener { keys, plain_level: *carried.start(), carried, longest: PLAIN_BLOCK, plain: 0 }
    }

    /// Sets the number of the next block, for a receiver that has heard records of TLS before.
    pub fn begin_at(&mut self, number: u64) {
        self.keys.iter_mut().for_each(|keys| keys.begin_at(number));
    }

    /// Limits all payloads to so many bytes, for a receiver that keeps a block in memory of this size.
    #[must_use]
    pub fn with_longest(self, longest: usize) -> Opener {
        Opener { longest, ..self }
    }

    /// Says what stands at the start of the bytes, which begin where the last cut, or the last opened block, has ended.
    /// Fails if it is no block that this link carries.
    pub fn cut(&mut self, bytes: &[u8]) -> Result<Cut> {
        if self.plain > 0 && !bytes.is_empty() {
            let count = self.plain.min(bytes.len());
            self.plain -= count;
            return Ok(Cut::Plain(self.plain_level, 0..count));
        }
        let Some(head) = bytes.first_chunk() else { return Ok(Cut::Part(None)) };
        let block = self.block(*head)?;
        if has_tag(block.level) {
            return Ok(if bytes.len() < block.length() { Cut::Part(Some(block)) } else { Cut::Whole(block) });
        }
        self.keys.iter_mut().for_each(Context::pass);
        let end = bytes.len().min(HEAD + block.payload);
        (self.plain, self.plain_level) = (HEAD + block.payload - end, block.level);
        Ok(Cut::Plain(block.level, HEAD..end))
    }

    /// The block that begins with this head.
    #[inline]
    pub fn block(&self, head: [u8; HEAD]) -> Result<Block> {
        let (level, payload) = parse(head)?;
        if !self.carried.contains(&level) {
            return Err(not_carried());
        }
        match payload <= longest(level).min(self.longest) && (self.keys.is_some() || !has_tag(level)) {
            true => Ok(Block { level, payload }),
            false => Err(altered()),
        }
    }

    /// Bytes that are left of a payload without protection. The receiver may read them to where they stay, if it has used
    /// all bytes before them.
    #[inline]
    pub fn plain(&self) -> usize {
        self.plain
    }

    /// Says that so many of these bytes were read.
    pub fn take_plain(&mut self, count: usize) {
        self.plain = self.plain.saturating_sub(count);
    }

    /// Opens the block at the start of the bytes in place, all of which is there. Returns where its payload is. A private block
    /// may hold a message of TLS in its place: then there is no payload.
    pub fn open_at(&mut self, block: Block, bytes: &mut [u8]) -> Result<Range<usize>> {
        let payload = HEAD..HEAD + block.payload;
        if let (Level::Private, Some(keys)) = (block.level, &mut self.keys) {
            return match keys.open_record(&mut bytes[HEAD..block.length()])? {
                Opened::Payload => Ok(payload),
                Opened::Message => Ok(HEAD..HEAD),
            };
        }
        let (before, tag) = bytes.split_at(payload.end);
        self.check(block, &before[HEAD..], tag)?;
        Ok(payload)
    }

    /// Checks a block whose payload was received where it stays.
    pub fn check_placed(&mut self, placed: &Placed, payload: &[u8]) -> Result<()> {
        self.check(placed.block(), payload, placed.tag())
    }

    /// Fails if a block is not the next one that the peer protected, or if it is private.
    fn check(&mut self, block: Block, payload: &[u8], tag: &[u8]) -> Result<()> {
        match (&mut self.keys, block.level) {
            (_, Level::Private) | (None, Level::Safe) => Err(altered()),
            (Some(keys), Level::Safe) => keys.check(payload, *tag.first_chunk::<TAG>().ok_or_else(altered)?),
            (keys, Level::Clear | Level::Authenticated) => {
                keys.iter_mut().for_each(Context::pass);
                Ok(())
            }
        }
    }
}

#[cold]
fn not_carried() -> Error {
    Error::new(ErrorKind::InvalidData, "a block is not of a level that this link carries")
}
