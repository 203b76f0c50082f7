//! One collective operation at one process, and the messages of it.

use super::span::Span;
use crate::error::{Class, Error, Result, fail};
use crate::objects::comm::{Comm, Remote, Use};
use crate::objects::handle::Held;
use crate::objects::machines::Machines;
use crate::process::engine::{Mode, Outgoing, Status, Target};
use crate::process::tasks;
use crate::process::wait::Wait;
use crate::process::world::World;
use phalanx_core::spmd::Pattern;
use std::cell::OnceCell;
use std::sync::Arc;

/// Tags of operations that can be started again and again are apart from the others'.
const PERSISTENT: i32 = 1 << 30;

/// One collective operation, at this process.
///
/// Algorithms use [`put`](Call::put), [`get`](Call::get), [`swap`](Call::swap) and [`transfer`](Call::transfer): these
/// do not fail but note what went wrong, so that an algorithm goes its way to the end, the others do not wait for ever for its
/// messages, and nothing that was begun is left behind. What was noted is the [`outcome`](Call::outcome).
pub struct Call {
    /// This process.
    pub world: &'static World,
    /// The communicator.
    pub comm: Held<Comm>,
    tag: i32,
    /// Of an intercommunicator: the same operation among the processes of this side.
    local: Option<Box<Call>>,
    /// Those who take part, when these are not all of the communicator, and the place of this process among them.
    members: Option<(Arc<[usize]>, usize)>,
    failure: OnceCell<Error>,
}

/// A receive that was begun, to be waited for.
pub struct Receiving {
    request: usize,
    from: usize,
    into: Span,
}

impl Call {
    /// The communicator's next one. Made in the order of the program's calls, before anything waits.
    #[inline]
    pub fn new(world: &'static World, comm: impl Into<Held<Comm>>) -> Call {
        let comm = comm.into();
        let tag = comm.next_turn() & (PERSISTENT - 1);
        Call::with_tag(world, comm, tag)
    }

    /// Of an operation that is started again and again. Its messages have a tag of their own, so that processes may start
    /// several in different orders.
    pub fn persistent(world: &'static World, comm: Arc<Comm>) -> Call {
        let tag = comm.next_turn() | PERSISTENT;
        Call::with_tag(world, comm.into(), tag)
    }

    #[inline]
    fn with_tag(world: &'static World, comm: Held<Comm>, tag: i32) -> Call {
        let local = |remote: &Remote| Box::new(Call::with_tag(world, remote.local.clone().into(), tag));
        let local = comm.remote.as_ref().map(local);
        let failure = comm.check_revoked().err().map_or_else(OnceCell::new, OnceCell::from);
        Call { world, comm, tag, local, members: None, failure }
    }

    /// The same operation, started again.
    pub fn again(&self) -> Call {
        Call::with_tag(self.world, self.comm.clone(), self.tag)
    }

    /// What the operation's messages are told from others' by.
    pub fn tag(&self) -> i32 {
        self.tag
    }

    /// A part of the operation that these ranks do; None for others.
    pub(super) fn within(&self, ranks: &Arc<[usize]>) -> Option<Call> {
        let place = ranks.iter().position(|rank| *rank == self.comm.rank)?;
        let mut part = self.again();
        part.members = Some((ranks.clone(), place));
        Some(part)
    }

    /// Where the communicator's ranks live, if that makes a difference to this operation.
    #[inline]
    pub(super) fn machines(&self) -> Option<&Machines> {
        if self.members.is_some() || self.world.machines.is_empty() {
            return None;
        }
        self.comm.machines.get_or_init(|| Machines::of(&self.comm.group, self.comm.rank, self.world)).as_ref()
    }

    /// This process's place among those who take part.
    #[inline]
    pub fn rank(&self) -> usize {
        self.members.as_ref().map_or(self.comm.rank, |(_, place)| *place)
    }

    /// The number of those who take part.
    #[inline]
    pub fn size(&self) -> usize {
        self.members.as_ref().map_or(self.comm.size(), |(ranks, _)| ranks.len())
    }

    /// The rank in the communicator's peers.
    #[inline]
    fn peer(&self, place: usize) -> usize {
        self.members.as_ref().map_or(place, |(ranks, _)| ranks[place])
    }

    /// Of an intercommunicator: the operation among this side's processes.
    pub fn local(&self) -> &Call {
        self.local.as_deref().unwrap_or(self)
    }

    /// Notes what went wrong; the first such thing is kept.
    pub fn note(&self, result: Result<()>) {
        if let Err(error) = result {
            let _ = self.failure.set(error);
        }
    }

    /// What went wrong first, if anything did.
    #[inline]
    pub fn outcome(&self) -> Result<()> {
        match (self.failure.get(), &self.local) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(local)) => local.outcome(),
            (None, None) => Ok(()),
        }
    }

    #[inline]
    pub(super) fn start_put(&self, to: usize, bytes: Span) -> Option<usize> {
        let process = self.comm.peers().processes[self.peer(to)];
        let envelope = self.comm.envelope(Use::Collective, self.tag);
        if let Some(error) = self.failure.get() {
            // What would be sent was not computed by all, or is not what came: those who wait for it fail too, because nothing comes.
            let mode = if error.class == Class::ProcFailed { Mode::Failed } else { Mode::Standard };
            return self.world.engine().send(process, envelope, Outgoing::Owned(Vec::new()), mode);
        }
        let data = Outgoing::Borrowed(bytes.start(), bytes.length());
        let mut engine = self.world.engine();
        match engine.send_short(process, &envelope, &data) {
            true => None,
            false => engine.send(process, envelope, data, Mode::Standard),
        }
    }

    #[inline]
    fn start_get(&self, from: usize, into: Span) -> Receiving {
        let request = self.world.engine().receive(self.pattern(from), Target::Plain(into.start(), into.length()));
        Receiving { request, from, into }
    }

    #[inline]
    fn pattern(&self, from: usize) -> Pattern {
        let context = self.comm.context | Use::Collective as u64;
        Pattern { context, source: Some(self.peer(from) as i32), tag: Some(self.tag) }
    }

    #[inline]
    async fn finish_put(&self, request: Option<usize>) {
        if let Some(request) = request {
            let status = tasks::outcome(self.world, request).await;
            self.note(check(&status));
        }
    }

    #[inline]
    async fn finish_get(&self, receiving: Receiving) {
        let Receiving { request, from, into } = receiving;
        let status = tasks::outcome(self.world, request).await;
        self.end_get(&status, from, into);
    }

    /// What did not come is zero, so that nobody computes with what was there before.
    #[inline]
    fn end_get(&self, status: &Status, from: usize, into: Span) {
        if status.error.is_some() || status.bytes != into.length() as u64 {
            self.note(fits(status, from, into.length()));
            into.clear((status.bytes as usize).min(into.length()));
        }
    }

    /// Sends, and waits until that is done.
    #[inline]
    pub(super) fn put_now(&self, to: usize, bytes: Span) {
        let request = self.start_put(to, bytes);
        self.finish_now(request);
    }

    /// Receives, and waits until that is done.
    #[inline]
    pub(super) fn get_now(&self, from: usize, into: Span) {
        let pattern = self.pattern(from);
        let process = self.comm.peers().processes[self.peer(from)];
        // SAFETY: the span is lent until the operation is done.
        let short = unsafe { self.world.receive_short(process, &pattern, into.start(), into.length()) };
        let status = short.unwrap_or_else(|| {
            let mut engine = self.world.engine();
            let request = engine.receive(pattern, Target::Plain(into.start(), into.length()));
            self.world.wait_on(engine, Wait::default(), |engine| engine.outcome(request))
        });
        self.end_get(&status, from, into);
    }

    /// Both at once.
    #[inline]
    pub(super) fn swap_now(&self, to: usize, bytes: Span, from: usize, into: Span) {
        let request = self.start_put(to, bytes);
        self.get_now(from, into);
        self.finish_now(request);
    }

    #[inline]
    pub(super) fn finish_now(&self, request: Option<usize>) {
        if let Some(request) = request {
            let status = self.world.wait(|engine| engine.outcome(request));
            self.note(check(&status));
        }
    }

    /// Sends to a rank of the peers (the remote group of an intercommunicator).
    #[inline]
    pub async fn put(&self, to: usize, bytes: Span) {
        self.finish_put(self.start_put(to, bytes)).await;
    }

    /// Receives from a rank of the peers as many bytes as there is room for.
    #[inline]
    pub async fn get(&self, from: usize, into: Span) {
        self.finish_get(self.start_get(from, into)).await;
    }

    /// Both at once.
    #[inline]
    pub async fn swap(&self, to: usize, bytes: Span, from: usize, into: Span) {
        let receiving = self.start_get(from, into);
        let sending = self.start_put(to, bytes);
        self.finish_put(sending).await;
        self.finish_get(receiving).await;
    }

    /// Many at once. Messages from one rank are received in their order.
    pub async fn transfer(
        &self,
        sends: impl IntoIterator<Item = (usize, Span)>,
        receives: impl IntoIterator<Item = (usize, Span)>,
    ) {
        let receiving: Vec<_> = receives.into_iter().map(|(from, into)| self.start_get(from, into)).collect();
        let sending: Vec<_> = sends.into_iter().filter_map(|(to, bytes)| self.start_put(to, bytes)).collect();
        for request in sending {
            self.finish_put(Some(request)).await;
        }
        for receiving in receiving {
            self.finish_get(receiving).await;
        }
    }

    /// Sends a slice; for those who make communicators.
    pub async fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        // SAFETY: the bytes are borrowed until this has waited for them; a send only reads.
        self.put(to, unsafe { Span::new(bytes.as_ptr().cast_mut(), bytes.len()) }).await;
        self.outcome()
    }

    /// Receives as many bytes as the slice has.
    pub async fn receive(&self, from: usize, bytes: &mut [u8]) -> Result<usize> {
        self.get(from, Span::of(bytes)).await;
        self.outcome().map(|()| bytes.len())
    }

    /// Both at once.
    pub async fn exchange(&self, to: usize, bytes: &[u8], from: usize, into: &mut [u8]) -> Result<usize> {
        // SAFETY: as in `send`.
        let own = unsafe { Span::new(bytes.as_ptr().cast_mut(), bytes.len()) };
        self.swap(to, own, from, Span::of(into)).await;
        self.outcome().map(|()| into.len())
    }
}

#[cold]
fn check(status: &Status) -> Result<()> {
    match status.error {
        None => Ok(()),
        Some(class) => fail(class, class.words()),
    }
}

#[cold]
fn fits(status: &Status, from: usize, expected: usize) -> Result<()> {
    match status.error {
        Some(Class::Truncate) => {
            Err(Error::new(Class::Truncate, format!("rank {from} sent more than the {expected} bytes expected")))
        }
        Some(class) => fail(class, class.words()),
        None => {
            let text = format!("rank {from} sent {} bytes where {expected} were expected", status.bytes);
            Err(Error::new(Class::Count, text))
        }
    }
}
