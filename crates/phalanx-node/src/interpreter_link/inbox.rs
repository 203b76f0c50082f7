//! Messages that have arrived and were not taken yet, and the reading half of the link.

use super::{Ending, Output};
use crate::delegated;
use crate::turn::Running;
use bytes::Bytes;
use phalanx_core::ids::FiringId;
use phalanx_core::level::Mark;
use phalanx_core::wire::{FromInterpreter, ToInterpreter, decode, encode};
use phalanx_net::frames::Frame;
use phalanx_net::link::{Link, Reader};
use phalanx_net::sync::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Shortest time between two looks at the clock of a token.
const SHORTEST: Duration = Duration::from_millis(1);

/// What both threads that read the link share.
pub struct Inbox {
    queue: Mutex<Queue>,
    /// Held by the thread that reads.
    pub reader: Mutex<Reader>,
    output: Arc<dyn Output>,
}

/// Messages that wait for the interpreter, and how far it is.
#[derive(Default)]
pub struct Queue {
    messages: VecDeque<(ToInterpreter, Bytes)>,
    /// A firing of which the interpreter has some tokens already, and how many.
    ahead: Option<(FiringId, u32)>,
    /// The firing that the interpreter works on.
    running: Option<Running>,
    /// Something arrived that is no message.
    is_broken: bool,
}

impl Inbox {
    pub fn new(reader: Reader, output: Arc<dyn Output>) -> Inbox {
        Inbox { queue: Mutex::default(), reader: Mutex::new(reader), output }
    }

    /// The next message, if it has arrived.
    pub fn pop(&self) -> Option<(ToInterpreter, Bytes)> {
        lock(&self.queue).pop()
    }

    /// Reads what has arrived, unless the other thread is reading already.
    pub fn read_if_free(&self, link: &Link) -> Result<(), Ending> {
        if let Ok(mut reader) = self.reader.try_lock() {
            reader.read_all(&mut |frame| self.push(link, frame))?;
        }
        self.check()
    }

    /// Queues a message. The queue is bounded, because the manager bounds what it sends ahead of the answers. A request to
    /// give tokens back is answered at once, however long the user's code runs.
    pub fn push(&self, link: &Link, frame: Frame) {
        match decode(&frame.header) {
            Ok(ToInterpreter::GiveUp { firing }) => self.give_back(link, firing),
            Ok(ToInterpreter::Cancel { firing, token }) => self.cancel(link, firing, token),
            Ok(ToInterpreter::Beat) => {}
            Ok(ToInterpreter::Shown { bytes }) => self.output.shown(bytes),
            Ok(ToInterpreter::Delegation) => delegated::receive(&frame.body),
            Ok(message) => lock(&self.queue).push(message, frame.body),
            Err(_) => lock(&self.queue).is_broken = true,
        }
    }

    /// An error once something has arrived that is no message.
    pub fn check(&self) -> Result<(), Ending> {
        if lock(&self.queue).is_broken { Err(Ending::Garbage) } else { Ok(()) }
    }

    fn give_back(&self, link: &Link, firing: FiringId) {
        // The lock is held so that this is sent before the next firing's answer.
        let mut queue = lock(&self.queue);
        if let Some(kept) = queue.take_back(firing) {
            link.queue(Mark::None, encode(&FromInterpreter::Returned { firing, kept }, 0), Vec::new());
            drop(queue);
            link.flush();
        }
    }

    /// Gives back what was not begun. If the cancelled token is being fired, asks to be ended.
    fn cancel(&self, link: &Link, firing: FiringId, token: u32) {
        self.give_back(link, firing);
        let queue = lock(&self.queue);
        let running = queue.running.as_ref().filter(|running| running.firing == firing);
        // Python's thread is about to begin the first token, if it has not.
        let at = running.map(|running| running.at().unwrap_or_default());
        if let Some(at) = at.filter(|at| token == u32::MAX || token == *at) {
            stop(link, firing, at);
            drop(queue);
            link.flush_heads();
        }
    }

    /// Asks to be ended if the token that is being fired is late. Returns when to look again; `None`: nothing is fired that
    /// has a timeout.
    pub fn look_at_clock(&self, link: &Link) -> Option<Duration> {
        // The lock is held so that the firing does not end meanwhile.
        let queue = lock(&self.queue);
        let running = queue.running.as_ref()?;
        let timeout = running.timeout()?;
        match running.late() {
            Some(at) => {
                stop(link, running.firing, at);
                drop(queue);
                link.flush_heads();
                Some(timeout)
            }
            None => Some(running.left().unwrap_or(timeout).max(SHORTEST)),
        }
    }

    /// The firing that the interpreter works on.
    pub fn running(&self) -> Option<Running> {
        lock(&self.queue).running.clone()
    }

    /// Ends the firing that the interpreter works on. Returns it, and how many of its tokens are kept, if others were not
    /// begun.
    pub fn end_firing(&self) -> Option<(FiringId, u32)> {
        let running = lock(&self.queue).running.take()?;
        Some((running.firing, running.give_back()?))
    }
}

/// Says that only the end of this process ends the token that it is at. [`Link::flush_heads`] must follow.
fn stop(link: &Link, firing: FiringId, token: u32) {
    link.queue_ahead(encode(&FromInterpreter::Stop { firing, token }, 0));
}

impl Queue {
    pub fn push(&mut self, message: ToInterpreter, body: Bytes) {
        self.messages.push_back((message, body));
    }

    /// The next message. The interpreter works on a firing from the moment that it takes it.
    pub fn pop(&mut self) -> Option<(ToInterpreter, Bytes)> {
        let message = self.messages.pop_front()?;
        let before = self.ahead.map_or(0, |(_, tokens)| tokens);
        match &message.0 {
            ToInterpreter::Ahead { firing, shape, .. } => {
                self.ahead = Some((*firing, before.saturating_add(shape.count())));
            }
            ToInterpreter::Fire { firing, count, groups, timeout, .. } => {
                let tokens = if groups.is_empty() { before.saturating_add(*count) } else { groups.len() as u32 };
                let running = Running::new(*firing, tokens).with_timeout(Duration::from_nanos(*timeout));
                (self.ahead, self.running) = (None, Some(running));
            }
            _ => {}
        }
        Some(message)
    }

    /// Takes back the tokens of a firing that were not begun. Returns how many of its tokens are kept. `None`: there is
    /// nothing to take back.
    pub fn take_back(&mut self, wanted: FiringId) -> Option<u32> {
        if let Some(running) = self.running.as_ref().filter(|running| running.firing == wanted) {
            return running.give_back();
        }
        if self.ahead.is_some_and(|(firing, _)| firing == wanted) {
            return None; // about to begin: the interpreter has its first tokens already
        }
        let waiting = self.messages.len();
        self.messages.retain(|(message, _)| match message {
            ToInterpreter::Ahead { firing, .. } | ToInterpreter::Fire { firing, .. } => *firing != wanted,
            _ => true,
        });
        (self.messages.len() < waiting).then_some(0)
    }
}
