//! Collective operations as programs call them: arguments are checked, and only those that are significant at this
//! process; what is returned does the operation.

use super::across::{self, Part};
use super::allgather::allgather as gather_everywhere;
use super::buffer::{Argument, Elements};
use super::levels::allreduce as reduce_everywhere;
use super::neighbours;
use super::run::Operation;
use super::{Call, Reducer, Scan, Scratch, Span, alltoall as exchange, gather as collect, reduce, scan};
use crate::error::{Class, Result, fail};
use crate::objects::comm::{Comm, PROC_NULL, ROOT};
use crate::objects::datatype::Datatype;
use crate::objects::op::Op;
use crate::objects::topology::Neighbours;

/// Where the root is.
#[derive(Clone, Copy)]
enum Root {
    Rank(usize),
    Across(Part),
}

impl Root {
    fn of(comm: &Comm, root: i32) -> Result<Root> {
        match (usize::try_from(root), comm.remote.is_some()) {
            (Ok(rank), false) if rank < comm.size() => Ok(Root::Rank(rank)),
            (Ok(rank), true) if rank < comm.peers().size() => Ok(Root::Across(Part::Toward(rank))),
            (_, true) if root == ROOT => Ok(Root::Across(Part::Root)),
            (_, true) if root == PROC_NULL => Ok(Root::Across(Part::Nothing)),
            _ => fail(Class::Root, format!("root {root} is not in 0..{}", comm.peers().size())),
        }
    }

    /// Whether this process is it.
    fn is_here(self, comm: &Comm) -> bool {
        match self {
            Root::Rank(rank) => rank == comm.rank,
            Root::Across(part) => part == Part::Root,
        }
    }

    /// Whether this process has a block of its own.
    fn takes_part(self) -> bool {
        !matches!(self, Root::Across(Part::Root | Part::Nothing))
    }
}

/// None for MPI_IN_PLACE, where that is `allowed`.
fn unless_in_place(argument: Argument<'_>, allowed: bool) -> Result<Option<Elements>> {
    if allowed && argument.is_in_place() { Ok(None) } else { argument.elements().map(Some) }
}

/// What a process sends itself must fit its own block.
fn same_length(own: usize, block: usize) -> Result<()> {
    let text = || format!("this process sends itself {own} bytes where it receives {block}");
    match own.cmp(&block) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => fail(Class::Truncate, text()),
        std::cmp::Ordering::Less => fail(Class::Count, text()),
    }
}

/// What this process sends itself must not lie where it is received: that is said by MPI_IN_PLACE. Of MPI_BOTTOM datatypes say
/// where it lies.
fn not_aliased(own: &Elements, block: &Elements) -> Result<()> {
    match own.length > 0 && own.start == block.start && !own.start.is_null() {
        true => fail(Class::Buffer, "sendbuf is where this process receives it: that is said by MPI_IN_PLACE"),
        false => Ok(()),
    }
}

/// MPI_Barrier.
pub fn barrier() -> impl Operation {
    async |call: &Call| super::barrier(call).await
}

/// MPI_Bcast.
pub fn bcast(comm: &Comm, buffer: Argument<'_>, root: i32) -> Result<impl Operation + use<>> {
    let root = Root::of(comm, root)?;
    let is_significant = !matches!(root, Root::Across(Part::Nothing));
    let buffer = is_significant.then(|| buffer.elements()).transpose()?;
    let sends = root.is_here(comm);
    Ok(async move |call: &Call| {
        let mut kept = Scratch::new(0);
        let span = match &buffer {
            Some(buffer) if sends => buffer.load(&mut kept),
            Some(buffer) => buffer.room(&mut kept),
            None => Span::EMPTY,
        };
        match root {
            Root::Rank(root) => super::bcast(call, span, root).await,
            Root::Across(part) => across::bcast_across(call, span, part).await,
        }
        if let (Some(buffer), false) = (&buffer, sends) {
            buffer.store(span);
        }
        call.outcome()
    })
}

/// MPI_Gather, and MPI_Gatherv when `receive` has a count for each rank.
pub fn gather(comm: &Comm, send: Argument<'_>, receive: Argument<'_>, root: i32) -> Result<impl Operation + use<>> {
    let root = Root::of(comm, root)?;
    let is_equal = matches!(receive.shape, super::Shape::Equal { .. });
    let here = root.is_here(comm);
    let own = if root.takes_part() { unless_in_place(send, here)? } else { None };
    let blocks = here.then(|| receive.many(comm.peers().size())).transpose()?;
    if let (Root::Rank(root), Some(own), Some(blocks)) = (root, &own, &blocks) {
        same_length(own.length, blocks.length(root))?;
        not_aliased(own, &blocks.block(root))?;
    }
    Ok(async move |call: &Call| {
        let (mut kept, mut kept_own) = (Scratch::new(0), Scratch::new(0));
        let room = blocks.as_ref().map(|blocks| match &own {
            // In place: this process's own block is there already.
            None => blocks.load(&mut kept),
            Some(_) => blocks.room(&mut kept),
        });
        let span = match (&own, &room) {
            (Some(own), _) => own.load(&mut kept_own),
            (None, Some(room)) if call.comm.remote.is_none() => room.at(call.rank()),
            _ => Span::EMPTY,
        };
        // `is_equal` is matched, because a guard in an async closure crashes the compiler of Rust 1.85.
        match (root, is_equal) {
            (Root::Rank(root), true) => collect::gather(call, span, room.as_ref(), root).await,
            (Root::Rank(root), false) => collect::gather_directly(call, span, room.as_ref(), root).await,
            (Root::Across(part), _) => across::gather_across(call, span, room.as_ref(), part).await,
        }
        if let (Some(blocks), Some(room)) = (&blocks, &room) {
            blocks.store(room);
        }
        call.outcome()
    })
}

/// MPI_Scatter, and MPI_Scatterv when `send` has a count for each rank.
pub fn scatter(comm: &Comm, send: Argument<'_>, receive: Argument<'_>, root: i32) -> Result<impl Operation + use<>> {
    let root = Root::of(comm, root)?;
    let is_equal = matches!(send.shape, super::Shape::Equal { .. });
    let here = root.is_here(comm);
    let own = if root.takes_part() { unless_in_place(receive, here)? } else { None };
    let blocks = here.then(|| send.many(comm.peers().size())).transpose()?;
    if let (Root::Rank(root), Some(own), Some(blocks)) = (root, &own, &blocks) {
        same_length(blocks.length(root), own.length)?;
        not_aliased(own, &blocks.block(root))?;
    }
    Ok(async move |call: &Call| {
        let (mut kept, mut kept_own) = (Scratch::new(0), Scratch::new(0));
        let blocks = blocks.as_ref().map(|blocks| blocks.load(&mut kept));
        let span = match (&own, &blocks) {
            (Some(own), _) => own.room(&mut kept_own),
            (None, Some(blocks)) if call.comm.remote.is_none() => blocks.at(call.rank()),
            _ => Span::EMPTY,
        };
        match (root, is_equal) {
            (Root::Rank(root), true) => collect::scatter(call, blocks.as_ref(), span, root).await,
            (Root::Rank(root), false) => collect::scatter_directly(call, blocks.as_ref(), span, root).await,
            (Root::Across(part), _) => across::scatter_across(call, blocks.as_ref(), span, part).await,
        }
        if let Some(own) = &own {
            own.store(span);
        }
        call.outcome()
    })
}

/// MPI_Allgather and MPI_Allgatherv.
pub fn allgather(comm: &Comm, send: Argument<'_>, receive: Argument<'_>) -> Result<impl Operation + use<>> {
    let own = unless_in_place(send, comm.remote.is_none())?;
    let blocks = receive.many(comm.peers().size())?;
    if let (Some(own), None) = (&own, &comm.remote) {
        same_length(own.length, blocks.length(comm.rank))?;
        not_aliased(own, &blocks.block(comm.rank))?;
    }
    Ok(async move |call: &Call| {
        let (mut kept, mut kept_own) = (Scratch::new(0), Scratch::new(0));
        let room = if own.is_some() { blocks.room(&mut kept) } else { blocks.load(&mut kept) };
        let span = own.as_ref().map(|own| own.load(&mut kept_own));
        if call.comm.remote.is_some() {
            across::allgather_across(call, span.unwrap_or(Span::EMPTY), &room).await;
        } else {
            gather_everywhere(call, span.unwrap_or_else(|| room.at(call.rank())), &room).await;
        }
        blocks.store(&room);
        call.outcome()
    })
}

/// MPI_Alltoall, MPI_Alltoallv and MPI_Alltoallw.
pub fn alltoall(comm: &Comm, send: Argument<'_>, receive: Argument<'_>) -> Result<impl Operation + use<>> {
    let ranks = comm.peers().size();
    let in_place = send.is_in_place() && comm.remote.is_none();
    let blocks = receive.many(ranks)?;
    let sent = if in_place { None } else { Some(send.many(ranks)?) };
    if let (Some(sent), None) = (&sent, &comm.remote) {
        same_length(sent.length(comm.rank), blocks.length(comm.rank))?;
        not_aliased(&sent.block(comm.rank), &blocks.block(comm.rank))?;
    }
    Ok(async move |call: &Call| {
        let (mut kept, mut kept_sent) = (Scratch::new(0), Scratch::new(0));
        let send = match &sent {
            Some(sent) => sent.load(&mut kept_sent),
            None => blocks.copy(&mut kept_sent, ranks),
        };
        let room = blocks.room(&mut kept);
        if call.comm.remote.is_some() {
            across::alltoall_across(call, &send, &room).await;
        } else if blocks.is_equal() {
            exchange::alltoall(call, &send, &room).await;
        } else {
            exchange::directly(call, &send, &room).await;
        }
        blocks.store(&room);
        call.outcome()
    })
}

/// Operand and result of a reduction, as programs pass them: of one count and datatype.
#[derive(Clone, Copy)]
pub struct Operands {
    /// None is MPI_IN_PLACE.
    pub send: Option<*mut u8>,
    /// The result. `None` where the call has none.
    pub receive: Option<*mut u8>,
    /// The number of elements.
    pub count: i64,
    /// The handle of the datatype.
    pub datatype: u32,
    /// The handle of the operation.
    pub op: u32,
}

impl Operands {
    fn argument(&self, name: &'static str, start: Option<*mut u8>) -> Argument<'static> {
        let Operands { count, datatype, .. } = *self;
        Argument { name, start, shape: super::Shape::Equal { count, datatype } }
    }

    /// None is MPI_IN_PLACE, where that is `allowed`.
    fn own(&self, allowed: bool) -> Result<Option<Elements>> {
        let own = unless_in_place(self.argument("sendbuf", self.send), allowed)?;
        let is_same = self.send.is_some() && self.send == self.receive;
        if allowed && is_same && own.as_ref().is_some_and(|own| own.length > 0) {
            return fail(Class::Buffer, "sendbuf and recvbuf are the same: that is said by MPI_IN_PLACE");
        }
        Ok(own)
    }

    fn result(&self) -> Result<Elements> {
        self.argument("recvbuf", self.receive).elements()
    }

    fn reducer(&self) -> Result<Reducer> {
        Reducer::new(Op::of(self.op)?, Datatype::of(self.datatype)?)
    }
}

/// MPI_Reduce.
pub fn reduce_to(comm: &Comm, operands: Operands, root: i32) -> Result<impl Operation + use<>> {
    let root = Root::of(comm, root)?;
    let here = root.is_here(comm);
    let is_significant = !matches!(root, Root::Across(Part::Nothing));
    let reducer = is_significant.then(|| operands.reducer()).transpose()?;
    let own = if root.takes_part() { operands.own(here)? } else { None };
    let result = here.then(|| operands.result()).transpose()?;
    Ok(async move |call: &Call| {
        let Some(reducer) = &reducer else { return Ok(()) };
        let (mut kept, mut kept_own) = (Scratch::new(0), Scratch::new(0));
        let room = result.as_ref().map(|result| match &own {
            None => result.load(&mut kept),
            Some(_) => result.room(&mut kept),
        });
        let span = own.as_ref().map(|own| own.load(&mut kept_own)).or(room).unwrap_or(Span::EMPTY);
        match root {
            Root::Rank(root) => reduce(call, span, room, root, reducer).await,
            Root::Across(part) => across::reduce_across(call, span, room, part, reducer).await,
        }
        if let (Some(result), Some(room)) = (&result, room) {
            result.store(room);
        }
        call.outcome()
    })
}

/// MPI_Allreduce.
pub fn allreduce(comm: &Comm, operands: Operands) -> Result<impl Operation + use<>> {
    let reducer = operands.reducer()?;
    let (own, result) = (operands.own(comm.remote.is_none())?, operands.result()?);
    Ok(async move |call: &Call| {
        let (mut kept, mut kept_own) = (Scratch::new(0), Scratch::new(0));
        let (span, room) = operand_and_room(own.as_ref(), &result, &mut kept_own, &mut kept);
        if call.comm.remote.is_some() {
            across::allreduce_across(call, span, room, &reducer).await;
        } else {
            reduce_everywhere(call, span, room, &reducer).await;
        }
        result.store(room);
        call.outcome()
    })
}

/// The same span twice when the operation is in place.
fn operand_and_room(
    own: Option<&Elements>,
    result: &Elements,
    kept_own: &mut Scratch,
    kept: &mut Scratch,
) -> (Span, Span) {
    match own {
        Some(own) => (own.load(kept_own), result.room(kept)),
        None => {
            let both = result.load(kept);
            (both, both)
        }
    }
}

/// MPI_Scan and MPI_Exscan.
pub fn scan_up(comm: &Comm, operands: Operands, kind: Scan) -> Result<impl Operation + use<>> {
    if comm.remote.is_some() {
        return fail(Class::Comm, "comm is an intercommunicator");
    }
    let reducer = operands.reducer()?;
    let own = operands.own(true)?;
    // Rank 0 of an exclusive one has no result, so its buffer may be anything.
    let has_result = kind == Scan::Inclusive || comm.rank > 0 || own.is_none();
    let result = has_result.then(|| operands.result()).transpose()?;
    Ok(async move |call: &Call| {
        let (mut kept, mut kept_own) = (Scratch::new(0), Scratch::new(0));
        let (span, room) = match (&own, &result) {
            (own, Some(result)) => operand_and_room(own.as_ref(), result, &mut kept_own, &mut kept),
            (Some(own), None) => (own.load(&mut kept_own), Span::EMPTY),
            (None, None) => (Span::EMPTY, Span::EMPTY),
        };
        scan::scan(call, span, room, kind, &reducer).await;
        if let (Some(result), true) = (&result, kind == Scan::Inclusive || call.rank() > 0) {
            result.store(room);
        }
        call.outcome()
    })
}

/// MPI_Reduce_scatter and MPI_Reduce_scatter_block: `count_of` each rank; the operands' own count does not count.
pub fn reduce_scatter(
    comm: &Comm,
    operands: Operands,
    count_of: &dyn Fn(usize) -> Result<i64>,
) -> Result<impl Operation + use<>> {
    let reducer = operands.reducer()?;
    let counts: Vec<i64> = (0..comm.size()).map(count_of).collect::<Result<_>>()?;
    if let Some(count) = counts.iter().find(|count| **count < 0) {
        return fail(Class::Count, format!("a count of recvcounts is {count}"));
    }
    let Some(total) = counts.iter().try_fold(0i64, |sum, count| sum.checked_add(*count)) else {
        return fail(Class::Count, "recvcounts are larger than the address space together");
    };
    let all = Operands { count: total, ..operands };
    let own = all.own(comm.remote.is_none())?;
    let own = own.map_or_else(|| all.result(), Ok)?;
    let result = Operands { count: counts[comm.rank], ..operands }.result()?;
    let unit = reducer.unit();
    let lengths: Vec<usize> = counts.iter().map(|count| *count as usize * unit).collect();
    Ok(async move |call: &Call| {
        let (mut kept, mut kept_own) = (Scratch::new(0), Scratch::new(0));
        let (span, room) = (own.load(&mut kept_own), result.room(&mut kept));
        if call.comm.remote.is_some() {
            across::reduce_scatter_across(call, span, &lengths, room, &reducer).await;
        } else {
            let blocks = super::Blocks::in_a_row(span, lengths.iter().copied());
            reduce::reduce_scatter(call, span, &blocks, room, &reducer).await;
        }
        result.store(room);
        call.outcome()
    })
}

/// MPI_Neighbor_allgather and MPI_Neighbor_allgatherv. What nobody sends to stays as it is, so the blocks are loaded, too.
pub fn neighbour_allgather(
    neighbours: Neighbours,
    send: Argument<'_>,
    receive: Argument<'_>,
) -> Result<impl Operation + use<>> {
    let (own, blocks) = (send.elements()?, receive.many(neighbours.sources.len())?);
    Ok(async move |call: &Call| {
        let (mut kept, mut kept_own) = (Scratch::new(0), Scratch::new(0));
        let (span, room) = (own.load(&mut kept_own), blocks.load(&mut kept));
        neighbours::neighbour_allgather(call, &neighbours, span, &room).await;
        blocks.store(&room);
        call.outcome()
    })
}

/// MPI_Neighbor_alltoall, MPI_Neighbor_alltoallv and MPI_Neighbor_alltoallw.
pub fn neighbour_alltoall(
    neighbours: Neighbours,
    send: Argument<'_>,
    receive: Argument<'_>,
) -> Result<impl Operation + use<>> {
    let (sent, blocks) = (send.many(neighbours.destinations.len())?, receive.many(neighbours.sources.len())?);
    Ok(async move |call: &Call| {
        let (mut kept, mut kept_sent) = (Scratch::new(0), Scratch::new(0));
        let (send, room) = (sent.load(&mut kept_sent), blocks.load(&mut kept));
        neighbours::neighbour_alltoall(call, &neighbours, &send, &room).await;
        blocks.store(&room);
        call.outcome()
    })
}
