//! Making communicators (MPI 5.0, 7.4.2 and 7.6.2): who belongs to it, and which context it has.
//!
//! Contexts are never agreed on: the first process of the new communicator chooses one that nobody else can choose, and
//! tells the others.

use super::{COMM_WORLD, Comm, Remote, UNDEFINED, Use, new_context};
use crate::collective::{Call, everybody_says};
use crate::engine::{Mode, Outgoing, Target};
use crate::error::{Class, Result, fail};
use crate::group::Group;
use crate::tasks;
use crate::world::World;
use phalanx_core::spmd::{Envelope, Pattern};
use std::sync::Arc;

/// What each process says of itself when a communicator is divided.
#[derive(Debug, Clone, Copy)]
struct Word {
    color: i32,
    key: i32,
    /// The context of the part that it becomes the first of.
    context: u64,
    process: u32,
}

const WORD: usize = 20;

impl Word {
    fn bytes(self) -> [u8; WORD] {
        let mut bytes = [0; WORD];
        bytes[..4].copy_from_slice(&self.color.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.key.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.context.to_le_bytes());
        bytes[16..].copy_from_slice(&self.process.to_le_bytes());
        bytes
    }

    fn of(bytes: &[u8]) -> Word {
        let number = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let context = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
        Word { color: number(0), key: number(4), context, process: number(16) as u32 }
    }
}

/// A communicator of the same processes.
pub async fn duplicate(call: Call) -> Result<Arc<Comm>> {
    let (comm, world) = (call.comm.clone(), call.world);
    let Some(remote) = &comm.remote else {
        let context = agree(&call, new_context(world)).await?;
        let made = Comm::new(context, comm.group.clone(), comm.rank, None);
        if let Some(topology) = comm.topology.get() {
            let _ = made.topology.set(topology.clone());
        }
        return Ok(made);
    };
    let local = Box::pin(duplicate(Call::new(world, remote.local.clone()))).await?;
    let context = agree_with_remote(&call, &local, &[new_context(world)]).await?[0];
    let remote = Remote { group: remote.group.clone(), local };
    Ok(Comm::new(context, comm.group.clone(), comm.rank, Some(remote)))
}

/// The communicator of those who give the same color, in the order of their keys; None for who gives MPI_UNDEFINED.
pub async fn split(call: Call, color: i32, key: i32) -> Result<Option<Arc<Comm>>> {
    let world = call.world;
    let own = Word { color, key, context: new_context(world), process: world.rank as u32 };
    let Some(remote) = &call.comm.remote else {
        let words = everyone(&call, own).await?;
        return Ok(part(&words, color, world).map(|(group, rank, context)| Comm::new(context, group, rank, None)));
    };
    let at_home = Call::new(world, remote.local.clone());
    let words = everyone(&at_home, own).await?;
    let theirs = swap(&call, &at_home, &words.iter().flat_map(|word| word.bytes()).collect::<Vec<_>>()).await?;
    let theirs: Vec<_> = theirs.chunks_exact(WORD).map(Word::of).collect();
    let (Some((group, rank, here)), Some((there, _, context))) =
        (part(&words, color, world), part(&theirs, color, world))
    else {
        return Ok(None);
    };
    let local = Comm::new(own_context(here), group.clone(), rank, None);
    let context = if group.processes[0] < there.processes[0] { here } else { context };
    Ok(Some(Comm::new(context, group, rank, Some(Remote { group: there, local }))))
}

/// The communicator of a group of `comm`'s processes; None for others. All of `comm` call.
pub async fn of_group(call: Call, group: Arc<Group>) -> Result<Option<Arc<Comm>>> {
    let world = call.world;
    let place = group.rank_of(world.rank as u32);
    // The same for all who belong to one group: as a color its first process serves.
    let color = if place.is_some() { group.processes[0] as i32 } else { UNDEFINED };
    if call.comm.remote.is_some() {
        return split_sides(call, group).await;
    }
    split(call, color, place.unwrap_or(0) as i32).await
}

/// Of an intercommunicator: all who belong to a group of either side.
async fn split_sides(call: Call, group: Arc<Group>) -> Result<Option<Arc<Comm>>> {
    let place = group.rank_of(call.world.rank as u32);
    let color = if place.is_some() { 0 } else { UNDEFINED };
    split(call, color, place.unwrap_or(0) as i32).await
}

/// The communicator of a group, called by its processes alone; `tag` tells this call from others at the same time.
pub async fn of_members(world: &'static World, comm: &Comm, group: Arc<Group>, tag: i32) -> Result<Arc<Comm>> {
    let Some(rank) = group.rank_of(world.rank as u32) else {
        return fail(Class::Group, "this process is not in the group");
    };
    let context = comm.context | Use::Aside as u64;
    let context = Aside { world, context, tag, group: group.clone() }.first_says(new_context(world)).await?;
    Ok(Comm::new(context, group, rank, None))
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
    let mut own = new_context(world).to_le_bytes().to_vec();
    own.extend(comm.group.processes.iter().flat_map(|process| process.to_le_bytes()));
    let mut theirs = Vec::new();
    if comm.rank == leader {
        let Some((bridge, of, remote_leader, tag)) = bridge else {
            return fail(Class::Comm, "the leader needs a communicator with the other leader");
        };
        theirs = swap_over(world, &bridge, of, remote_leader, tag, &own).await?;
    }
    let theirs = tell_all(&call, leader, theirs).await?;
    let own = tell_all(&call, leader, own).await?;
    let read = |bytes: &[u8]| -> Option<(u64, Group)> {
        let (context, processes) = bytes.split_first_chunk()?;
        let number = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?));
        let processes = processes.chunks_exact(4).map(number).collect::<Option<Vec<_>>>()?;
        Some((u64::from_le_bytes(*context), Group { processes }))
    };
    let (Some((here, _)), Some((there, remote))) = (read(&own), read(&theirs)) else {
        return fail(Class::Comm, "the other leader does not speak of an intercommunicator");
    };
    if remote.processes.iter().any(|process| comm.group.rank_of(*process).is_some()) {
        return fail(Class::Comm, "the two groups have a process in common");
    }
    let local = Comm::new(own_context(here), comm.group.clone(), comm.rank, None);
    let first = |group: &Group| group.processes.iter().min().copied();
    let context = if first(&comm.group) < first(&remote) { here } else { there };
    Ok(Comm::new(context, comm.group.clone(), comm.rank, Some(Remote { group: Arc::new(remote), local })))
}

/// One communicator of both sides (MPI_Intercomm_merge): first the side that does not say `high`.
pub async fn merge(call: Call, high: bool) -> Result<Arc<Comm>> {
    let (world, comm) = (call.world, call.comm.clone());
    let Some(remote) = &comm.remote else { return fail(Class::Comm, "comm is no intercommunicator") };
    let at_home = Call::new(world, remote.local.clone());
    let mut word = new_context(world).to_le_bytes().to_vec();
    word.push(u8::from(high));
    let word = tell_all(&at_home, 0, word).await?;
    let theirs = swap(&call, &at_home, &word).await?;
    let (context, high) =
        (|bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")), word[8] != 0);
    if theirs.len() != 9 {
        return fail(Class::Comm, "the other side does not merge");
    }
    let low_number = comm.group.processes[0] < remote.group.processes[0];
    let first = if high == (theirs[8] != 0) { low_number } else { !high };
    let (one, other) = if first { (&comm.group, &remote.group) } else { (&remote.group, &comm.group) };
    let group = Group { processes: one.processes.iter().chain(&other.processes).copied().collect() };
    let rank = comm.rank + if first { 0 } else { remote.group.size() };
    Ok(Comm::new(context(if low_number { &word } else { &theirs }), Arc::new(group), rank, None))
}

/// Derived from a context that an intercommunicator has, for its side's own messages.
fn own_context(context: u64) -> u64 {
    context | 1 << 63
}

/// Those of one color in their new order: the group, this process's rank in it, and the context that its first one offers.
fn part(words: &[Word], color: i32, world: &World) -> Option<(Arc<Group>, usize, u64)> {
    if color == UNDEFINED {
        return None;
    }
    let mut same: Vec<_> = words.iter().filter(|word| word.color == color).collect();
    same.sort_by_key(|word| word.key); // a stable sort: equal keys stay in the order of ranks
    let context = same.first()?.context;
    let group = Group { processes: same.iter().map(|word| word.process).collect() };
    let rank = group.rank_of(world.rank as u32).unwrap_or(0);
    Some((Arc::new(group), rank, context))
}

/// What everybody says, by rank.
async fn everyone(call: &Call, own: Word) -> Result<Vec<Word>> {
    let words = everybody_says(call, own.bytes().to_vec()).await?;
    Ok(words.iter().map(|bytes| Word::of(bytes)).collect())
}

/// The first process's word.
async fn agree(call: &Call, word: u64) -> Result<u64> {
    let first = tell_all(call, 0, word.to_le_bytes().to_vec()).await?;
    Ok(u64::from_le_bytes(first[..].try_into().expect("eight bytes")))
}

/// The words of the side that has the lower process number, told to both.
async fn agree_with_remote(call: &Call, local: &Arc<Comm>, words: &[u64]) -> Result<Vec<u64>> {
    let at_home = Call::new(call.world, local.clone());
    let own: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let own = tell_all(&at_home, 0, own).await?;
    let theirs = swap(call, &at_home, &own).await?;
    let low = call.comm.group.processes[0] < call.comm.peers().processes[0];
    let chosen = if low { own } else { theirs };
    Ok(chosen.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes"))).collect())
}

/// Gives the other side's first process these bytes, and all of this side what it gives.
async fn swap(call: &Call, at_home: &Call, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut theirs = Vec::new();
    if call.rank() == 0 {
        let comm = &call.comm;
        theirs = swap_over(call.world, comm, Use::Collective, 0, call.tag(), bytes).await?;
    }
    tell_all(at_home, 0, theirs).await
}

/// The bytes of one process, which alone knows how many there are.
async fn tell_all(call: &Call, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>> {
    let own = if call.rank() == root { bytes } else { Vec::new() };
    Ok(everybody_says(call, own).await?.swap_remove(root))
}

/// Two leaders exchange bytes over a communicator that both have.
async fn swap_over(world: &'static World, bridge: &Comm, of: Use, to: i32, tag: i32, bytes: &[u8]) -> Result<Vec<u8>> {
    let (Some(process), Some(pattern)) = (bridge.destination(to)?, bridge.pattern(of, to, tag)?) else {
        return fail(Class::Rank, "the remote leader is MPI_PROC_NULL");
    };
    let length = (bytes.len() as u64).to_le_bytes();
    let mut theirs = [0; 8];
    for (own, into) in [(&length[..], None), (bytes, Some(()))] {
        let mut long = vec![0; u64::from_le_bytes(theirs) as usize];
        let into: &mut [u8] = if into.is_some() { &mut long } else { &mut theirs };
        let receive = world.engine().receive(pattern, Target::Plain(into.as_mut_ptr(), into.len()));
        let data = Outgoing::Borrowed(own.as_ptr(), own.len());
        let send = world.engine().send(process, bridge.envelope(of, tag), data, Mode::Standard);
        let received = tasks::outcome(world, receive).await;
        if let Some(send) = send {
            tasks::outcome(world, send).await;
        }
        if let Some(class) = received.error {
            return fail(class, "the other leader's word did not come");
        }
        if !long.is_empty() {
            return Ok(long);
        }
    }
    Ok(Vec::new())
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
