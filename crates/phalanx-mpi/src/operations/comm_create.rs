//! Making communicators (MPI 5.0, 7.4.2 and 7.6.2): who belongs to it, and which context it has.
//!
//! Contexts are never agreed on: the first process of the new communicator chooses one that nobody else can choose, and
//! tells the others.

#[cfg(test)]
mod tests;

use crate::error::{Class, Result, fail};
use crate::objects::comm::{COMM_WORLD, Comm, Remote, UNDEFINED, Use, new_context};
use crate::objects::group::Group;
use crate::operations::collective::{Call, everyone, packed, tell_all, unpacked, zeroed};
use crate::process::engine::{MARKED, Mode, Outgoing, Target, is_marked};
use crate::process::tasks;
use crate::process::world::World;
use phalanx_core::spmd::{Envelope, Pattern};
use phalanx_core::wire::ranks::MOST_RANKS;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What each process says of itself when a communicator is divided.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Word {
    color: i32,
    key: i32,
    /// The context of the part that it becomes the first of.
    context: u64,
    process: u32,
}

/// What each side of a new intercommunicator says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Side {
    context: u64,
    processes: Vec<u32>,
}

/// A context of this process's choice, marked where what is sent in it is to be protected as marked data is.
pub(crate) fn choose_context(world: &World, secured: bool) -> u64 {
    new_context(world) | if secured { MARKED } else { 0 }
}

/// A communicator that is made of `from`: as protected as that, and as its context says.
pub(crate) fn make(
    world: &World,
    from: &Comm,
    context: u64,
    group: Arc<Group>,
    rank: usize,
    remote: Option<Remote>,
) -> Arc<Comm> {
    let made = Comm::new(context, group, rank, remote);
    if from.is_secured() || is_marked(context) {
        made.secure(world);
    }
    made
}

/// A communicator of the same processes. It is protected as marked data is where one of them asks for that.
pub async fn duplicate(call: Call, secured: bool) -> Result<Arc<Comm>> {
    let (comm, world) = (call.comm.clone(), call.world);
    let own = choose_context(world, secured || comm.is_secured());
    let Some(remote) = &comm.remote else {
        let context = first_context(&call, own).await?;
        let made = make(world, &comm, context, comm.group.clone(), comm.rank, None);
        if let Some(topology) = comm.topology.get() {
            let _ = made.topology.set(topology.clone());
        }
        return Ok(made);
    };
    let here = first_context(call.local(), own).await?;
    let there = swap(&call, &here).await?;
    let context = either(comm.group.processes[0] < remote.group.processes[0], here, there);
    let local = Comm::new(own_context(here), comm.group.clone(), comm.rank, None);
    let remote = Remote { group: remote.group.clone(), local };
    Ok(make(world, &comm, context, comm.group.clone(), comm.rank, Some(remote)))
}

/// The context that the first process offers, marked if one of them marks its own.
async fn first_context(call: &Call, own: u64) -> Result<u64> {
    let all = everyone(call, &own).await?;
    Ok(all.iter().fold(all[0], |context, its| context | its & MARKED))
}

/// The communicator of those who give the same color, in the order of their keys; None for who gives MPI_UNDEFINED.
pub async fn split(call: Call, color: i32, key: i32, secured: bool) -> Result<Option<Arc<Comm>>> {
    let (world, comm) = (call.world, call.comm.clone());
    let own =
        Word { color, key, context: choose_context(world, secured || comm.is_secured()), process: world.rank as u32 };
    if comm.remote.is_none() {
        let words = everyone(&call, &own).await?;
        let part = part(&words, color, world, &comm.group);
        return Ok(part.map(|(group, rank, context)| make(world, &comm, context, group, rank, None)));
    }
    let words = everyone(call.local(), &own).await?;
    let theirs = swap(&call, &words).await?;
    check(&theirs.iter().map(|word| word.process).collect::<Vec<_>>())?;
    let (Some((group, rank, here)), Some((there, _, context))) =
        (part(&words, color, world, &comm.group), part(&theirs, color, world, &comm.group))
    else {
        return Ok(None);
    };
    let local = Comm::new(own_context(here), group.clone(), rank, None);
    let context = either(group.processes[0] < there.processes[0], here, context);
    Ok(Some(make(world, &comm, context, group, rank, Some(Remote { group: there, local }))))
}

/// The communicator of a group of `comm`'s processes; None for others. All of `comm` call. Of an intercommunicator: of a
/// group of either side.
pub async fn of_group(call: Call, group: Arc<Group>) -> Result<Option<Arc<Comm>>> {
    let strangers = || group.processes.iter().any(|process| call.comm.group.rank_of(*process).is_none());
    if call.comm.remote.is_none() && strangers() {
        return fail(Class::Group, "group has processes that comm does not have");
    }
    let place = group.rank_of(call.world.rank as u32);
    // Groups without a common process may be made at the same time, but not by an intercommunicator's two sides.
    let together =
        if call.comm.remote.is_some() { 0 } else { group.processes.first().map_or(0, |first| *first as i32) };
    let color = if place.is_some() { together } else { UNDEFINED };
    split(call, color, place.unwrap_or(0) as i32, false).await
}

/// The communicator of a group, called by its processes alone; `tag` tells this call from others at the same time.
pub async fn of_members(world: &'static World, comm: &Comm, group: Arc<Group>, tag: i32) -> Result<Arc<Comm>> {
    let Some(rank) = group.rank_of(world.rank as u32) else {
        return fail(Class::Group, "this process is not in the group");
    };
    let context = comm.context | Use::Aside as u64;
    let context = Aside { world, context, tag, group: group.clone() }
        .first_says(choose_context(world, comm.is_secured()))
        .await?;
    Ok(make(world, comm, context, group, rank, None))
}

/// The communicator of a group of a session, without one that it comes from (MPI_Comm_create_from_group).
pub async fn of_session(world: &'static World, group: Arc<Group>, text: &str) -> Result<Arc<Comm>> {
    of_members(world, &*Comm::of(COMM_WORLD)?, group, tag_of(text)).await
}

/// The intercommunicator of two groups of sessions (MPI_Intercomm_create_from_groups).
pub async fn join_sessions(
    world: &'static World,
    local: (Arc<Group>, usize),
    remote: (Arc<Group>, usize),
    text: &str,
) -> Result<Arc<Comm>> {
    let home = of_members(world, &*Comm::of(COMM_WORLD)?, local.0.clone(), tag_of(text)).await?;
    let leader = remote.0.processes[remote.1] as i32;
    let bridge = (Comm::of(COMM_WORLD)?, Use::Aside, leader, tag_of(text));
    join(Call::new(world, home), local.1, Some(bridge)).await
}

/// The same for all who give the same text. Two texts at the same time in the same group may meet with the probability of
/// two hashes of 30 bits.
fn tag_of(text: &str) -> i32 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash >> 34) as i32
}

/// An intercommunicator of two groups, whose leaders reach each other over `bridge` (MPI_Intercomm_create).
pub async fn join(call: Call, leader: usize, bridge: Option<(Arc<Comm>, Use, i32, i32)>) -> Result<Arc<Comm>> {
    let (world, comm) = (call.world, call.comm.clone());
    let own = Side { context: choose_context(world, comm.is_secured()), processes: comm.group.processes.clone() };
    let theirs = match bridge {
        _ if comm.rank != leader => None,
        None => return fail(Class::Comm, "the leader needs a communicator with the other leader"),
        Some((bridge, of, remote, tag)) => Some(swap_over(world, &bridge, of, remote, tag, &own).await?),
    };
    let theirs: Side = tell_all(&call, leader, theirs.as_ref()).await?;
    let here = tell_all(&call, leader, Some(&own.context)).await?;
    check(&theirs.processes)?;
    let (there, remote) = (theirs.context, comm.group.of(theirs.processes));
    if remote.processes.iter().any(|process| comm.group.rank_of(*process).is_some()) {
        return fail(Class::Comm, "the two groups have a process in common");
    }
    let local = Comm::new(own_context(here), comm.group.clone(), comm.rank, None);
    let first = |group: &Group| group.processes.iter().min().copied();
    let context = either(first(&comm.group) < first(&remote), here, there);
    let remote = Remote { group: Arc::new(remote), local };
    Ok(make(world, &comm, context, comm.group.clone(), comm.rank, Some(remote)))
}

/// One communicator of both sides (MPI_Intercomm_merge): first the side that does not say `high`.
pub async fn merge(call: Call, high: bool) -> Result<Arc<Comm>> {
    let (world, comm) = (call.world, call.comm.clone());
    let Some(remote) = &comm.remote else { return fail(Class::Comm, "comm is no intercommunicator") };
    let own = tell_all(call.local(), 0, Some(&(choose_context(world, comm.is_secured()), high))).await?;
    let theirs = swap(&call, &own).await?;
    let low_number = comm.group.processes[0] < remote.group.processes[0];
    let first = if own.1 == theirs.1 { low_number } else { !own.1 };
    let (one, other) = if first { (&comm.group, &remote.group) } else { (&remote.group, &comm.group) };
    let group = comm.group.of(one.processes.iter().chain(&other.processes).copied().collect::<Vec<_>>());
    let rank = comm.rank + if first { 0 } else { remote.group.size() };
    let context = either(low_number, own.0, theirs.0);
    Ok(make(world, &comm, context, Arc::new(group), rank, None))
}

/// One side's context, marked if one of the two is.
fn either(first: bool, one: u64, other: u64) -> u64 {
    (if first { one } else { other }) | (one | other) & MARKED
}

/// The intercommunicator of this process's group with another side, which has its context already.
pub(crate) fn with_side(world: &World, group: Arc<Group>, context: u64, others: &[u32]) -> Result<Arc<Comm>> {
    let Some(rank) = group.rank_of(world.rank as u32) else {
        return fail(Class::Intern, "this process is not in its own group");
    };
    check(others)?;
    let local = Comm::new(own_context(context), group.clone(), rank, None);
    let remote = Remote { group: Arc::new(Group::new(others)), local };
    Ok(Comm::new(context, group, rank, Some(remote)))
}

/// Checks the numbers of processes that the other side has sent: tables of processes are as long as the highest.
fn check(others: &[u32]) -> Result<()> {
    match others.iter().any(|process| *process >= MOST_RANKS) {
        true => fail(Class::NotSame, "the other side names processes that cannot be"),
        false => Ok(()),
    }
}

/// Derived from a context that an intercommunicator has, for its side's own messages.
pub fn own_context(context: u64) -> u64 {
    context | 1 << 63
}

/// Those of one color in their new order: the group, this process's rank in it, and the context that its first one offers.
fn part(words: &[Word], color: i32, world: &World, whole: &Group) -> Option<(Arc<Group>, usize, u64)> {
    if color == UNDEFINED {
        return None;
    }
    let mut same: Vec<_> = words.iter().filter(|word| word.color == color).collect();
    same.sort_by_key(|word| word.key); // a stable sort: equal keys stay in the order of ranks
    let context = same.iter().fold(same.first()?.context, |context, word| context | word.context & MARKED);
    let group = whole.of(same.iter().map(|word| word.process).collect::<Vec<_>>());
    let rank = group.rank_of(world.rank as u32).unwrap_or(0);
    Some((Arc::new(group), rank, context))
}

/// Gives the other side's first process this, and all of this side what it gives. The messages of this side have the
/// call's tag, as those of every operation of an intercommunicator: a turn of its local communicator would have a tag
/// that another operation has.
async fn swap<T: Serialize + DeserializeOwned>(call: &Call, own: &T) -> Result<T> {
    let theirs = match call.rank() {
        0 => Some(swap_over(call.world, &call.comm, Use::Collective, 0, call.tag(), own).await?),
        _ => None,
    };
    tell_all(call.local(), 0, theirs.as_ref()).await
}

/// Two leaders exchange words over a communicator that both have.
async fn swap_over<T: Serialize + DeserializeOwned>(
    world: &'static World,
    bridge: &Comm,
    of: Use,
    to: i32,
    tag: i32,
    own: &T,
) -> Result<T> {
    let (Some(process), Some(pattern)) = (bridge.destination(to)?, bridge.pattern(of, to, tag)?) else {
        return fail(Class::Rank, "the remote leader is MPI_PROC_NULL");
    };
    let exchange = async |own: &[u8], theirs: &mut [u8]| {
        let receive = world.engine().receive(pattern, Target::Plain(theirs.as_mut_ptr(), theirs.len()));
        let data = Outgoing::Borrowed(own.as_ptr(), own.len());
        let send = world.engine().send(process, bridge.envelope(of, tag), data, Mode::Standard);
        let received = tasks::outcome(world, receive).await;
        if let Some(send) = send {
            tasks::outcome(world, send).await;
        }
        received.error.map_or(Ok(()), |class| fail(class, "the other leader's word did not come"))
    };
    let (own, mut length) = (packed(own), [0; 8]);
    exchange(&(own.len() as u64).to_le_bytes(), &mut length).await?;
    let mut theirs = zeroed(u64::from_le_bytes(length))?;
    exchange(&own, &mut theirs).await?;
    unpacked(&theirs)
}

/// The members of a group that is no communicator yet.
struct Aside {
    world: &'static World,
    context: u64,
    tag: i32,
    group: Arc<Group>,
}

impl Aside {
    async fn first_says(&self, word: u64) -> Result<u64> {
        let (first, own) = (self.group.processes[0], self.world.rank as u32);
        let mut bytes = word.to_le_bytes();
        let envelope = Envelope { context: self.context, source: first as i32, tag: self.tag };
        if first != own {
            let pattern = Pattern { context: self.context, source: Some(first as i32), tag: Some(self.tag) };
            let receive = self.world.engine().receive(pattern, Target::Plain(bytes.as_mut_ptr(), bytes.len()));
            let status = tasks::outcome(self.world, receive).await;
            return status.error.map_or(Ok(u64::from_le_bytes(bytes)), |class| fail(class, class.words()));
        }
        for process in &self.group.processes[1..] {
            let data = Outgoing::Owned(bytes.to_vec());
            let send = self.world.engine().send(*process, envelope, data, Mode::Standard);
            if let Some(send) = send {
                tasks::outcome(self.world, send).await;
            }
        }
        Ok(word)
    }
}
