//! The sending end's driver: a thread finds what there is, any number of threads read, seal and send.

use super::chunks::Key;
use super::common::{Common, PAUSE};
use super::pace::Pace;
use super::compression::Packer;
use super::streams::Served;
use crate::transfer::disk::source::{Content, Source};
use crate::remote::printable;
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

/// Bytes of entries from which on a message is sent.
const BATCH: usize = 64 << 10;

/// The sending end of one transfer.
pub struct Sender {
    pub common: Arc<Common>,
    pub(super) source: Source,
    pace: Pace,
    compression: Mutex<Compression>,
    pub(super) may_compress: bool,
    began: Instant,
    pub(super) engine: Mutex<Sending>,
    /// The other end has less to remember, or all is over.
    pub(super) less: Condvar,
    /// Of chunks' digests.
    pub(super) key: Key,
    /// They rest while there is nothing to send.
    pub streams: Served<Outgoing>,
}

/// What one of the threads has.
#[derive(Default)]
struct Hand {
    packer: Packer,
    /// Since when it has been waiting for a line to take more.
    waits: Option<Instant>,
}

/// Entries that are not told yet.
#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    body: Vec<u8>,
}

impl Sender {
    /// `limit`: bytes/s that it keeps to; 0: there is none.
    pub fn new(common: Arc<Common>, source: Source, limit: u64, compress: Compress) -> io::Result<Sender> {
        let streams = Served::new(common.clone())?;
        let (engine, less, key) = (Mutex::default(), Condvar::new(), Key::draw());
        let compress = if matches!(source, Source::Memory { .. }) { Compress::Never } else { compress }; // it measures lines
        let (compression, began) = (Mutex::new(Compression::new(compress)), Instant::now());
        let (pace, may_compress) = (Pace::new(limit), compress != Compress::Never);
        Ok(Sender { common, source, pace, compression, may_compress, began, engine, less, key, streams })
    }

    /// Finds what there is, and tells it; by a thread of its own.
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

    /// Tells of what cannot be an entry.
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

    /// One of the threads: serves whichever stream can go on, until all is over.
    pub fn serve(&self, threads: usize) {
        let hand = RefCell::<Hand>::default();
        self.streams.serve(|turn| self.go_on(turn, threads, &mut hand.borrow_mut()));
    }

    /// Sends on a stream until it takes no more, or there is nothing to send.
    fn go_on(&self, mut turn: Turn<Outgoing>, threads: usize, hand: &mut Hand) {
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
            let length = self.pack(turn.key as u32, &mut turn.stream.payload()[..length], &mut hand.packer);
            hand.waits = self.wait_for_turn(length);
            turn.stream.seal(length);
        }
    }

    /// What a thread waited for the line, it could have compressed.
    fn note_wait(&self, hand: &mut Hand) {
        if let Some(since) = hand.waits.take() {
            lock(&self.compression).on_waited(since.elapsed());
        }
    }

    /// Compresses a frame where that saves time; its length then.
    fn pack(&self, stream: u32, payload: &mut [u8], packer: &mut Packer) -> usize {
        let (length, level) = (payload.len(), lock(&self.compression).level());
        let packed = level.map_or(length, |level| packer.pack(payload, level));
        if packed < length {
            lock(&self.engine).on_packed(stream, (length - packed) as u64);
        }
        lock(&self.compression).on_frame(self.began.elapsed(), length, packed);
        packed
    }

    /// Waits until so many bytes may go. Its stream has sent all that it had, and others of which half a frame is sent are
    /// served when the wait is over: nobody waits for ever. Since when it waited, if it did.
    pub(super) fn wait_for_turn(&self, length: usize) -> Option<Instant> {
        let (from, since) = (self.pace.take(length as u64)?, Instant::now());
        while !self.common.is_over() {
            let left = from.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(PAUSE));
        }
        Some(since)
    }

    /// What goes next over a stream; `None`: nothing now, and the stream rests.
    fn next(&self, turn: Turn<Outgoing>) -> Option<(Vec<Piece>, Turn<Outgoing>)> {
        let mut engine = lock(&self.engine);
        match engine.next(turn.key as u32) {
            Next::Frame(pieces) => Some((pieces, turn)),
            Next::Wait | Next::Ended => {
                lock(&self.compression).on_idle();
                self.streams.rest(turn); // before anybody changes the engine and wakes it
                None
            }
        }
    }

    /// Reads pieces, each behind its record; how long they are together. What cannot be read is left out, and told.
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

    /// The other end said something. An error is a breach of the protocol.
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

    /// Lets every thread leave.
    pub fn end(&self) {
        self.streams.end();
        self.less.notify_all();
    }

    /// Bytes that crossed streams.
    pub fn crossed(&self) -> u64 {
        lock(&self.engine).crossed()
    }

    /// Bytes that are there, of how many so far, and whether there may be more.
    pub fn progress(&self) -> (u64, u64, bool) {
        lock(&self.engine).progress()
    }
}
