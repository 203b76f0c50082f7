//! The streams of one end and the threads that serve them, whichever way the bytes go.

use super::common::{Common, PAUSE};
use phalanx_net::stream::{Stream, Turn, Turns};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Streams of one kind, and what their end has beside them.
pub struct Served<S: Stream> {
    pub common: Arc<Common>,
    turns: Turns<S>,
}

impl<S: Stream> Served<S> {
    /// None yet.
    pub fn new(common: Arc<Common>) -> io::Result<Served<S>> {
        Ok(Served { common, turns: Turns::new()? })
    }

    /// One more.
    pub fn add(&self, number: u32, stream: S) -> io::Result<()> {
        match self.common.keep(number, stream.raw().try_clone()?) {
            true => self.turns.add(number as usize, stream).inspect_err(|_| self.common.forget(number)),
            false => Err(io::Error::other("this stream is there already")),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.turns.count()
    }

    /// One of the threads: goes on with whichever stream can, until all is over.
    pub fn serve(&self, go_on: impl Fn(Turn<S>)) {
        while !self.common.is_over() {
            match self.turns.next(PAUSE) {
                Ok(Some(turn)) => go_on(turn),
                Ok(None) => {}
                Err(error) => return self.common.give_up(error.to_string()),
            }
        }
        self.turns.close();
    }

    /// The stream cannot go on now. It comes back to the same thread of the `threads`, or any goes on with it later.
    pub fn pause(&self, turn: Turn<S>, threads: usize) -> Option<Turn<S>> {
        self.turns.pause(turn, threads, PAUSE).unwrap_or_else(|error| {
            self.common.give_up(error.to_string());
            None
        })
    }

    /// The stream has nothing to do until [`Served::wake`].
    pub fn rest(&self, turn: Turn<S>) {
        self.turns.rest(turn);
    }

    /// There may be something to do for those that rest.
    pub fn wake(&self) {
        if let Err(error) = self.turns.wake() {
            self.common.give_up(error.to_string());
        }
    }

    /// The stream is no more. Its number, if that is news while the transfer goes on.
    pub fn lose(&self, turn: Turn<S>) -> Option<u32> {
        let stream = turn.key as u32;
        self.turns.remove(turn);
        self.common.forget(stream);
        if self.common.is_over() {
            return None;
        }
        self.common.lost.fetch_add(1, Ordering::Relaxed);
        Some(stream)
    }

    /// Lets every thread leave.
    pub fn end(&self) {
        self.common.set_over();
        self.turns.close();
    }
}
