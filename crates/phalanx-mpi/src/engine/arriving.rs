//! What arrives: frames of the peers, chunk by chunk.

use super::aside::{Aside, MOST_ASIDE};
use super::request::{Content, Message, Receiving, Request, Status, Target};
use super::{Engine, Envelope, Path, Waiting};
use crate::error::Class;
use crate::transport::{Chunk, Header, Kind, SYNCHRONOUS, read_memory};
use std::sync::atomic::Ordering;

/// A frame of which more is to come.
pub(super) struct Arriving {
    header: Header,
    into: Into,
    got: usize,
}

/// Where its payload goes.
enum Into {
    Receive(usize),
    Message(usize),
    /// The engine's own word, which is kept until it is whole.
    Word([u8; 16]),
    /// A service's word, likewise.
    Aside(Vec<u8>),
    Nowhere,
}

/// Frames taken from one peer before the next one's turn.
const TURN: usize = 64;

impl Engine {
    /// Takes what a peer has sent. Whether there was something.
    #[inline]
    pub(super) fn arrive(&mut self, peer: usize) -> bool {
        let mut count = 0;
        while count < TURN {
            let Path::Shared { receiver, .. } = &self.peers[peer].path else { break };
            let Some(chunk) = receiver.peek() else { break };
            count += 1;
            self.take(peer as u32, &chunk);
            let Path::Shared { receiver, bell, .. } = &mut self.peers[peer].path else { break };
            if receiver.pop(&chunk) {
                bell.ring();
            }
        }
        count > 0
    }

    fn take(&mut self, from: u32, chunk: &Chunk) {
        let mut arriving = match self.peers[from as usize].arriving.take() {
            Some(arriving) => arriving,
            None => self.begin(from, chunk.header),
        };
        let room = arriving.header.length as usize - arriving.got;
        self.feed(&mut arriving, chunk.bytes, chunk.length.min(room));
        if arriving.got as u64 == arriving.header.length {
            self.end(from, arriving);
        } else {
            self.peers[from as usize].arriving = Some(arriving);
        }
    }

    /// A frame begins: where does its payload go?
    fn begin(&mut self, from: u32, header: Header) -> Arriving {
        let into = match Kind::of(header.kind) {
            Some(Kind::Eager) => {
                let envelope = envelope(&header);
                match self.matching.arrive(&envelope) {
                    Some(receive) => {
                        self.begin_receive(receive, &envelope, header.length);
                        self.tell_matched(from, &header);
                        Into::Receive(receive)
                    }
                    None => Into::Message(self.keep(from, header)),
                }
            }
            Some(Kind::Data) => match self.requests.get(header.id as usize) {
                Some(Request::Receive(receiving)) if !receiving.done => Into::Receive(header.id as usize),
                _ => Into::Nowhere,
            },
            Some(Kind::Aside) if header.length <= MOST_ASIDE as u64 => {
                Into::Aside(Vec::with_capacity(header.length as usize))
            }
            Some(Kind::Aside) => Into::Nowhere,
            Some(_) if header.length <= 16 => Into::Word([0; 16]),
            _ => Into::Nowhere,
        };
        Arriving { header, into, got: 0 }
    }

    fn keep(&mut self, from: u32, header: Header) -> usize {
        let content = Content::Here(Vec::with_capacity((header.length as usize).min(super::EAGER)));
        let matched = (header.flags & SYNCHRONOUS != 0).then_some(header.id as usize);
        let message = self.messages.insert(Message { from, length: header.length, content, taken: None, matched });
        self.matching.keep(envelope(&header), message);
        message
    }

    #[inline]
    fn feed(&mut self, arriving: &mut Arriving, bytes: *const u8, length: usize) {
        // SAFETY: the transport says that a chunk may be read until it is popped.
        let slice = || unsafe { std::slice::from_raw_parts(bytes, length) };
        match &mut arriving.into {
            Into::Receive(receive) => self.put_into(*receive, arriving.got, bytes, length),
            Into::Message(message) => {
                if let Content::Here(kept) = &mut self.messages[*message].content {
                    kept.extend_from_slice(slice());
                }
            }
            Into::Word(word) => word[arriving.got..arriving.got + length].copy_from_slice(slice()),
            Into::Aside(kept) => kept.extend_from_slice(slice()),
            Into::Nowhere => {}
        }
        arriving.got += length;
    }

    fn end(&mut self, from: u32, arriving: Arriving) {
        let header = arriving.header;
        match arriving.into {
            Into::Receive(receive) => self.complete_receive(receive),
            Into::Message(message) => {
                if let Some(receive) = self.messages[message].taken {
                    self.empty(message, receive);
                }
            }
            Into::Word(word) => {
                let number = |at: usize| u64::from_le_bytes(word[at..at + 8].try_into().expect("eight bytes"));
                self.on_word(from, &header, [number(0), number(8)]);
            }
            Into::Aside(bytes) => {
                self.keep_aside(Aside { context: header.context, from, source: header.source, bytes });
            }
            Into::Nowhere => {}
        }
    }

    fn on_word(&mut self, from: u32, header: &Header, [word, more]: [u64; 2]) {
        let id = header.id as usize;
        match Kind::of(header.kind) {
            Some(Kind::Offer) => self.on_offer(from, header, word, more),
            Some(Kind::Wanted) => self.on_wanted(from, id, word),
            Some(Kind::Matched) if self.is_send_to(id, from) => self.advance(id),
            Some(Kind::Withdraw) => {
                let messages = &self.messages;
                let is_it = |message: &usize| {
                    let message = &messages[*message];
                    message.from == from && matches!(message.content, Content::There { send, .. } if send == header.id)
                };
                let withdrawn = self.matching.withdraw(header.context, is_it);
                if let Some(message) = withdrawn {
                    self.messages.remove(message);
                }
                let answer = Header { kind: Kind::Withdrawn as u16, length: 8, ..*header };
                self.tell(from, answer, [u64::from(withdrawn.is_some()), 0]);
            }
            Some(Kind::Withdrawn) if word == 1 && self.is_send_to(id, from) => {
                if let Some(Request::Send(sending)) = self.requests.get_mut(id) {
                    (sending.cancelled, sending.data, sending.left) = (true, None, 1);
                }
                self.advance(id);
            }
            _ => {}
        }
    }

    fn is_send_to(&self, id: usize, peer: u32) -> bool {
        matches!(self.requests.get(id), Some(Request::Send(sending)) if sending.to == peer && sending.left > 0)
    }

    fn on_offer(&mut self, from: u32, header: &Header, length: u64, address: u64) {
        let envelope = envelope(header);
        match self.matching.arrive(&envelope) {
            Some(receive) => {
                self.begin_receive(receive, &envelope, length);
                self.want(from, header.id, receive, length, address);
            }
            None => {
                let content = Content::There { send: header.id, address };
                let message = self.messages.insert(Message { from, length, content, taken: None, matched: None });
                self.matching.keep(envelope, message);
            }
        }
    }

    /// Gets the data of a message that was offered: from the sender's memory where that can be read, else it is asked for.
    fn want(&mut self, from: u32, send: u64, receive: usize, length: u64, address: u64) {
        if self.read_offered(from, receive, length, address) {
            self.complete_receive(receive);
            let header = Header { kind: Kind::Matched as u16, id: send, ..Header::default() };
            return self.tell(from, header, [0; 2]);
        }
        let header = Header { kind: Kind::Wanted as u16, id: send, length: 8, ..Header::default() };
        self.tell(from, header, [receive as u64, 0]);
    }

    fn read_offered(&mut self, from: u32, receive: usize, length: u64, address: u64) -> bool {
        let (Some(segment), Path::Shared { local, .. }) = (&self.segment, &self.peers[from as usize].path) else {
            return false;
        };
        let Some(Request::Receive(Receiving { target: Target::Plain(to, capacity), .. })) = self.requests.get(receive)
        else {
            return false;
        };
        if !self.reads_memory || address == 0 {
            return false;
        }
        let process = segment.desk(*local).process.load(Ordering::Relaxed);
        // SAFETY: the memory of the receive is lent until it is done.
        let read = unsafe { read_memory(process, address, *to, (length as usize).min(*capacity)) };
        self.reads_memory = read; // where it is forbidden once it is forbidden
        read
    }

    fn on_wanted(&mut self, by: u32, send: usize, receive: u64) {
        if !self.is_send_to(send, by) {
            return;
        }
        let Some(Request::Send(sending)) = self.requests.get_mut(send) else { return };
        let Some(data) = sending.data.take() else { return };
        let header = Header { kind: Kind::Data as u16, id: receive, length: data.length() as u64, ..Header::default() };
        let sent = self.push(by, &header, &data);
        if sent == Some(data.length()) {
            return self.advance(send);
        }
        self.wait_for_room(by, Waiting { header, data, sent: sent.unwrap_or(usize::MAX), of: Some(send) });
    }

    /// A receive gets a message that has waited.
    pub(super) fn give(&mut self, message: usize, envelope: &Envelope, receive: usize) {
        let Message { from, length, matched, .. } = self.messages[message];
        self.begin_receive(receive, envelope, length);
        if let Some(send) = matched {
            if from == self.me {
                self.advance(send);
            } else {
                let header = Header { kind: Kind::Matched as u16, id: send as u64, ..Header::default() };
                self.tell(from, header, [0; 2]);
            }
        }
        match &self.messages[message].content {
            Content::There { send, address } => {
                let (send, address) = (*send, *address);
                self.messages.remove(message);
                self.want(from, send, receive, length, address);
            }
            Content::Here(kept) if (kept.len() as u64) < length => self.messages[message].taken = Some(receive),
            Content::Here(_) => self.empty(message, receive),
        }
    }

    /// Moves the whole data of a message into its receive.
    fn empty(&mut self, message: usize, receive: usize) {
        let message = self.messages.remove(message);
        if let Content::Here(kept) = message.content {
            self.put_into(receive, 0, kept.as_ptr(), kept.len());
        }
        self.complete_receive(receive);
    }

    fn tell_matched(&mut self, from: u32, header: &Header) {
        if header.flags & SYNCHRONOUS != 0 {
            let header = Header { kind: Kind::Matched as u16, id: header.id, ..Header::default() };
            self.tell(from, header, [0; 2]);
        }
    }

    /// The receive has its message; its data is yet to come.
    #[inline]
    pub(super) fn begin_receive(&mut self, receive: usize, envelope: &Envelope, length: u64) {
        let Some(Request::Receive(receiving)) = self.requests.get_mut(receive) else { return };
        let capacity = receiving.target.capacity() as u64;
        let error = (length > capacity).then_some(Class::Truncate);
        let (source, tag) = (envelope.source, envelope.tag);
        receiving.status = Status { source, tag, bytes: length.min(capacity), cancelled: false, error };
    }

    #[inline]
    pub(super) fn put_into(&mut self, receive: usize, position: usize, bytes: *const u8, length: usize) {
        if let Some(Request::Receive(receiving)) = self.requests.get(receive) {
            // SAFETY: whoever received lends the memory until the receive is done; the bytes are a chunk or a kept message.
            unsafe { receiving.target.put(position, bytes, length) };
        }
    }

    pub(super) fn complete_receive(&mut self, receive: usize) {
        let Some(Request::Receive(receiving)) = self.requests.get_mut(receive) else { return };
        receiving.done = true;
        self.completions += 1;
        if receiving.detached {
            self.requests.remove(receive);
        }
    }
}

fn envelope(header: &Header) -> Envelope {
    Envelope { context: header.context, source: header.source, tag: header.tag }
}
