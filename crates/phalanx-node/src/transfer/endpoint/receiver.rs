//! The driver of the receiving end: its threads receive frames, open them, and write the bytes.

use super::chunks::Queue;
use super::common::Common;
use super::compression::Decompressor;
use super::streams::Streams;
use crate::control::BEAT;
use crate::dial::printable;
use crate::transfer::disk::sink::{Sink, Step};
use crate::transfer::system;
use phalanx_core::error::WireError;
use phalanx_core::transfer::{Accept, Outcome, Ranges, Receiving, SPLIT};
use phalanx_core::wire::decode;
use phalanx_core::wire::transfer::{Entry, Kind, Message, Record, Share, There, Totals, decode_chunks, decode_entries};
use phalanx_net::frames::Frame;
use phalanx_net::stream::{Incoming, Turn};
use phalanx_net::sync::lock;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which the states of partial files are saved, so that an interrupted copy can resume.
const KEPT: Duration = Duration::from_secs(1);
/// How long a record waits until another file that arrives in parts may begin.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between two attempts during that wait.
const SOON: Duration = Duration::from_millis(5);
/// Most partial files whose states are saved at a time.
const MOST_KEPT: usize = 256;

/// The receiving end of one transfer.
pub struct Receiver {
    pub common: Arc<Common>,
    pub(super) sink: Sink,
    /// The share of the copy that this end receives; `None`: all of it.
    share: Option<Share>,
    pub(super) engine: Mutex<Receiving>,
    /// Files to compare with their older versions.
    pub(super) older: Queue,
    pub streams: Streams<Incoming>,
    /// The number of frames of each stream that were received and not acknowledged yet.
    taken: Mutex<HashMap<u32, u32>>,
    /// Whether everything has arrived. It changes once.
    all_is_there: Mutex<bool>,
    changed: Condvar,
    /// Held while an entry fails. Of several causes the first counts. It is reported before the copy can end.
    failing: Mutex<()>,
}

impl Receiver {
    pub fn new(common: Arc<Common>, sink: Sink, share: Option<Share>) -> io::Result<Receiver> {
        let (engine, taken) = (Mutex::new(Receiving::new(share)), Mutex::default());
        let (all_is_there, changed, failing) = (Mutex::new(false), Condvar::new(), Mutex::default());
        let streams = Streams::new(common.clone())?;
        let older = Queue::default();
        Ok(Receiver { common, sink, share, engine, older, streams, taken, all_is_there, changed, failing })
    }

    /// The loop of one thread: serves any stream that has frames, until the transfer is over.
    pub fn serve(&self, threads: usize) {
        let decompressor = RefCell::<Decompressor>::default();
        self.streams.serve(|turn| self.go_on(turn, threads, &mut decompressor.borrow_mut()));
    }

    /// Receives frames from a stream until it has no more.
    fn go_on(&self, mut turn: Turn<Incoming>, threads: usize, decompressor: &mut Decompressor) {
        let stream = turn.key as u32;
        loop {
            match turn.stream.receive() {
                Ok(Some(payload)) => {
                    if let Err(error) = self.take(payload, decompressor) {
                        return self.common.give_up(format!("the other end broke the protocol: {error}"));
                    }
                    *lock(&self.taken).entry(stream).or_default() += 1;
                    self.end_if_all_is_there();
                }
                Ok(None) => {
                    let Some(same) = self.streams.pause(turn, threads) else { return };
                    turn = same;
                }
                Err(error) => return self.lose(turn, &error),
            }
        }
    }

    /// Handles every record of a frame.
    fn take(&self, payload: &[u8], decompressor: &mut Decompressor) -> Result<(), WireError> {
        let crossed = payload.len();
        let mut payload = decompressor.unpack(payload)?;
        if payload.len() > crossed {
            lock(&self.engine).on_packed((payload.len() - crossed) as u64);
        }
        while !payload.is_empty() {
            let (record, data, rest) = Record::split(payload)?;
            payload = rest;
            let accepted = self.accept(&record)?;
            match accepted {
                Accept::Nothing => {}
                Accept::TooMany => {
                    self.settle(record.entry, Err(io::Error::other("too many files are begun at a time")));
                }
                Accept::Whole => {
                    let put = self.sink.whole(record.entry, data);
                    self.settle(record.entry, put.map(|()| Outcome::Copied));
                }
                Accept::Part => {
                    let written = match record.hole {
                        true => self.sink.hole(record.entry, record.offset, record.length),
                        false => self.sink.part(record.entry, data, record.offset),
                    };
                    let is_last = lock(&self.engine).on_written(&record);
                    match written {
                        Err(error) => self.settle(record.entry, Err(error)),
                        Ok(()) if is_last => self.settle(record.entry, self.sink.finish(record.entry)),
                        Ok(()) => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a record's bytes are to be written. If too many files arrive in parts already, this waits: the message that
    /// some of them have failed may be on its way on the control link.
    fn accept(&self, record: &Record) -> Result<Accept, WireError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let accepted = lock(&self.engine).accept(record)?;
            if accepted != Accept::TooMany || Instant::now() >= until || self.common.is_over() {
                return Ok(accepted);
            }
            thread::sleep(SOON);
        }
    }

    /// Ends an entry, which is in its place or has failed.
    fn settle(&self, entry: u32, outcome: io::Result<Outcome>) {
        match outcome {
            Ok(outcome) => drop(lock(&self.engine).on_ended(entry, outcome)),
            Err(error) => self.fail(entry, error.to_string(), true),
        }
    }

    /// Fails an entry. `tells`: the other end is told.
    pub(super) fn fail(&self, entry: u32, reason: String, tells: bool) {
        let _alone = lock(&self.failing);
        if lock(&self.engine).has_ended(entry) {
            return; // this may be a consequence of the first cause
        }
        self.common.add_failure(self.sink.path_of(entry), reason.clone());
        if tells {
            self.common.tell(&Message::Failed { entry, reason });
        }
        self.sink.give_up(entry);
        lock(&self.engine).on_ended(entry, Outcome::Failed);
    }

    fn lose(&self, turn: Turn<Incoming>, error: &io::Error) {
        let Some(stream) = self.streams.lose(turn) else { return };
        if error.kind() == ErrorKind::InvalidData {
            self.common.altered.fetch_add(1, Ordering::Relaxed);
        }
        self.tell_taken();
        self.common.tell(&Message::Lost { stream });
    }

    /// A message of the other end. An error means that it broke the protocol.
    pub fn on_frame(&self, frame: &Frame) -> Result<(), String> {
        let wire = |error: WireError| error.to_string();
        match decode(&frame.header).map_err(wire)? {
            Message::Entries { count } => {
                let entries = decode_entries(count, &frame.body).map_err(wire)?;
                let first = lock(&self.engine).on_entries(&entries).map_err(wire)?;
                let (there, older) = self.begin_all(first, &entries);
                self.common.tell(&Message::Wanted { count, there, older });
            }
            Message::Chunks { entry, key, count } => {
                self.on_chunks(entry, key, &decode_chunks(count, &frame.body).map_err(wire)?)?;
            }
            Message::AllEntries => lock(&self.engine).on_all_entries(),
            Message::Failed { entry, reason } => self.fail(entry, printable(&reason), false),
            Message::Lost { stream } => self.common.cut(stream),
            Message::Skipped { path, reason } => {
                self.common.on_skipped(path, &reason);
                lock(&self.engine).on_skipped();
            }
            Message::Refused { reason } => self.common.set_broken(printable(&reason)),
            Message::Beat => {}
            _ => return Err("a message that is not for a receiving end".to_owned()),
        }
        self.end_if_all_is_there();
        Ok(())
    }

    /// Begins new entries. Returns the ranges that are there, and the entries that have older versions. A disk may take long
    /// for this, so beats are sent meanwhile.
    fn begin_all(&self, first: u32, entries: &[Entry]) -> (Vec<There>, Vec<u32>) {
        let (mut last_beat, mut there, mut older) = (Instant::now(), Vec::new(), Vec::new());
        for (number, entry) in (first..).zip(entries) {
            there.extend(self.begin(number, entry, &mut older));
            if last_beat.elapsed() >= BEAT {
                last_beat = Instant::now();
                self.common.tell(&Message::Beat);
            }
        }
        (there, older)
    }

    /// Begins a new entry. Returns the ranges that are there.
    fn begin(&self, number: u32, entry: &Entry, older: &mut Vec<u32>) -> Option<There> {
        let takes = self.takes(entry);
        if takes && !self.sink.has_place(entry) {
            let mut engine = lock(&self.engine);
            engine.on_ended(number, Outcome::Failed); // its folder's failure was reported, so this one is only counted
            return engine.nothing_of(number);
        }
        let begun = if takes { self.sink.begin(number, entry) } else { Ok(Step::Kept) };
        let begun = begun.map(|step| self.shared(number, entry, step));
        let mut engine = lock(&self.engine);
        let outcome = match begun {
            Ok(Step::Wanted(there)) => return engine.on_there(number, &there),
            Ok(Step::Older(there)) => {
                let (there, compares) = engine.on_older(number, &there);
                older.extend(compares.then_some(number));
                return there;
            }
            Ok(Step::Shared) => Outcome::Shared,
            Ok(Step::Copied) => Outcome::Copied,
            Ok(Step::Kept) => Outcome::Kept,
            Err(error) => {
                let reason = error.to_string();
                self.common.add_failure(self.sink.path(entry.parent, &entry.name), reason.clone());
                self.common.tell(&Message::Failed { entry: number, reason });
                Outcome::Failed
            }
        };
        engine.on_ended(number, outcome);
        engine.nothing_of(number)
    }

    /// Whether a part of an entry may be in this end's share. Entries without bytes are left to the copy that follows the
    /// shares.
    fn takes(&self, entry: &Entry) -> bool {
        let Some(share) = self.share else { return true };
        match entry.kind {
            Kind::Folder => true,
            Kind::Link { .. } | Kind::File { size: 0 } => false,
            Kind::File { size } if size >= SPLIT => true,
            Kind::File { .. } => {
                let path = self.sink.path(entry.parent, &entry.name);
                share.has(&system::to_bytes(path.as_os_str()))
            }
        }
    }

    /// What to do with an entry of which only a share is wanted.
    fn shared(&self, number: u32, entry: &Entry, step: Step) -> Step {
        let (Some(share), Kind::File { size: size @ SPLIT.. }) = (self.share, &entry.kind) else { return step };
        let without = |there: &Ranges| Some(share.without(there, *size)).filter(|there| there.bytes() < *size);
        let step = match step {
            Step::Wanted(there) => without(&there).map(Step::Wanted),
            Step::Older(there) => without(&there).map(Step::Older),
            step => return step,
        };
        step.unwrap_or_else(|| {
            self.sink.leave(number);
            Step::Shared
        })
    }

    /// Whether everything has arrived, although it may not be on the disk yet.
    pub fn is_ending(&self) -> bool {
        lock(&self.engine).is_ended()
    }

    fn end_if_all_is_there(&self) {
        if self.is_ending() {
            *lock(&self.all_is_there) = true;
            self.changed.notify_all();
        }
    }

    /// The loop of a thread, because disks may take long: saves the states of partial files regularly, and ends the copy.
    pub fn finish(&self) {
        let mut before = HashMap::new();
        while !self.common.is_over() {
            let all_is_there = lock(&self.all_is_there);
            let waited = self.changed.wait_timeout_while(all_is_there, KEPT, |all| !*all && !self.common.is_over());
            let all_is_there = *waited.unwrap_or_else(PoisonError::into_inner).0;
            match all_is_there {
                true => return self.end_copy(),
                false => self.keep(&mut before),
            }
        }
    }

    fn end_copy(&self) {
        for (path, reason) in self.sink.end() {
            lock(&self.engine).on_skipped();
            self.common.tell(&Common::skipped(&path, reason.clone()));
            self.common.add_failure(path, reason);
        }
        self.tell_taken();
        let engine = lock(&self.engine);
        let totals = Totals { crossed: engine.crossed(), ..engine.totals() };
        drop(engine);
        self.common.set_totals(totals);
        self.common.tell(&Message::Done(totals));
        self.end();
        if self.common.closes {
            self.common.link.close();
        }
    }

    /// Call this regularly. It acknowledges frames.
    pub fn pause(&self) {
        self.tell_taken();
    }

    fn tell_taken(&self) {
        let mut taken = lock(&self.taken); // held, so that acknowledgements of a stream stay in order
        if !taken.is_empty() {
            self.common.tell(&Message::Taken { frames: taken.drain().collect() });
        }
    }

    fn keep(&self, before: &mut HashMap<u32, u64>) {
        let partial = lock(&self.engine).partial(MOST_KEPT);
        let mut kept = HashMap::new();
        for There { entry, ranges } in partial {
            let bytes = ranges.iter().map(|(from, to)| to - from).sum();
            if before.get(&entry) != Some(&bytes) {
                let _ = self.sink.keep(entry, ranges); // without it the copy goes on, but cannot be resumed there
            }
            kept.insert(entry, bytes);
        }
        *before = kept;
    }

    /// Saves the states of all partial files, because the transfer was cut.
    pub fn keep_all(&self) {
        self.keep(&mut HashMap::new());
    }

    /// Lets all threads return.
    pub fn end(&self) {
        self.streams.end();
        self.changed.notify_all();
        self.older.wake();
    }

    /// Bytes that arrived over streams.
    pub fn crossed(&self) -> u64 {
        lock(&self.engine).crossed()
    }

    /// Bytes that have arrived, the bytes that are known so far, and whether more may become known.
    pub fn progress(&self) -> (u64, u64, bool) {
        lock(&self.engine).progress()
    }
}
