//! An interpreter and its link, as the model has them.

use bytes::Bytes;
use phalanx_core::ids::FiringId;
use phalanx_core::wire::{FromInterpreter, ToInterpreter, Tokens};
use std::collections::VecDeque;

/// The engine fires as many tokens together as take so many nanoseconds.
const BATCH: u64 = 2_000_000;

/// The tokens of a firing. None: the message is another one.
pub fn fired(message: &ToInterpreter, body: Bytes) -> Vec<Vec<u8>> {
    let ToInterpreter::Fire { shape, first, count, .. } = message else { return Vec::new() };
    let all = each(&Tokens::from_wire(shape.clone(), body).expect("the shape fits the body"));
    all[*first as usize..][..*count as usize].to_vec()
}

/// A token names its task, and then each instruction that was fired on it.
pub fn tokens(tokens: &[Vec<u8>]) -> Tokens {
    Tokens::separate(tokens.concat().into(), tokens.iter().map(|token| token.len() as u64).collect(), Vec::new())
}

/// The tokens, one by one.
pub fn each(tokens: &Tokens) -> Vec<Vec<u8>> {
    let token = |number| tokens.slice(number, 1).0.body().concat();
    (0..tokens.count()).map(token).collect()
}

#[derive(Debug, Clone)]
pub struct Firing {
    id: FiringId,
    instruction: u8,
    answered: u32,
    tokens: VecDeque<Vec<u8>>,
}

/// An interpreter with both directions of its link. It begins a token as soon as it can.
#[derive(Debug, Clone)]
pub struct Seat {
    /// The time that every token takes, in nanoseconds.
    grain: u64,
    /// Its process has ended, or the manager has closed the link.
    pub down: bool,
    /// Nothing that it says arrives, and nothing that is said to it.
    pub cut: bool,
    /// The manager does not know it any more.
    pub forgotten: bool,
    pub inbox: VecDeque<(ToInterpreter, Bytes)>,
    pub outbox: VecDeque<(FromInterpreter, Bytes)>,
    firings: VecDeque<Firing>,
}

impl Seat {
    /// An interpreter that was recruited. `batch` tokens make a batch.
    pub fn new(batch: u64) -> Seat {
        let (inbox, outbox, firings) = Default::default();
        Seat { grain: BATCH / batch, down: false, cut: false, forgotten: false, inbox, outbox, firings }
    }

    pub fn is_computing(&self) -> bool {
        !self.firings.is_empty()
    }

    /// Whether it has tokens that it has not begun.
    pub fn has_unbegun(&self) -> bool {
        self.firings.front().is_some_and(|firing| firing.tokens.len() > 1)
    }

    /// A message is on the way to it. Only those that make it do something count.
    pub fn hear(&mut self, message: ToInterpreter, body: Bytes) {
        if !self.down && matches!(message, ToInterpreter::Fire { .. } | ToInterpreter::GiveUp { .. }) {
            self.inbox.push_back((message, body));
        }
    }

    /// It reads the next message.
    pub fn take(&mut self) {
        let Some((message, body)) = self.inbox.pop_front() else { return };
        match message {
            ToInterpreter::Fire { firing, instruction, .. } => {
                let tokens = fired(&message, body).into();
                self.firings.push_back(Firing { id: firing, instruction: instruction as u8, answered: 0, tokens });
            }
            ToInterpreter::GiveUp { firing } => self.give_up(firing),
            _ => {}
        }
    }

    /// It answers so many tokens of its first firing in one message.
    pub fn answer(&mut self, count: usize) {
        let Some(firing) = self.firings.front_mut() else { return };
        let instruction = firing.instruction;
        let results: Vec<_> = firing.tokens.drain(..count).map(|token| [token, vec![instruction]].concat()).collect();
        firing.answered += count as u32;
        let (results, firing) = (tokens(&results), firing.id);
        let shape = results.shape().clone();
        let (ways, stayed, busy) = (Vec::new(), Vec::new(), self.grain * count as u64);
        let answer = FromInterpreter::Fired { firing, shape, ways, stayed, busy, protection: 0 };
        self.say(answer, results.body().concat().into());
        self.go_on();
    }

    /// It answers all tokens of its first firing in one message.
    pub fn answer_all(&mut self) {
        self.answer(self.firings.front().map_or(0, |firing| firing.tokens.len()));
    }

    /// The token that it has begun raises an exception. Returns its task.
    pub fn raise(&mut self) -> Option<u8> {
        let firing = self.firings.front_mut()?;
        let task = firing.tokens.pop_front()?[0];
        firing.answered += 1;
        let failed = FromInterpreter::Failed { firing: firing.id, busy: self.grain };
        self.say(failed, vec![task].into());
        self.go_on();
        Some(task)
    }

    /// It returns what it has not begun of its first firing, because the token that it has begun takes long.
    pub fn give_back(&mut self) {
        let Some(firing) = self.firings.front_mut() else { return };
        firing.tokens.truncate(1);
        let kept = firing.answered + 1;
        let returned = FromInterpreter::Returned { firing: firing.id, kept };
        self.say(returned, Bytes::new());
    }

    /// It is asked to return what it has not begun of a firing.
    fn give_up(&mut self, id: FiringId) {
        match self.firings.iter().position(|firing| firing.id == id) {
            Some(0) if self.has_unbegun() => self.give_back(),
            Some(0) | None => {}
            Some(place) => {
                self.firings.remove(place);
                self.say(FromInterpreter::Returned { firing: id, kept: 0 }, Bytes::new());
            }
        }
    }

    /// Its process ends. Messages that it has sent may still arrive.
    pub fn die(&mut self) {
        self.down = true;
        self.inbox.clear();
        self.firings.clear();
    }

    fn go_on(&mut self) {
        if self.firings.front().is_some_and(|firing| firing.tokens.is_empty()) {
            self.firings.pop_front();
        }
    }

    fn say(&mut self, message: FromInterpreter, body: Bytes) {
        self.outbox.push_back((message, body));
    }
}
