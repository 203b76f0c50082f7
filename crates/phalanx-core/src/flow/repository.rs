//! The repository: fireable instructions, each with all its tokens (paper 000, section 2).

use crate::ids::{RunId, TaskId};
use crate::wire::Tokens;
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The number of parts that work is cut into after an interpreter was lost firing it.
const PARTS: u32 = 64;

/// One instruction, fireable for a number of consecutive tasks.
#[derive(Debug, Clone)]
pub struct Work {
    pub run: RunId,
    pub instruction: u16,
    /// The task of the first token to fire.
    pub task: TaskId,
    /// The tokens `start .. start + count` are to be fired.
    pub tokens: Arc<Tokens>,
    pub start: u32,
    pub count: u32,
    /// All tokens are fired together, for one task number: `start` is 0 and `count` is 1.
    pub is_group: bool,
    /// In a graph: the first task that it came from. Work is ordered by it.
    pub rank: TaskId,
    /// Work of a higher priority is fired first.
    pub priority: i32,
    /// The needs that its interpreter must meet, as in [`Options`](super::Options).
    pub needs: u16,
    /// How many attempts have ended in an exception, a timeout, or as the culprit.
    pub failures: u32,
    /// Whether it was late somewhere. Then it is not fired at two interpreters at once, which would go on for ever.
    pub was_late: bool,
    /// Interpreters that were lost while they fired it.
    pub killed: Vec<String>,
    /// The number of these that died. The others fell silent, which may have been the network's fault.
    pub deaths: usize,
}

impl Work {
    /// Work for all of `tokens`, for the tasks from `task` on.
    pub fn new(run: RunId, instruction: u16, task: TaskId, tokens: Tokens) -> Work {
        let count = tokens.count();
        let tokens = Arc::new(tokens);
        Work {
            run,
            instruction,
            task,
            tokens,
            start: 0,
            count,
            is_group: false,
            rank: task,
            priority: 0,
            needs: 0,
            failures: 0,
            was_late: false,
            killed: Vec::new(),
            deaths: 0,
        }
    }

    /// Work for all `tokens` together, for the task `number`.
    pub fn group(run: RunId, instruction: u16, number: u64, tokens: Tokens) -> Work {
        Work { count: 1, is_group: true, ..Work::new(run, instruction, number, tokens) }
    }

    /// The tokens to fire, if the tokens can be cut. Packed tokens and groups are returned as a whole.
    pub fn own_tokens(&self) -> Tokens {
        if self.is_group { Tokens::clone(&self.tokens) } else { self.tokens.slice(self.start, self.count).0 }
    }

    /// Whether an interpreter was lost firing it. Suspect work is fired alone, so that it is clear what kills the next
    /// one.
    pub fn is_suspect(&self) -> bool {
        !self.killed.is_empty()
    }

    /// The queue in which it waits.
    pub fn queue(&self) -> Queue {
        (Reverse(self.priority), Reverse(self.needs))
    }

    /// Removes and returns the first `count` tasks.
    pub fn split_off(&mut self, count: u32) -> Work {
        let front = Work { count, ..self.clone() };
        self.task += u64::from(count);
        self.start += count;
        self.count -= count;
        front
    }
}

/// The queue of work: its priority, and its needs. Of one priority, work with needs comes first, because few interpreters
/// can fire it.
pub type Queue = (Reverse<i32>, Reverse<u16>);

/// Work in firing order. Work of a higher priority comes first. Within a queue, work of tasks that are further on, or
/// of lost interpreters, precedes new work.
#[derive(Debug, Clone, Default)]
pub struct Repository {
    /// The work of each priority and needs. No queue is empty.
    works: BTreeMap<Queue, VecDeque<Work>>,
}

impl Repository {
    fn queue(&mut self, queue: Queue) -> &mut VecDeque<Work> {
        self.works.entry(queue).or_default()
    }

    /// Adds new tasks behind all other work of their priority.
    pub fn append(&mut self, work: Work) {
        self.queue(work.queue()).push_back(work);
    }

    /// Adds work of tasks that are under way, before all other work of its priority. So tasks are finished before others
    /// begin, and memory stays bounded.
    pub fn prepend(&mut self, work: Work) {
        self.queue(work.queue()).push_front(work);
    }

    /// Adds work of one run. It goes before work of later tasks, so that tasks finish in order. It also goes before
    /// work of the same task, because it is further on, unless `behind` is set.
    pub fn insert(&mut self, works: Vec<Work>, behind: bool) {
        let mut by_queue: BTreeMap<Queue, Vec<Work>> = BTreeMap::new();
        works.into_iter().for_each(|work| by_queue.entry(work.queue()).or_default().push(work));
        for (queue, works) in by_queue {
            insert(self.queue(queue), works, behind);
        }
    }

    /// Takes the next work of a queue, cut to at most `most(&work)` tokens. Suspect work is cut into small parts, and after a
    /// second loss into single tasks, so that the culprit is found and the others are cleared.
    pub fn take(&mut self, queue: Queue, most: impl Fn(&Work) -> u32) -> Option<Work> {
        let Entry::Occupied(mut queue) = self.works.entry(queue) else { return None };
        let next = queue.get_mut().front_mut()?;
        let most = match next.killed.len() {
            0 => most(next),
            1 => (next.count / PARTS).max(1),
            _ => 1,
        };
        if next.count > most {
            return Some(next.split_off(most));
        }
        let work = queue.get_mut().pop_front();
        if queue.get().is_empty() {
            queue.remove();
        }
        work
    }

    /// Takes the work of one task of a chain out; `None`: it is not here.
    pub fn take_task(&mut self, run: RunId, task: TaskId) -> Option<Work> {
        for queue in self.works.values_mut() {
            let holds = |work: &Work| work.run == run && (work.task..work.task + u64::from(work.count)).contains(&task);
            let Some(place) = queue.iter().position(holds) else { continue };
            let mut behind = queue.remove(place)?;
            let before = behind.split_off((task - behind.task) as u32);
            let taken = behind.split_off(1);
            for rest in [behind, before].into_iter().filter(|work| work.count > 0) {
                queue.insert(place, rest);
            }
            self.works.retain(|_, queue| !queue.is_empty());
            return Some(taken);
        }
        None
    }

    /// Drops all work of a run.
    pub fn drop_run(&mut self, run: RunId) {
        self.works.values_mut().for_each(|queue| queue.retain(|work| work.run != run));
        self.works.retain(|_, queue| !queue.is_empty());
    }

    /// All work, for tests.
    #[cfg(test)]
    pub fn works(&self) -> impl Iterator<Item = &Work> {
        self.works.values().flatten()
    }

    /// The work to fire next, if every interpreter had what it needs.
    pub fn next(&self) -> Option<&Work> {
        self.firsts().next()
    }

    /// The next work of each queue, in firing order.
    pub fn firsts(&self) -> impl Iterator<Item = &Work> {
        self.works.values().filter_map(VecDeque::front)
    }

    /// The runs that have work with these needs.
    pub fn runs_with(&self, needs: u16) -> impl Iterator<Item = RunId> + '_ {
        let queues = self.works.iter().filter(move |((_, Reverse(own)), _)| *own == needs);
        queues.flat_map(|(_, queue)| queue.iter().map(|work| work.run))
    }

    /// The next work of one queue.
    pub fn next_of(&self, queue: Queue) -> Option<&Work> {
        self.works.get(&queue).and_then(VecDeque::front)
    }
}

/// Adds work of one run and one queue, as [`Repository::insert`] says.
fn insert(queue: &mut VecDeque<Work>, works: Vec<Work>, behind: bool) {
    let Some((run, rank)) = works.iter().map(|work| (work.run, work.rank)).min() else { return };
    let goes_before = |other: &&Work| other.run == run && (other.rank < rank || behind && other.rank == rank);
    let place = queue.iter().take_while(goes_before).count();
    let before: Vec<Work> = queue.drain(..place).collect();
    before.into_iter().chain(works).rev().for_each(|work| queue.push_front(work));
}
