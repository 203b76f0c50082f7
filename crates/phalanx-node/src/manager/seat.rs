//! A recruited interpreter as its manager sees it: its link, its hold, and its signs of life.

#[cfg(target_os = "linux")]
use super::mailbox::Mailbox;
use crate::prints::Voice;
use crate::recruit::{Has, Hold, Recruit};
use phalanx_core::error::WireError;
use phalanx_core::event::{Cause, Event, Fact};
use phalanx_core::ids::InterpreterId;
use phalanx_core::level::{Agreed, Level};
use phalanx_net::frames::Frame;
use phalanx_net::link::{Link, LinkError, Reader};
use phalanx_net::sync::{lock, try_lock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant;

/// After this many silent ticks, the hold is asked whether the interpreter's process is alive.
const QUIET: u32 = 5;

/// Pause of the control thread between two attempts to read, while another thread reads. In that time the other thread either
/// takes over the link's wake-ups or has finished with the link.
const A_MOMENT: Duration = Duration::from_micros(50);

/// Longest pause of a mailbox reader between two attempts to read, while the control thread reads a long message.
#[cfg(target_os = "linux")]
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// A recruited interpreter's link and hold.
pub(super) struct Seat {
    pub id: InterpreterId,
    pub name: String,
    pub machine: String,
    pub agreed: Agreed,
    /// What the interpreter has.
    pub has: Has,
    pub link: Arc<Link>,
    pub hold: Mutex<Box<dyn Hold>>,
    pub voice: Arc<Voice>,
    /// Whether the interpreter's first message has come.
    pub is_ready: AtomicBool,
    /// The error in a message of the interpreter that broke the protocol.
    pub violation: OnceLock<WireError>,
    reading: Mutex<Reading>,
    looked: Mutex<Looked>,
}

/// The reading half of the link. One thread at a time reads: the control thread, or a thread that waits for its result and so
/// saves waking the control thread.
struct Reading {
    reader: Reader,
    /// Why the link has ended.
    end: Option<LinkError>,
}

/// The state of a link when signs of life were last looked for.
#[derive(Debug, Default)]
struct Looked {
    received: u64,
    sent: u64,
    blocked: bool,
    /// Number of looks in a row in which nothing was heard.
    quiet: u32,
}

impl Seat {
    pub fn new(id: InterpreterId, recruit: Recruit) -> Seat {
        let Recruit { link, reader, name, machine, agreed, hold, has } = recruit;
        Seat {
            id,
            voice: Voice::new(id, &name, &link),
            name,
            machine,
            agreed,
            has,
            link,
            hold: Mutex::new(hold),
            is_ready: AtomicBool::new(false),
            violation: OnceLock::new(),
            reading: Mutex::new(Reading { reader, end: None }),
            looked: Mutex::default(),
        }
    }

    /// The control thread's loop: reads the link until it ends, and returns why. `on_frame` gets the frames that no other
    /// thread reads. `on_pause` is called whenever there is nothing to read, at least every `pause`.
    pub fn attend(&self, pause: Duration, mut on_frame: impl FnMut(Frame), on_pause: impl Fn()) -> LinkError {
        loop {
            // If another thread is reading now, it reads everything there is.
            match try_lock(&self.reading) {
                Some(mut reading) => self.read(&mut reading, |reader| reader.read_all(&mut on_frame)),
                // the other thread is about to take over the link's wake-ups, or to release them
                None => thread::sleep(A_MOMENT),
            }
            on_pause();
            let waited = self.link.wait(pause);
            if waited.is_ok() && !self.link.is_closed() {
                continue;
            }
            let mut reading = lock(&self.reading);
            self.read(&mut reading, |_| waited.map(drop).map_err(LinkError::from));
            if let Some(end) = reading.end.take() {
                return end;
            }
        }
    }

    /// Reads the link on behalf of a mailbox reader, until an outcome is there, `patience` has passed, or the link has ended.
    /// The end is left to the control thread to report.
    #[cfg(target_os = "linux")]
    pub fn read_for(&self, mailbox: &Mailbox, patience: Duration, mut on_frame: impl FnMut(Frame)) {
        let Some(waker) = mailbox.begin_reading() else { return };
        let end = Instant::now() + patience;
        let mut pause = A_MOMENT;
        let mut reading = loop {
            match try_lock(&self.reading) {
                Some(reading) => break reading,
                None if mailbox.calls_reader() || Instant::now() >= end => return mailbox.end_reading(),
                // the control thread may have the outcome, or be reading something that came before it
                None => waker.wait(pause),
            }
            pause = LONGEST_PAUSE.min(2 * pause);
        };
        // From here on, arriving bytes wake this thread only.
        self.read(&mut reading, |_| self.link.listen(false).map_err(LinkError::from));
        while !mailbox.calls_reader() && !self.link.is_closed() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.read(&mut reading, |reader| reader.poll_beside(&waker, left, &mut on_frame));
        }
        self.read(&mut reading, |_| self.link.listen(true).map_err(LinkError::from));
        mailbox.end_reading();
    }

    /// Runs one step of reading. An error ends the link, and is stored for the control thread.
    fn read(&self, reading: &mut Reading, step: impl FnOnce(&mut Reader) -> Result<(), LinkError>) {
        let outcome = step(&mut reading.reader);
        let was_closed_here = self.link.is_closed();
        if let Err(error) = outcome {
            reading.end.get_or_insert(if was_closed_here { LinkError::Closed } else { error });
            self.link.close();
        } else if was_closed_here {
            reading.end.get_or_insert(LinkError::Closed);
        }
    }

    /// The bytes sent over the link so far, and the time spent on protecting them.
    pub fn spent(&self) -> Fact {
        let levels = Level::ALL.map(|level| &self.link.counters().levels[level as usize]);
        let bytes = levels.map(|spent| spent.bytes.load(Ordering::Relaxed));
        let protection = levels.map(|spent| spent.protection.load(Ordering::Relaxed));
        Fact::Spent { interpreter: self.id, bytes, protection }
    }

    /// The interpreter's sign of life since the last call, if there is one.
    pub fn sign_of_life(&self) -> Option<Event> {
        let (mut looked, id) = (lock(&self.looked), self.id);
        let counters = self.link.counters();
        let (received, sent) = (counters.received.load(Ordering::Relaxed), counters.sent.load(Ordering::Relaxed));
        let blocked = self.link.is_blocked();
        // A full socket takes bytes again only after the other end has read some. So progress there is a sign of life.
        let took = looked.blocked && sent != looked.sent;
        let came = received != looked.received || self.link.has_unread();
        let quiet = if took || came { 0 } else { looked.quiet.saturating_add(1) };
        *looked = Looked { received, sent, blocked, quiet };
        match quiet {
            0 => Some(Event::Heard { id }),
            QUIET.. if self.hold.try_lock().is_ok_and(|hold| hold.is_alive()) => Some(Event::Alive { id }),
            _ => None,
        }
    }

    /// The cause of the interpreter's loss, given how its link ended.
    pub fn cause(&self, end: LinkError) -> Cause {
        let cause = lock(&self.hold).cause();
        match (self.violation.get(), end) {
            (Some(error), _) => Cause::Protocol { what: error.to_string() },
            (None, LinkError::Wire(error)) => Cause::Protocol { what: error.to_string() },
            (None, error) if error.is_attack() => Cause::Attacked,
            (None, LinkError::Failed(error)) => Cause::Died { how: error.to_string() },
            (None, LinkError::Ended | LinkError::Closed) => cause,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::manager::tests::Held;
    use phalanx_core::level::{Levels, Mark};
    use phalanx_core::wire::{FromInterpreter, encode};
    use phalanx_net::socket::Socket;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_reader_waits_for_the_control_thread_to_let_go_of_the_link() {
        let (ours, theirs) = Socket::pair().unwrap();
        let (link, reader) = Link::new(ours, None, 1 << 20).unwrap();
        let (far, _far_reader) = Link::new(theirs, None, 1 << 20).unwrap();
        let agreed = Agreed { levels: Levels::all(Level::Clear), why: Default::default(), weaker: [false; 3] };
        let (name, machine) = ("here/1".into(), "here".into());
        let recruit = Recruit { link, reader, name, machine, agreed, hold: Box::new(Held), has: Has::default() };
        let (seat, mailbox) = (Seat::new(InterpreterId(1), recruit), Mailbox::default());
        let control = lock(&seat.reading); // as if the control thread were reading now
        thread::scope(|scope| {
            let taking = scope.spawn(|| {
                let mut read = 0;
                seat.read_for(&mailbox, LONG, |_| {
                    read += 1;
                    mailbox.nudge();
                });
                read
            });
            let began = Instant::now();
            while !mailbox.has_reader() && !taking.is_finished() {
                assert!(began.elapsed() < LONG, "no reader waits in the link");
                thread::yield_now();
            }
            drop(control);
            far.send(Mark::None, encode(&FromInterpreter::Beat, 0), Vec::new()).expect("is sent");
            assert_eq!(taking.join().unwrap(), 1);
        });
    }
}
