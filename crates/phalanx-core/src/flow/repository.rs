//! The repository: fireable instructions, each with all its tokens (paper 000, section 2).

use crate::ids::{RunId, TaskId};
use crate::wire::Tokens;
use std::collections::VecDeque;
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

    /// Removes and returns the first `count` tasks.
    pub fn split_off(&mut self, count: u32) -> Work {
        let front = Work { count, ..self.clone() };
        self.task += u64::from(count);
        self.start += count;
        self.count -= count;
        front
    }
}

/// Work in firing order. Work of tasks that are further on, or of lost interpreters, precedes new work.
#[derive(Debug, Clone, Default)]
pub struct Repository {
    works: VecDeque<Work>,
}

impl Repository {
    /// Adds new tasks behind all other work.
    pub fn append(&mut self, work: Work) {
        self.works.push_back(work);
    }

    /// Adds work of tasks that are under way, before all other work. So tasks are finished before others begin, and
    /// memory stays bounded.
    pub fn prepend(&mut self, work: Work) {
        self.works.push_front(work);
    }

    /// Adds work of one run. It goes before work of later tasks, so that tasks finish in order. It also goes before
    /// work of the same task, because it is further on, unless `behind` is set.
    pub fn insert(&mut self, works: Vec<Work>, behind: bool) {
        let Some((run, rank)) = works.iter().map(|work| (work.run, work.rank)).min() else { return };
        let goes_before = |other: &&Work| other.run == run && (other.rank < rank || behind && other.rank == rank);
        let place = self.works.iter().take_while(goes_before).count();
        let before: Vec<Work> = self.works.drain(..place).collect();
        before.into_iter().chain(works).rev().for_each(|work| self.works.push_front(work));
    }

    /// Takes the next work, cut to at most `most(&work)` tokens. Suspect work is cut into small parts, and after a
    /// second loss into single tasks, so that the culprit is found and the others are cleared.
    pub fn take(&mut self, most: impl Fn(&Work) -> u32) -> Option<Work> {
        let next = self.works.front_mut()?;
        let most = match next.killed.len() {
            0 => most(next),
            1 => (next.count / PARTS).max(1),
            _ => 1,
        };
        if next.count > most {
            return Some(next.split_off(most));
        }
        self.works.pop_front()
    }

    /// Drops all work of a run.
    pub fn drop_run(&mut self, run: RunId) {
        self.works.retain(|work| work.run != run);
    }

    /// All work, for tests.
    #[cfg(test)]
    pub fn works(&self) -> impl Iterator<Item = &Work> {
        self.works.iter()
    }

    /// The work to fire next.
    pub fn next(&self) -> Option<&Work> {
        self.works.front()
    }
}
