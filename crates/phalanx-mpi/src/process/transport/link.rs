//! A connection to a process of another machine, moved by whoever makes progress.
//!
//! Without keys frames follow each other as they are. With keys they go in blocks ([`phalanx_net::seal`]): a short frame in
//! one, a long one as a block with its header and blocks with its data, which are opened in the memory where it stays.

use super::{HEADER, Header, cut::Silence};
use phalanx_core::level::{Level, Levels};
use phalanx_net::copy::{append, copy};
use phalanx_net::seal::{BLOCK, Context, HEAD, TAG, has_tag, head, parse};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use std::io::{self, IoSlice, IoSliceMut};
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
    socket: Arc<OwnedFd>,
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
    direct: Option<Direct>,
    /// The last read of this round took all that there was: another one would be a call for nothing.
    drained: bool,
    /// A write has failed.
    failure: Option<io::Error>,
    /// What was read last came at a lower level than marked data is to have.
    is_weak: bool,
    silence: Silence,
}

#[derive(Debug)]
struct Protection {
    levels: Levels,
    seal: Context,
    open: Context,
}

#[derive(Debug, Clone, Copy)]
struct Direct {
    level: Level,
    payload: usize,
    filled: usize,
}

impl Link {
    /// Over a socket that does not block. `levels`: of what is sent; `contexts`: to protect and to open.
    pub fn new(socket: OwnedFd, levels: Levels, contexts: (Context, Context)) -> Link {
        let protects = [levels.base, levels.data, levels.code].into_iter().any(has_tag);
        let (seal, open) = contexts;
        Link { protection: protects.then_some(Protection { levels, seal, open }), ..Link::clear(socket) }
    }

    /// The same between processes of one machine, without protection.
    pub fn clear(socket: OwnedFd) -> Link {
        Link {
            socket: Arc::new(socket),
            protection: None,
            output: Vec::new(),
            written: 0,
            buffer: vec![0; READ_AT_ONCE],
            raw: 0..0,
            ready: 0..0,
            direct: None,
            drained: false,
            failure: None,
            is_weak: false,
            silence: Silence::default(),
        }
    }

    /// Whether what was read last came at a lower level than marked data is to have on this link.
    #[inline]
    pub fn is_weak(&self) -> bool {
        self.is_weak
    }

    /// The socket, for who sleeps until there is something to read.
    pub fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// Whether something waits for room in the socket that nobody else knows of.
    pub fn is_pending(&self) -> bool {
        self.written < self.output.len()
    }

    /// Writes what waits, and lets the next reads ask the socket again. Whether all that waited was written.
    #[inline]
    pub fn begin_round(&mut self) -> bool {
        self.drained = false;
        self.is_pending() && self.flush()
    }

    /// Writes as much of a frame as there is room for, from `sent` bytes of its data on, or from its header; up to where.
    /// What failed is told by [`Link::read`].
    pub fn push(&mut self, header: &Header, data: &[u8], sent: Option<usize>, marked: bool) -> Option<usize> {
        if self.failure.is_some() || !self.flush() {
            return sent;
        }
        let level = self.protection.as_ref().map(|Protection { levels, .. }| match marked {
            true => levels.data.max(levels.base),
            false => levels.base,
        });
        let outcome = match level {
            Some(level) => Ok(self.push_blocks(level, header, data, sent)),
            None => self.push_plain(header, data, sent),
        };
        outcome.unwrap_or_else(|error| {
            self.failure = Some(error);
            sent
        })
    }

    /// Writes what waits; whether nothing does any more.
    pub fn flush(&mut self) -> bool {
        while self.is_pending() && self.failure.is_none() {
            match sent(send(&self.socket, &self.output[self.written..], SEND)) {
                Ok(0) => return false,
                Ok(count) => self.written += count,
                Err(error) => self.failure = Some(error),
            }
        }
        self.output.clear();
        self.written = 0;
        self.failure.is_none()
    }

    fn push_plain(&mut self, header: &Header, data: &[u8], from: Option<usize>) -> io::Result<Option<usize>> {
        if let Some(from) = from {
            return Ok(Some(from + sent(send(&self.socket, &data[from..], SEND))?));
        }
        let header = header.bytes();
        let count = if data.len() <= TOGETHER {
            let mut both = [0; HEADER + TOGETHER];
            both[..HEADER].copy_from_slice(&header);
            both[HEADER..][..data.len()].copy_from_slice(data);
            sent(send(&self.socket, &both[..HEADER + data.len()], SEND))?
        } else {
            let both = [IoSlice::new(&header), IoSlice::new(data)];
            sent(sendmsg(&self.socket, &both, &mut SendAncillaryBuffer::default(), SEND))?
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

    fn push_blocks(&mut self, level: Level, header: &Header, data: &[u8], from: Option<usize>) -> Option<usize> {
        let mut at = from.unwrap_or_else(|| {
            let with = if data.len() <= ALONE { data.len() } else { 0 };
            self.add_block(level, [&header.bytes(), &data[..with]]);
            with
        });
        loop {
            if at < data.len() {
                let next = data.len().min(at + BLOCK);
                self.add_block(level, [&data[at..next], &[]]);
                at = next;
            }
            if !self.flush() || at == data.len() {
                return Some(at);
            }
        }
    }

    /// Puts a block behind what is to be written.
    fn add_block(&mut self, level: Level, pieces: [&[u8]; 2]) {
        let Some(Protection { seal, .. }) = &mut self.protection else { return };
        let start = self.output.len();
        let begin = head(level, pieces[0].len() + pieces[1].len());
        self.output.extend_from_slice(&begin);
        pieces.iter().for_each(|piece| append(&mut self.output, piece));
        match level {
            Level::Clear | Level::Authenticated => seal.pass(),
            Level::Safe => {
                let tag = seal.tag(begin, pieces.into_iter());
                self.output.extend_from_slice(&tag);
            }
            Level::Private => {
                let (_, tag) = seal.seal(&mut self.output[start + HEAD..]);
                self.output.extend_from_slice(&tag);
            }
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
        let buffer = 0..self.buffer.len();
        let place = awaited.unwrap_or(Place { start: std::ptr::null_mut(), length: 0 });
        let count = self.receive(place, buffer.clone())?;
        let placed = count.min(place.length);
        self.ready = 0..count - placed;
        Ok(match count {
            0 => Arrived::Nothing,
            _ if placed > 0 => Arrived::Placed(placed),
            _ => Arrived::Bytes,
        })
    }

    /// One read to a place, and what is beyond it to the buffer; 0 when there is nothing.
    fn receive(&mut self, place: Place, beyond: Range<usize>) -> io::Result<usize> {
        if self.drained {
            return Ok(0);
        }
        let room = place.length + beyond.len();
        let beyond = &mut self.buffer[beyond];
        let outcome = if place.length == 0 {
            recv(&self.socket, beyond, RecvFlags::DONTWAIT).map(|(_, count)| count)
        } else {
            // SAFETY: the place is lent.
            let place = unsafe { std::slice::from_raw_parts_mut(place.start, place.length) };
            rustix::io::readv(&self.socket, &mut [IoSliceMut::new(place), IoSliceMut::new(beyond)])
        };
        match outcome {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.drained = count < room;
                Ok(count)
            }
            Err(Errno::AGAIN | Errno::INTR) => match self.failure.take() {
                Some(error) => Err(error), // what had arrived before was taken
                None => Ok(0),
            },
            Err(error) => Err(error.into()),
        }
    }

    fn read_blocks(&mut self, awaited: Option<Place>) -> io::Result<Arrived> {
        loop {
            if let Some(direct) = self.direct {
                return self.read_direct(direct, awaited);
            }
            let Some((level, payload)) = self.next_block()? else {
                match self.read_more(HEAD)? {
                    true => continue,
                    false => return Ok(Arrived::Nothing),
                }
            };
            self.is_weak = self.protection.as_ref().is_some_and(|its| level < its.levels.data);
            let whole = HEAD + payload + tag_length(level);
            if self.raw.len() >= whole {
                self.open_block(level, payload)?;
                if self.ready.is_empty() {
                    continue; // an empty block
                }
                return Ok(Arrived::Bytes);
            }
            match awaited.filter(|place| payload >= ALONE && payload <= place.length) {
                Some(place) => self.begin_direct(Direct { level, payload, filled: 0 }, place),
                None if self.read_more(whole)? => {}
                None => return Ok(Arrived::Nothing),
            }
        }
    }

    /// The level and the payload's length of the block at the beginning of what was read.
    fn next_block(&self) -> io::Result<Option<(Level, usize)>> {
        let Some(head) = self.buffer[self.raw.clone()].first_chunk() else { return Ok(None) };
        let (level, payload) = parse(*head)?;
        let least = self.protection.as_ref().map_or(Level::Clear, |protection| protection.levels.base);
        match level >= least && payload <= BLOCK {
            true => Ok(Some((level, payload))),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "a block is not what this link carries")),
        }
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
        let end = self.raw.end;
        let count = self.receive(Place { start: std::ptr::null_mut(), length: 0 }, end..self.buffer.len())?;
        self.raw.end += count;
        Ok(count > 0)
    }

    /// Opens the block at the beginning of what was read, all of which is there.
    fn open_block(&mut self, level: Level, payload: usize) -> io::Result<()> {
        let begin = self.raw.start + HEAD;
        let (end, tag) = (begin + payload, tag_length(level));
        let (before, after) = self.buffer.split_at_mut(end);
        open(&mut self.protection, level, &mut before[begin..], &after[..tag])?;
        self.ready = begin..end;
        self.raw.start = end + tag;
        Ok(())
    }

    /// What is here of the block's payload goes to its place.
    fn begin_direct(&mut self, mut direct: Direct, place: Place) {
        let begin = self.raw.start + HEAD;
        let here = direct.payload.min(self.raw.end - begin);
        // SAFETY: the place has room for the whole payload.
        unsafe { copy(self.buffer[begin..].as_ptr(), place.start, here) };
        direct.filled = here;
        self.buffer.copy_within(begin + here..self.raw.end, 0);
        self.raw = 0..self.raw.end - begin - here;
        self.direct = Some(direct);
    }

    /// One read of such a block, its tag, and the head of the block behind it.
    fn read_direct(&mut self, mut direct: Direct, awaited: Option<Place>) -> io::Result<Arrived> {
        let place = awaited.filter(|place| place.length >= direct.payload);
        let place = place.ok_or_else(|| io::Error::other("the data has no place any more"))?;
        let tag = tag_length(direct.level);
        let missing = direct.payload - direct.filled;
        let rest = Place { start: place.start.wrapping_add(direct.filled), length: missing };
        let count = self.receive(rest, self.raw.end..tag + HEAD)?;
        direct.filled += count.min(missing);
        self.raw.end += count.saturating_sub(missing);
        self.direct = Some(direct);
        if direct.filled < direct.payload || self.raw.len() < tag {
            return Ok(Arrived::Nothing);
        }
        self.direct = None;
        // SAFETY: the place is lent, and has this room.
        let payload = unsafe { std::slice::from_raw_parts_mut(place.start, direct.payload) };
        open(&mut self.protection, direct.level, payload, &self.buffer[..tag])?;
        self.raw.start = tag;
        Ok(Arrived::Placed(direct.payload))
    }

    /// A place is lent no longer: what goes there, and what is there already of a block, goes to the buffer.
    pub fn leave_place(&mut self, place: &Place) {
        let Some(Direct { level, payload, filled }) = self.direct.take() else { return };
        let mut buffer = head(level, payload).to_vec();
        // SAFETY: the place was lent until now, and so much of it was written.
        buffer.extend_from_slice(unsafe { std::slice::from_raw_parts(place.start, filled) });
        buffer.extend_from_slice(&self.buffer[self.raw.clone()]);
        self.raw = 0..buffer.len();
        buffer.resize(buffer.len().max(HEAD + BLOCK + TAG), 0);
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
        self.silence.look(self.socket.as_fd(), now)
    }

    /// Ends the connection at both ends.
    pub fn shut_down(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// The count that was sent; 0 when there is no room.
fn sent(outcome: Result<usize, Errno>) -> io::Result<usize> {
    match outcome {
        Ok(count) => Ok(count),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

fn tag_length(level: Level) -> usize {
    if has_tag(level) { TAG } else { 0 }
}

fn open(protection: &mut Option<Protection>, level: Level, payload: &mut [u8], tag: &[u8]) -> io::Result<()> {
    let Some(Protection { open, .. }) = protection else { return Ok(()) };
    match tag.first_chunk() {
        Some(tag) => open.open(level, payload, *tag),
        None => {
            open.pass();
            Ok(())
        }
    }
}
