//! Operations on the memory of others, at the process that calls them (MPI 5.0, 12.3).

use super::operation::{End, Long, Operation};
use super::runs::{Reach, pieces};
use super::state::State;
use super::word::{Act, Word};
use super::{Window, lock};
use crate::constants::MPI_NO_OP;
use crate::error::{Class, Result, fail};
use crate::objects::buffer::Buffer;
use crate::objects::datatype::Datatype;
use crate::objects::op::Op;
use crate::objects::request::Active;
use crate::process::engine::{EMPTY, Outgoing, Target};
use crate::process::tasks::Task;
use crate::process::world::World;
use phalanx_net::copy::copied;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// Where in the target's memory an operation works.
#[derive(Clone)]
pub struct Place {
    /// The rank of the target.
    pub rank: i32,
    /// The displacement in its part, in its units.
    pub displacement: i64,
    /// The number of elements.
    pub count: usize,
    /// The datatype of each.
    pub datatype: Arc<Datatype>,
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
    /// MPI_Put. The origin's memory may be used again when the operation is done. `end` for an operation that has a request.
    pub async fn put(&self, origin: &Buffer, place: &Place, end: Option<Arc<End>>) -> Result<()> {
        let bytes = origin.bytes();
        fits(bytes, "origin", capacity(place)?, "target")?;
        let Some(target) = self.enter(place, bytes, &end).await? else { return Ok(()) };
        let data = origin.outgoing();
        if self.reaches(target)? {
            // SAFETY: the caller of the operation lends the memory, here and below.
            self.elements(target, place, bytes)?.put(unsafe { data.bytes() });
            self.conclude(end);
            return Ok(());
        }
        if let (Some(run), Outgoing::Borrowed(..)) = (self.long_run(target, place, bytes), &data) {
            return self.offer(target, run, data, end);
        }
        // SAFETY: as above.
        let data = unsafe { data.bytes() };
        self.ask_for(target, place, Plan { act: Act::Put, data, bytes, unit: 1, result: None }, end)
    }

    /// MPI_Get.
    pub async fn get(&self, origin: &Buffer, place: &Place, end: Option<Arc<End>>) -> Result<()> {
        let bytes = capacity(place)?;
        fits(bytes, "target", origin.bytes(), "origin")?;
        let Some(target) = self.enter(place, bytes, &end).await? else { return Ok(()) };
        if self.reaches(target)? {
            self.elements(target, place, bytes)?.get(origin);
            self.conclude(end);
            return Ok(());
        }
        if let (Some(run), to @ Target::Plain(..)) = (self.long_run(target, place, bytes), origin.target()) {
            return self.fetch(target, run, to, end);
        }
        let result = Some(origin.clone());
        self.ask_for(target, place, Plan { act: Act::Get, data: &[], bytes, unit: 1, result }, end)
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
        let data = origin.filter(|_| op != MPI_NO_OP).map_or(Outgoing::Owned(Vec::new()), Buffer::outgoing);
        // SAFETY: the caller of the operation lends the memory.
        let data = unsafe { data.bytes() };
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
        let Some(target) = self.enter(place, bytes, &end).await? else { return Ok(()) };
        if self.reaches(target)? {
            let elements = self.elements(target, place, bytes)?;
            let guard = self.guard(target)?;
            result.into_iter().for_each(|result| elements.get(result));
            let done = elements.accumulate(&known, data);
            drop(guard);
            done?;
            self.conclude(end);
            return Ok(());
        }
        let act = Act::Accumulate { op, number: number.map_or(0, |number| number.handle), fetch: result.is_some() };
        self.ask_for(target, place, Plan { act, data, bytes, unit, result: result.cloned() }, end)
    }

    /// MPI_Compare_and_swap; all buffers hold one element of the place's datatype.
    pub async fn compare_and_swap(
        &self,
        new: &Buffer,
        compared: &Buffer,
        result: &Buffer,
        place: &Place,
    ) -> Result<()> {
        use crate::objects::datatype::kind::Family::{Address, Byte, FortranInteger, Integer, Logical};
        let kind = place.datatype.predefined().map(|kind| kind.family);
        if !matches!(kind, Some(Integer | FortranInteger | Logical | Byte | Address)) {
            return fail(Class::Type, "datatype is no integer, logical or byte");
        }
        let bytes = capacity(place)?;
        let (compared, new) = (compared.outgoing(), new.outgoing());
        // SAFETY: the caller of the operation lends the memory.
        let (compared, new) = unsafe { (compared.bytes(), new.bytes()) };
        let Some(target) = self.enter(place, bytes, &None).await? else { return Ok(()) };
        if self.reaches(target)? {
            let elements = self.elements(target, place, bytes)?;
            let guard = self.guard(target)?;
            elements.get(result);
            if elements.are(compared) {
                elements.put(new);
            }
            drop(guard);
            self.conclude(None);
            return Ok(());
        }
        let data = [compared, new].concat();
        let plan = Plan { act: Act::CompareAndSwap, data: &data, bytes, unit: bytes, result: Some(result.clone()) };
        self.ask_for(target, place, plan, None)
    }

    /// Waits until an operation may begin: its target; None when there is nothing to do, because the target is MPI_PROC_NULL or there
    /// are no bytes.
    async fn enter(&self, place: &Place, bytes: usize, end: &Option<Arc<End>>) -> Result<Option<usize>> {
        let target = self.rank(place.rank)?;
        if let Some(target) = target {
            self.enter_epoch(target, end.is_some()).await?;
        }
        let target = target.filter(|_| bytes > 0);
        if let (None, Some(end)) = (target, end) {
            let _ = end.set(Ok(()));
        }
        Ok(target)
    }

    /// An operation that needed no message is done.
    #[inline]
    fn conclude(&self, end: Option<Arc<End>>) {
        end.inspect(|end| _ = end.set(Ok(())));
        self.note_direct();
    }

    /// Asks the target to carry an operation out.
    fn ask_for(&self, target: usize, place: &Place, plan: Plan<'_>, end: Option<Arc<End>>) -> Result<()> {
        let Plan { act, data, bytes, unit, result } = plan;
        let pieces = pieces(&place.datatype, place.count, bytes, unit.max(1));
        if !self.is_dynamic() {
            let reach = self.reach_of(target);
            pieces.iter().try_for_each(|piece| reach.locate(place.displacement, &piece.runs).map(drop))?;
        }
        let id = self.begin(Operation { target, left: pieces.len(), result, failure: None, long: Long::No, end })?;
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
                self.give_up(id, target);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Notes an operation that is under way.
    pub(super) fn begin(&self, operation: Operation) -> Result<usize> {
        let mut state = lock(&self.state);
        self.comm.check_revoked()?; // who revokes it ends what is there after it has said so
        state.pending[operation.target] += 1;
        Ok(state.operations.insert(operation))
    }

    /// Asks a target for a piece, at once or when it has answered others.
    pub(super) fn ask(&self, target: usize, word: Word, data: &[u8]) -> Result<()> {
        let mut state = lock(&self.state);
        if state.may_ask(target) {
            drop(state);
            return self.tell(target, &word, data);
        }
        state.unasked[target].push_back((word, copied(data)));
        drop(state);
        self.check_lives(target) // who is lost from now on is heard of, and nothing waits for it any more
    }

    /// Removes an operation whose word could not be sent. The loss of the target may have removed it already.
    pub(super) fn give_up(&self, id: usize, target: usize) {
        let mut state = lock(&self.state);
        if state.operations.get(id).is_some_and(|operation| operation.target == target) {
            let operation = state.operations.remove(id);
            state.pending[target] -= 1;
            drop(state);
            let _ = self.end_long(target, &operation.long); // it has failed in any case
        }
    }

    pub(super) fn reach_of(&self, target: usize) -> Reach<'static> {
        let super::Part { base, size, unit } = self.parts[target];
        Reach::Part { base, size, unit }
    }

    /// Waits until the operations on a target, or on all, are done; fails if one of them has failed.
    pub(super) async fn settle(&self, target: Option<usize>) -> Result<()> {
        poll_fn(|_| lock(&self.state).settle(target)).await
    }
}

impl State {
    /// Whether nothing is under way on a target, and nothing has failed anywhere.
    pub(super) fn is_settled(&self, target: usize) -> bool {
        self.pending[target] == 0 && self.failures.is_empty()
    }

    /// Whether nothing is under way on any target, and nothing has failed anywhere.
    pub(super) fn has_nothing_pending(&self) -> bool {
        self.operations.is_empty() && self.failures.is_empty()
    }

    /// Whether the operations on a target, or on all, are done; fails if one of them has failed.
    pub(super) fn settle(&mut self, target: Option<usize>) -> Poll<Result<()>> {
        let idle = |rank: usize| self.pending[rank] == 0;
        if !target.map_or_else(|| (0..self.pending.len()).all(idle), idle) {
            return Poll::Pending;
        }
        let mut first = Ok(());
        self.failures.retain(|(rank, error)| {
            let told = target.is_none_or(|target| target == *rank);
            if told && first.is_ok() {
                first = Err(error.clone());
            }
            !told
        });
        Poll::Ready(first)
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
