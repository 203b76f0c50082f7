//! Converts between frames and a stream of bytes.

use crate::body::{Body, copy_of};
use crate::memory::{File, Filled, Table};
use bytes::{Buf, Bytes};
use phalanx_core::error::WireError;
use phalanx_core::level::Level;
use phalanx_core::wire::{NewsDigest, PREFIX, Prefix, set_place};
use std::collections::VecDeque;
use std::io::IoSlice;

/// A frame that arrived: the header (one encoded message) and the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// One encoded message.
    pub header: Vec<u8>,
    /// The bytes that belong to the message. They may be in shared memory.
    pub body: Bytes,
}

/// Called for each frame with a body before its first byte is accepted, with the header and the body's length. It may
/// wait. If it returns false, the frame is discarded as it arrives.
pub type Gate = Box<dyn FnMut(&[u8], u64) -> bool + Send>;

/// Called with the digest of the peer's news when they have changed.
pub(crate) type Hear = Box<dyn FnMut(NewsDigest) + Send>;

/// Reassembles frames from bytes that arrive in any portions.
#[derive(Debug)]
pub struct Assembler {
    /// Limit on the length of bodies.
    most_body: u64,
    /// The bytes of the prefix and header that have arrived.
    start: Vec<u8>,
    prefix: Option<Prefix>,
    body: Option<Body>,
    gate: Guarded<Gate>,
    /// Bytes of a body still to be discarded.
    skip: u64,
    /// The shared segments, if bodies may be in shared memory.
    memory: Option<Table>,
    /// Files passed with bytes whose frame is not parsed yet.
    files: VecDeque<File>,
    /// A complete body.
    whole: Option<Bytes>,
    /// The total bytes of bodies in shared memory so far.
    shared: u64,
    news: Guarded<Hear>,
}

/// A callback, if there is one.
struct Guarded<F>(Option<F>);

impl<F> std::fmt::Debug for Guarded<F> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(if self.0.is_some() { "a callback" } else { "no callback" })
    }
}

impl Assembler {
    /// An assembler that accepts bodies of up to `most_body` bytes.
    pub fn new(most_body: u64) -> Assembler {
        Assembler {
            most_body,
            start: Vec::new(),
            prefix: None,
            body: None,
            gate: Guarded(None),
            skip: 0,
            memory: None,
            files: VecDeque::new(),
            whole: None,
            shared: 0,
            news: Guarded(None),
        }
    }

    /// From now on, frames about the peer's news are no messages of the service. They are heard here.
    pub(crate) fn hear(&mut self, news: Hear) {
        self.news = Guarded(Some(news));
    }

    /// Also accepts bodies in shared memory.
    pub(crate) fn share(&mut self, memory: Table) {
        self.memory = Some(memory);
    }

    /// Like [`Assembler::feed`], with a file that came with the bytes. It belongs to the last frame that begins in
    /// them.
    pub(crate) fn feed_with(
        &mut self,
        bytes: &[u8],
        file: Option<File>,
        on_frame: &mut impl FnMut(Frame),
    ) -> Result<(), WireError> {
        self.files.extend(file);
        self.feed(bytes, on_frame)?;
        // One file may belong to the frame that has begun. The next file then comes with the rest of that frame at the
        // earliest.
        let begun = match self.prefix {
            Some(prefix) => prefix.place.is_some_and(|place| place.fresh),
            None => !self.start.is_empty(),
        };
        if self.files.len() > usize::from(begun) {
            Err(WireError::Memory("a file that no frame names"))
        } else {
            Ok(())
        }
    }

    /// The total bytes of bodies in shared memory so far.
    pub fn shared(&self) -> u64 {
        self.shared
    }

    /// Sets the limit on bodies from the next frame on.
    pub fn set_most_body(&mut self, most: u64) {
        self.most_body = most;
    }

    /// Sets the gate, which is asked from the next frame on.
    pub fn set_gate(&mut self, gate: Gate) {
        self.gate = Guarded(Some(gate));
    }

    /// Whether a frame has arrived in part.
    pub fn is_within(&self) -> bool {
        !self.start.is_empty()
    }

    /// Takes all of `bytes`. Complete frames go to `on_frame`.
    pub fn feed(&mut self, mut bytes: &[u8], on_frame: &mut impl FnMut(Frame)) -> Result<(), WireError> {
        while !bytes.is_empty() {
            if let Some(body) = &mut self.body {
                let taken = body.take_from(bytes);
                bytes = &bytes[taken..];
            } else if self.skip > 0 {
                bytes = self.throw_away(bytes);
            } else {
                let wanted = PREFIX + self.prefix.map_or(0, |prefix| prefix.header);
                let taken = bytes.len().min(wanted - self.start.len());
                self.start.extend_from_slice(&bytes[..taken]);
                bytes = &bytes[taken..];
                self.advance_start()?;
            }
            self.finish(on_frame);
        }
        Ok(())
    }

    /// The body being filled, for reading straight into it. [`Assembler::finish`] must be called afterwards.
    pub fn body(&mut self) -> Option<&mut Body> {
        self.body.as_mut()
    }

    /// Hands out the frame if it is complete.
    pub fn finish(&mut self, on_frame: &mut impl FnMut(Frame)) {
        if self.body.as_ref().is_some_and(|body| body.missing() == 0) {
            self.whole = self.body.take().map(Body::into_bytes);
        }
        if let Some(body) = self.whole.take() {
            let header = std::mem::take(&mut self.start).split_off(PREFIX);
            self.prefix = None;
            match (&mut self.news.0, NewsDigest::from_header(&header).filter(|_| body.is_empty())) {
                (Some(hear), Some(digest)) => hear(digest),
                _ => on_frame(Frame { header, body }),
            }
        }
    }

    /// Discards the bytes of an unwanted body. Returns the bytes behind them.
    fn throw_away<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let count = bytes.len().min(usize::try_from(self.skip).unwrap_or(usize::MAX));
        self.skip -= count as u64;
        if self.skip == 0 {
            self.start.clear();
            self.prefix = None;
        }
        &bytes[count..]
    }

    fn advance_start(&mut self) -> Result<(), WireError> {
        if self.prefix.is_none() && self.start.len() == PREFIX {
            let prefix: &[u8; PREFIX] = self.start[..].try_into().expect("16 bytes");
            let prefix = Prefix::decode(prefix)?;
            if prefix.body > self.most_body {
                return Err(WireError::BodyTooLong { is: prefix.body, most: self.most_body });
            }
            self.prefix = Some(prefix);
        }
        if let Some(prefix) = self.prefix.filter(|prefix| self.start.len() == PREFIX + prefix.header) {
            let gate = self.gate.0.as_mut().filter(|_| prefix.body > 0);
            let wanted = gate.is_none_or(|gate| gate(&self.start[PREFIX..], prefix.body));
            match prefix.place {
                Some(place) => {
                    let memory = self.memory.as_mut().ok_or(WireError::NoMessage)?;
                    let file = if place.fresh { self.files.pop_front() } else { None };
                    self.whole = Some(memory.take(place, prefix.body, file)?);
                    self.shared += prefix.body;
                }
                None if wanted => self.body = Some(Body::new(prefix.body as usize)),
                None => self.skip = prefix.body,
            }
        }
        Ok(())
    }
}

/// Outgoing frames: encoded pieces in order, each with its level. Bodies are referred to, not copied.
#[derive(Debug, Default)]
pub struct Outbox {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// The total bytes of all frames so far.
    queued: u64,
    /// The number of frames whose body has no place in shared memory yet.
    homeless: usize,
}

#[derive(Debug)]
struct Piece {
    level: Level,
    bytes: Bytes,
    long: Long,
}

/// The state of a frame whose body may go through shared memory.
#[derive(Debug, Default)]
enum Long {
    #[default]
    No,
    /// The body waits for a place.
    Waiting(Vec<Bytes>),
    /// The body has a place. A file to be passed goes with the first byte of the piece.
    Filled(Box<Filled>),
}

impl Piece {
    /// Bytes of the piece, including those in shared memory.
    fn weight(&self) -> usize {
        self.bytes.len()
            + match &self.long {
                Long::No => 0,
                Long::Waiting(body) => body.iter().map(Bytes::len).sum(),
                Long::Filled(filled) => filled.length(),
            }
    }
}

/// Bodies of up to this many bytes are copied behind their header, because one piece costs the system less than two.
const SMALL: usize = 512;
/// Limit on the pieces given to one system call.
const MOST_SLICES: usize = 64;

impl Outbox {
    /// Adds a frame: the encoded message and its body.
    pub fn push(&mut self, level: Level, mut start: Vec<u8>, body: Vec<Bytes>) {
        let length = body.iter().map(Bytes::len).sum::<usize>();
        self.queued += (start.len() + length) as u64;
        if length <= SMALL {
            body.iter().for_each(|piece| start.extend_from_slice(piece));
            return self.push_piece(level, start.into());
        }
        std::iter::once(Bytes::from(start)).chain(body).for_each(|piece| self.push_piece(level, piece));
    }

    /// Adds a frame whose body is to go through shared memory. [`Outbox::next_waiting`] then asks for a place.
    pub(crate) fn push_waiting(&mut self, level: Level, start: Vec<u8>, body: Vec<Bytes>) {
        self.homeless += 1;
        self.push_long(Piece { level, bytes: start.into(), long: Long::Waiting(body) });
    }

    /// Adds an independent frame without a body. It overtakes frames whose bodies wait for a place.
    pub(crate) fn push_ahead(&mut self, level: Level, start: Vec<u8>) {
        let is_waiting = |piece: &Piece| matches!(piece.long, Long::Waiting(_));
        let first = if self.has_waiting() { self.pieces.iter().position(is_waiting) } else { None };
        match first {
            Some(at) => {
                self.queued += start.len() as u64;
                self.bytes += start.len();
                self.pieces.insert(at, Piece { level, bytes: start.into(), long: Long::No });
            }
            None => self.push(level, start, Vec::new()),
        }
    }

    /// Adds a frame whose body is in shared memory.
    pub(crate) fn push_filled(&mut self, level: Level, mut start: Vec<u8>, body: Filled) {
        set_place(&mut start, Some(body.place));
        self.push_long(Piece { level, bytes: start.into(), long: Long::Filled(Box::new(body)) });
    }

    fn push_long(&mut self, piece: Piece) {
        self.queued += piece.weight() as u64;
        self.bytes += piece.weight();
        self.pieces.push_back(piece);
    }

    /// Whether a body waits for a place.
    pub(crate) fn has_waiting(&self) -> bool {
        self.homeless > 0
    }

    /// The first body that waits for a place.
    pub(crate) fn next_waiting(&self) -> Option<Vec<Bytes>> {
        self.pieces.iter().find_map(|piece| match &piece.long {
            Long::Waiting(body) => Some(body.clone()),
            _ => None,
        })
    }

    /// Gives the first waiting body a place. `None`: it goes through the socket.
    pub(crate) fn place(&mut self, filled: Option<Filled>) {
        let is_waiting = |piece: &Piece| matches!(piece.long, Long::Waiting(_));
        let Some(at) = self.pieces.iter().position(is_waiting) else { return };
        self.homeless -= 1;
        let piece = &mut self.pieces[at];
        let Long::Waiting(body) = std::mem::take(&mut piece.long) else { return };
        match filled {
            Some(filled) => {
                let mut start = Vec::from(&piece.bytes[..]);
                set_place(&mut start, Some(filled.place));
                (piece.bytes, piece.long) = (start.into(), Long::Filled(Box::new(filled)));
            }
            None => {
                let level = piece.level;
                let body = body.into_iter().filter(|bytes| !bytes.is_empty()).enumerate();
                body.for_each(|(offset, bytes)| {
                    self.pieces.insert(at + 1 + offset, Piece { level, bytes, long: Long::No });
                });
            }
        }
    }

    /// Adds a piece.
    pub fn push_piece(&mut self, level: Level, piece: Bytes) {
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.pieces.push_back(Piece { level, bytes: piece, long: Long::No });
        }
    }

    /// The bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The total bytes of all frames ever pushed.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// The level of the first piece, if that can be taken now.
    pub fn level(&self) -> Option<Level> {
        let first = self.pieces.front().filter(|piece| !matches!(piece.long, Long::Waiting(_)));
        first.map(|piece| piece.level)
    }

    /// Removes and returns the first pieces, up to `most` bytes, all of one level.
    pub fn take(&mut self, most: usize) -> Outbox {
        self.take_before(most, usize::MAX)
    }

    /// Like [`Outbox::take`], but stops before a piece of at least `long` bytes, unless it is the first. A piece that
    /// passes a file is returned alone.
    pub fn take_before(&mut self, most: usize, long: usize) -> Outbox {
        let (mut taken, first) = (Outbox::default(), self.level());
        let goes_with = |taken: &Outbox, piece: &Piece| {
            Some(piece.level) == first
                && match &piece.long {
                    Long::No => taken.bytes == 0 || piece.bytes.len() < long,
                    Long::Waiting(_) => false,
                    Long::Filled(_) => taken.bytes == 0,
                }
        };
        while taken.bytes < most && taken.pieces.len() < MOST_SLICES {
            if !self.pieces.front().is_some_and(|next| goes_with(&taken, next)) {
                break;
            }
            let Some(mut piece) = self.pieces.pop_front() else { break };
            if let Long::Filled(_) = piece.long {
                self.bytes -= piece.weight();
                taken.bytes += piece.bytes.len();
                taken.pieces.push_back(piece);
                break;
            }
            let wanted = piece.bytes.len().min(most - taken.bytes);
            if wanted < piece.bytes.len() {
                let (level, bytes) = (piece.level, piece.bytes.split_off(wanted));
                self.pieces.push_front(Piece { level, bytes, long: Long::No });
            }
            self.bytes -= piece.bytes.len();
            taken.push_piece(piece.level, piece.bytes);
        }
        taken
    }

    /// Appends all of the other's pieces.
    pub fn append(&mut self, mut other: Outbox) {
        self.bytes += other.bytes;
        self.pieces.append(&mut other.pieces);
    }

    /// Replaces every piece by a copy.
    pub fn own(&mut self) {
        for piece in &mut self.pieces {
            piece.bytes = copy_of(&piece.bytes);
            if let Long::Waiting(body) = &mut piece.long {
                body.iter_mut().for_each(|bytes| *bytes = copy_of(bytes));
            }
        }
    }

    /// The pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> + Clone {
        self.pieces.iter().map(|piece| &piece.bytes)
    }

    /// The only piece, if there is exactly one.
    pub fn only(&self) -> Option<&Bytes> {
        if self.pieces.len() == 1 { self.pieces().next() } else { None }
    }

    /// The first pieces, as slices to write.
    pub fn slices(&self) -> Vec<IoSlice<'_>> {
        self.pieces().take(MOST_SLICES).map(|piece| IoSlice::new(piece)).collect()
    }

    /// Bytes of the bodies in shared memory that belong to the pieces.
    pub(crate) fn shared(&self) -> usize {
        self.pieces.iter().map(Piece::weight).sum::<usize>() - self.bytes
    }

    /// The file to pass with the first byte.
    pub(crate) fn file(&self) -> Option<&File> {
        match &self.pieces.front()?.long {
            Long::Filled(filled) => filled.file.as_ref(),
            _ => None,
        }
    }

    /// Called when a file cannot be passed: the first frame's body follows in the socket instead.
    pub(crate) fn inline_first(&mut self) {
        let Some(piece) = self.pieces.front_mut() else { return };
        let Long::Filled(filled) = std::mem::take(&mut piece.long) else { return };
        let mut start = Vec::from(&piece.bytes[..]);
        set_place(&mut start, None);
        piece.bytes = start.into();
        let (level, bytes) = (piece.level, filled.into_bytes());
        self.bytes += bytes.len();
        self.pieces.insert(1, Piece { level, bytes, long: Long::No });
    }

    /// Removes the first `count` bytes, which are written.
    pub fn advance(&mut self, mut count: usize) {
        self.bytes -= count;
        while count > 0 {
            let first = self.pieces.front_mut().expect("not more was written than there was");
            first.long = Long::No; // a file goes with the first byte
            if first.bytes.len() > count {
                return first.bytes.advance(count);
            }
            count -= first.bytes.len();
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::wire::{MAX_BODY, ToInterpreter, encode};
    use proptest::prelude::*;

    fn bytes_of(bodies: &[Vec<u8>]) -> (Vec<u8>, Vec<Frame>) {
        let (mut bytes, mut frames) = (Vec::new(), Vec::new());
        for body in bodies {
            let start = encode(&ToInterpreter::Beat, body.len() as u64);
            frames.push(Frame { header: start[PREFIX..].to_vec(), body: body.clone().into() });
            bytes.extend([start, body.clone()].concat());
        }
        (bytes, frames)
    }

    fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 1..6)
    }

    #[test]
    fn what_a_server_says_about_its_news_is_heard_at_clients_and_is_a_message_elsewhere() {
        let news = NewsDigest { revoked: 3, renewed: [4; 16] };
        let (beat, frame) = (encode(&ToInterpreter::Beat, 0), news.to_frame());
        let bytes = [&beat[..], &frame, &beat].concat();
        let mut got = Vec::new();
        let mut server = Assembler::new(MAX_BODY);
        server.feed(&bytes, &mut |frame: Frame| got.push(frame.header)).expect("frames");
        assert_eq!(got, [&beat[PREFIX..], &frame[PREFIX..], &beat[PREFIX..]]);
        let (heard, is_heard) = std::sync::mpsc::channel();
        let mut client = Assembler::new(MAX_BODY);
        client.hear(Box::new(move |news| heard.send(news).expect("is awaited")));
        got.clear();
        client.feed(&bytes, &mut |frame: Frame| got.push(frame.header)).expect("frames");
        assert_eq!((got, is_heard.try_recv()), (vec![beat[PREFIX..].to_vec(); 2], Ok(news)));
    }

    proptest! {
        #[test]
        fn frames_come_whole_however_their_bytes_come(bodies in bodies(), portions in proptest::collection::vec(1usize..40, 1..50)) {
            let (bytes, expected) = bytes_of(&bodies);
            let (mut assembler, mut got, mut rest) = (Assembler::new(MAX_BODY), Vec::new(), &bytes[..]);
            for portion in portions.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*portion));
                assembler.feed(now, &mut |frame| got.push(frame)).unwrap();
                rest = later;
                if rest.is_empty() { break }
            }
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn frames_that_the_gate_does_not_take_are_thrown_away_and_the_others_come(
            bodies in bodies(), portions in proptest::collection::vec(1usize..40, 1..50), most in 0u64..100
        ) {
            let (bytes, mut expected) = bytes_of(&bodies);
            expected.retain(|frame| frame.body.len() as u64 <= most);
            let (mut assembler, mut got, mut rest) = (Assembler::new(MAX_BODY), Vec::new(), &bytes[..]);
            assembler.set_gate(Box::new(move |header, body| !header.is_empty() && body <= most));
            for portion in portions.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*portion));
                assembler.feed(now, &mut |frame| got.push(frame)).unwrap();
                rest = later;
                if rest.is_empty() { break }
            }
            prop_assert!(!assembler.is_within());
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn an_outbox_gives_its_bytes_in_order(bodies in bodies(), most in 1usize..200, step in 1usize..50) {
            let mut outbox = Outbox::default();
            for body in &bodies {
                outbox.push(Level::Clear, encode(&ToInterpreter::Beat, body.len() as u64), vec![body.clone().into()]);
            }
            let mut written = Vec::new();
            while outbox.bytes() > 0 {
                let mut taken = outbox.take(most);
                prop_assert!(taken.bytes() <= most);
                while taken.bytes() > 0 {
                    let all: Vec<u8> = taken.slices().iter().flat_map(|slice| slice.to_vec()).collect();
                    let count = all.len().min(step);
                    written.extend_from_slice(&all[..count]);
                    taken.advance(count);
                }
            }
            prop_assert_eq!(written, bytes_of(&bodies).0);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Assembler::new(MAX_BODY).feed(&bytes, &mut |_| ());
        }
    }
}
