//! The socket to the launcher.

use phalanx_core::wire::ranks::{Entry, FromRank, MOST_TO_RANK, Messages, ToRank, frame};
use phalanx_core::wire::universe::Side;
use phalanx_net::sync::lock;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recvmsg, send};
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A rank that was lost, and why.
pub type Loss = (u32, String);

pub struct Control {
    socket: OwnedFd,
    heard: Mutex<Heard>,
    /// The launcher is gone, or cannot be understood.
    closed: AtomicBool,
}

/// What has come.
struct Heard {
    messages: Messages,
    /// Connections that came with messages which have not been read yet; none for one that this process has no room for.
    files: VecDeque<Option<OwnedFd>>,
    /// Messages that came too early, and are heard before others.
    early: VecDeque<ToRank>,
    /// Connections with processes that this one has met, until they are taken.
    met: HashMap<u32, Option<OwnedFd>>,
}

impl Control {
    pub fn new(socket: OwnedFd) -> Control {
        let (messages, files, met) = (Messages::new(MOST_TO_RANK), VecDeque::new(), HashMap::new());
        let heard = Heard { messages, files, early: VecDeque::new(), met };
        Control { socket, heard: Mutex::new(heard), closed: AtomicBool::new(false) }
    }

    /// These were heard too early: they are heard again.
    pub fn defer(&self, messages: Vec<ToRank>) {
        lock(&self.heard).early.extend(messages);
    }

    /// Says something to the launcher; waits until it is on its way.
    pub fn tell(&self, message: &FromRank) -> io::Result<()> {
        let bytes = frame(message);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(count) => rest = &rest[count..],
                Err(rustix::io::Errno::INTR) => {} // the program has signals of its own
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits for the table of all ranks; notes those of them that were lost meanwhile.
    pub fn await_table(&self, size: usize, lost: &mut Vec<Loss>) -> Result<Vec<Entry>, String> {
        loop {
            match self.hear_early(true, lost)? {
                Some(ToRank::Table { entries }) if entries.len() == size => return Ok(entries),
                Some(ToRank::Table { .. }) => return Err("the table of ranks is not of this program".to_owned()),
                _ => {} // nothing else is said so early
            }
        }
    }

    /// Waits for the word on who has started this process, which is of a world that was spawned.
    pub fn await_parents(&self, lost: &mut Vec<Loss>) -> Result<Side, String> {
        loop {
            if let Some(ToRank::Born { parents }) = self.hear_early(true, lost)? {
                return Ok(parents);
            }
        }
    }

    /// The same as [`Control::hear`] before the program has begun: who is lost is noted, and any other bad news is an error.
    pub fn hear_early(&self, waits: bool, lost: &mut Vec<Loss>) -> Result<Option<ToRank>, String> {
        loop {
            match self.hear(waits) {
                Ok(Some(ToRank::Lost { rank, text })) => lost.push((rank, text)),
                Ok(Some(ToRank::Abort { rank, text, .. })) => {
                    return Err(format!("rank {rank} ends the program: {text}"));
                }
                Ok(message) => return Ok(message),
                Err(error) => return Err(format!("the launcher is gone: {error}")),
            }
        }
    }

    /// The connection with a process that was met.
    pub fn take_met(&self, process: u32) -> Option<OwnedFd> {
        lock(&self.heard).met.remove(&process)?
    }

    /// The launcher's next word, if there is one; an error when it is gone.
    pub fn hear(&self, waits: bool) -> io::Result<Option<ToRank>> {
        let heard = self.hear_next(waits);
        if heard.is_err() {
            self.closed.store(true, Ordering::Relaxed);
        }
        heard
    }

    /// Whether nothing more can be heard.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn hear_next(&self, waits: bool) -> io::Result<Option<ToRank>> {
        let mut heard = lock(&self.heard);
        if let Some(message) = heard.early.pop_front() {
            return Ok(Some(message));
        }
        loop {
            if let Some(message) = heard.messages.take().map_err(io::Error::other)? {
                if let ToRank::Met { process } = message {
                    let file = heard.files.pop_front().flatten();
                    heard.met.insert(process, file);
                }
                return Ok(Some(message));
            }
            match heard.receive(&self.socket, waits) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Heard {
    /// Reads once: bytes, and at most one file, since a read ends before the bytes that come with the next one.
    fn receive(&mut self, socket: &OwnedFd, waits: bool) -> rustix::io::Result<usize> {
        let flags = if waits { RecvFlags::CMSG_CLOEXEC } else { RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT };
        let (mut buffer, mut space) = ([0; 4096], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(socket, &mut [IoSliceMut::new(&mut buffer)], &mut ancillary, flags)?;
        let mut files = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => files.collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        match files.next() {
            Some(file) => self.files.push_back(Some(file)),
            None if received.flags.contains(ReturnFlags::CTRUNC) => self.files.push_back(None),
            None => {}
        }
        self.messages.feed(&buffer[..received.bytes]);
        Ok(received.bytes)
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
