//! An interpreter that returns tasks which it does not have is ended. No task is lost or done twice.

use super::Grid;
use super::plan::{Plan, Stream, milliseconds};
use super::reader::Reader;
use crate::event::{Command, Event, Outcome};
use crate::ids::{FiringId, InterpreterId};
use crate::wire::{FromInterpreter, ToInterpreter, Tokens};

const TASKS: u32 = 100;

/// A conversation in which the test plays one interpreter. All others answer honestly.
struct Talk {
    grid: Grid,
    liar: Option<InterpreterId>,
    /// The firings at the liar, with the number of tokens of each.
    held: Vec<(FiringId, u32)>,
    delivered: Vec<u64>,
    is_dismissed: bool,
}

impl Talk {
    /// The interpreter that is fed first holds a batch of many tasks.
    fn begin() -> Talk {
        let mut grid = Grid::run(Plan { streams: vec![Stream { tasks: 0, ..Stream::default() }], ..Plan::default() });
        let run = Reader::open(&mut grid.engine, 0, &Stream::default()).run;
        let mut talk = Talk { grid, liar: None, held: Vec::new(), delivered: Vec::new(), is_dismissed: false };
        talk.grid.engine.feed(talk.grid.now, run, tokens(1)).unwrap();
        talk.listen(); // after one answer the grain is known
        let firing = talk.held.pop().unwrap().0;
        talk.say_fired(talk.liar.unwrap(), firing, 1);
        talk.grid.engine.feed(talk.grid.now, run, tokens(TASKS)).unwrap();
        talk.grid.engine.finish(run);
        talk.listen();
        talk
    }

    fn say(&mut self, id: InterpreterId, message: FromInterpreter, body: &Tokens) {
        self.grid.now += milliseconds(1);
        self.grid.engine.on(self.grid.now, Event::Message { id, message, body: body.to_owned_bytes() });
    }

    fn say_fired(&mut self, id: InterpreterId, firing: FiringId, count: u32) {
        let (tokens, ways, stayed) = (tokens(count), Vec::new(), Vec::new());
        let shape = tokens.shape().clone();
        self.say(id, FromInterpreter::Fired { firing, shape, ways, stayed, busy: 10_000, protection: 0 }, &tokens);
    }

    fn give_back(&mut self, firing: FiringId, kept: u32) {
        self.say(self.liar.unwrap(), FromInterpreter::Returned { firing, kept }, &Tokens::none());
        self.listen();
    }

    /// Carries out commands until there are none.
    fn listen(&mut self) {
        while let Some(command) = self.grid.engine.next_command() {
            match command {
                Command::Send { to, message: ToInterpreter::Fire { firing, count, .. }, .. } => {
                    if *self.liar.get_or_insert(to) == to && !self.is_dismissed {
                        self.held.push((firing, count));
                    } else {
                        self.say_fired(to, firing, count);
                    }
                }
                Command::Dismiss { id } if Some(id) == self.liar => self.is_dismissed = true,
                Command::Deliver { outcome: Outcome::Results { first, tokens }, .. } => {
                    self.delivered.extend(first..first + u64::from(tokens.count()));
                }
                _ => {}
            }
        }
    }

    /// The liar was ended, and the others did all of its work.
    fn expect_its_end(mut self) {
        assert!(self.is_dismissed);
        self.delivered.sort_unstable();
        assert_eq!(self.delivered, (0..=u64::from(TASKS)).collect::<Vec<_>>());
    }
}

fn tokens(count: u32) -> Tokens {
    Tokens::packed(count, vec![0; count as usize * 8].into())
}

#[test]
fn more_than_the_batch_has() {
    for more in [0, 1, u32::MAX - TASKS] {
        let mut talk = Talk::begin();
        let (firing, count) = talk.held[0];
        talk.give_back(firing, count + more);
        talk.expect_its_end();
    }
}

#[test]
fn a_firing_that_was_never_sent() {
    let mut talk = Talk::begin();
    talk.give_back(FiringId(u64::MAX), 0);
    talk.expect_its_end();
}

#[test]
fn the_same_part_twice() {
    for kept in [1, TASKS / 4] {
        let mut talk = Talk::begin();
        let (firing, count) = talk.held[0];
        assert!(count > TASKS / 4, "{count}");
        talk.give_back(firing, kept);
        assert!(!talk.is_dismissed, "once is allowed");
        talk.give_back(firing, kept);
        talk.expect_its_end();
    }
}

#[test]
fn all_of_it_twice() {
    let mut talk = Talk::begin();
    let firing = talk.held[0].0;
    talk.give_back(firing, 0);
    assert!(!talk.is_dismissed, "once is allowed");
    talk.give_back(firing, 0);
    talk.expect_its_end();
}

#[test]
fn what_was_answered() {
    let mut talk = Talk::begin();
    let (firing, _) = talk.held[0];
    talk.say_fired(talk.liar.unwrap(), firing, 2);
    talk.give_back(firing, 1);
    talk.expect_its_end();
}
