//! Bounds for messages that nobody has asked for yet.
//!
//! Who sends counts what a process has been sent and has not said to have taken. Up to a window, data goes at once. Beyond it
//! messages are offered, so that their data waits in the sender's own memory; but an offer, too, takes room where it waits, so
//! that beyond a second bound even the offers stay with the sender. What operations of all send among each other has some more
//! room: a program may begin one behind very many messages that are received after it.
//!
//! Who receives says what it has taken, each time that makes half a window, and treats who sends more than all that as one
//! that does not keep to the rules. Words between services are not counted: they do not wait ([`super::aside`]).

use super::losing::USES;
use super::request::{Content, Message};
use super::{Engine, Outgoing, Path, Waiting};
use crate::error::Class;
use crate::process::transport::{Header, Kind};

/// Tests fill all of it, again and again.
const SCALE: usize = if cfg!(test) { 8 } else { 1 };
/// Bytes of one process's messages that wait in the memory of another with their data.
pub(super) const WINDOW: usize = (16 << 20) / SCALE;
/// What keeping a message costs beside its data, and what keeping an offer costs.
pub(super) const MESSAGE: usize = 128;
/// Room for offers, beyond the window.
const OFFERS: usize = (64 << 20) / SCALE;
/// Room for those of operations of all, and for words of failure, beyond that.
const RESERVE: usize = (16 << 20) / SCALE;
/// All that one process may have waiting in the memory of another.
pub(super) const MOST: usize = WINDOW + OFFERS + RESERVE;

/// What two processes owe each other.
#[derive(Default)]
pub(super) struct Account {
    /// Sent, and not known to be taken.
    pub sent: usize,
    /// Kept for it, and not taken.
    held: usize,
    /// Taken, and not said so yet.
    taken: usize,
}

impl Account {
    /// Whether the other end keeps nothing, and all that was sent to it was taken, be it said or not.
    #[cfg(test)]
    pub fn balances(&self, other: &Account) -> bool {
        self.sent == other.taken && other.held == 0
    }

    /// What is sent with one more message, if that may go with its data.
    #[inline]
    pub fn sent_with(&self, length: usize) -> Option<usize> {
        let sent = self.sent + length + MESSAGE;
        (sent <= WINDOW).then_some(sent)
    }

    fn most(is_internal: bool) -> usize {
        if is_internal { MOST } else { MOST - RESERVE }
    }

    /// Whether a message without data may go; it is counted then.
    fn may_offer(&mut self, is_internal: bool) -> bool {
        let may = self.sent + MESSAGE <= Account::most(is_internal);
        self.sent += if may { MESSAGE } else { 0 };
        may
    }
}

/// Of an offer the header tells which send it is of; a word of failure goes for its send to be done.
fn send_of(it: &Waiting) -> Option<usize> {
    if it.header.kind == Kind::Offer as u16 { Some(it.header.id as usize) } else { it.of }
}

/// Whether it is not the program itself that receives what is sent in a context, but an operation of all, a window or a file
/// (`crate::objects::comm::Use`).
fn is_internal(context: u64) -> bool {
    matches!(context & USES, 1 | 2)
}

impl Engine {
    /// Whether a message may go with its data; it is counted then.
    #[inline]
    pub(super) fn may_send(&mut self, to: u32, length: usize) -> bool {
        let account = &mut self.peers[to as usize].account;
        let sent = account.sent_with(length);
        account.sent = sent.unwrap_or(account.sent);
        sent.is_some()
    }

    /// Sends what takes room for an offer there, now or when there is room. What waits for that stays in order, and no data
    /// overtakes it: as long as something waits there is no room for data either.
    pub(super) fn offer(&mut self, to: u32, header: Header, data: Outgoing, of: Option<usize>) {
        let is_internal = is_internal(header.context);
        let peer = &mut self.peers[to as usize];
        if matches!(peer.path, Path::Gone) {
            return of.into_iter().for_each(|id| self.fail(id, Class::ProcFailed));
        }
        let back = &mut peer.held_back[usize::from(is_internal)];
        if back.is_empty() && peer.account.may_offer(is_internal) {
            return self.transmit(to, header, data, of);
        }
        back.push_back(Waiting { header, data, sent: None, of });
    }

    /// There is room again.
    fn go_on_offering(&mut self, to: u32) {
        for is_internal in [true, false] {
            loop {
                let peer = &mut self.peers[to as usize];
                let back = &mut peer.held_back[usize::from(is_internal)];
                if back.is_empty() || !peer.account.may_offer(is_internal) {
                    break;
                }
                let Some(Waiting { header, data, of, .. }) = back.pop_front() else { break };
                self.transmit(to, header, data, of);
            }
        }
    }

    /// Takes back what waits for room, if it is this send's. Whether it was.
    pub(super) fn hold_no_longer(&mut self, to: u32, send: usize) -> bool {
        self.peers[to as usize].held_back.iter_mut().any(|back| {
            let place = back.iter().position(|it| send_of(it) == Some(send));
            place.and_then(|place| back.remove(place)).is_some()
        })
    }

    /// What waits for room in a revoked communicator does not go.
    pub(super) fn release_held_back(&mut self, context: u64) {
        let mut ended = Vec::new();
        for back in self.peers.iter_mut().flat_map(|peer| &mut peer.held_back) {
            back.retain(|it| {
                let stays = it.header.context & !USES != context;
                ended.extend(send_of(it).filter(|_| !stays));
                stays
            });
        }
        ended.into_iter().for_each(|send| self.fail(send, Class::Revoked));
    }

    /// A message that was counted does not go after all.
    pub(super) fn take_back(&mut self, to: u32, length: usize) {
        self.on_credit(to, (length + MESSAGE) as u64);
    }

    /// A message came and was taken at once.
    #[inline]
    pub(super) fn note_taken(&mut self, from: u32, length: u64) {
        let account = &mut self.peers[from as usize].account;
        account.taken += length as usize + MESSAGE;
        if account.taken >= WINDOW / 2 {
            self.tell_taken(from);
        }
    }

    #[cold]
    fn tell_taken(&mut self, from: u32) {
        let taken = std::mem::take(&mut self.peers[from as usize].account.taken);
        let header = Header { kind: Kind::Credit as u16, length: 8, ..Header::default() };
        self.tell(from, header, [taken as u64, 0]);
    }

    /// A message is kept; an offer has no length here.
    pub(super) fn note_held(&mut self, from: u32, length: u64) {
        self.peers[from as usize].account.held += length as usize + MESSAGE;
    }

    /// A message is kept no longer.
    pub(super) fn release(&mut self, message: &Message) {
        if message.from != self.me {
            let is_here = matches!(message.content, Content::Here(_));
            self.release_bytes(message.from, if is_here { message.length } else { 0 });
        }
    }

    pub(super) fn release_bytes(&mut self, from: u32, length: u64) {
        let account = &mut self.peers[from as usize].account;
        account.held = account.held.saturating_sub(length as usize + MESSAGE);
        self.note_taken(from, length);
    }

    /// Whether a process keeps to the bounds with a message that has this length, or an offer, which has none.
    pub(super) fn has_room_for(&self, from: u32, length: u64) -> bool {
        let account = &self.peers[from as usize].account;
        account.held + account.taken + length as usize + MESSAGE <= MOST
    }

    pub(super) fn on_credit(&mut self, from: u32, taken: u64) {
        let account = &mut self.peers[from as usize].account;
        account.sent = account.sent.saturating_sub(usize::try_from(taken).unwrap_or(usize::MAX));
        self.go_on_offering(from);
    }
}
