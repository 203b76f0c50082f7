//! A connection in memory whose two ends run in threads. The network between them knows when both of them wait.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

impl Side {
    pub fn other(self) -> Side {
        if self == Side::Client { Side::Server } else { Side::Client }
    }
}

#[derive(Default)]
struct End {
    written: Vec<u8>,
    unread: VecDeque<u8>,
    /// Nothing will come any more.
    closed: bool,
    /// It waits for something to read.
    waits: bool,
    gone: bool,
}

impl End {
    fn is_still(&self) -> bool {
        self.gone || self.waits && self.unread.is_empty() && !self.closed
    }
}

/// The connection.
#[derive(Default)]
pub struct Wire {
    ends: Mutex<[End; 2]>,
    changed: Condvar,
}

impl Wire {
    /// An end of the connection.
    pub fn end(&self, side: Side) -> Pipe<'_> {
        Pipe { wire: self, side }
    }

    /// Waits until neither end goes on without something to read, and takes what they have written.
    pub fn settle(&self) -> [Vec<u8>; 2] {
        let mut ends = self.lock();
        while !ends.iter().all(End::is_still) {
            ends = self.changed.wait(ends).unwrap_or_else(PoisonError::into_inner);
        }
        [0, 1].map(|side| std::mem::take(&mut ends[side].written))
    }

    /// Gives an end something to read.
    pub fn give(&self, side: Side, bytes: &[u8]) {
        self.lock()[side as usize].unread.extend(bytes);
        self.changed.notify_all();
    }

    /// Closes the connection.
    pub fn close(&self) {
        self.lock().iter_mut().for_each(|end| end.closed = true);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, [End; 2]> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One end of the connection. Dropping it ends the connection.
pub struct Pipe<'a> {
    wire: &'a Wire,
    side: Side,
}

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut ends = self.wire.lock();
        while ends[self.side as usize].unread.is_empty() && !ends[self.side as usize].closed {
            ends[self.side as usize].waits = true;
            self.wire.changed.notify_all();
            ends = self.wire.changed.wait(ends).unwrap_or_else(PoisonError::into_inner);
        }
        let end = &mut ends[self.side as usize];
        end.waits = false;
        end.unread.read(buffer)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wire.lock()[self.side as usize].written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Pipe<'_> {
    fn drop(&mut self) {
        self.wire.lock()[self.side as usize].gone = true;
        self.wire.changed.notify_all();
    }
}
