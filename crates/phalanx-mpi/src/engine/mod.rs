//! The point-to-point core of a process: everything above it sends and receives bytes here.
//!
//! Whoever calls, works: there is no thread that moves messages. Short messages go at once with their data ("eager"); of
//! long ones only an offer goes, and the data follows when a receive was found ("rendezvous"), so that a receiver keeps
//! no data that nobody asked for yet.

mod arriving;
mod aside;
mod request;
#[cfg(test)]
pub(crate) mod tests;

pub use aside::{Aside, MOST_ASIDE};
pub use request::{EMPTY, Outgoing, Scatter, Status, Target};

use crate::error::Class;
use crate::transport::{Bell, CAN_READ_MEMORY, Header, Kind, Receiver, SYNCHRONOUS, Segment, Sender};
use arriving::Arriving;
use phalanx_core::spmd::{Envelope, Matching, Pattern};
use request::{Content, Message, Receiving, Request, Sending};
use slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Bytes of data up to which a message goes with it.
pub const EAGER: usize = 64 << 10;
/// The same where the receiver can read the sender's memory.
const EAGER_BESIDE_READING: usize = 24 << 10;

/// Another process, or this one.
pub struct Peer {
    path: Path,
    /// Frames that wait for room.
    waiting: VecDeque<Waiting>,
    arriving: Option<Arriving>,
}

pub enum Path {
    Own,
    Shared {
        local: usize,
        sender: Sender,
        receiver: Receiver,
        bell: Arc<Bell>,
    },
    /// It is dead, or was never reached.
    Gone,
}

struct Waiting {
    header: Header,
    data: Outgoing,
    sent: usize,
    /// The send that has one thing less to wait for when this has gone out.
    of: Option<usize>,
}

/// What happened to a request that is done.
pub type Outcome = Status;

/// How a send is done (MPI 5.0, 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Standard,
    Synchronous,
}

/// The sends and receives of this process.
pub struct Engine {
    me: u32,
    peers: Vec<Peer>,
    matching: Matching<usize, usize>,
    requests: Slab<Request>,
    messages: Slab<Message>,
    segment: Option<Arc<Segment>>,
    /// Grows with everything that is done: who found nothing to do looks whether it did.
    pub completions: u64,
    /// Peers with frames that wait.
    blocked: usize,
    /// Whether processes of this machine may read each other's memory, as far as is known.
    reads_memory: bool,
    /// What has arrived for services, in order.
    asides: VecDeque<Aside>,
}

impl Engine {
    /// Of process `me` in a world of `peers`, itself among them.
    pub fn new(me: u32, peers: Vec<Path>, segment: Option<Arc<Segment>>) -> Engine {
        let peer = |path| Peer { path, waiting: VecDeque::new(), arriving: None };
        Engine {
            me,
            peers: peers.into_iter().map(peer).collect(),
            matching: Matching::default(),
            requests: Slab::new(),
            messages: Slab::new(),
            segment,
            completions: 0,
            blocked: 0,
            reads_memory: CAN_READ_MEMORY,
            asides: VecDeque::new(),
        }
    }

    /// Sends; None when it is done already.
    pub fn send(&mut self, to: u32, envelope: Envelope, data: Outgoing, mode: Mode) -> Option<usize> {
        let Envelope { context, source, tag } = envelope;
        let (length, synchronous) = (data.length(), mode == Mode::Synchronous);
        let sending = |left, data| {
            let (cancelled, error, detached) = (false, None, false);
            Request::Send(Sending { to, context, data, left, cancelled, error, detached })
        };
        let mut header = Header { context, source, tag, length: length as u64, ..Header::default() };
        if to == self.me {
            return self.send_to_self(envelope, data, synchronous);
        }
        if length <= self.eager(to) {
            header.kind = Kind::Eager as u16;
            let request = synchronous.then(|| self.requests.insert(sending(2, None)));
            if let Some(id) = request {
                (header.flags, header.id) = (SYNCHRONOUS, id as u64);
            }
            return self.put(to, header, data, request, |engine, data| match request {
                Some(id) => (id, data),
                None => (engine.requests.insert(sending(1, None)), data),
            });
        }
        let address = data.start() as u64;
        let id = self.requests.insert(sending(1, Some(data)));
        header = Header { kind: Kind::Offer as u16, id: id as u64, length: 16, ..header };
        self.tell(to, header, [length as u64, address]);
        Some(id)
    }

    /// Bytes of data up to which a message to this process goes with it: a memory that can be read saves a copy.
    fn eager(&self, to: u32) -> usize {
        let shared = matches!(self.peers[to as usize].path, Path::Shared { .. });
        if shared && self.reads_memory { EAGER_BESIDE_READING } else { EAGER }
    }

    /// Sends a frame, or what is left of it later as part of a request.
    fn put(
        &mut self,
        to: u32,
        header: Header,
        data: Outgoing,
        request: Option<usize>,
        later: impl FnOnce(&mut Engine, Outgoing) -> (usize, Outgoing),
    ) -> Option<usize> {
        let sent = self.push(to, &header, &data);
        if sent == Some(data.length()) {
            if let Some(id) = request {
                self.advance(id);
            }
            return request;
        }
        let (id, data) = later(self, data);
        self.wait_for_room(to, Waiting { header, data, sent: sent.unwrap_or(usize::MAX), of: Some(id) });
        Some(id)
    }

    /// A frame of the engine's own.
    fn tell(&mut self, to: u32, header: Header, words: [u64; 2]) {
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(header.length as usize).collect();
        let data = Outgoing::Owned(payload);
        if self.push(to, &header, &data) != Some(data.length()) {
            self.wait_for_room(to, Waiting { header, data, sent: usize::MAX, of: None });
        }
    }

    /// Writes what there is room for; None when not even the header had any.
    fn push(&mut self, to: u32, header: &Header, data: &Outgoing) -> Option<usize> {
        let peer = &mut self.peers[to as usize];
        if !peer.waiting.is_empty() {
            return None;
        }
        let sent = peer.path.push(header, data, None);
        if sent.is_some() {
            self.wake(to);
        }
        sent
    }

    fn wait_for_room(&mut self, to: u32, waiting: Waiting) {
        let peer = &mut self.peers[to as usize];
        if matches!(peer.path, Path::Gone) {
            if let Some(id) = waiting.of {
                self.fail(id);
            }
            return;
        }
        self.blocked += usize::from(peer.waiting.is_empty());
        peer.waiting.push_back(waiting);
    }

    /// Rings the bell of a process that sleeps.
    #[inline]
    fn wake(&self, to: u32) {
        let (Some(segment), Path::Shared { local, bell, .. }) = (&self.segment, &self.peers[to as usize].path) else {
            return;
        };
        let sleeps = &segment.desk(*local).sleeps;
        fence(Ordering::SeqCst); // what was pushed is seen by who looks before it sleeps
        if sleeps.load(Ordering::Relaxed) == 1 && sleeps.swap(0, Ordering::Relaxed) == 1 {
            bell.ring();
        }
    }

    /// Goes on with the frames that wait for room at a peer. Whether something went.
    fn drain(&mut self, to: u32) -> bool {
        let mut moved = false;
        while let Some(waiting) = self.peers[to as usize].waiting.front_mut() {
            let before = waiting.sent;
            let start = (before != usize::MAX).then_some(before);
            let peer = &mut self.peers[to as usize];
            let Some(waiting) = peer.waiting.front_mut() else { break };
            let Some(sent) = peer.path.push(&waiting.header, &waiting.data, start) else { break };
            waiting.sent = sent;
            let (done, of) = (sent == waiting.data.length(), waiting.of);
            moved |= sent != before;
            if !done {
                break;
            }
            peer.waiting.pop_front();
            if let Some(id) = of {
                self.advance(id);
            }
        }
        if self.peers[to as usize].waiting.is_empty() {
            self.blocked -= 1;
        } else if let Path::Shared { sender, .. } = &self.peers[to as usize].path {
            sender.ask_for_room();
        }
        if moved {
            self.wake(to);
        }
        moved
    }

    /// One thing less to wait for.
    fn advance(&mut self, id: usize) {
        let Some(Request::Send(sending)) = self.requests.get_mut(id) else { return };
        sending.left = sending.left.saturating_sub(1);
        if sending.left == 0 {
            self.completions += 1;
            if sending.detached {
                self.requests.remove(id);
            }
        }
    }

    fn fail(&mut self, id: usize) {
        if let Some(Request::Send(sending)) = self.requests.get_mut(id) {
            (sending.left, sending.error) = (1, Some(Class::ProcAborted));
            self.advance(id);
        }
    }

    fn send_to_self(&mut self, envelope: Envelope, data: Outgoing, synchronous: bool) -> Option<usize> {
        // SAFETY: the caller of the send lends the memory until it is done.
        let bytes = unsafe { data.bytes() };
        if let Some(receive) = self.matching.arrive(&envelope) {
            self.begin_receive(receive, &envelope, bytes.len() as u64);
            self.put_into(receive, 0, bytes.as_ptr(), bytes.len());
            self.complete_receive(receive);
            return None;
        }
        // A standard send of something long may wait as well, but a copy spares programs that count on it a deadlock.
        let sending = Sending {
            to: self.me,
            context: envelope.context,
            data: None,
            left: 1,
            cancelled: false,
            error: None,
            detached: false,
        };
        let request = synchronous.then(|| self.requests.insert(Request::Send(sending)));
        let (from, length) = (self.me, bytes.len() as u64);
        let content = Content::Here(bytes.to_vec());
        let message = self.messages.insert(Message { from, length, content, taken: None, matched: request });
        self.matching.keep(envelope, message);
        request
    }

    /// Receives. The receive is done when [`Engine::outcome`] says so.
    pub fn receive(&mut self, pattern: Pattern, target: Target) -> usize {
        let id = self.insert_receive(pattern.context, target);
        match self.matching.take(&pattern) {
            Some((envelope, message)) => self.give(message, &envelope, id),
            None => self.matching.post(pattern, id),
        }
        id
    }

    fn insert_receive(&mut self, context: u64, target: Target) -> usize {
        let receiving = Receiving { context, target, status: EMPTY, done: false, detached: false };
        self.requests.insert(Request::Receive(receiving))
    }

    /// The message that a receive of this pattern would get: who sent it, its tag and its length.
    pub fn probe(&self, pattern: &Pattern) -> Option<Status> {
        let (envelope, message) = self.matching.look(pattern)?;
        Some(self.status_of(envelope, *message))
    }

    /// The same, taken out: it waits for [`Engine::receive_message`] alone.
    pub fn probe_and_take(&mut self, pattern: &Pattern) -> Option<(Taken, Status)> {
        let (envelope, message) = self.matching.take(pattern)?;
        Some((Taken { envelope, message }, self.status_of(&envelope, message)))
    }

    fn status_of(&self, envelope: &Envelope, message: usize) -> Status {
        Status { source: envelope.source, tag: envelope.tag, bytes: self.messages[message].length, ..EMPTY }
    }

    /// Receives a message that was taken out.
    pub fn receive_message(&mut self, taken: Taken, target: Target) -> usize {
        let id = self.insert_receive(taken.envelope.context, target);
        self.give(taken.message, &taken.envelope, id);
        id
    }

    /// What came of a request, if it is done; the request is gone then. Afterwards its number stands for nothing, or for
    /// another one.
    #[inline]
    pub fn outcome(&mut self, id: usize) -> Option<Outcome> {
        let outcome = self.peek(id)?;
        self.requests.remove(id);
        Some(outcome)
    }

    /// The same without an end to the request.
    #[inline]
    pub fn peek(&self, id: usize) -> Option<Outcome> {
        match &self.requests[id] {
            Request::Send(sending) if sending.left == 0 => {
                Some(Status { cancelled: sending.cancelled, error: sending.error, ..EMPTY })
            }
            Request::Receive(receiving) if receiving.done => Some(receiving.status),
            _ => None,
        }
    }

    /// Nobody will ask for the outcome of this request; it is still done.
    pub fn detach(&mut self, id: usize) {
        if self.outcome(id).is_none() {
            match &mut self.requests[id] {
                Request::Send(sending) => sending.detached = true,
                Request::Receive(receiving) => receiving.detached = true,
            }
        }
    }

    /// Tries to take a request back: it is done then, with or without having been cancelled.
    pub fn cancel(&mut self, id: usize) {
        match &mut self.requests[id] {
            Request::Receive(receiving) if !receiving.done => {
                if self.matching.cancel(receiving.context, |receive| *receive == id).is_some() {
                    receiving.status.cancelled = true;
                    self.complete_receive(id);
                }
            }
            Request::Send(sending) if sending.data.is_some() => {
                let (to, context) = (sending.to, sending.context);
                let header = Header { kind: Kind::Withdraw as u16, id: id as u64, context, ..Header::default() };
                self.tell(to, header, [0; 2]);
            }
            _ => {}
        }
    }

    /// Moves what can be moved. Whether something was.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let mut moved = false;
        for peer in 0..self.peers.len() {
            moved |= self.arrive(peer);
        }
        if self.blocked > 0 {
            for peer in 0..self.peers.len() as u32 {
                moved |= !self.peers[peer as usize].waiting.is_empty() && self.drain(peer);
            }
        }
        moved
    }

    /// Whether frames wait for room.
    pub fn is_blocked(&self) -> bool {
        self.blocked > 0
    }
}

/// A message that was taken out of the queue of those that wait (MPI_Message).
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    envelope: Envelope,
    message: usize,
}

impl Path {
    /// Writes as much of the frame as there is room for, from `sent` on, or from its header; up to where.
    #[inline]
    fn push(&mut self, header: &Header, data: &Outgoing, sent: Option<usize>) -> Option<usize> {
        let Path::Shared { sender, .. } = self else { return None };
        let (start, length) = (data.start(), data.length());
        let mut at = sent;
        loop {
            let from = at.unwrap_or(0);
            if at == Some(length) {
                return at;
            }
            // SAFETY: the data is lent for as long as its send is not done.
            match unsafe { sender.push(header, start.add(from), length - from) } {
                Some(count) => at = Some(from + count),
                None => return at,
            }
        }
    }
}
