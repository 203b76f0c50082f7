//! The first words on a transfer's control link, one after the other.

use phalanx_core::wire::decode;
use phalanx_core::wire::transfer::Message;
use phalanx_net::frames::Frame;
use phalanx_net::link::Reader;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Hears what the other end says before the transfer is served, and keeps what comes with it.
pub struct Ear {
    reader: Reader,
    heard: VecDeque<Frame>,
}

impl Ear {
    pub fn new(reader: Reader) -> Ear {
        Ear { reader, heard: VecDeque::new() }
    }

    /// The next word. Errors: of the kind `TimedOut` where none comes, `InvalidData` where it is none, others where the link
    /// ended.
    pub fn hear(&mut self, patience: Duration) -> io::Result<Message> {
        self.hear_of_living(patience, patience)
    }

    /// The same from an end that is given its `patience` again with each sign of life, but no longer than the `most`.
    pub fn hear_of_living(&mut self, patience: Duration, most: Duration) -> io::Result<Message> {
        let (began, mut until) = (Instant::now(), Instant::now() + patience);
        loop {
            while let Some(frame) = self.heard.pop_front() {
                match decode(&frame.header) {
                    Ok(Message::Beat) => until = (Instant::now() + patience).min(began + most),
                    word => return word.map_err(|error| io::Error::new(ErrorKind::InvalidData, error)),
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            let polled = self.reader.poll(left, &mut |frame| self.heard.push_back(frame));
            if self.heard.is_empty() {
                polled.map_err(|error| io::Error::other(error.to_string()))?;
            }
        }
    }

    /// The link's reader, and what it has read already.
    pub fn into_parts(self) -> (Reader, Vec<Frame>) {
        (self.reader, self.heard.into())
    }
}
