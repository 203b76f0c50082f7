//! The most recent events, so that a watch that lost its link can continue where it was.

use super::Tuple;
use std::collections::VecDeque;

/// Bytes counted for an event in addition to its tuple.
const EVENT_BYTES: u64 = 96;

/// Events are numbered from 1. They are kept only after the first watch was made.
#[derive(Debug)]
pub struct Log {
    most: u64,
    most_bytes: u64,
    keeps: bool,
    /// The number of the last event.
    last: u64,
    kept: VecDeque<Tuple>,
    bytes: u64,
}

impl Log {
    pub fn new(most: u64, most_bytes: u64) -> Log {
        Log { most, most_bytes, keeps: false, last: 0, kept: VecDeque::new(), bytes: 0 }
    }

    pub fn last(&self) -> u64 {
        self.last
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Continues the numbers after `event`; all events up to it count as forgotten.
    pub fn continue_after(&mut self, event: u64) {
        self.last = self.last.max(event);
    }

    pub fn keep(&mut self) {
        self.keeps = true;
    }

    /// Adds an event and returns its number. `room`: the bytes that the space has for all events.
    pub fn add(&mut self, tuple: &Tuple, room: u64) -> u64 {
        self.last += 1;
        if self.keeps {
            self.bytes += tuple.bytes().len() as u64 + EVENT_BYTES;
            self.kept.push_back(tuple.clone());
            while self.kept.len() as u64 > self.most || self.bytes > self.most_bytes.min(room) {
                let Some(oldest) = self.kept.pop_front() else { break };
                self.bytes -= oldest.bytes().len() as u64 + EVENT_BYTES;
            }
        }
        self.last
    }

    /// The number of forgotten events after `event`, and the events after it that are still known.
    pub fn since(&self, event: u64) -> (u64, impl Iterator<Item = (u64, &Tuple)>) {
        let first = self.last + 1 - self.kept.len() as u64;
        let missed = first.saturating_sub(event.saturating_add(1));
        let known = (first..).zip(&self.kept).filter(move |(number, _)| *number > event);
        (missed, known)
    }
}
