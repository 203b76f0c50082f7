//! The receiving end of a stream.

use super::{Frame, LENGTH, PAYLOAD, Protection};
use crate::blocks::{Cut, Opener};
use crate::copy::move_ahead;
use crate::seal::{HEAD, RECORD, altered};
use crate::socket::Socket;
use crate::tls::Shaken;
use phalanx_core::level::Level;
use std::io::{self, ErrorKind};
use std::ops::Range;

/// Receives frames, one at a time, as they arrive at the socket.
#[derive(Debug)]
pub struct Incoming {
    socket: Socket,
    opener: Opener,
    /// The frame being received, and sometimes the head of the next one.
    frame: Frame,
    filled: usize,
    /// The length of the frame at the beginning that was already handed out.
    taken: usize,
    /// What is known of a private frame.
    private: Option<Private>,
}

/// A private frame that is being received, and the blocks behind it.
#[derive(Debug, Default)]
struct Private {
    /// Where the blocks are that were not opened yet.
    blocks: Range<usize>,
    /// Where the part of the payload is that has come.
    payload: Range<usize>,
    /// The payload's length, if the frame has begun.
    length: Option<usize>,
}

impl Incoming {
    /// A stream over a connected socket. `shaken`: the result of the handshake done on it.
    pub fn new(socket: Socket, shaken: Option<Shaken>, protection: Protection) -> io::Result<Incoming> {
        let (level, _, opener) = protection.ends(shaken)?;
        socket.set_blocking(false)?;
        let private = (level == Level::Private).then(Private::default);
        Ok(Incoming { socket, opener, frame: Frame::new(level, HEAD), filled: 0, taken: 0, private })
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The next frame's payload, opened; `None`: it has not arrived yet. An altered frame is an error of kind
    /// `InvalidData`, the end of the connection one of kind `UnexpectedEof`.
    pub fn receive(&mut self) -> io::Result<Option<&mut [u8]>> {
        if self.private.is_some() {
            return self.receive_private();
        }
        self.frame.copy_within(self.taken..self.filled, 0); // at most a head
        (self.filled, self.taken) = (self.filled - self.taken, 0);
        if !self.fill(HEAD)? {
            return Ok(None);
        }
        let block = self.opener.block(*self.frame.first_chunk().expect("a head"))?;
        if !self.fill(block.length())? {
            return Ok(None);
        }
        self.taken = block.length();
        let payload = self.opener.open_at(block, &mut self.frame[..block.length()])?;
        Ok(Some(&mut self.frame[payload]))
    }

    /// Reads until there are `wanted` bytes. `false`: the socket has no more now. The head of the next frame is read in
    /// the same call if it is there, so that each frame takes one system call.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        while self.filled < wanted {
            let room = &mut self.frame[self.filled..wanted + if wanted > HEAD { HEAD } else { 0 }];
            match read(&self.socket, room)? {
                None => return Ok(false),
                Some(count) => self.filled += count,
            }
        }
        Ok(true)
    }

    /// Opens blocks where they lie, and moves their payloads together.
    fn receive_private(&mut self) -> io::Result<Option<&mut [u8]>> {
        let Some(private) = &mut self.private else { return Ok(None) };
        loop {
            let begin = private.blocks.start;
            let bytes = &mut self.frame[private.blocks.clone()];
            let block = match self.opener.cut(bytes)? {
                Cut::Whole(block) => block,
                Cut::Part(_) => match private.read(&self.socket, &mut self.frame)? {
                    true => continue,
                    false => return Ok(None),
                },
                Cut::Plain(..) => return Err(altered()),
            };
            let opened = self.opener.open_at(block, bytes)?;
            private.blocks.start += block.length();
            let mut opened = begin + opened.start..begin + opened.end;
            if opened.is_empty() && block.payload() == 0 {
                return Err(altered()); // or blocks of nothing could keep this thread
            }
            if opened.is_empty() {
                continue; // a message of TLS
            }
            let length = match private.length {
                Some(length) => length,
                None => {
                    private.payload = opened.start..opened.start;
                    let length = self.frame[opened.clone()].first_chunk::<LENGTH>().ok_or_else(altered)?;
                    opened.start += LENGTH;
                    u32::from_le_bytes(*length) as usize
                }
            };
            if length > PAYLOAD || private.payload.len() + opened.len() > length {
                return Err(altered());
            }
            move_ahead(&mut self.frame, opened.clone(), private.payload.end);
            private.payload.end += opened.len();
            private.length = (private.payload.len() < length).then_some(length);
            if private.length.is_none() {
                return Ok(Some(&mut self.frame[private.payload.clone()]));
            }
        }
    }
}

impl Private {
    /// Reads once behind what is here. `false`: the socket has no more now.
    fn read(&mut self, socket: &Socket, frame: &mut [u8]) -> io::Result<bool> {
        if self.length.is_none() {
            self.move_blocks(0, frame);
        } else if frame.len() - self.blocks.end < RECORD {
            frame.copy_within(self.payload.clone(), HEAD);
            self.payload = HEAD..HEAD + self.payload.len();
            self.move_blocks(self.payload.end, frame);
        }
        let room = &mut frame[self.blocks.end..];
        if room.is_empty() {
            return Err(altered()); // a block that is longer than what is missing
        }
        let count = read(socket, room)?;
        self.blocks.end += count.unwrap_or(0);
        Ok(count.is_some())
    }

    fn move_blocks(&mut self, to: usize, frame: &mut [u8]) {
        frame.copy_within(self.blocks.clone(), to);
        self.blocks = to..to + self.blocks.len();
    }
}

/// Reads once. `None`: the socket has nothing now.
fn read(socket: &Socket, room: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match socket.receive(room, false) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
