//! The messages of a comm that have arrived and were not taken yet.

use super::Bells;
use phalanx_core::wire::comm::{Gathering, Message};
use phalanx_net::frames::{Frame, Gate};
use phalanx_net::link::{LinkError, Receiver};
use phalanx_net::sync::lock;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// While more bytes than this, or more messages, wait to be taken, no more are read. The peer is slowed down.
const MOST_BYTES: u64 = 64 << 20;
const MOST_MESSAGES: usize = 4096;

pub(super) struct Inbox {
    number: u64,
    bells: Arc<Bells>,
    state: Mutex<State>,
    /// The longest body that the next part may have.
    room: Arc<AtomicU64>,
}

struct State {
    gathering: Gathering,
    messages: VecDeque<Message>,
    bytes: u64,
    ended: Option<String>,
    /// The loop has found nothing, and waits for a message or the end.
    waits: bool,
    /// The loop waits until something was written.
    waits_for_room: bool,
    /// Reading rests until messages are taken.
    rests: bool,
}

impl Debug for Inbox {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.debug_struct("Inbox").field("number", &self.number).finish_non_exhaustive()
    }
}

impl State {
    fn is_full(&self) -> bool {
        self.bytes > MOST_BYTES || self.messages.len() >= MOST_MESSAGES
    }
}

impl Inbox {
    /// For messages of at most `most` bytes.
    pub fn new(most: u64, number: u64, bells: Arc<Bells>) -> Inbox {
        let gathering = Gathering::new(most);
        let room = Arc::new(AtomicU64::new(gathering.room()));
        let (messages, waits, waits_for_room, rests) = (VecDeque::new(), false, false, false);
        let state = Mutex::new(State { gathering, messages, bytes: 0, ended: None, waits, waits_for_room, rests });
        Inbox { number, bells, state, room }
    }

    /// Refuses a body before its first byte is accepted, if it is longer than its message can be.
    pub fn gate(&self) -> Gate {
        let room = self.room.clone();
        Box::new(move |_, bytes| {
            let fits = bytes <= room.load(Ordering::Relaxed);
            if !fits {
                room.store(0, Ordering::Relaxed); // so that no other one comes before the end
            }
            fits
        })
    }

    /// The next message, and whether reading can go on after a rest.
    pub fn take(&self) -> (Result<Option<Message>, String>, bool) {
        let mut state = lock(&self.state);
        let Some(message) = state.messages.pop_front() else {
            state.waits = true;
            return (state.ended.clone().map_or(Ok(None), Err), false);
        };
        state.bytes -= message.held();
        let reads_on = state.rests && !state.is_full();
        state.rests &= !reads_on;
        (Ok(Some(message)), reads_on)
    }

    /// Has the bells tell when something was written.
    pub fn wait_for_room(&self) {
        lock(&self.state).waits_for_room = true;
    }

    /// Why the link has ended, once all messages are taken.
    pub fn ended(&self) -> Option<String> {
        let state = lock(&self.state);
        state.ended.clone().filter(|_| state.messages.is_empty())
    }

    fn end(&self, why: String) {
        let mut state = lock(&self.state);
        if state.ended.is_none() {
            state.ended = Some(why);
            drop(state);
            self.bells.tell(self.number);
        }
    }
}

impl Receiver for Inbox {
    fn on_frame(&self, frame: Frame) {
        let mut state = lock(&self.state);
        if state.ended.is_some() {
            return;
        }
        let taken = state.gathering.take(&frame.header, frame.body);
        self.room.store(state.gathering.room(), Ordering::Relaxed);
        match taken {
            Ok(None) => {}
            Ok(Some(message)) => {
                state.bytes += message.held();
                state.messages.push_back(message);
                if std::mem::take(&mut state.waits) {
                    drop(state);
                    self.bells.tell(self.number);
                }
            }
            Err(error) => {
                drop(state);
                self.end(format!("the other end breaks the protocol: {error}"));
            }
        }
    }

    fn has_room(&self) -> bool {
        let mut state = lock(&self.state);
        state.rests = state.is_full();
        !state.rests
    }

    fn is_over(&self) -> bool {
        if self.room.load(Ordering::Relaxed) == 0 {
            self.end("the other end sends a longer message than is taken here".to_owned());
        }
        lock(&self.state).ended.is_some()
    }

    fn on_written(&self) {
        let mut state = lock(&self.state);
        if std::mem::take(&mut state.waits_for_room) {
            drop(state);
            self.bells.tell(self.number);
        }
    }

    fn on_end(&self, why: LinkError) {
        lock(&self.state).ended.get_or_insert_with(|| why.to_string());
        self.bells.tell(self.number); // also if the protocol was broken before: writers wait for the end of the link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_core::wire::PREFIX;
    use phalanx_core::wire::comm::encode_message;

    fn inbox(most: u64) -> Inbox {
        Inbox::new(most, 7, Arc::new(Bells::new().expect("a pair of sockets")))
    }

    fn bring(inbox: &Inbox, bytes: usize) {
        let parts = encode_message(vec![vec![1; bytes].into()], &[1], None).expect("one piece");
        for (start, body) in parts {
            inbox.on_frame(Frame { header: start[PREFIX..].to_vec(), body: body.concat().into() });
        }
    }

    #[test]
    fn the_loop_is_told_once_of_the_first_message_after_it_has_found_none() {
        let inbox = inbox(1000);
        bring(&inbox, 10);
        assert!(inbox.bells.take().is_empty());
        assert_eq!(inbox.take().0.expect("is open").expect("is there").bytes(), 10);
        assert!(inbox.take().0.expect("is open").is_none());
        bring(&inbox, 10);
        bring(&inbox, 20);
        assert_eq!(inbox.bells.take(), [7]);
    }

    #[test]
    fn a_full_inbox_rests_until_messages_are_taken() {
        let inbox = inbox(u64::MAX / 2);
        bring(&inbox, MOST_BYTES as usize - 1000);
        assert!(inbox.has_room());
        bring(&inbox, 1000);
        assert!(!inbox.has_room());
        assert!(inbox.take().1, "reading goes on");
        assert!(inbox.has_room());
        assert!(!inbox.take().1, "it went on already");
    }

    #[test]
    fn a_peer_that_breaks_the_protocol_ends_the_link_after_its_good_messages() {
        let inbox = inbox(1000);
        bring(&inbox, 10);
        inbox.on_frame(Frame { header: vec![9], body: Vec::new().into() });
        assert!(inbox.is_over());
        assert_eq!(inbox.ended(), None);
        assert!(inbox.take().0.expect("is open").is_some());
        let error = inbox.take().0.expect_err("the link has ended");
        assert!(error.contains("breaks the protocol"), "{error}");
        assert_eq!(inbox.bells.take(), [7]);
    }

    #[test]
    fn a_body_that_no_message_can_have_is_refused_before_it_arrives() {
        let inbox = inbox(1000);
        let mut gate = inbox.gate();
        assert!(gate(&[], 1000));
        assert!(!inbox.is_over());
        assert!(!gate(&[], u64::MAX));
        assert!(inbox.is_over());
        assert!(inbox.ended().expect("has ended").contains("longer message"));
    }
}
