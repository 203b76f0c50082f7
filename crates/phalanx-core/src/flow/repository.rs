//! The repository: fireable instructions, each with all its tokens (paper 000, section 2).

use crate::ids::{RunId, TaskId};
use crate::wire::Tokens;
use std::collections::VecDeque;
use std::sync::Arc;

/// Into how many parts work is cut that an interpreter was lost with.
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
    /// All the tokens are fired together, for one number: `start` is 0, and `count` is 1.
    pub is_group: bool,
    /// In a graph: the first task of those that it came of, by which it is ordered.
    pub rank: TaskId,
    /// Interpreters that were lost firing it.
    pub killed: Vec<String>,
    /// How many of them died; the others fell silent, which may have been the network's fault.
    pub deaths: usize,
}

impl Work {
    /// All of `tokens`, for the tasks from `task` on.
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

    /// `tokens` together, for `number`.
    pub fn group(run: RunId, instruction: u16, number: u64, tokens: Tokens) -> Work {
        Work { count: 1, is_group: true, ..Work::new(run, instruction, number, tokens) }
    }

    /// The tokens to fire, of work whose tokens can be cut.
    pub fn own_tokens(&self) -> Tokens {
        if self.is_group { Tokens::clone(&self.tokens) } else { self.tokens.slice(self.start, self.count).0 }
    }

    /// Whether an interpreter was lost with it. It then is fired alone, so that it is clear what ends the next one.
    pub fn is_suspect(&self) -> bool {
        !self.killed.is_empty()
    }

    /// Takes the first `count` tasks off.
    pub fn split_off(&mut self, count: u32) -> Work {
        let front = Work { count, ..self.clone() };
        self.task += u64::from(count);
        self.start += count;
        self.count -= count;
        front
    }
}

/// Work in the order in which it is to be fired: what is further on, or was lost, comes before what is new.
#[derive(Debug, Default)]
pub struct Repository {
    works: VecDeque<Work>,
}

impl Repository {
    /// New tasks: behind everything else.
    pub fn append(&mut self, work: Work) {
        self.works.push_back(work);
    }

    /// Work of tasks that are already under way: before everything else, so that tasks are finished
    /// before others are begun and memory stays bounded.
    pub fn prepend(&mut self, work: Work) {
        self.works.push_front(work);
    }

    /// Work of one run: before what is of later tasks, so that tasks are finished in their order; and before what is of
    /// the same task, for it is further on, unless it goes `behind` that.
    pub fn insert(&mut self, works: Vec<Work>, behind: bool) {
        let Some((run, rank)) = works.iter().map(|work| (work.run, work.rank)).min() else { return };
        let goes_before = |other: &&Work| other.run == run && (other.rank < rank || behind && other.rank == rank);
        let place = self.works.iter().take_while(goes_before).count();
        let before: Vec<Work> = self.works.drain(..place).collect();
        before.into_iter().chain(works).rev().for_each(|work| self.works.push_front(work));
    }

    /// The next one, cut to at most `most(&work)` tokens. What an interpreter was lost with goes in small parts, and
    /// after a second loss one by one, so that the culprit is found and the others are cleared.
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

    /// Forgets what a run has left.
    pub fn drop_run(&mut self, run: RunId) {
        self.works.retain(|work| work.run != run);
    }

    /// All of it, for tests.
    #[cfg(test)]
    pub fn works(&self) -> impl Iterator<Item = &Work> {
        self.works.iter()
    }

    /// What is to be fired next.
    pub fn next(&self) -> Option<&Work> {
        self.works.front()
    }
}
