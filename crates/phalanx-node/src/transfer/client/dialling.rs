//! Opens the streams of a transfer: as many as were asked for, or more while more of them carry more; and others in place of
//! those that end.

use crate::dial::DIAL_PATIENCE;
use crate::transfer::endpoint::end::End;
use phalanx_core::level::{Level, Levels};
use phalanx_core::transfer::Growth;
use phalanx_core::wire::transfer::{MOST_NUMBERS, MOST_STREAMS};
use phalanx_net::dial::{Expected, Introduced, Target, dial};
use phalanx_net::identity::Client;
use phalanx_net::preamble::Preamble;
use phalanx_net::stream::Protection;
use phalanx_net::sync::lock;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Streams that are opened in place of others, and failures to open one, before the transfer is given up.
const MOST_MORE: u32 = 32;
/// Between two attempts to open a stream.
const REST: Duration = Duration::from_millis(300);

/// An executor that was reached, and what was agreed on with it.
pub struct Reached {
    pub client: Client,
    pub target: Target,
    pub certificate: Vec<u8>,
    pub protection: Protection,
    pub token: [u8; 12],
    /// None: as many as are worth it.
    pub streams: Option<u16>,
}

/// The streams of one transfer, by the end that dials.
pub struct Dialling<'a> {
    reached: &'a Reached,
    end: &'a End,
    began: Instant,
    growth: Mutex<Growth>,
    opening: AtomicU32,
    next: AtomicU32,
    last_try: Mutex<Option<Instant>>,
    ready: Mutex<Option<Instant>>,
    /// How often none could be opened since the last that could, and why.
    trouble: Mutex<(u32, Option<String>)>,
    /// Of the numbers given, those of streams beyond what the line or its firewalls allow.
    spared: AtomicU32,
}

/// Streams to begin with where nobody says how many: one for each core, from 2 to 8.
fn usual_streams() -> u16 {
    thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8) as u16)
}

impl<'a> Dialling<'a> {
    pub fn new(reached: &'a Reached, end: &'a End) -> Dialling<'a> {
        let growth = reached.streams.map(|asked| asked.clamp(1, MOST_STREAMS));
        let growth =
            growth.map_or_else(|| Growth::new(usual_streams(), MOST_STREAMS), |asked| Growth::new(asked, asked));
        let (opening, next, spared) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let (last_try, ready, trouble) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (began, growth) = (Instant::now(), Mutex::new(growth));
        Dialling { reached, end, began, growth, opening, next, last_try, ready, trouble, spared }
    }

    /// To be called often: opens as many as are wanted and not there.
    pub fn open_more<'scope>(&'scope self, scope: &'scope thread::Scope<'scope, '_>) {
        let open = self.end.streams();
        let crossed = self.end.crossed();
        let wanted = u32::from(lock(&self.growth).on_progress(self.began.elapsed(), crossed, open as u16));
        let there = open as u32 + self.opening.load(Ordering::Acquire);
        let tried = self.next.load(Ordering::Relaxed).saturating_sub(self.spared.load(Ordering::Relaxed));
        if there >= wanted || self.end.common().is_over() {
            return;
        }
        let mut last_try = lock(&self.last_try);
        if last_try.is_some_and(|last| last.elapsed() < REST) {
            return;
        }
        if tried >= wanted + MOST_MORE || self.next.load(Ordering::Relaxed) >= MOST_NUMBERS {
            if there == 0 {
                self.end.common().link.close();
            }
            return;
        }
        *last_try = Some(Instant::now());
        for _ in there..wanted {
            self.opening.fetch_add(1, Ordering::AcqRel);
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let open = move || {
                let opened = self.open(number);
                match opened {
                    Ok(()) => {
                        lock(&self.ready).get_or_insert_with(Instant::now);
                        *lock(&self.trouble) = (0, None);
                    }
                    Err(error) => self.note(&error),
                }
                self.opening.fetch_sub(1, Ordering::AcqRel);
            };
            if let Err(error) = thread::Builder::new().name("phalanx-dial".into()).spawn_scoped(scope, open) {
                self.note(&error);
                self.opening.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    fn open(&self, number: u32) -> io::Result<()> {
        let Reached { client, target, certificate, protection, token, .. } = self.reached;
        let began = Instant::now();
        let dialled = dial(target, DIAL_PATIENCE)?;
        // A busy machine is late to hear of a connection; the system that made it is not.
        lock(&self.growth).on_round_trip(dialled.socket.round_trip().unwrap_or_else(|| began.elapsed()));
        let preamble = Preamble::Stream { token: *token, number };
        let Introduced { socket, shaken, .. } = match protection.level {
            Level::Clear => dialled.introduce_in_clear(preamble, DIAL_PATIENCE)?,
            level => {
                let expected = Expected::Same(client, certificate);
                dialled.introduce_and_wait(preamble, expected, Levels::all(level), DIAL_PATIENCE)?
            }
        };
        socket.set_patience(None)?;
        self.end.add(number, socket, shaken, *protection)
    }

    /// One that counts as being opened could not be.
    fn note(&self, error: &io::Error) {
        let others = self.opening.load(Ordering::Acquire).saturating_sub(1);
        let fewer = lock(&self.growth).on_failure(self.end.streams() as u16, others as u16);
        self.spared.fetch_add(u32::from(fewer), Ordering::Relaxed);
        let mut trouble = lock(&self.trouble);
        *trouble = (trouble.0 + 1, Some(error.to_string()));
    }

    /// Why no stream could be opened, where that is what ended the transfer.
    pub fn trouble(&self) -> Option<String> {
        let (count, last) = &*lock(&self.trouble);
        last.clone().filter(|_| *count >= MOST_MORE)
    }

    /// From `began` until the first stream could carry bytes.
    pub fn ready(&self, began: Instant) -> Duration {
        lock(&self.ready).map_or(Duration::ZERO, |ready| ready.saturating_duration_since(began))
    }

    /// How many there were to be in the end.
    pub fn wanted(&self) -> u16 {
        lock(&self.growth).wanted()
    }
}
