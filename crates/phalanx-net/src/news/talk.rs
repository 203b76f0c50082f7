//! A link for news: each end sends the news that the other lacks, and then the link ends.

use super::{Exchange, Learned};
use crate::frames::Frame;
use crate::link::{Link, Reader};
use phalanx_core::level::{Level, Levels, Mark};
use phalanx_core::wire::{self, PREFIX, decode, encode};
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The level of links for news, whatever the policy says. They name members of the grid.
pub const LEVELS: Levels = Levels::all(Level::Private);
/// Longest time for a talk. A list of 1 MiB then needs 100 KiB/s.
pub const LASTS: Duration = Duration::from_secs(10);
/// Most bytes of messages and bodies that an end hears in a talk: four times the longest list. The certificates of 700 members have
/// less than 1 MiB.
const MOST_HEARD: usize = 4 << 20;
/// No further message is queued while so many bytes wait to be written.
const MOST_WAITING: usize = 1 << 20;
const PAUSE: Duration = Duration::from_millis(100);

/// Exchanges news with the other end of a link, until both ends have sent all of theirs or `is_over` returns true. The exchange is that
/// of a client or a server. `learned` is called for each message that was taken.
///
/// # Errors
/// The other end sends something else, or too much, or leaves or runs out of time before everything is told.
pub fn talk(
    reader: Reader,
    exchange: Exchange,
    is_over: impl Fn() -> bool,
    mut learned: impl FnMut(Learned),
) -> io::Result<()> {
    let (exchange, until) = (RefCell::new(exchange), Instant::now() + LASTS);
    let (mut heard, failed) = (0, RefCell::new(None));
    let (link, is_late) = (reader.link().clone(), || is_over() || Instant::now() >= until);
    // A flood of frames leaves no pause, so that the limits hold here too.
    let on_frame = |frame: Frame| {
        if link.is_closed() {
            return; // the rest of what had arrived
        }
        heard += PREFIX + frame.header.len() + frame.body.len();
        match take(&mut exchange.borrow_mut(), &frame, heard) {
            Ok(it) => learned(it),
            Err(error) => *failed.borrow_mut() = Some(error),
        }
        if failed.borrow().is_some() || is_late() {
            link.close();
        }
    };
    let on_pause = |link: &Link| {
        let mut exchange = exchange.borrow_mut();
        while link.waiting_bytes() < MOST_WAITING {
            let Some((message, body)) = exchange.due() else { break };
            link.queue(Mark::None, encode(&message, body.len() as u64), vec![body.into()]);
            link.flush();
        }
        let is_done = exchange.is_over() && link.is_idle();
        if is_done || is_late() {
            link.close();
        }
    };
    reader.run(PAUSE, on_frame, on_pause);
    match (failed.into_inner(), exchange.into_inner().is_over()) {
        (Some(error), _) => Err(error),
        (None, true) => Ok(()),
        (None, false) => Err(ErrorKind::UnexpectedEof.into()),
    }
}

fn take(exchange: &mut Exchange, frame: &Frame, heard: usize) -> io::Result<Learned> {
    if heard > MOST_HEARD {
        return Err(io::Error::other("the other end tells too much"));
    }
    let message: wire::News = decode(&frame.header).map_err(io::Error::other)?;
    exchange.hear(message, &frame.body)
}
