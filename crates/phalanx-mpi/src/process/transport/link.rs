//! A connection to a process of another machine, moved by whoever makes progress.
//!
//! Without keys frames follow each other as they are. With keys they go in blocks ([`phalanx_net::blocks`]): a short frame in
//! one, a long one as a block with its header and blocks with its data. Safe blocks are checked in the memory where they stay,
//! private ones are opened in a buffer.

use super::connection::Connection;
use super::{HEADER, Header, cut::Silence};
use phalanx_core::level::{Level, Levels};
use phalanx_net::blocks::{Block, Cut, Opener, Placed, Sealer, carried, longest};
use phalanx_net::seal::{BLOCK, Context, HEAD, TAG, has_tag};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// Bytes read before it is known what they are.
const READ_AT_ONCE: usize = 64 << 10;
/// Data at least this long is read straight to where it stays, and written from where it lies.
const ALONE: usize = 8 << 10;
/// Data up to which header and data are put together, which is cheaper than telling the system of two places.
const TOGETHER: usize = 512;

/// Where the data of a frame that is arriving goes.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The address of the first byte.
    pub start: *mut u8,
    /// How many bytes.
    pub length: usize,
}

impl Place {
    /// For what goes nowhere.
    pub(super) const NONE: Place = Place { start: std::ptr::null_mut(), length: 0 };
}

/// What a read has brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Nothing.
    Nothing,
    /// So many bytes of data, at their place.
    Placed(usize),
    /// Bytes of frames, to be taken with [`Link::take`].
    Bytes,
}

/// Both directions of a connection.
#[derive(Debug)]
pub struct Link {
    connection: Connection,
    /// None where nothing that may be sent is protected beyond the handshake.
    protection: Option<Protection>,
    /// What is to be written before anything else, from `written` on.
    output: Vec<u8>,
    written: usize,
    buffer: Vec<u8>,
    /// Where in the buffer there is what was read and not yet opened, and, before it, what is ready to be taken.
    raw: Range<usize>,
    ready: Range<usize>,
    /// A block whose payload goes straight to its place.
    placed: Option<Placed>,
    /// The level at which what was read last came; that of unmarked data before anything was read.
    level: Level,
    silence: Silence,
}

#[derive(Debug)]
struct Protection {
    levels: Levels,
    sealer: Sealer,
    opener: Opener,
}

impl Link {
    /// Over a socket that does not block. `levels`: of what is sent; `contexts`: to protect and to open.
    pub fn new(socket: OwnedFd, levels: Levels, contexts: (Context, Context)) -> Link {
        let protects = [levels.base, levels.data, levels.code].into_iter().any(has_tag);
        let (sealer, opener) = contexts;
        let sealer = Sealer::new(Some(sealer), carried(levels));
        let opener = Opener::new(Some(opener), carried(levels)).with_longest(BLOCK);
        let protection = protects.then_some(Protection { levels, sealer, opener });
        Link { protection, level: levels.base, ..Link::clear(socket) }
    }

    /// The same between processes of one machine, without protection.
    pub fn clear(socket: OwnedFd) -> Link {
        Link {
            connection: Connection::new(socket),
            protection: None,
            output: Vec::new(),
            written: 0,
            buffer: vec![0; READ_AT_ONCE],
            raw: 0..0,
            ready: 0..0,
            placed: None,
            level: Level::Clear,
            silence: Silence::default(),
        }
    }

    /// Whether what was read last came at a lower level than marked data is to have on this link.
    #[inline]
    pub fn is_weak(&self) -> bool {
        self.protection.as_ref().is_some_and(|Protection { levels, .. }| self.level < levels.data)
    }

    /// The level at which what was read last came.
    #[inline]
    pub fn level(&self) -> Level {
        self.level
    }

    /// The socket, for who sleeps until there is something to read.
    pub fn socket(&self) -> &Arc<OwnedFd> {
        self.connection.socket()
    }

    /// Whether something waits for room in the socket that nobody else knows of.
    pub fn is_pending(&self) -> bool {
        self.written < self.output.len()
    }

    /// Writes what waits, and lets the next reads ask the socket again. Whether all that waited was written.
    #[inline]
    pub fn begin_round(&mut self) -> bool {
        self.connection.begin_round();
        self.is_pending() && self.flush()
    }

    /// Writes as much of a frame as there is room for, from `sent` bytes of its data on, or from its header; up to where.
    /// What failed is told by [`Link::read`].
    pub fn push(&mut self, header: &Header, data: &[u8], sent: Option<usize>, marked: bool) -> Option<usize> {
        if !self.flush() {
            return sent;
        }
        let level = self.protection.as_ref().map(|Protection { levels, .. }| match marked {
            true => levels.data.max(levels.base),
            false => levels.base,
        });
        let outcome = match level {
            Some(level) => self.push_blocks(level, header, data, sent),
            None => self.push_plain(header, data, sent),
        };
        outcome.unwrap_or_else(|error| {
            self.connection.fail(error);
            sent
        })
    }

    /// Writes what waits; whether nothing does any more.
    pub fn flush(&mut self) -> bool {
        while self.is_pending() && !self.connection.has_failed() {
            match self.connection.send(&self.output[self.written..]) {
                Ok(0) => return false,
                Ok(count) => self.written += count,
                Err(error) => self.connection.fail(error),
            }
        }
        self.output.clear();
        self.written = 0;
        !self.connection.has_failed()
    }

    fn push_plain(&mut self, header: &Header, data: &[u8], from: Option<usize>) -> io::Result<Option<usize>> {
        if let Some(from) = from {
            return Ok(Some(from + self.connection.send(&data[from..])?));
        }
        let header = header.bytes();
        let count = if data.len() <= TOGETHER {
            let mut both = [0; HEADER + TOGETHER];
            both[..HEADER].copy_from_slice(&header);
            both[HEADER..][..data.len()].copy_from_slice(data);
            self.connection.send(&both[..HEADER + data.len()])?
        } else {
            self.connection.send_all_of(&[IoSlice::new(&header), IoSlice::new(data)])?
        };
        Ok(match count {
            0 => None,
            _ if count < HEADER => {
                self.output.extend_from_slice(&header[count..]);
                Some(0)
            }
            _ => Some(count - HEADER),
        })
    }

    fn push_blocks(
        &mut self,
        level: Level,
        header: &Header,
        data: &[u8],
        from: Option<usize>,
    ) -> io::Result<Option<usize>> {
        let mut at = match from {
            Some(from) => from,
            None => {
                let with = if data.len() <= ALONE { data.len() } else { 0 };
                self.add_block(level, [&header.bytes(), &data[..with]])?;
                with
            }
        };
        loop {
            let most = data.len().min(at + BLOCK);
            while at < most {
                let next = most.min(at + longest(level));
                self.add_block(level, [&data[at..next], &[]])?;
                at = next;
            }
            if !self.flush() || at == data.len() {
                return Ok(Some(at));
            }
        }
    }

    /// Puts a block behind what is to be written.
    fn add_block(&mut self, level: Level, pieces: [&[u8]; 2]) -> io::Result<()> {
        match &mut self.protection {
            Some(Protection { sealer, .. }) => sealer.append(level, pieces.into_iter(), &mut self.output),
            None => Ok(()),
        }
    }

    /// Reads; data that is `awaited` may go straight to its place, which is lent for as long as it is not all there. An error:
    /// nothing more will come.
    pub fn read(&mut self, awaited: Option<Place>) -> io::Result<Arrived> {
        if !self.ready.is_empty() {
            return Ok(Arrived::Bytes);
        }
        let awaited = awaited.filter(|place| place.length >= ALONE);
        match self.protection {
            None => self.read_plain(awaited),
            Some(_) => self.read_blocks(awaited),
        }
    }

    fn read_plain(&mut self, awaited: Option<Place>) -> io::Result<Arrived> {
        let place = awaited.unwrap_or(Place::NONE);
        let count = self.connection.receive(place, &mut self.buffer)?;
        let placed = count.min(place.length);
        self.ready = 0..count - placed;
        Ok(match count {
            0 => Arrived::Nothing,
            _ if placed > 0 => Arrived::Placed(placed),
            _ => Arrived::Bytes,
        })
    }

    fn read_blocks(&mut self, awaited: Option<Place>) -> io::Result<Arrived> {
        loop {
            if let Some(placed) = self.placed.take() {
                return self.read_placed(placed, awaited);
            }
            let Some(Protection { opener, .. }) = &mut self.protection else { return Ok(Arrived::Nothing) };
            if let Some(place) = awaited.filter(|_| self.raw.is_empty() && opener.plain() > 0) {
                return self.read_unprotected(place);
            }
            let (level, payload, used) = match opener.cut(&self.buffer[self.raw.clone()])? {
                Cut::Plain(level, payload) => (level, payload.clone(), payload.end),
                Cut::Whole(block) => {
                    let payload = opener.open_at(block, &mut self.buffer[self.raw.clone()])?;
                    (block.level(), payload, block.length())
                }
                Cut::Part(block) if self.go_on(block, awaited)? => continue,
                Cut::Part(_) => return Ok(Arrived::Nothing),
            };
            self.level = level;
            self.ready = self.raw.start + payload.start..self.raw.start + payload.end;
            self.raw.start += used;
            if !self.ready.is_empty() {
                return Ok(Arrived::Bytes); // otherwise it was an empty block
            }
        }
    }

    /// Goes on with a block that is not all here, or whose head is not: to its place, or to the buffer. Whether that is to
    /// be looked at.
    fn go_on(&mut self, block: Option<Block>, awaited: Option<Place>) -> io::Result<bool> {
        let place = awaited.filter(|place| block.is_some_and(|block| fits(block, place)));
        match (block, place) {
            (Some(block), Some(place)) => {
                self.begin_placed(block, place);
                Ok(true)
            }
            // A private block that begins long data is followed by others.
            (Some(block), None) if !block.stays() && awaited.is_some_and(|place| place.length > block.payload()) => {
                self.read_more(BLOCK)
            }
            _ => self.read_more(block.map_or(HEAD, Block::length)),
        }
    }

    /// One read of a payload without protection to its place, and of the head of the block behind it.
    fn read_unprotected(&mut self, place: Place) -> io::Result<Arrived> {
        let Some(Protection { opener, .. }) = &mut self.protection else { return Ok(Arrived::Nothing) };
        let place = Place { length: place.length.min(opener.plain()), ..place };
        let count = self.connection.receive(place, &mut self.buffer[..HEAD])?;
        let placed = count.min(place.length);
        opener.take_plain(placed);
        self.raw = 0..count - placed;
        Ok(if placed > 0 { Arrived::Placed(placed) } else { Arrived::Nothing })
    }

    /// Reads on towards so many bytes. Whether there were some.
    fn read_more(&mut self, wanted: usize) -> io::Result<bool> {
        if self.raw.start > 0 {
            self.buffer.copy_within(self.raw.clone(), 0);
            self.raw = 0..self.raw.len();
        }
        if self.buffer.len() < wanted {
            self.buffer.resize(HEAD + BLOCK + TAG, 0);
        }
        let count = self.connection.receive(Place::NONE, &mut self.buffer[self.raw.end..])?;
        self.raw.end += count;
        Ok(count > 0)
    }

    /// What is here of the block's payload goes to its place.
    fn begin_placed(&mut self, block: Block, place: Place) {
        let here = &self.buffer[self.raw.start + HEAD..self.raw.end];
        // SAFETY: the place is lent.
        let place = unsafe { std::slice::from_raw_parts_mut(place.start.cast::<MaybeUninit<u8>>(), place.length) };
        self.placed = Some(Placed::begin(block, here, place));
        self.raw = 0..0;
    }

    /// One read of such a block, its tag, and the head of the block behind it.
    fn read_placed(&mut self, mut placed: Placed, awaited: Option<Place>) -> io::Result<Arrived> {
        let length = placed.block().payload();
        let place = awaited.filter(|place| place.length >= length);
        let place = place.ok_or_else(|| io::Error::other("the data has no place any more"))?;
        let filled = placed.payload();
        let rest = Place { start: place.start.wrapping_add(filled), length: length - filled };
        let received = self.connection.receive(rest, placed.spare());
        if !placed.advance(*received.as_ref().unwrap_or(&0)) {
            self.placed = Some(placed);
            return received.map(|_| Arrived::Nothing);
        }
        // SAFETY: the place is lent, and has this room.
        let payload = unsafe { std::slice::from_raw_parts_mut(place.start, length) };
        if let Some(Protection { opener, .. }) = &mut self.protection {
            opener.check_placed(&placed, payload)?;
            self.level = placed.block().level();
        }
        self.raw = 0..placed.next().len();
        self.buffer[self.raw.clone()].copy_from_slice(placed.next());
        Ok(Arrived::Placed(length))
    }

    /// A place is lent no longer: what goes there, and what is there already of a block, goes to the buffer.
    pub fn leave_place(&mut self, place: &Place) {
        let Some(placed) = self.placed.take() else { return };
        let mut buffer = placed.block().head().to_vec();
        // SAFETY: the place was lent until now, and so much of it was written.
        buffer.extend_from_slice(unsafe { std::slice::from_raw_parts(place.start, placed.payload()) });
        buffer.extend_from_slice(placed.behind());
        self.raw = 0..buffer.len();
        buffer.resize(HEAD + BLOCK + TAG, 0);
        self.buffer = buffer;
    }

    /// The bytes that are ready, to be given back with [`Link::give_back`].
    pub fn take(&mut self) -> (Vec<u8>, Range<usize>) {
        (std::mem::take(&mut self.buffer), std::mem::take(&mut self.ready))
    }

    /// The buffer of the bytes that were taken.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Whether the other machine has not answered for so long that the connection is to be given up.
    pub fn is_cut(&mut self, now: Instant) -> bool {
        self.silence.look(self.connection.socket().as_fd(), now)
    }

    /// Ends the connection at both ends.
    pub fn shut_down(&self) {
        self.connection.shut_down();
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.socket().as_fd()
    }
}

/// Whether a block's payload is worth a place, and has room there.
fn fits(block: Block, place: &Place) -> bool {
    block.stays() && (ALONE..=place.length).contains(&block.payload())
}

#[cfg(test)]
mod tests;
