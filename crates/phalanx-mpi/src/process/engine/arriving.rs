//! What arrives: frames of the peers, chunk by chunk.

use super::aside::{Aside, MOST_ASIDE};
use super::request::{Content, Message, Receiving, Request, Sending, Status, Target};
use super::short::OFTEN;
use super::{Engine, Envelope, Path};
use crate::error::Class;
use crate::process::transport::{FAILED, Header, Kind, Place, SYNCHRONOUS, read_memory};
use phalanx_net::copy::append;
use std::sync::atomic::Ordering;

/// A frame of which more is to come.
pub(super) struct Arriving {
    pub header: Header,
    pub into: Into,
    got: usize,
}

/// Where its payload goes.
pub(super) enum Into {
    Receive(usize),
    Message(usize),
    /// The engine's own word, which is kept until it is whole.
    Word([u8; 16]),
    /// A service's word, likewise.
    Aside(Vec<u8>),
    Nowhere,
}

/// Frames taken from one peer before the next peer's turn: at most, and for each request that the caller waits for. One round in many
/// takes the maximum. A message without a receive is cheaper to leave in its channel than to store.
const TURN: u64 = 64;
const FOR_EACH: u64 = 8;

impl Engine {
    /// Takes what a peer has sent, or only as much as completes so many requests. Whether there was anything.
    #[inline]
    pub(super) fn arrive(&mut self, peer: u32, most: u64) -> bool {
        let (mut count, before) = (0, self.completions);
        let turn = if self.rounds % OFTEN == 0 { TURN } else { most.saturating_mul(FOR_EACH).min(TURN) };
        while count < turn {
            let Path::Shared { receiver, .. } = &self.peers[peer as usize].path else { break };
            let Some(chunk) = receiver.peek() else { break };
            count += 1;
            self.take(peer, &chunk.header, chunk.bytes, chunk.length);
            let Path::Shared { receiver, bell, .. } = &mut self.peers[peer as usize].path else { break };
            if receiver.pop(&chunk) {
                bell.ring();
            }
            if self.completions - before >= most {
                break;
            }
        }
        count > 0
    }

    /// Takes bytes of a frame's data, the first ones with its header; they may be read now.
    #[inline]
    pub(super) fn take(&mut self, from: u32, header: &Header, bytes: *const u8, length: usize) {
        let mut arriving = match self.peers[from as usize].arriving.take() {
            Some(arriving) => arriving,
            None => self.begin(from, *header),
        };
        let room = arriving.header.length as usize - arriving.got;
        self.feed(&mut arriving, bytes, length.min(room));
        self.keep_or_end(from, arriving);
    }

    /// Bytes of the frame that is arriving came to their place.
    pub(super) fn take_placed(&mut self, from: u32, length: usize) {
        if let Some(mut arriving) = self.peers[from as usize].arriving.take() {
            arriving.got += length;
            if let Into::Aside(kept) = &mut arriving.into {
                // SAFETY: `place` has lent the room behind what was there, and so much of it was written.
                unsafe { kept.set_len(arriving.got) };
            }
            self.keep_or_end(from, arriving);
        }
    }

    /// Where the next bytes of the frame that is arriving go, if that is one run of memory.
    pub(super) fn place(&mut self, from: u32) -> Option<Place> {
        let arriving = self.peers[from as usize].arriving.as_mut()?;
        let (start, capacity) = match &mut arriving.into {
            Into::Receive(receive) => match self.requests.get(*receive) {
                Some(Request::Receive(Receiving { target: Target::Plain(start, capacity), .. })) => (*start, *capacity),
                _ => return None,
            },
            Into::Aside(kept) => (kept.as_mut_ptr(), kept.capacity()),
            _ => return None,
        };
        let length = (arriving.header.length as usize).min(capacity).checked_sub(arriving.got)?;
        Some(Place { start: start.wrapping_add(arriving.got), length })
    }

    /// Bytes of the frame that is arriving which are still to come; none while there is no such frame.
    pub(super) fn missing(&self, from: u32) -> Option<usize> {
        let arriving = self.peers[from as usize].arriving.as_ref()?;
        Some(arriving.header.length as usize - arriving.got)
    }

    #[inline]
    fn keep_or_end(&mut self, from: u32, arriving: Arriving) {
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
                        self.begin_receive(receive, from, &envelope, header.length);
                        self.note_failed(receive, header.flags & FAILED != 0);
                        self.note_taken(from, header.length);
                        if header.flags & SYNCHRONOUS != 0 {
                            self.tell_matched(from, header.context, header.id);
                        }
                        Into::Receive(receive)
                    }
                    None if self.is_revoked(header.context) => {
                        self.note_taken(from, header.length);
                        Into::Nowhere
                    }
                    None => Into::Message(self.keep(from, header)),
                }
            }
            Some(Kind::Data) => match self.requests.get(header.id as usize) {
                Some(Request::Receive(it)) if it.awaits(from, header.length) && it.context == header.context => {
                    Into::Receive(header.id as usize)
                }
                _ => Into::Nowhere,
            },
            Some(Kind::Aside) if header.length <= MOST_ASIDE as u64 => {
                Into::Aside(self.memory_for(header.length as usize))
            }
            Some(Kind::Aside) => Into::Nowhere,
            Some(_) if header.length <= 16 => Into::Word([0; 16]),
            _ => Into::Nowhere,
        };
        Arriving { header, into, got: 0 }
    }

    fn keep(&mut self, from: u32, header: Header) -> usize {
        self.note_held(from, header.length);
        let content = Content::Here(Vec::with_capacity((header.length as usize).min(super::EAGER)));
        let matched = (header.flags & SYNCHRONOUS != 0).then_some(header.id as usize);
        let (context, length, failed) = (header.context, header.length, header.flags & FAILED != 0);
        let message = self.messages.insert(Message { failed, from, context, length, content, taken: None, matched });
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
                    append(kept, slice());
                }
            }
            Into::Word(word) => word[arriving.got..arriving.got + length].copy_from_slice(slice()),
            Into::Aside(kept) => append(kept, slice()),
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
        let is_revoked = self.is_revoked(header.context);
        match Kind::of(header.kind) {
            Some(Kind::Offer) if is_revoked => self.note_taken(from, 0), // the sender hears of it too
            Some(Kind::Wanted) if is_revoked => {}
            Some(Kind::Offer) => self.on_offer(from, header, word, more),
            Some(Kind::Wanted) => self.on_wanted(from, header, word),
            Some(Kind::Matched) => self.on_matched(from, header),
            Some(Kind::Farewell) => self.part(from),
            Some(Kind::Credit) => self.on_credit(from, word),
            Some(Kind::Withdraw) => {
                self.withdraw(from, header);
                self.tell(from, Header { kind: Kind::Withdrawn as u16, ..*header }, [0; 2]);
            }
            Some(Kind::Withdrawn) => self.on_withdrawn(from, header),
            _ => {}
        }
    }

    /// A message whose data is with its sender is not to be read there any more, if it is still to be.
    fn withdraw(&mut self, from: u32, header: &Header) {
        let is_it = |message: &Message| {
            message.from == from && matches!(message.content, Content::There { send, .. } if send == header.id)
        };
        let messages = &self.messages;
        if let Some(message) = self.matching.withdraw(header.context, |message| is_it(&messages[*message])) {
            return self.drop_message(message);
        }
        // The program has taken it out to receive it later, which will fail.
        let taken_out = self.messages.iter_mut().find(|(_, it)| it.context == header.context && is_it(it));
        let Some((_, message)) = taken_out else { return };
        // The offer is no longer kept: what stays is this process's own.
        let (content, context) = (Content::Here(Vec::new()), message.context);
        *message = Message { from: self.me, context, failed: true, length: 0, content, matched: None, taken: None };
        self.release_bytes(from, 0);
    }

    /// The send to this process that a frame of it names, and that is not done.
    pub(super) fn send_to(&self, peer: u32, header: &Header) -> Option<&Sending> {
        let is_it = |it: &Sending| it.to == peer && it.left > 0 && it.context == header.context;
        match self.requests.get(usize::try_from(header.id).ok()?) {
            Some(Request::Send(sending)) if is_it(sending) => Some(sending),
            _ => None,
        }
    }

    fn send_to_mut(&mut self, peer: u32, header: &Header) -> Option<&mut Sending> {
        self.send_to(peer, header)?;
        match self.requests.get_mut(header.id as usize) {
            Some(Request::Send(sending)) => Some(sending),
            _ => None,
        }
    }

    /// Only once, and only where it was to be said: the program may free the data of a send that is done.
    fn on_matched(&mut self, by: u32, header: &Header) {
        let Some(sending) = self.send_to_mut(by, header).filter(|it| it.awaits_match) else { return };
        (sending.awaits_match, sending.data) = (false, None);
        self.advance(header.id as usize);
    }

    /// The receiver does not look for the data any more. It has said before if it has asked for it, or has got it: what is
    /// under way is not taken back.
    fn on_withdrawn(&mut self, by: u32, header: &Header) {
        let Some(sending) = self.send_to_mut(by, header).filter(|it| it.asked_back) else { return };
        sending.asked_back = false;
        match sending.data.is_some() {
            true => self.take_send_back(header.id as usize),
            false => self.advance(header.id as usize),
        }
    }

    fn on_offer(&mut self, from: u32, header: &Header, length: u64, address: u64) {
        let envelope = envelope(header);
        match self.matching.arrive(&envelope) {
            Some(receive) => {
                self.begin_receive(receive, from, &envelope, length);
                self.note_taken(from, 0);
                self.want(from, header.context, header.id, receive, length, address);
            }
            None => {
                self.note_held(from, 0);
                let content = Content::There { send: header.id, address };
                let (context, failed, taken, matched) = (header.context, false, None, None);
                let message = self.messages.insert(Message { failed, from, context, length, content, taken, matched });
                self.matching.keep(envelope, message);
            }
        }
    }

    /// Gets the data of a message that was offered: from the sender's memory where that can be read, else it is asked for.
    fn want(&mut self, from: u32, context: u64, send: u64, receive: usize, length: u64, address: u64) {
        if self.read_offered(from, receive, length, address) {
            self.complete_receive(receive);
            return self.tell_matched(from, context, send);
        }
        let header = Header { kind: Kind::Wanted as u16, context, id: send, length: 8, ..Header::default() };
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

    fn on_wanted(&mut self, by: u32, header: &Header, receive: u64) {
        let send = header.id as usize;
        let Some(sending) = self.send_to_mut(by, header) else { return };
        let Some(data) = sending.data.take() else { return };
        sending.awaits_match = false;
        let (context, length) = (sending.context, data.length() as u64);
        let header = Header { kind: Kind::Data as u16, context, id: receive, length, ..Header::default() };
        self.transmit(by, header, data, Some(send));
    }

    /// A receive gets a message that has waited.
    pub(super) fn give(&mut self, message: usize, envelope: &Envelope, receive: usize) {
        let Message { failed, from, length, matched, .. } = self.messages[message];
        self.begin_receive(receive, from, envelope, length);
        self.note_failed(receive, failed);
        if from != self.me {
            let is_here = matches!(self.messages[message].content, Content::Here(_));
            self.release_bytes(from, if is_here { length } else { 0 });
        }
        if let Some(send) = matched {
            if from == self.me {
                self.advance(send);
            } else {
                self.tell_matched(from, envelope.context, send as u64);
            }
        }
        let is_gone = matches!(self.peers[from as usize].path, Path::Gone);
        match &self.messages[message].content {
            content if is_gone && content.is_cut(length) => {
                self.messages.remove(message);
                self.fail_receive(receive, Class::ProcFailed);
            }
            Content::There { send, address } => {
                let (send, address) = (*send, *address);
                self.messages.remove(message);
                self.want(from, envelope.context, send, receive, length, address);
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

    fn tell_matched(&mut self, from: u32, context: u64, send: u64) {
        let header = Header { kind: Kind::Matched as u16, context, id: send, ..Header::default() };
        self.tell(from, header, [0; 2]);
    }

    /// The receive has its message; its data is yet to come.
    #[inline]
    pub(super) fn begin_receive(&mut self, receive: usize, from: u32, envelope: &Envelope, length: u64) {
        let Some(Request::Receive(receiving)) = self.requests.get_mut(receive) else { return };
        let capacity = receiving.target.capacity() as u64;
        let error = (length > capacity).then_some(Class::Truncate);
        let (source, tag) = (envelope.source, envelope.tag);
        receiving.from = Some((from, length));
        receiving.status = Status { source, tag, bytes: length.min(capacity), cancelled: false, error };
    }

    fn note_failed(&mut self, receive: usize, failed: bool) {
        if let (true, Some(Request::Receive(receiving))) = (failed, self.requests.get_mut(receive)) {
            receiving.status.error = Some(Class::ProcFailed);
        }
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
