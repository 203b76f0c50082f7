//! Long puts and gets between one run of memory and another, without a copy at either end.
//!
//! Short data travels inside the words of a window. That costs a copy at each end, and the origin may reuse its buffer at once. Beyond
//! [`PIECE`] bytes the data goes alone ([`Engine::send_awaited`]), into memory that awaits it:
//!
//! ```text
//! put    origin ── Offer ──▶ target, which awaits the data ── Wanted ──▶ origin ── data, Sent ──▶ target ── Done ──▶ origin
//! get    origin, which awaits the data ── Fetch ──▶ target ── data, Done ──▶ origin
//! ```
//!
//! When the word behind the data arrives, the receiver checks that all of the data is there.
//!
//! [`Engine::send_awaited`]: crate::process::engine::Engine::send_awaited

use super::operation::{End, Long, Operation};
use super::runs::{PIECE, Runs};
use super::state::{MOST_ASKED, State};
use super::word::{Word, packed};
use super::{Place, Window, lock};
use crate::error::{Class, Error, Result, fail};
use crate::process::engine::{Outgoing, Target};
use std::sync::{Arc, MutexGuard};

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
        let operation = Operation { target, left: 1, result: None, failure: None, long: Long::Put(data), end };
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
        self.ask(target, word, &[]).inspect_err(|_| self.give_up(id, target))
    }

    /// The target awaits the data of a long put under this number.
    fn send_wanted(&self, target: usize, operation: u64, number: u64) -> Option<Word> {
        let mut state = lock(&self.state); // as long as the operation is there, its memory is lent
        let operations = &mut state.operations;
        let known = operations.get_mut(operation as usize).filter(|known| known.target == target)?;
        match std::mem::replace(&mut known.long, Long::Sent(number)) {
            Long::Put(data) => {
                let process = self.comm.group.processes[target];
                self.world.engine().send_awaited(process, self.context(), number, data);
                Some(Word::Sent { operation })
            }
            other => {
                known.long = other;
                None
            }
        }
    }

    /// Ends the use of lent memory by an operation on the target. Fails if the data of a get has not arrived.
    pub(super) fn end_long(&self, target: usize, long: &Long) -> Result<()> {
        match long {
            Long::No | Long::Put(_) => Ok(()),
            Long::Sent(number) => {
                let process = self.comm.group.processes[target];
                self.world.engine().keep_data(process, self.context(), Some(*number));
                Ok(())
            }
            Long::Get(number) => match self.world.engine().end_await(*number) {
                true => Ok(()),
                false => fail(Class::Intern, "the target has not sent what it was asked for"),
            },
        }
    }
}

/// The target's half. The target checks everything that the origin sends.
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
        let mut state = self.open_state()?;
        let start = self.start_of(run)?;
        let of_origin = |(rank, _): &&(usize, u64)| *rank == origin;
        let is_known = state.awaited.contains_key(&(origin, operation));
        if is_known || state.awaited.keys().filter(of_origin).count() >= MOST_ASKED {
            return fail(Class::Arg, "an operation has a number twice, or there are too many");
        }
        let to = Target::Plain(std::ptr::with_exposed_provenance_mut(start), run.length as usize);
        let process = self.comm.group.processes[origin];
        let number = self.world.engine().await_data(process, self.context(), to);
        let number = number.ok_or_else(|| self.loss_of(origin))?;
        state.awaited.insert((origin, operation), number);
        Ok(number)
    }

    /// Checks that the data of a long put has arrived, and acknowledges it.
    fn end_put(&self, origin: usize, operation: u64) -> Option<Word> {
        let number = lock(&self.state).awaited.remove(&(origin, operation))?;
        let failure = match self.world.engine().end_await(number) {
            true => None,
            false => Some(packed(&Error::new(Class::Arg, "the data of a put has not come"))),
        };
        Some(Word::Done { operation, position: 0, failure })
    }

    /// Sends the data of a long get. Returns the word behind it.
    fn send_fetched(&self, origin: usize, operation: u64, run: &Run, number: u64) -> Word {
        let sent = self.open_state().and_then(|_state| {
            let start = std::ptr::with_exposed_provenance(self.start_of(run)?);
            let (process, data) = (self.comm.group.processes[origin], Outgoing::Borrowed(start, run.length as usize));
            self.world.engine().send_awaited(process, self.context(), number, data);
            Ok(())
        });
        Word::Done { operation, position: 0, failure: sent.err().map(|error| packed(&error)) }
    }

    /// The state of a window that has not ended: its memory is there as long as the state is locked.
    fn open_state(&self) -> Result<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        if state.ended { fail(Class::Win, "the window was freed") } else { Ok(state) }
    }

    fn start_of(&self, run: &Run) -> Result<usize> {
        if run.length == 0 || self.is_dynamic() {
            return fail(Class::Arg, "a long operation of a window is empty, or the window is dynamic");
        }
        let runs = run.runs();
        let base = self.reach_of(self.comm.rank).locate(run.displacement, &runs)?;
        Ok(runs[0].start(base))
    }

    /// Ends the long operations between this process and a rank, or every rank if `with` is None. Afterwards the engine neither reads
    /// nor writes this window's memory or the buffers of its operations.
    pub(super) fn end_longs(&self, with: Option<usize>) {
        let is_it = |rank: usize| with.is_none_or(|with| with == rank);
        let mut state = lock(&self.state);
        let own = state.operations.iter_mut().filter(|(_, operation)| is_it(operation.target));
        let own: Vec<_> = own.map(|(_, it)| std::mem::replace(&mut it.long, Long::No)).collect();
        let (mut engine, context) = (self.world.engine(), self.context());
        for long in own {
            if let Long::Get(number) = long {
                engine.end_await(number);
            }
        }
        state.awaited.retain(|(rank, _), number| {
            if is_it(*rank) {
                engine.end_await(*number);
            }
            !is_it(*rank)
        });
        let processes = (0..).zip(&self.comm.group.processes).filter(|(rank, _)| is_it(*rank));
        processes.for_each(|(_, process)| engine.keep_data(*process, context, None));
    }
}

/// At most so much of the memory.
fn within(to: Target, length: usize) -> Target {
    match to {
        Target::Plain(start, capacity) => Target::Plain(start, capacity.min(length)),
        scattered => scattered,
    }
}
