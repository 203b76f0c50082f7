//! Operations on the memory of others, at the process that calls them (MPI 5.0, 12.3).

use super::runs::{Reach, pieces};
use super::word::{Act, Word};
use super::{Window, lock};
use crate::constants::MPI_NO_OP;
use crate::datatype::Datatype;
use crate::engine::EMPTY;
use crate::error::{Class, Error, Result, fail};
use crate::op::Op;
use crate::point::Buffer;
use crate::request::Active;
use crate::tasks::Task;
use crate::world::World;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

/// Where in the target's memory an operation works.
#[derive(Clone)]
pub struct Place {
    pub rank: i32,
    pub displacement: i64,
    pub count: usize,
    pub datatype: Arc<Datatype>,
}

/// An operation that is under way.
pub(super) struct Operation {
    pub target: usize,
    /// Pieces that are not answered yet.
    pub left: usize,
    /// Where what comes back goes.
    pub result: Option<Buffer>,
    pub failure: Option<Error>,
    /// Who asks for its end: a request. None: its failure is told at the end of the epoch.
    pub end: Option<Arc<End>>,
}

/// What came of an operation that has a request, once it is done.
pub type End = OnceLock<Result<()>>;

impl Operation {
    /// A failure that nobody else tells.
    pub fn end(self) -> Option<Error> {
        let Some(end) = self.end else { return self.failure };
        let _ = end.set(self.failure.map_or(Ok(()), Err));
        None
    }
}

/// An operation's arguments, checked.
struct Plan<'a> {
    act: Act,
    data: &'a [u8],
    /// Bytes of the target's memory, and of the numbers that must stay whole.
    bytes: usize,
    unit: usize,
    result: Option<Buffer>,
}

impl Window {
    /// MPI_Put. The origin's memory may be used again at once. `end` for an operation that has a request.
    pub async fn put(&self, origin: &Buffer, place: &Place, end: Option<Arc<End>>) -> Result<()> {
        let data = bytes_of(origin);
        fits(data.len(), "origin", capacity(place)?, "target")?;
        self.begin(place, Plan { act: Act::Put, data: &data, bytes: data.len(), unit: 1, result: None }, end).await
    }

    /// MPI_Get.
    pub async fn get(&self, origin: &Buffer, place: &Place, end: Option<Arc<End>>) -> Result<()> {
        let bytes = capacity(place)?;
        fits(bytes, "target", origin.bytes(), "origin")?;
        let result = Some(origin.clone());
        self.begin(place, Plan { act: Act::Get, data: &[], bytes, unit: 1, result }, end).await
    }

    /// MPI_Accumulate; with a result MPI_Get_accumulate, of which MPI_Fetch_and_op is one on a single number. MPI_NO_OP
    /// needs no origin.
    pub async fn accumulate(
        &self,
        origin: Option<&Buffer>,
        result: Option<&Buffer>,
        place: &Place,
        op: u32,
        end: Option<Arc<End>>,
    ) -> Result<()> {
        let known = Op::of(op)?;
        let data = origin.filter(|_| op != MPI_NO_OP).map_or_else(Vec::new, bytes_of);
        let whole = capacity(place)?;
        fits(data.len(), "origin", whole, "target")?;
        let bytes = if op == MPI_NO_OP { whole } else { data.len() };
        if bytes > 0 {
            known.check_accumulate(&place.datatype)?;
        }
        if let Some(result) = result {
            fits(bytes, "target", result.bytes(), "result")?;
        }
        let number = place.datatype.basic();
        let unit = number.map_or(1, |number| number.size());
        if bytes % unit != 0 {
            return fail(Class::Type, "the origin's data ends inside a number of the target's datatype");
        }
        let act = Act::Accumulate { op, number: number.map_or(0, |number| number.handle), fetch: result.is_some() };
        self.begin(place, Plan { act, data: &data, bytes, unit, result: result.cloned() }, end).await
    }

    /// MPI_Compare_and_swap; all buffers hold one element of the place's datatype.
    pub async fn compare_and_swap(
        &self,
        new: &Buffer,
        compared: &Buffer,
        result: &Buffer,
        place: &Place,
    ) -> Result<()> {
        use crate::datatype::kind::Family::{Address, Byte, FortranInteger, Integer, Logical};
        let kind = place.datatype.predefined().map(|kind| kind.family);
        if !matches!(kind, Some(Integer | FortranInteger | Logical | Byte | Address)) {
            return fail(Class::Type, "datatype is no integer, logical or byte");
        }
        let bytes = capacity(place)?;
        let data = [bytes_of(compared), bytes_of(new)].concat();
        let plan = Plan { act: Act::CompareAndSwap, data: &data, bytes, unit: bytes, result: Some(result.clone()) };
        self.begin(place, plan, None).await
    }

    async fn begin(&self, place: &Place, plan: Plan<'_>, end: Option<Arc<End>>) -> Result<()> {
        let Plan { act, data, bytes, unit, result } = plan;
        let target = self.rank(place.rank)?;
        if let Some(target) = target {
            self.enter(target, end.is_some()).await?;
        }
        let Some(target) = target.filter(|_| bytes > 0) else {
            end.inspect(|end| _ = end.set(Ok(())));
            return Ok(());
        };
        let pieces = pieces(&place.datatype, place.count, bytes, unit.max(1));
        if !self.is_dynamic() {
            let reach = self.reach_of(target);
            pieces.iter().try_for_each(|piece| reach.locate(place.displacement, &piece.runs).map(drop))?;
        }
        let operation = Operation { target, left: pieces.len(), result, failure: None, end };
        let id = {
            let mut state = lock(&self.state);
            self.comm.check_revoked()?; // who revokes it ends what is there after it has said so
            state.pending[target] += 1;
            state.operations.insert(operation)
        };
        for piece in pieces {
            let data = match act.data(piece.bytes) {
                Some(0) | None => &[],
                Some(length) if length == piece.bytes => &data[piece.position..][..length],
                Some(_) => data,
            };
            let (operation, position) = (id as u64, piece.position as u64);
            let displacement = place.displacement;
            let word = Word::Access { operation, position, act, displacement, runs: piece.runs };
            if let Err(error) = self.ask(target, word, data) {
                self.give_up(id);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Asks a target for a piece, at once or when it has answered others.
    fn ask(&self, target: usize, word: Word, data: &[u8]) -> Result<()> {
        let mut state = lock(&self.state);
        if state.may_ask(target) {
            drop(state);
            return self.tell(target, &word, data);
        }
        state.unasked[target].push_back((word, data.to_vec()));
        drop(state);
        self.check_lives(target) // who is lost from now on is heard of, and nothing waits for it any more
    }

    /// Nobody will answer an operation.
    fn give_up(&self, id: usize) {
        let mut state = lock(&self.state);
        if let Some(operation) = state.operations.try_remove(id) {
            state.pending[operation.target] -= 1;
        }
    }

    fn reach_of(&self, target: usize) -> Reach<'static> {
        let super::Part { base, size, unit } = self.parts[target];
        Reach::Part { base, size, unit }
    }

    /// Waits until the operations on a target, or on all, are done; fails if one of them has failed.
    pub(super) async fn settle(&self, target: Option<usize>) -> Result<()> {
        poll_fn(|_| {
            let state = lock(&self.state);
            let idle = |rank: usize| state.pending[rank] == 0;
            match target.map_or_else(|| (0..state.pending.len()).all(idle), idle) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        let mut state = lock(&self.state);
        let mut first = Ok(());
        state.failures.retain(|(rank, error)| {
            let told = target.is_none_or(|target| target == *rank);
            if told && first.is_ok() {
                first = Err(error.clone());
            }
            !told
        });
        first
    }
}

/// The request of an operation.
pub fn active(world: &World, end: Arc<End>) -> Active {
    if let Some(Ok(())) = end.get() {
        return Active::Done(EMPTY);
    }
    Active::Task(Task::begin(
        world,
        poll_fn(move |_| match end.get() {
            Some(outcome) => Poll::Ready(outcome.clone()),
            None => Poll::Pending,
        }),
    ))
}

fn bytes_of(buffer: &Buffer) -> Vec<u8> {
    let data = buffer.outgoing();
    // SAFETY: the caller of the operation lends the memory.
    unsafe { data.bytes() }.to_vec()
}

fn capacity(place: &Place) -> Result<usize> {
    place.datatype.check_committed()?;
    match place.datatype.packed_size(place.count) {
        Some(bytes) => Ok(bytes),
        None => fail(Class::Count, format!("{} elements are more than there can be", place.count)),
    }
}

fn fits(bytes: usize, from: &str, room: usize, into: &str) -> Result<()> {
    match bytes <= room {
        true => Ok(()),
        false => fail(Class::Truncate, format!("the {from}'s {bytes} bytes do not fit into the {into}'s {room}")),
    }
}
