//! The first messages on a transfer's control link, before the transfer itself is served.

use phalanx_core::wire::decode;
use phalanx_core::wire::transfer::Message;
use phalanx_net::frames::Frame;
use phalanx_net::link::Reader;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Reads the messages before the transfer one by one. Keeps the messages that arrive together with them.
pub struct Ear {
    reader: Reader,
    heard: VecDeque<Frame>,
}

impl Ear {
    pub fn new(reader: Reader) -> Ear {
        Ear { reader, heard: VecDeque::new() }
    }

    /// The next message that is no beat.
    ///
    /// # Errors
    ///
    /// `TimedOut` if none arrives within `patience`, `InvalidData` for bytes that are no message, another kind if the link
    /// ended.
    pub fn hear(&mut self, patience: Duration) -> io::Result<Message> {
        self.hear_of_living(patience, patience)
    }

    /// The same. Each beat extends the wait by `patience`, up to `most` in total.
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

    /// The link's reader, and the frames that it has read already.
    pub fn into_parts(self) -> (Reader, Vec<Frame>) {
        (self.reader, self.heard.into())
    }
}
