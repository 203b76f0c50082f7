//! What a target does with the words that come: nothing that they say is believed.

use super::operation::Long;
use super::runs::{Runs, gather, one_run, scatter, total};
use super::word::{Act, Word, packed, unpacked};
use super::{Window, lock};
use crate::constants::{MPI_NO_OP, MPI_REPLACE};
use crate::error::{Class, Error, Result, fail};
use crate::objects::datatype::Datatype;
use crate::objects::handle::FIRST;
use crate::objects::op::{Op, combine};
use crate::process::engine::{Aside, Scatter};
use crate::process::service::Service;

impl Service for Window {
    fn take(&self, aside: &Aside) {
        if self.comm.is_revoked() || !self.world.engine().reads_answers(aside.from, aside.context) {
            return;
        }
        let rank = usize::try_from(aside.source).ok();
        let Some(rank) = rank.filter(|rank| self.comm.group.processes.get(*rank) == Some(&aside.from)) else { return };
        let Some((word, data)) = Word::of(&aside.bytes) else { return };
        for (to, answer) in self.answers(rank, word, data) {
            let _ = self.tell_encoded(to, answer); // who is gone needs no answer
        }
    }

    /// What it was asked for will not be answered, and its locks are nobody's.
    fn lose(&self, process: u32) {
        let Some(rank) = self.comm.group.rank_of(process) else { return };
        self.end_longs(Some(rank));
        let mut state = lock(&self.state);
        state.abandon(rank, &self.loss_of(rank));
        let granted = state.lock.lose(rank);
        drop(state);
        self.lose_memory_of(rank);
        let locks = (0..self.comm.size()).filter_map(|target| self.shared_lock(target));
        locks.for_each(|its| self.wake_next(its)); // whose turn it was may be the lost one
        for rank in granted {
            let _ = self.tell(rank, &Word::Granted, &[]); // the next one may be lost too
        }
    }

    fn revoke(&self) {
        let error = Error::new(Class::Revoked, Class::Revoked.words());
        self.end_longs(None);
        let mut state = lock(&self.state);
        (0..self.comm.size()).for_each(|rank| state.abandon(rank, &error));
    }
}

/// Words to ranks, encoded with their data.
type Answers = Vec<(usize, Vec<u8>)>;

impl Window {
    fn answers(&self, from: usize, word: Word, data: &[u8]) -> Answers {
        let memory = self.memory_for(fetched(&word));
        let mut state = lock(&self.state);
        if state.ended {
            return Vec::new();
        }
        let granted =
            |ranks: Vec<usize>| ranks.into_iter().map(|rank| (rank, Word::Granted.within(Vec::new()))).collect();
        match word {
            Word::Access { operation, position, act, displacement, runs } => {
                let reach = self.reach(self.comm.rank, &state);
                let done = |failure| Word::Done { operation, position, failure };
                let result = total(&runs).and_then(|total| {
                    let start = reach.locate(displacement, &runs)?;
                    let _guard = if act.is_atomic() { self.guard(self.comm.rank)? } else { None };
                    let mut answer = done(None).within(memory);
                    // SAFETY: the runs are inside the window, whose memory lasts as long as it is open.
                    unsafe { access(act, start, &runs, total, data, &mut answer)? };
                    Ok(answer)
                });
                vec![(from, result.unwrap_or_else(|error| done(Some(packed(&error))).within(Vec::new())))]
            }
            Word::Done { operation, position, failure } => {
                let long = state.take_long(from, operation as usize);
                drop(state);
                let failure = failure.map(unpacked).or(self.end_long(from, &long).err());
                let mut state = lock(&self.state);
                state.finish(from, operation as usize, position as usize, failure, data);
                let next = state.ask_next(from);
                drop(state);
                next.map(|(word, data)| (from, self.encode(&word, &data))).into_iter().collect()
            }
            Word::Lock { exclusive } => granted(state.lock.ask(from, exclusive)),
            Word::Unlock => granted(state.lock.leave(from)),
            Word::Granted => {
                state.granted.insert(from);
                Vec::new()
            }
            Word::Post => {
                state.posts[from] = state.posts[from].saturating_add(1);
                Vec::new()
            }
            Word::Complete => {
                state.completes[from] = state.completes[from].saturating_add(1);
                Vec::new()
            }
            Word::Look => Vec::new(), // that there was a word makes those who wait look
            Word::Offer { .. } | Word::Wanted { .. } | Word::Sent { .. } | Word::Fetch { .. } => {
                drop(state);
                let answer = self.answer_long(from, word);
                answer.map(|answer| (from, self.encode(&answer, &[]))).into_iter().collect()
            }
        }
    }
}

impl super::state::State {
    /// Nobody will answer the operations on a target.
    fn abandon(&mut self, target: usize, why: &Error) {
        let its = self.operations.iter().filter(|(_, operation)| operation.target == target);
        for id in its.map(|(id, _)| id).collect::<Vec<_>>() {
            let mut operation = self.operations.remove(id);
            operation.failure.get_or_insert_with(|| why.clone());
            let unheard = operation.end();
            self.failures.extend(unheard.map(|error| (target, error)));
        }
        (self.pending[target], self.asked[target]) = (0, 0);
        self.unasked[target].clear();
    }

    /// Takes the long put or get out of an operation that its target has answered.
    fn take_long(&mut self, from: usize, id: usize) -> Long {
        let operation = self.operations.get_mut(id).filter(|operation| operation.target == from);
        operation.map_or(Long::No, |operation| std::mem::replace(&mut operation.long, Long::No))
    }

    /// A piece of an operation was answered.
    fn finish(&mut self, from: usize, id: usize, position: usize, failure: Option<crate::error::Error>, data: &[u8]) {
        let Some(operation) = self.operations.get_mut(id).filter(|operation| operation.target == from) else { return };
        if let (Some(result), None, false) = (&operation.result, &failure, data.is_empty()) {
            result.put(position, data);
        }
        operation.failure = operation.failure.take().or(failure);
        operation.left -= 1;
        if operation.left == 0 {
            let operation = self.operations.remove(id);
            self.pending[from] -= 1;
            if let Some(unheard) = operation.end() {
                self.failures.push((from, unheard));
            }
        }
    }
}

/// Bytes that the answer to a word has behind it.
fn fetched(word: &Word) -> usize {
    match word {
        Word::Access { act, runs, .. } if act.fetches() => total(runs).unwrap_or(0),
        _ => 0,
    }
}

/// Applies a piece of an operation to the target's memory. Appends the former contents to the answer if the origin asks for them.
///
/// # Safety
/// Memory at `start` must hold the runs, which have `total` bytes.
unsafe fn access(act: Act, start: usize, runs: &[Runs], total: usize, data: &[u8], answer: &mut Vec<u8>) -> Result<()> {
    if act.data(total).is_some_and(|expected| expected != data.len()) {
        return fail(Class::Arg, format!("{} bytes of data came for {total} bytes of memory", data.len()));
    }
    let begin = answer.len();
    if act.fetches() {
        // SAFETY: the caller's promise, here and below.
        unsafe { gather(start, runs, answer) };
    }
    match act {
        Act::Get => {}
        // SAFETY: as above; the data is as long.
        Act::Put => unsafe { scatter(start, runs, data) },
        Act::Accumulate { op, number, .. } => {
            // SAFETY: as above.
            if let Some(run) = unsafe { one_run(start, runs) } {
                return accumulate(op, number, data, run);
            }
            let mut new = Vec::with_capacity(total);
            // SAFETY: as above; `new` holds `total` bytes.
            unsafe {
                gather(start, runs, &mut new);
                accumulate(op, number, data, &mut new)?;
                scatter(start, runs, &new);
            }
        }
        Act::CompareAndSwap => {
            let (compared, new) = data.split_at(total);
            if compared == &answer[begin..] {
                // SAFETY: as above; `new` is as long.
                unsafe { scatter(start, runs, new) };
            }
        }
    }
    Ok(())
}

fn accumulate(op: u32, number: u32, data: &[u8], into: &mut [u8]) -> Result<()> {
    match op {
        MPI_NO_OP => return Ok(()),
        MPI_REPLACE => {
            into.copy_from_slice(data);
            return Ok(());
        }
        FIRST.. => return fail(Class::Op, "op is a user's operation, which windows do not allow"),
        _ => {}
    }
    if number >= FIRST {
        return fail(Class::Type, "datatype is not made of one predefined datatype");
    }
    let (op, number) = (Op::of(op)?, Datatype::of(number)?);
    op.check_accumulate(&number)?;
    if number.size() == 0 || data.len() % number.size() != 0 {
        return fail(Class::Type, "data ends inside a number");
    }
    // SAFETY: both hold the same whole count of numbers.
    unsafe { combine(&op, data, into, &number) }
}
