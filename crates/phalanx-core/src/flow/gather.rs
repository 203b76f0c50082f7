//! Gathers fireable work into firings: work of the same instruction travels together.

use super::Engine;
use super::pace::MOST_TOKENS;
use super::repository::Work;
use crate::wire::Tokens;
use std::collections::VecDeque;

/// Limit on the tasks fired together when they are suspect, because an interpreter was lost firing them.
const SUSPECTS: u32 = 16;

impl Engine {
    /// The parts of `first` that are still wanted, and further work of the same instruction that should travel with it.
    pub(super) fn collect(&mut self, first: Work) -> Option<(Work, VecDeque<Work>)> {
        let (program, _) = self.program_and_groups(first.run);
        let batch = match first.killed.len() {
            0 => program.batch(first.instruction),
            1 => SUSPECTS,
            _ => 1,
        };
        let (run, instruction, killed, queue) = (first.run, first.instruction, first.killed.clone(), first.queue());
        let mut works = self.living(first);
        let mut count: u32 = works.iter().map(|work| work.count).sum();
        while count < batch {
            let same = |work: &&Work| (work.run, work.instruction, &work.killed) == (run, instruction, &killed);
            if self.repository.next_of(queue).filter(same).is_none() {
                break;
            }
            let more = self.repository.take(queue, |_| batch - count).map(|work| self.living(work)).unwrap_or_default();
            count += more.iter().map(|work| work.count).sum::<u32>();
            works.extend(more);
        }
        Some((works.pop_front()?, works))
    }

    /// The parts of the work whose tasks have not ended.
    fn living(&mut self, mut work: Work) -> VecDeque<Work> {
        let (program, groups) = self.program_and_groups(work.run);
        let fan = program.graph.instruction(work.instruction).fan;
        let mut works = VecDeque::new();
        for (first, count) in groups.living(fan, work.task, work.count) {
            work.split_off((first - work.task) as u32);
            works.push_back(work.split_off(count));
        }
        works
    }

    /// Puts work back that an interpreter has not begun. A splitting instruction returns work when its parts are many.
    /// That work goes behind those parts, so that memory stays bounded.
    pub(super) fn give_back(&mut self, mut work: Work) {
        let Some(run) = self.runs.get(&work.run) else { return };
        let instruction = self.programs[&run.program].graph.instruction(work.instruction);
        if instruction.splits.is_none() {
            return self.put_back(work);
        }
        if instruction.fan == 0 {
            work.rank = work.task;
        }
        self.repository.insert(vec![work], true);
    }
}

/// The tokens of a firing, as its messages carry them.
pub struct Bulk {
    /// Sent in the last message: the tokens `first .. first + count` are to be fired.
    pub tokens: Tokens,
    pub first: u32,
    pub count: u32,
    /// For each group, the number of tokens to fire together. Empty: tokens are fired one by one.
    pub groups: Vec<u32>,
    /// Sent in messages ahead of the last one.
    pub ahead: Vec<Tokens>,
}

impl Bulk {
    /// The messages for work of a chain.
    pub fn of_chain(work: &Work) -> Bulk {
        let (tokens, first) = work.tokens.slice(work.start, work.count);
        Bulk { tokens, first, count: work.count, groups: Vec::new(), ahead: Vec::new() }
    }

    /// The messages for work of a graph, as many as it needs.
    pub fn of_graph(work: &Work, more: &VecDeque<Work>) -> Bulk {
        let works = || std::iter::once(work).chain(more);
        let groups = works().filter(|work| work.is_group).map(|work| work.tokens.count()).collect();
        let tokens = Tokens::concat(&works().map(Work::own_tokens).collect::<Vec<_>>());
        let count = tokens.count();
        let sizes = (0..count).step_by(MOST_TOKENS as usize).map(|start| MOST_TOKENS.min(count - start));
        let mut ahead = if count > MOST_TOKENS { tokens.cut(sizes).unwrap_or_default() } else { Vec::new() };
        let tokens = ahead.pop().unwrap_or(tokens);
        Bulk { first: 0, count: tokens.count(), tokens, groups, ahead }
    }
}
