//! The streams of one end and the threads that serve them, for both directions.

use super::common::{Common, PAUSE};
use phalanx_net::stream::{Stream, Turn, Turns};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The streams of one end.
pub struct Streams<S: Stream> {
    pub common: Arc<Common>,
    turns: Turns<S>,
}

impl<S: Stream> Streams<S> {
    /// No streams yet.
    pub fn new(common: Arc<Common>) -> io::Result<Streams<S>> {
        Ok(Streams { common, turns: Turns::new()? })
    }

    /// Adds a stream.
    pub fn add(&self, number: u32, stream: S) -> io::Result<()> {
        match self.common.keep(number, stream.raw().try_clone()?) {
            true => self.turns.add(number as usize, stream).inspect_err(|_| self.common.forget(number)),
            false => Err(io::Error::other("this stream is there already")),
        }
    }

    /// The number of streams.
    pub fn count(&self) -> usize {
        self.turns.count()
    }

    /// The loop of one thread: continues with any stream that is ready, until the transfer is over.
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

    /// Returns a stream that is not ready. It is either given back to this thread when it is ready, or any of the `threads`
    /// continues with it later.
    pub fn pause(&self, turn: Turn<S>, threads: usize) -> Option<Turn<S>> {
        self.turns.pause(turn, threads, PAUSE).unwrap_or_else(|error| {
            self.common.give_up(error.to_string());
            None
        })
    }

    /// Lets a stream rest until [`Streams::wake`].
    pub fn rest(&self, turn: Turn<S>) {
        self.turns.rest(turn);
    }

    /// Wakes the streams that rest.
    pub fn wake(&self) {
        if let Err(error) = self.turns.wake() {
            self.common.give_up(error.to_string());
        }
    }

    /// Removes a stream that has ended. Returns its number, unless the transfer is over.
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

    /// Lets all threads return.
    pub fn end(&self) {
        self.common.set_over();
        self.turns.close();
    }
}
