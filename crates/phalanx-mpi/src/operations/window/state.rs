//! What a process knows of a window while it is used.

use super::operation::Operation;
use super::word::Word;
use crate::error::Error;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Pieces that a target is asked for at a time: each may wait there, with its answer.
pub(super) const MOST_ASKED: usize = 256;

/// All of it.
pub(super) struct State {
    /// This process's operations that are under way.
    pub operations: Slab<Operation>,
    /// How many of them, by target.
    pub pending: Vec<usize>,
    /// Pieces of them that each target was asked for and has not answered; and those that wait until it has, with their data.
    pub asked: Vec<usize>,
    pub unasked: Vec<VecDeque<(Word, Vec<u8>)>>,
    /// The numbers under which the data of long puts of others is awaited, by origin and its number of the operation.
    pub awaited: HashMap<(usize, u64), usize>,
    /// Those that failed and whose failure nobody was told yet, with their targets.
    pub failures: Vec<(usize, Error)>,
    pub epochs: Epochs,
    /// Words that came before they were asked for, by who said them.
    pub posts: Vec<u32>,
    pub completes: Vec<u32>,
    pub granted: BTreeSet<usize>,
    /// Of this process's own memory.
    pub lock: Lock,
    /// Memory that is attached to a dynamic window: sizes by address.
    pub regions: BTreeMap<usize, usize>,
    /// The memory is no longer the window's.
    pub ended: bool,
}

/// What this process may do now.
#[derive(Default)]
pub(super) struct Epochs {
    /// Between two fences.
    pub fenced: bool,
    /// From MPI_Win_start on: the targets, and whether they have posted.
    pub started: Option<BTreeMap<usize, bool>>,
    /// From MPI_Win_post on: the origins.
    pub exposed: Option<BTreeSet<usize>>,
    /// Targets that it has locked, by rank, and how many.
    locked: Vec<bool>,
    locks: usize,
    pub locked_all: bool,
}

/// Who has locked this process's memory, and who wants to.
#[derive(Default)]
pub(super) struct Lock {
    holders: BTreeSet<usize>,
    exclusive: bool,
    /// In the order in which they asked.
    queue: VecDeque<(usize, bool)>,
}

impl State {
    pub fn new(size: usize) -> State {
        State {
            operations: Slab::new(),
            pending: vec![0; size],
            asked: vec![0; size],
            unasked: (0..size).map(|_| VecDeque::new()).collect(),
            awaited: HashMap::new(),
            failures: Vec::new(),
            epochs: Epochs { locked: vec![false; size], ..Epochs::default() },
            posts: vec![0; size],
            completes: vec![0; size],
            granted: BTreeSet::new(),
            lock: Lock::default(),
            regions: BTreeMap::new(),
            ended: false,
        }
    }

    /// Whether a target may be asked for one more piece, before which no other waits; it is counted then.
    pub fn may_ask(&mut self, target: usize) -> bool {
        let may = self.asked[target] < MOST_ASKED;
        self.asked[target] += usize::from(may);
        may
    }

    /// A target has answered a piece: what it may be asked for next.
    pub fn ask_next(&mut self, target: usize) -> Option<(Word, Vec<u8>)> {
        let next = self.unasked[target].pop_front();
        if next.is_none() {
            self.asked[target] = self.asked[target].saturating_sub(1);
        }
        next
    }
}

impl Epochs {
    pub fn is_passive(&self, target: usize) -> bool {
        self.locked_all || self.has_locked(target)
    }

    pub fn is_locking(&self) -> bool {
        self.locked_all || self.locks > 0
    }

    /// Whether an epoch is open that no fence has begun.
    pub fn is_inside(&self) -> bool {
        self.is_locking() || self.started.is_some() || self.exposed.is_some()
    }

    /// Whether it has locked this target by itself.
    pub fn has_locked(&self, target: usize) -> bool {
        self.locked[target]
    }

    pub fn set_locked(&mut self, target: usize, locked: bool) {
        let before = std::mem::replace(&mut self.locked[target], locked);
        self.locks = self.locks + usize::from(locked) - usize::from(before);
    }
}

impl Lock {
    /// Somebody asks; who asks twice is heard once.
    pub fn ask(&mut self, rank: usize, exclusive: bool) -> Vec<usize> {
        if !self.holders.contains(&rank) && !self.queue.iter().any(|(waiting, _)| *waiting == rank) {
            self.queue.push_back((rank, exclusive));
        }
        self.grant()
    }

    /// Somebody has done.
    pub fn leave(&mut self, rank: usize) -> Vec<usize> {
        self.holders.remove(&rank);
        self.grant()
    }

    /// Somebody was lost, who may have held the lock or waited for it.
    pub fn lose(&mut self, rank: usize) -> Vec<usize> {
        self.queue.retain(|(waiting, _)| *waiting != rank);
        self.leave(rank)
    }

    /// Who gets the lock now: the first in the queue, with those behind that share it.
    fn grant(&mut self) -> Vec<usize> {
        let mut granted = Vec::new();
        while let Some((rank, exclusive)) = self.queue.front().copied() {
            if !self.holders.is_empty() && (exclusive || self.exclusive) {
                break;
            }
            self.queue.pop_front();
            self.holders.insert(rank);
            self.exclusive = exclusive;
            granted.push(rank);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::Lock;

    #[test]
    fn nobody_overtakes_who_waits_for_the_lock() {
        let mut lock = Lock::default();
        assert_eq!(lock.ask(0, false), [0]);
        assert_eq!(lock.ask(1, false), [1]);
        assert_eq!(lock.ask(2, true), []);
        assert_eq!(lock.ask(2, true), []);
        assert_eq!(lock.ask(3, false), []);
        assert_eq!((lock.leave(0), lock.leave(7)), (vec![], vec![]));
        assert_eq!(lock.leave(1), [2]);
        assert_eq!(lock.ask(0, false), []);
        assert_eq!(lock.leave(2), [3, 0]);
    }

    #[test]
    fn who_is_lost_holds_and_awaits_nothing() {
        let mut lock = Lock::default();
        assert_eq!(lock.ask(0, true), [0]);
        assert!(
            [(1, true), (2, true), (3, false)]
                .into_iter()
                .all(|(rank, exclusive)| lock.ask(rank, exclusive).is_empty())
        );
        assert_eq!((lock.lose(1), lock.lose(0), lock.lose(2)), (vec![], vec![2], vec![3]));
    }
}
