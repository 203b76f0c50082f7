//! The point-to-point core of a process: everything above it sends and receives bytes here.
//!
//! Whoever calls, works: there is no thread that moves messages. Short messages go at once with their data ("eager"); of
//! long ones only an offer goes, and the data follows when a receive was found ("rendezvous"), so that a receiver keeps
//! no data that nobody asked for yet.

mod arriving;
mod aside;
mod awaited;
mod credit;
mod exposed;
mod forgetting;
mod losing;
mod meeting;
mod reading;
mod request;
mod revoking;
mod short;
#[cfg(test)]
pub(crate) mod tests;

pub use aside::{Aside, LONG, MOST_ASIDE};
pub use losing::Ended;
pub use request::{EMPTY, Outgoing, Scatter, Status, Target};
pub use short::{Found, SHORT};

use crate::error::Class;
use crate::process::transport::{
    Bell, CAN_READ_MEMORY, FAILED, Header, Kind, Link, Readable, Receiver, SYNCHRONOUS, Segment, Sender, order_own,
};
use arriving::Arriving;
use credit::Account;
use phalanx_core::level::Level;
use phalanx_core::spmd::{ContextHasher, Envelope, Matching, Pattern};
use phalanx_net::copy::copied;
use request::{Content, INTERRUPTED, Message, Receiving, Request, Sending};
use slab::Slab;
use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of data up to which a message goes with it.
pub const EAGER: usize = 64 << 10;
/// The same where the receiver can read the sender's memory.
const EAGER_BESIDE_READING: usize = 24 << 10;
/// Set in the contexts of communicators of which all processes know that what is sent in them is protected as marked data
/// is: whoever receives a frame sees from its context alone which level it needs.
pub const MARKED: u64 = 1 << 62;

/// Whether it is a context of such a communicator.
#[inline]
pub fn is_marked(context: u64) -> bool {
    context & MARKED != 0
}

/// Rounds of progress of which one is rare.
const RARE: u32 = 1 << 12;

/// Looked at in every send once there is something in it.
type Contexts<T> = HashSet<T, BuildHasherDefault<ContextHasher>>;

/// Another process, or this one.
pub struct Peer {
    path: Path,
    /// Frames that wait for room.
    waiting: VecDeque<Waiting>,
    /// Offers that there is no room for at the other end: the program's own, and those of operations of all.
    held_back: [VecDeque<Waiting>; 2],
    arriving: Option<Arriving>,
    account: Account,
    /// The first bytes of a header of which not all has come.
    head: Vec<u8>,
    head_is_weak: bool,
    /// The level at which the header of the frame that is arriving came.
    level: Level,
}

/// The way to a process.
pub enum Path {
    /// This process itself.
    Own,
    /// Shared memory, for a process of this machine.
    Shared {
        /// Its number on this machine.
        local: usize,
        /// The channel to it.
        sender: Sender,
        /// The channel from it.
        receiver: Receiver,
        /// Wakes it.
        bell: Arc<Bell>,
    },
    /// On another machine, or of another world.
    Socket(Box<Link>),
    /// Of another world; what is sent waits until there is a connection.
    Unmet,
    /// The connection has ended; whether its process has too, the launcher will tell.
    Ended,
    /// It has ended, or was never reached.
    Gone,
}

struct Waiting {
    header: Header,
    data: Outgoing,
    /// Bytes of the data that are gone; None while the header is not.
    sent: Option<usize>,
    /// The send that has one thing less to wait for when this has gone out.
    of: Option<usize>,
}

/// How a send is done (MPI 5.0, 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The send is done when its data may be overwritten.
    Standard,
    /// The send is done when a receive has matched it.
    Synchronous,
    /// Without data: the receive fails, since a process was lost that had a part in what would be sent.
    Failed,
}

/// The sends and receives of this process.
pub struct Engine {
    me: u32,
    peers: Vec<Peer>,
    matching: Matching<usize, usize>,
    requests: Slab<Request>,
    messages: Slab<Message>,
    segment: Option<Arc<Segment>>,
    /// Others on this machine may see to the order of this process's accesses ([`crate::process::transport::agree`]).
    agrees: bool,
    /// Grows with everything that is done: who found nothing to do looks whether it did.
    pub completions: u64,
    /// Peers with frames that wait.
    blocked: usize,
    /// The processes with a [`Path::Shared`], and those with a [`Path::Socket`].
    shared: Vec<u32>,
    sockets: Vec<u32>,
    /// Tells which of many sockets are to be read.
    readable: Option<Readable>,
    /// Rounds of progress, of which not every one looks at the sockets.
    rounds: u32,
    /// Something that was read from a socket has not been looked at.
    unfinished: bool,
    /// A part of a frame waits for room in a socket.
    pending: bool,
    /// Rung when that begins, for threads of this process that sleep.
    bell: Option<Arc<Bell>>,
    /// Where messages in a context cannot come from any more: ranks of lost processes there.
    lost_sources: Contexts<(u64, i32)>,
    /// Contexts in which there are such that the program has not acknowledged.
    unacknowledged: Contexts<u64>,
    /// Contexts of revoked communicators: for ever, since messages in them may come late.
    revoked: Contexts<u64>,
    ended: Vec<Ended>,
    lost: Vec<u32>,
    /// Contexts of which the program has said that what is sent in them is to be protected.
    marked: Contexts<u64>,
    /// Whether processes of this machine may read each other's memory, as far as is known.
    reads_memory: bool,
    /// What has arrived for services, in order.
    asides: VecDeque<Aside>,
    /// Memory of long words for the next ones.
    spare: Vec<Vec<u8>>,
}

impl Engine {
    /// Of process `me` in a world of `peers`, itself among them.
    pub fn new(me: u32, peers: Vec<Path>, segment: Option<Arc<Segment>>) -> Engine {
        let with = |which: fn(&Path) -> bool| {
            let which = (0..).zip(&peers).filter(|(_, path)| which(path));
            which.map(|(number, _)| number).collect()
        };
        Engine {
            me,
            shared: with(|path| matches!(path, Path::Shared { .. })),
            sockets: with(|path| matches!(path, Path::Socket(_))),
            readable: watch(peers.iter()),
            rounds: 0,
            unfinished: false,
            pending: false,
            bell: None,
            lost_sources: Contexts::default(),
            unacknowledged: Contexts::default(),
            revoked: Contexts::default(),
            ended: Vec::new(),
            lost: Vec::new(),
            marked: Contexts::default(),
            peers: peers.into_iter().map(Peer::new).collect(),
            matching: Matching::default(),
            requests: Slab::new(),
            messages: Slab::new(),
            segment,
            agrees: false,
            completions: 0,
            blocked: 0,
            reads_memory: CAN_READ_MEMORY,
            asides: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// Others see to the order of this process's accesses.
    pub fn agree(&mut self) {
        self.agrees = true;
    }

    /// Sends; None when it is done already.
    pub fn send(&mut self, to: u32, envelope: Envelope, data: Outgoing, mode: Mode) -> Option<usize> {
        let Envelope { context, source, tag } = envelope;
        let (length, synchronous) = (data.length(), mode == Mode::Synchronous);
        let mut header = Header { context, source, tag, length: length as u64, ..Header::default() };
        if self.is_revoked(context) {
            let id = self.insert_send(to, context, 1, None);
            self.fail(id, Class::Revoked);
            return Some(id);
        }
        if to == self.me {
            return self.send_to_self(envelope, data, synchronous);
        }
        if mode == Mode::Failed {
            let id = self.insert_send(to, context, 1, None);
            (header.kind, header.flags) = (Kind::Eager as u16, FAILED);
            self.offer(to, header, data, Some(id));
            return Some(id);
        }
        if length <= self.eager(to) && self.may_send(to, length) {
            header.kind = Kind::Eager as u16;
            if synchronous {
                let id = self.insert_send(to, context, 2, None);
                self.await_match(id);
                (header.flags, header.id) = (SYNCHRONOUS, id as u64);
                self.transmit(to, header, data, Some(id));
                return Some(id);
            }
            let sent = self.push(to, &header, &data);
            if sent == Some(length) {
                return None;
            }
            let id = self.insert_send(to, context, 1, None);
            self.wait_for_room(to, Waiting { header, data, sent, of: Some(id) });
            return Some(id);
        }
        let is_shared = matches!(self.peers[to as usize].path, Path::Shared { .. });
        let address = if is_shared { data.start() as u64 } else { 0 }; // no other machine's business
        let id = self.insert_send(to, context, 1, Some(data));
        if is_shared {
            self.await_match(id); // who can read the data in this memory says only that it has
        }
        header = Header { kind: Kind::Offer as u16, id: id as u64, length: 16, ..header };
        let words = [(length as u64).to_le_bytes(), address.to_le_bytes()].concat();
        self.offer(to, header, Outgoing::Owned(words), None);
        if matches!(self.peers[to as usize].path, Path::Gone) {
            self.fail(id, Class::ProcFailed);
        }
        Some(id)
    }

    /// Bytes of data up to which a message to this process goes with it: a memory that can be read saves a copy.
    fn eager(&self, to: u32) -> usize {
        let shared = matches!(self.peers[to as usize].path, Path::Shared { .. });
        if shared && self.reads_memory { EAGER_BESIDE_READING } else { EAGER }
    }

    fn insert_send(&mut self, to: u32, context: u64, left: u8, data: Option<Outgoing>) -> usize {
        let (awaits_match, asked_back, cancelled, error, detached) = (false, false, false, None, false);
        let exposed = None;
        let sending =
            Sending { to, context, data, left, awaits_match, asked_back, cancelled, error, detached, exposed };
        self.requests.insert(Request::Send(sending))
    }

    fn await_match(&mut self, id: usize) {
        if let Some(Request::Send(sending)) = self.requests.get_mut(id) {
            sending.awaits_match = true;
        }
    }

    /// Sends a frame, what there is no room for later; of a send, which has one thing less to wait for when all is gone.
    fn transmit(&mut self, to: u32, header: Header, data: Outgoing, of: Option<usize>) {
        let sent = self.push(to, &header, &data);
        if sent != Some(data.length()) {
            return self.wait_for_room(to, Waiting { header, data, sent, of });
        }
        self.sent(data, of);
    }

    /// All of a frame has gone out.
    fn sent(&mut self, data: Outgoing, of: Option<usize>) {
        if let Outgoing::Owned(bytes) = data {
            self.give_back(bytes);
        }
        if let Some(id) = of {
            self.advance(id);
        }
    }

    /// A frame of the engine's own.
    fn tell(&mut self, to: u32, header: Header, words: [u64; 2]) {
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(header.length as usize).collect();
        self.transmit(to, header, Outgoing::Owned(payload), None);
    }

    /// Writes what there is room for; None when not even the header had any.
    fn push(&mut self, to: u32, header: &Header, data: &Outgoing) -> Option<usize> {
        let peer = &mut self.peers[to as usize];
        if !peer.waiting.is_empty() {
            return None;
        }
        let marked = is_marked(header.context) || self.marked.contains(&header.context);
        let sent = peer.path.push(header, data, None, marked);
        if let Path::Socket(link) = &peer.path {
            if sent != Some(data.length()) || link.is_pending() {
                self.pending |= link.is_pending();
                self.bell.iter().for_each(|bell| bell.ring());
            }
        } else if sent.is_some() {
            self.wake(to);
        }
        sent
    }

    fn wait_for_room(&mut self, to: u32, waiting: Waiting) {
        let peer = &mut self.peers[to as usize];
        if matches!(peer.path, Path::Gone) {
            return waiting.of.into_iter().for_each(|id| self.fail(id, Class::ProcFailed));
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
        let desk = segment.desk(*local);
        order_own(self.agrees && desk.orders.load(Ordering::Relaxed) == 1);
        let sleeps = &desk.sleeps;
        if sleeps.load(Ordering::Relaxed) == 1 && sleeps.swap(0, Ordering::Relaxed) == 1 {
            bell.ring();
        }
    }

    /// Goes on with the frames that wait for room at a peer. Whether something went.
    fn drain(&mut self, to: u32) -> bool {
        let mut moved = false;
        loop {
            let peer = &mut self.peers[to as usize];
            let Some(waiting) = peer.waiting.front_mut() else { break };
            let marked = is_marked(waiting.header.context) || self.marked.contains(&waiting.header.context);
            let sent = peer.path.push(&waiting.header, &waiting.data, waiting.sent, marked);
            moved |= sent != waiting.sent;
            waiting.sent = sent;
            if sent != Some(waiting.data.length()) {
                break;
            }
            if let Some(Waiting { data, of, .. }) = peer.waiting.pop_front() {
                self.sent(data, of);
            }
        }
        if let Path::Socket(link) = &self.peers[to as usize].path {
            self.pending |= link.is_pending();
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

    fn fail(&mut self, id: usize, class: Class) {
        if let Some(Request::Send(sending)) = self.requests.get_mut(id) {
            (sending.left, sending.error) = (1, Some(class));
            self.advance(id);
        }
    }

    fn send_to_self(&mut self, envelope: Envelope, data: Outgoing, synchronous: bool) -> Option<usize> {
        // SAFETY: the caller of the send lends the memory until it is done.
        let bytes = unsafe { data.bytes() };
        if let Some(receive) = self.matching.arrive(&envelope) {
            self.begin_receive(receive, self.me, &envelope, bytes.len() as u64);
            self.put_into(receive, 0, bytes.as_ptr(), bytes.len());
            self.complete_receive(receive);
            return None;
        }
        // A standard send of something long may wait as well, but a copy spares programs that count on it a deadlock.
        let request = synchronous.then(|| self.insert_send(self.me, envelope.context, 1, None));
        let (from, length) = (self.me, bytes.len() as u64);
        let content = Content::Here(copied(bytes));
        let context = envelope.context;
        let message = self.messages.insert(Message {
            failed: false,
            from,
            context,
            length,
            content,
            taken: None,
            matched: request,
        });
        self.matching.keep(envelope, message);
        request
    }

    /// Receives. The receive is done when [`Engine::outcome`] says so.
    pub fn receive(&mut self, pattern: Pattern, target: Target) -> usize {
        let any_source = pattern.source.is_none();
        let id = self.insert_receive(pattern.context, any_source, target);
        match self.matching.take(&pattern) {
            Some((envelope, message)) => self.give(message, &envelope, id),
            None => match self.obstacle(&pattern) {
                Some(class) if class != Class::ProcFailedPending => self.fail_receive(id, class),
                _ => self.matching.post(pattern, id),
            },
        }
        id
    }

    fn insert_receive(&mut self, context: u64, any_source: bool, target: Target) -> usize {
        let (from, done, detached, exposed) = (None, false, false, None);
        let receiving = Receiving { context, any_source, target, status: EMPTY, from, done, detached, exposed };
        self.requests.insert(Request::Receive(receiving))
    }

    /// The message that a receive of this pattern would get: who sent it, its tag and its length.
    pub fn probe(&self, pattern: &Pattern) -> Option<Status> {
        let (envelope, message) = self.matching.look(pattern)?;
        Some(self.status_of(&envelope, *message))
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
        let context = taken.envelope.context;
        let id = self.insert_receive(context, false, target);
        match self.is_revoked(context) {
            true => {
                self.drop_message(taken.message);
                self.fail_receive(id, Class::Revoked);
            }
            false => self.give(taken.message, &taken.envelope, id),
        }
        id
    }

    /// What came of a request, if it is done; the request is gone then. Afterwards its number stands for nothing, or for
    /// another one. A receive from anybody that a loss has interrupted ends so.
    #[inline]
    pub fn outcome(&mut self, id: usize) -> Option<Status> {
        if self.is_interrupted(id) {
            self.give_up(id);
        }
        let outcome = self.peek(id)?;
        self.requests.remove(id);
        Some(outcome)
    }

    /// The same, but an interrupted receive goes on, with MPIX_ERR_PROC_FAILED_PENDING for its status.
    #[inline]
    pub fn outcome_or_pending(&mut self, id: usize) -> Option<Status> {
        if self.is_interrupted(id) {
            return Some(INTERRUPTED);
        }
        let outcome = self.peek(id)?;
        self.requests.remove(id);
        Some(outcome)
    }

    /// Whether it is a send whose data others are to copy out of this process's memory.
    #[inline]
    pub fn is_copied(&self, id: usize) -> bool {
        matches!(&self.requests[id], Request::Send(sending) if sending.awaits_match && sending.data.is_some())
    }

    /// The same without an end to the request.
    #[inline]
    pub fn peek(&self, id: usize) -> Option<Status> {
        if self.is_interrupted(id) { Some(INTERRUPTED) } else { self.result(id) }
    }

    fn result(&self, id: usize) -> Option<Status> {
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
        match &mut self.requests[id] {
            Request::Send(sending) => sending.detached = true,
            Request::Receive(receiving) => receiving.detached = true,
        }
        if self.result(id).is_some() {
            self.requests.remove(id);
        }
    }

    /// Tries to take a request back: it is done then, with or without having been cancelled.
    pub fn cancel(&mut self, id: usize) {
        match &mut self.requests[id] {
            Request::Receive(receiving)
                if !receiving.done && self.matching.cancel(receiving.context, |receive| *receive == id).is_some() =>
            {
                receiving.status.cancelled = true;
                self.complete_receive(id);
            }
            Request::Send(sending) if sending.data.is_some() && sending.left > 0 => {
                let to = sending.to;
                match self.hold_no_longer(to, id) {
                    true => self.take_send_back(id),
                    false => self.ask_back(id),
                }
            }
            _ => {}
        }
    }

    /// Data that was offered is not to be read any more. The send is done when its receiver has said so.
    fn ask_back(&mut self, id: usize) {
        let Some(Request::Send(sending)) = self.requests.get_mut(id) else { return };
        if !std::mem::replace(&mut sending.asked_back, true) {
            sending.left += 1;
            let (to, context) = (sending.to, sending.context);
            let header = Header { kind: Kind::Withdraw as u16, id: id as u64, context, ..Header::default() };
            self.tell(to, header, [0; 2]);
        }
    }

    fn take_send_back(&mut self, id: usize) {
        let Some(Request::Send(sending)) = self.requests.get_mut(id) else { return };
        (sending.cancelled, sending.data, sending.left) = (sending.error.is_none(), None, 1);
        self.advance(id);
    }

    /// Moves what can be moved. Whether something was.
    pub fn progress(&mut self) -> bool {
        self.progress_to(u64::MAX)
    }

    /// The same, but of what a process of this machine has sent only as much as completes so many requests: what comes after
    /// that may be for a receive that is begun next, and need not be kept.
    #[inline]
    pub fn progress_to(&mut self, most: u64) -> bool {
        let mut moved = false;
        self.rounds = self.rounds.wrapping_add(1);
        for index in (0..self.shared.len()).rev() {
            // one that leaves is taken out
            moved |= self.arrive(self.shared[index], most);
        }
        if !self.sockets.is_empty() {
            moved |= self.progress_sockets();
        }
        if self.blocked > 0 {
            for peer in 0..self.peers.len() as u32 {
                moved |= !self.peers[peer as usize].waiting.is_empty() && self.drain(peer);
            }
        }
        moved
    }

    /// Whether frames, or parts of them, wait for room.
    pub fn is_blocked(&self) -> bool {
        self.blocked > 0 || self.pending
    }

    /// Whether a round of progress in many has come, for what need not be looked at in each.
    #[inline]
    pub fn is_rare_round(&self) -> bool {
        self.rounds % RARE == 0
    }
}

/// Watches the sockets among the paths.
fn watch<'a>(paths: impl Iterator<Item = &'a Path>) -> Option<Readable> {
    let link = |(number, path): (u32, &'a Path)| match path {
        Path::Socket(link) => Some((number, link.as_fd())),
        _ => None,
    };
    Readable::of(&(0..).zip(paths).filter_map(link).collect::<Vec<_>>())
}

/// A message that was taken out of the queue of those that wait (MPI_Message).
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    envelope: Envelope,
    message: usize,
}

impl Peer {
    fn new(path: Path) -> Peer {
        Peer {
            path,
            waiting: VecDeque::new(),
            held_back: Default::default(),
            arriving: None,
            account: Account::default(),
            head: Vec::new(),
            head_is_weak: false,
            level: Level::Clear,
        }
    }
}

impl Path {
    /// Writes as much of the frame as there is room for, from `sent` on, or from its header; up to where.
    #[inline]
    fn push(&mut self, header: &Header, data: &Outgoing, sent: Option<usize>, marked: bool) -> Option<usize> {
        let sender = match self {
            Path::Shared { sender, .. } => sender,
            // SAFETY: the data is lent for as long as its send is not done.
            Path::Socket(link) => return link.push(header, unsafe { data.bytes() }, sent, marked),
            _ => return None,
        };
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
