//! Tells an event loop which comms and listeners have something for it.

use phalanx_net::socket::Bell;
use phalanx_net::sync::lock;
use std::io;
use std::os::fd::RawFd;
use std::sync::Mutex;

/// A file descriptor for an event loop, and the numbers that it is to look at.
#[derive(Debug)]
pub struct Bells {
    bell: Bell,
    numbers: Mutex<Vec<u64>>,
}

impl Bells {
    /// For one event loop.
    pub fn new() -> io::Result<Bells> {
        Ok(Bells { bell: Bell::new()?, numbers: Mutex::default() })
    }

    /// Readable when there are numbers to take.
    pub fn file(&self) -> RawFd {
        self.bell.file()
    }

    /// Tells the loop to look at the comm or the listener with this number.
    pub(super) fn tell(&self, number: u64) {
        let mut numbers = lock(&self.numbers);
        numbers.push(number);
        if numbers.len() == 1 {
            self.bell.ring();
        }
    }

    /// The numbers since the last call.
    pub fn take(&self) -> Vec<u64> {
        let mut numbers = lock(&self.numbers);
        self.bell.hush();
        std::mem::take(&mut numbers)
    }
}
