//! The driver of the sending end: one thread walks the source, the others read, seal and send.

use super::chunks::Key;
use super::common::{Common, PAUSE};
use super::compression::Compressor;
use super::rate_limit::RateLimit;
use super::streams::Streams;
use crate::dial::printable;
use crate::transfer::disk::source::{Content, Source};
use bytes::Bytes;
use phalanx_core::level::Mark;
use phalanx_core::transfer::{Compression, Next, Piece, Sending};
use phalanx_core::wire::transfer::{Compress, Entry, MOST_BATCH, MOST_BODY, Message, RECORD, Record, encode_entry};
use phalanx_core::wire::{decode, encode};
use phalanx_net::frames::Frame;
use phalanx_net::stream::{Outgoing, Turn};
use phalanx_net::sync::lock;
use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Entries are sent in a message when they have at least this many bytes.
const BATCH: usize = 64 << 10;

/// The sending end of one transfer.
pub struct Sender {
    pub common: Arc<Common>,
    pub(super) source: Source,
    rate_limit: RateLimit,
    compression: Mutex<Compression>,
    pub(super) may_compress: bool,
    began: Instant,
    pub(super) engine: Mutex<Sending>,
    /// Notified when the other end has fewer entries to remember, or the transfer is over.
    pub(super) less: Condvar,
    /// The key of the chunks' digests.
    pub(super) key: Key,
    /// The streams. They rest while there is nothing to send.
    pub streams: Streams<Outgoing>,
}

/// The state of one thread.
#[derive(Default)]
struct ThreadState {
    compressor: Compressor,
    /// Since when the thread has been waiting for a connection to accept more.
    waits: Option<Instant>,
}

/// Entries that were not sent yet.
#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    body: Vec<u8>,
}

impl Sender {
    /// `limit`: bytes per second; 0: no limit.
    pub fn new(common: Arc<Common>, source: Source, limit: u64, compress: Compress) -> io::Result<Sender> {
        let streams = Streams::new(common.clone())?;
        let (engine, less, key) = (Mutex::default(), Condvar::new(), Key::draw());
        let compress = if matches!(source, Source::Memory { .. }) { Compress::Never } else { compress }; // it measures lines
        let (compression, began) = (Mutex::new(Compression::new(compress)), Instant::now());
        let (rate_limit, may_compress) = (RateLimit::new(limit), compress != Compress::Never);
        Ok(Sender { common, source, rate_limit, compression, may_compress, began, engine, less, key, streams })
    }

    /// The work of one thread: walks the source and offers all entries.
    pub fn walk(&self) {
        let mut batch = Batch::default();
        let walked = self.source.walk(&mut |found| {
            match found {
                Ok(entry) => {
                    batch.body = encode_entry(&entry, std::mem::take(&mut batch.body));
                    batch.entries.push(entry);
                    if batch.body.len() >= BATCH || batch.entries.len() == MOST_BATCH {
                        self.offer(&mut batch)?;
                    }
                }
                Err((path, reason)) => self.skip(path, reason)?,
            }
            if self.common.is_over() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
        });
        let offered = walked.and_then(|()| self.offer(&mut batch));
        if let Err(error) = offered {
            return self.common.give_up(error.to_string());
        }
        lock(&self.engine).on_all_offered();
        self.common.tell(&Message::AllEntries);
    }

    /// Reports a path that cannot be an entry.
    fn skip(&self, path: PathBuf, reason: String) -> io::Result<()> {
        let message = Common::skipped(&path, reason.clone());
        self.common.add_failure(path, reason);
        self.common.link.send(Mark::None, encode(&message, 0), Vec::new()).map_err(io::Error::other)
    }

    fn offer(&self, batch: &mut Batch) -> io::Result<()> {
        let Batch { entries, body } = std::mem::take(batch);
        if entries.is_empty() {
            return Ok(());
        }
        debug_assert!((body.len() as u64) < MOST_BODY);
        let mut engine = lock(&self.engine);
        while engine.is_ahead() && !self.common.is_over() {
            engine = self.less.wait_timeout(engine, PAUSE).unwrap_or_else(PoisonError::into_inner).0;
        }
        engine.on_offered(&entries);
        drop(engine);
        let start = encode(&Message::Entries { count: entries.len() as u32 }, body.len() as u64);
        self.common.link.send(Mark::None, start, vec![Bytes::from(body)]).map_err(io::Error::other)
    }

    /// The loop of one thread: serves any stream that can accept bytes, until the transfer is over.
    pub fn serve(&self, threads: usize) {
        let hand = RefCell::<ThreadState>::default();
        self.streams.serve(|turn| self.go_on(turn, threads, &mut hand.borrow_mut()));
    }

    /// Sends on a stream until it accepts no more, or there is nothing to send.
    fn go_on(&self, mut turn: Turn<Outgoing>, threads: usize, hand: &mut ThreadState) {
        loop {
            self.note_wait(hand);
            match turn.stream.send() {
                Ok(true) => {}
                Ok(false) => {
                    hand.waits = Some(Instant::now());
                    let Some(same) = self.streams.pause(turn, threads) else { return };
                    turn = same;
                    continue;
                }
                Err(_) => return self.lose(turn),
            }
            let Some((pieces, going_on)) = self.next(turn) else { return };
            turn = going_on;
            let length = self.fill(turn.key as u32, &pieces, turn.stream.payload());
            let length = self.pack(turn.key as u32, &mut turn.stream.payload()[..length], &mut hand.compressor);
            hand.waits = self.wait_for_turn(length);
            if turn.stream.seal(length).is_err() {
                return self.lose(turn);
            }
        }
    }

    /// Counts the time that a thread waited for a connection. It could have compressed meanwhile.
    fn note_wait(&self, hand: &mut ThreadState) {
        if let Some(since) = hand.waits.take() {
            lock(&self.compression).on_waited(since.elapsed());
        }
    }

    /// Compresses a frame if that saves time. Returns its length.
    fn pack(&self, stream: u32, payload: &mut [u8], compressor: &mut Compressor) -> usize {
        let (length, level) = (payload.len(), lock(&self.compression).level());
        let packed = level.map_or(length, |level| compressor.pack(payload, level));
        if packed < length {
            lock(&self.engine).on_packed(stream, (length - packed) as u64);
        }
        lock(&self.compression).on_frame(self.began.elapsed(), length, packed);
        packed
    }

    /// Waits until the rate limit allows `length` bytes. Returns since when it waited, if it did. The wait cannot starve a
    /// stream: this thread's stream has sent its frame completely, and other streams with half a frame are served after the
    /// wait.
    pub(super) fn wait_for_turn(&self, length: usize) -> Option<Instant> {
        let (from, since) = (self.rate_limit.take(length as u64)?, Instant::now());
        while !self.common.is_over() {
            let left = from.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(PAUSE));
        }
        Some(since)
    }

    /// The next pieces for a stream; `None`: there are none now, and the stream rests.
    fn next(&self, turn: Turn<Outgoing>) -> Option<(Vec<Piece>, Turn<Outgoing>)> {
        let mut engine = lock(&self.engine);
        match engine.next(turn.key as u32) {
            Next::Frame(pieces) => Some((pieces, turn)),
            Next::Wait | Next::Ended => {
                lock(&self.compression).on_idle();
                self.streams.rest(turn); // under the engine's lock, so that a change after it wakes the stream
                None
            }
        }
    }

    /// Reads pieces into a frame, each behind its record. Returns the frame's length. A piece that cannot be read is left
    /// out, and its entry fails.
    fn fill(&self, stream: u32, pieces: &[Piece], payload: &mut [u8]) -> usize {
        let mut at = 0;
        let one = pieces.len() == 1;
        for Piece { entry, offset, length } in pieces.iter().copied() {
            let data = &mut payload[at + RECORD..][..length as usize];
            let is_whole = offset == 0 && (!one || length < phalanx_core::transfer::PART);
            let read = self.source.read(entry, data, offset, is_whole);
            let crossing = if matches!(read, Ok(Content::Data)) { length } else { 0 };
            let settles = lock(&self.engine).on_read(stream, crossing);
            let settled = if settles && !is_whole { self.source.settle(entry) } else { Ok(()) };
            match settled.and(read) {
                Ok(content) => {
                    let hole = content == Content::Hole;
                    let record = Record { entry, offset, length, settles, hole };
                    payload[at..][..RECORD].copy_from_slice(&record.encode());
                    at += RECORD + if hole { 0 } else { length as usize };
                }
                Err(error) => self.fail(entry, &error),
            }
        }
        at
    }

    pub(super) fn fail(&self, entry: u32, error: &io::Error) {
        if lock(&self.engine).on_failed(entry) {
            let reason = error.to_string();
            self.common.add_failure(self.source.path(entry), reason.clone());
            self.common.tell(&Message::Failed { entry, reason });
        }
    }

    fn lose(&self, turn: Turn<Outgoing>) {
        let number = turn.key as u32;
        if let Some(stream) = self.streams.lose(turn) {
            self.common.tell(&Message::Lost { stream });
        }
        lock(&self.engine).on_lost(number);
        self.streams.wake();
    }

    /// A message of the other end. An error means that it broke the protocol.
    pub fn on_frame(&self, frame: &Frame) -> Result<(), String> {
        let message: Message = decode(&frame.header).map_err(|error| error.to_string())?;
        let mut engine = lock(&self.engine);
        match message {
            Message::Wanted { count, there, older } => {
                engine.on_wanted(count, &there, &older).map_err(|error| error.to_string())?;
            }
            Message::Same { entry, ranges, ended } => {
                self.common.moved.fetch_add(1, Ordering::Relaxed);
                engine.on_same(entry, &ranges, ended).map_err(|error| error.to_string())?;
            }
            Message::Taken { frames } => {
                for (stream, count) in frames {
                    engine.on_taken(stream, count).map_err(|error| error.to_string())?;
                }
            }
            Message::Lost { stream } => {
                self.common.cut(stream);
                engine.on_lost(stream);
            }
            Message::Failed { entry, reason } => {
                if engine.on_refused(entry).map_err(|error| error.to_string())? {
                    self.common.add_failure(self.source.path(entry), printable(&reason));
                }
            }
            Message::Done(totals) => {
                engine.on_done(&totals).map_err(|error| error.to_string())?;
                self.common.set_totals(totals);
                drop(engine);
                self.end();
                if self.common.closes {
                    self.common.link.close();
                }
                return Ok(());
            }
            Message::Skipped { path, reason } => self.common.on_skipped(path, &reason),
            Message::Refused { reason } => self.common.set_broken(printable(&reason)),
            Message::Beat => return Ok(()),
            _ => return Err("a message that is not for a sending end".to_owned()),
        }
        drop(engine);
        self.less.notify_all();
        self.streams.wake();
        Ok(())
    }

    /// Lets all threads return.
    pub fn end(&self) {
        self.streams.end();
        self.less.notify_all();
    }

    /// Bytes that the other end has received over streams.
    pub fn crossed(&self) -> u64 {
        lock(&self.engine).crossed()
    }

    /// Bytes that have arrived, the bytes that are known so far, and whether more may become known.
    pub fn progress(&self) -> (u64, u64, bool) {
        lock(&self.engine).progress()
    }
}
