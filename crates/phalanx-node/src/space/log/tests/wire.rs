//! Members of a space in one process. Their network loses and delays messages and can be cut, and their disks can lose power.

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

/// A beat slow enough that a member keeps leading even if a busy machine suspends the whole process for a while.
pub const TIMING: Timing = Timing { beat: Duration::from_millis(150) };
/// Time limit for what must happen eventually.
pub const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Wire {
    members: Mutex<BTreeMap<u64, Weak<Replicated>>>,
    /// Members that are cut off from all others.
    cut: Mutex<BTreeSet<u64>>,
    /// How many of a thousand messages, and of a thousand answers, are lost.
    pub lost: AtomicU64,
    /// Longest delay, in milliseconds.
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

/// The sending end of a member, from its start until it is killed.
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

/// The members of the test, some of which are alive.
pub struct Members {
    pub wire: Arc<Wire>,
    disks: BTreeMap<u64, Disk>,
    lives: BTreeMap<u64, Arc<AtomicBool>>,
    timing: Timing,
    pub alive: BTreeMap<u64, Arc<Replicated>>,
}

impl Members {
    /// Starts members 1 to `count`, which know each other.
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

    /// Kills a member. What it had not synced is lost.
    pub fn kill(&mut self, member: u64) {
        lock(&self.wire.members).remove(&member);
        self.lives[&member].store(true, Ordering::SeqCst);
        let steps = self.disks[&member].cut();
        self.disks.insert(member, Disk::of(after_cut(&steps, steps.len(), || Kept::Not)));
        self.alive.remove(&member);
    }

    /// Waits until one of `members` leads. Returns it, its log, and the state.
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

/// Waits for what must happen eventually.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
