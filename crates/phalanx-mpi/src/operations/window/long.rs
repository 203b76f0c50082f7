//! Long puts and gets between one run of memory and another, without a copy at either end.
//!
//! Shorter data travels inside the words of a window, which costs a copy at each end and keeps nobody's memory lent. From
//! [`PIECE`] on the data goes alone ([`Engine::send_awaited`]), into memory that awaits it:
//!
//! ```text
//! put    origin ── Offer ──▶ target, which awaits the data ── Wanted ──▶ origin ── data, Sent ──▶ target ── Done ──▶ origin
//! get    origin, which awaits the data ── Fetch ──▶ target ── data, Done ──▶ origin
//! ```
//!
//! Each end looks itself whether all of the data has come when the word behind it says so.
//!
//! [`Engine::send_awaited`]: crate::process::engine::Engine::send_awaited

use super::operation::{End, Long, Operation};
use super::runs::{PIECE, Runs};
use super::state::MOST_ASKED;
use super::word::{Word, packed};
use super::{Place, Window, lock};
use crate::error::{Class, Error, Result, fail};
use crate::process::engine::{Outgoing, Target};
use std::sync::Arc;

/// Where in the target's part.
pub(super) struct Run {
    displacement: i64,
    offset: i64,
    length: u64,
}

impl Run {
    fn runs(&self) -> [Runs; 1] {
        [Runs { offset: self.offset, length: self.length, stride: 0, count: 1 }]
    }
}

/// The origin's half.
impl Window {
    /// The one run of memory that an operation on another process touches, if it is worth a message of its own. The memory of a dynamic
    /// window may be detached at any time.
    pub(super) fn long_run(&self, target: usize, place: &Place, bytes: usize) -> Option<Run> {
        if bytes <= PIECE || self.is_dynamic() {
            return None;
        }
        let offset = place.datatype.contiguous_at(place.count)?;
        let is_connected = self.world.engine().is_connected(self.comm.group.processes[target]);
        is_connected.then_some(Run { displacement: place.displacement, offset: offset as i64, length: bytes as u64 })
    }

    /// A long put. The data is lent until the operation is done.
    pub(super) fn offer(&self, target: usize, run: Run, data: Outgoing, end: Option<Arc<End>>) -> Result<()> {
        self.reach_of(target).locate(run.displacement, &run.runs())?;
        let operation = Operation { target, left: 1, result: None, failure: None, long: Long::Put(Some(data)), end };
        let Run { displacement, offset, length } = run;
        let id = self.begin(operation)?;
        self.ask_or_give_up(id, target, Word::Offer { operation: id as u64, displacement, offset, length })
    }

    /// A long get.
    pub(super) fn fetch(&self, target: usize, run: Run, to: Target, end: Option<Arc<End>>) -> Result<()> {
        self.reach_of(target).locate(run.displacement, &run.runs())?;
        let process = self.comm.group.processes[target];
        let to = within(to, run.length as usize);
        let awaited = self.world.engine().await_data(process, self.context(), to);
        let Some(number) = awaited else { return self.check_lives(target).and(Err(self.loss_of(target))) };
        let operation = Operation { target, left: 1, result: None, failure: None, long: Long::Get(number), end };
        let Run { displacement, offset, length } = run;
        let id = self.begin(operation).inspect_err(|_| _ = self.world.engine().end_await(number))?;
        let word = Word::Fetch { operation: id as u64, displacement, offset, length, number: number as u64 };
        self.ask_or_give_up(id, target, word)
    }

    fn ask_or_give_up(&self, id: usize, target: usize, word: Word) -> Result<()> {
        self.ask(target, word, &[]).inspect_err(|_| {
            self.lend_no_longer(target);
            self.give_up(id);
        })
    }

    /// The target awaits the data of a long put under this number.
    fn send_wanted(&self, target: usize, operation: u64, number: u64) -> Option<Word> {
        let data = match lock(&self.state).operations.get_mut(operation as usize) {
            Some(Operation { target: its, long: Long::Put(data), .. }) if *its == target => data.take(),
            _ => None,
        };
        let process = self.comm.group.processes[target];
        self.world.engine().send_awaited(process, self.context(), number, data?);
        Some(Word::Sent { operation })
    }

    /// Whether the data of a get has come; a put has no memory lent any more. Of what needs neither, nothing.
    pub(super) fn end_long(&self, long: &Long) -> Result<()> {
        match long {
            Long::No => Ok(()),
            Long::Put(_) => {
                self.world.engine().keep_data(self.context());
                Ok(())
            }
            Long::Get(number) => match self.world.engine().end_await(*number) {
                true => Ok(()),
                false => fail(Class::Intern, "the target has not sent what it was asked for"),
            },
        }
    }
}

/// The target's half: nothing that the origin says is believed.
impl Window {
    /// Heeds a word of another process about a long operation.
    pub(super) fn answer_long(&self, from: usize, word: Word) -> Option<Word> {
        match word {
            Word::Offer { operation, displacement, offset, length } => {
                Some(self.want(from, operation, &Run { displacement, offset, length }))
            }
            Word::Wanted { operation, number } => self.send_wanted(from, operation, number),
            Word::Sent { operation } => self.end_put(from, operation),
            Word::Fetch { operation, displacement, offset, length, number } => {
                Some(self.send_fetched(from, operation, &Run { displacement, offset, length }, number))
            }
            _ => None,
        }
    }

    /// Awaits the data of a long put, and says so.
    fn want(&self, origin: usize, operation: u64, run: &Run) -> Word {
        match self.await_put(origin, operation, run) {
            Ok(number) => Word::Wanted { operation, number: number as u64 },
            Err(error) => Word::Done { operation, position: 0, failure: Some(packed(&error)) },
        }
    }

    fn await_put(&self, origin: usize, operation: u64, run: &Run) -> Result<usize> {
        let start = self.start_of(run)?;
        let of_origin = |(rank, _): &&(usize, u64)| *rank == origin;
        let state = lock(&self.state);
        let is_known = state.awaited.contains_key(&(origin, operation));
        if is_known || state.awaited.keys().filter(of_origin).count() >= MOST_ASKED {
            return fail(Class::Arg, "an operation has a number twice, or there are too many");
        }
        drop(state);
        let to = Target::Plain(std::ptr::with_exposed_provenance_mut(start), run.length as usize);
        let process = self.comm.group.processes[origin];
        let number = self.world.engine().await_data(process, self.context(), to);
        let number = number.ok_or_else(|| self.loss_of(origin))?;
        let mut state = lock(&self.state);
        if state.ended {
            drop(state);
            self.world.engine().end_await(number);
            return fail(Class::Win, "the window was freed");
        }
        state.awaited.insert((origin, operation), number);
        Ok(number)
    }

    /// The data of a long put should be here.
    fn end_put(&self, origin: usize, operation: u64) -> Option<Word> {
        let number = lock(&self.state).awaited.remove(&(origin, operation))?;
        let failure = match self.world.engine().end_await(number) {
            true => None,
            false => Some(packed(&Error::new(Class::Arg, "the data of a put has not come"))),
        };
        Some(Word::Done { operation, position: 0, failure })
    }

    /// Sends the data of a long get, and the word behind it.
    fn send_fetched(&self, origin: usize, operation: u64, run: &Run, number: u64) -> Word {
        let failure = match self.start_of(run) {
            Ok(start) => {
                let process = self.comm.group.processes[origin];
                let data = Outgoing::Borrowed(std::ptr::with_exposed_provenance(start), run.length as usize);
                self.world.engine().send_awaited(process, self.context(), number, data);
                None
            }
            Err(error) => Some(packed(&error)),
        };
        Word::Done { operation, position: 0, failure }
    }

    fn start_of(&self, run: &Run) -> Result<usize> {
        if run.length == 0 || self.is_dynamic() {
            return fail(Class::Arg, "a long operation of a window is empty, or the window is dynamic");
        }
        self.reach_of(self.comm.rank).locate(run.displacement, &run.runs())
    }

    /// Nobody's data is awaited any more in the memory of this window and of its operations, or only that of other ranks, and nothing
    /// of it is read any more.
    pub(super) fn lend_no_longer(&self, with: impl Into<Option<usize>>) {
        let with = with.into();
        let is_it = |rank: usize| with.is_none_or(|with| with == rank);
        let mut numbers = Vec::new();
        {
            let mut state = lock(&self.state);
            for (_, operation) in state.operations.iter_mut().filter(|(_, operation)| is_it(operation.target)) {
                if let Long::Get(number) = std::mem::replace(&mut operation.long, Long::No) {
                    numbers.push(number);
                }
            }
            state.awaited.retain(|(rank, _), number| {
                let stays = !is_it(*rank);
                if !stays {
                    numbers.push(*number);
                }
                stays
            });
        }
        let mut engine = self.world.engine();
        numbers.into_iter().for_each(|number| _ = engine.end_await(number));
        engine.keep_data(self.context());
    }
}

/// At most so much of the memory.
fn within(to: Target, length: usize) -> Target {
    match to {
        Target::Plain(start, capacity) => Target::Plain(start, capacity.min(length)),
        scattered => scattered,
    }
}
