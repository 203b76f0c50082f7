//! Members of a space in one process, over a network that loses, delays and is cut, with disks whose power fails.

use super::disk::{Disk, Kept, after_cut};
use super::*;
use crate::space::log::replicated::{Later, Leader, Leading, Network, Replicated, Timing};
use crate::space::log::store::Store;
use bytes::Bytes;
use phalanx_core::space::Replica;
use phalanx_net::sync::lock;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Slow enough that a member which leads goes on to do so while a busy machine lets nobody in the process run for a while.
pub const TIMING: Timing = Timing { beat: Duration::from_millis(150) };
/// For what must happen in the end.
pub const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Wire {
    members: Mutex<BTreeMap<u64, Weak<Replicated>>>,
    /// Members that hear and reach nobody.
    cut: Mutex<BTreeSet<u64>>,
    /// Of a thousand messages, and of a thousand answers.
    pub lost: AtomicU64,
    /// Milliseconds, at most.
    pub delay: AtomicU64,
    dice: AtomicU64,
}

impl Wire {
    pub fn dice(&self) -> u64 {
        let mixed = self.dice.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27) >> 8
    }

    pub fn cut(&self, member: u64) {
        lock(&self.cut).insert(member);
    }

    pub fn heal(&self) {
        lock(&self.cut).clear();
    }

    fn loses(&self, from: u64, to: u64) -> io::Result<()> {
        let cut = lock(&self.cut);
        match cut.contains(&from) || cut.contains(&to) || self.dice() % 1000 < self.lost.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }
}

/// What one life of a member sends with.
struct End {
    from: u64,
    dead: Arc<AtomicBool>,
    wire: Arc<Wire>,
}

impl Network for End {
    fn ask(&self, to: &Replica, message: Bytes, _patience: Duration) -> Later<io::Result<Bytes>> {
        let (wire, from, to) = (self.wire.clone(), self.from, to.address.parse().unwrap());
        let dead = self.dead.clone();
        Box::pin(async move {
            wire.loses(from, to)?;
            if dead.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            let most = wire.delay.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(if most == 0 { 0 } else { wire.dice() % most })).await;
            let member = lock(&wire.members).get(&to).and_then(Weak::upgrade);
            let answer = member.ok_or(io::ErrorKind::ConnectionRefused)?.answer_later(&message).await;
            wire.loses(to, from)?;
            Ok(answer)
        })
    }
}

/// Members, some of which are alive.
pub struct Members {
    pub wire: Arc<Wire>,
    disks: BTreeMap<u64, Disk>,
    lives: BTreeMap<u64, Arc<AtomicBool>>,
    timing: Timing,
    pub alive: BTreeMap<u64, Arc<Replicated>>,
}

impl Members {
    /// Members from 1 to `count`, who know each other.
    pub fn new(count: u64) -> Members {
        Members::timed(count, TIMING)
    }

    pub fn timed(count: u64, timing: Timing) -> Members {
        let (wire, disks, lives, alive) = (Arc::default(), BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut members = Members { wire, disks, lives, timing, alive };
        (1..=count).for_each(|member| members.start(member));
        members.alive[&1].found(&named(1..=count)).unwrap();
        members
    }

    pub fn start(&mut self, member: u64) {
        let disk = self.disks.entry(member).or_default().clone();
        let dead = Arc::new(AtomicBool::new(false));
        self.lives.insert(member, dead.clone());
        let end = Arc::new(End { from: member, dead, wire: self.wire.clone() });
        let started = Replicated::start_on(member, Store::on(disk).unwrap(), self.timing, end).unwrap();
        lock(&self.wire.members).insert(member, Arc::downgrade(&started));
        self.alive.insert(member, started);
    }

    /// The member is gone, and what it had not synced with it.
    pub fn kill(&mut self, member: u64) {
        lock(&self.wire.members).remove(&member);
        self.lives[&member].store(true, Ordering::SeqCst);
        let steps = self.disks[&member].cut();
        self.disks.insert(member, Disk::of(after_cut(&steps, steps.len(), || Kept::Not)));
        self.alive.remove(&member);
    }

    /// A member that leads, and its log, once there is one among `members`; with the state.
    pub fn lead(&self, members: &[u64]) -> (u64, Leading, Vec<Change>) {
        let deadline = Instant::now() + DEADLINE;
        while Instant::now() < deadline {
            for member in members {
                let replicated = &self.alive[member];
                if replicated.wait_for_leader(&Leader::Unknown, Duration::from_millis(20)) != Leader::Here {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                }
                let mut state = Vec::new();
                let take = |change| {
                    state.push(change);
                    Ok(())
                };
                if let Ok(leading) = replicated.lead(take) {
                    return (*member, leading, state);
                }
            }
        }
        panic!("nobody leads");
    }
}

pub fn named(members: impl IntoIterator<Item = u64>) -> BTreeMap<u64, Replica> {
    let replica = |member: u64| Replica { name: format!("m{member}"), address: member.to_string() };
    members.into_iter().map(|member| (member, replica(member))).collect()
}

/// Waits for what must come.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
