//! The tokens of a run that wait for others: parts of split tokens, and inputs of one instruction.
//!
//! A token is named by its fan and by its number in that fan. Every group knows the token that it was made from, so
//! every token knows its task. When a task raises an exception, everything left of it is found and dropped.

use super::graph::{Graph, Takes};
use crate::ids::TaskId;
use crate::wire::Tokens;
use std::collections::{BTreeMap, BTreeSet};

/// The tokens that have arrived of those that are to be fired together.
#[derive(Debug, Clone)]
struct Group {
    /// The token that was split, numbered in the surrounding fan.
    of: u64,
    size: u32,
    arrived: u32,
    /// The tokens, by the place of their first one.
    pieces: BTreeMap<u32, Tokens>,
    /// Bytes of the parts when they were made, and of the tokens that arrived.
    bytes: u64,
}

impl Group {
    fn new(of: u64, size: u32, bytes: u64) -> Group {
        Group { of, size, arrived: 0, pieces: BTreeMap::new(), bytes }
    }

    /// Adds tokens from place `place` on. Returns whether the group is complete.
    fn put(&mut self, place: u32, tokens: Tokens) -> bool {
        self.arrived += tokens.count();
        self.pieces.insert(place, tokens);
        self.arrived >= self.size
    }

    fn tokens(self) -> Tokens {
        let pieces: Vec<Tokens> = self.pieces.into_values().collect();
        Tokens::concat(&pieces)
    }
}

/// One numbering of parts.
#[derive(Debug, Clone, Default)]
struct Fan {
    next: u64,
    /// The groups, by the number of their first part.
    groups: BTreeMap<u64, Group>,
}

impl Fan {
    /// The group of the part `number` and the number of its first part, if the group still waits.
    fn group_of(&self, number: u64) -> Option<(u64, &Group)> {
        let (first, group) = self.groups.range(..=number).next_back()?;
        (number - first < u64::from(group.size)).then_some((*first, group))
    }
}

/// All waiting tokens of one run.
#[derive(Debug, Clone)]
pub struct Groups {
    graph: Graph,
    /// Tasks of the stream that have no outcome yet.
    open: BTreeSet<TaskId>,
    fans: Vec<Fan>,
    /// For each instruction, its incomplete inputs, by the number that it is to be fired for.
    inputs: Vec<BTreeMap<u64, Group>>,
    parts: u64,
    bytes: u64,
}

impl Groups {
    /// Nothing waits yet.
    pub fn new(graph: Graph) -> Groups {
        let fans = (0..graph.fans()).map(|_| Fan::default()).collect();
        let inputs = graph.instructions().iter().map(|_| BTreeMap::new()).collect();
        Groups { graph, open: BTreeSet::new(), fans, inputs, parts: 0, bytes: 0 }
    }

    /// Tasks came from the stream.
    pub fn open(&mut self, first: TaskId, count: u32) {
        self.open.extend(first..first + u64::from(count));
    }

    /// The number of parts that wait, and their bytes.
    pub fn held(&self) -> (u64, u64) {
        (self.parts, self.bytes)
    }

    /// The ranges of the tokens `first .. first + count` that are still wanted.
    pub fn living(&self, fan: u16, first: u64, count: u32) -> Vec<(u64, u32)> {
        let mut ranges: Vec<(u64, u32)> = Vec::new();
        let all = first..first + u64::from(count);
        if fan != 0 {
            // Work never spans groups.
            let alive = self.fans[usize::from(fan)].group_of(first).is_some();
            return if alive { vec![(first, count)] } else { ranges };
        }
        for task in self.open.range(all) {
            match ranges.last_mut() {
                Some((first, count)) if *first + u64::from(*count) == *task => *count += 1,
                _ => ranges.push((*task, 1)),
            }
        }
        ranges
    }

    /// Splits the token `of` into `size` parts, at least one. Returns the number of the first part.
    pub fn split(&mut self, fan: u16, of: u64, size: u32, bytes: u64) -> u64 {
        let fan = &mut self.fans[usize::from(fan)];
        let first = fan.next;
        fan.next += u64::from(size);
        fan.groups.insert(first, Group::new(of, size, bytes));
        self.parts += u64::from(size);
        self.bytes += bytes;
        first
    }

    /// Adds the output for the parts from `number` on. If the group is now complete, returns all its tokens and the
    /// token that was split.
    pub fn put_part(&mut self, fan: u16, number: u64, tokens: Tokens) -> Option<(u64, Tokens)> {
        let (first, _) = self.fans[usize::from(fan)].group_of(number)?;
        let group = self.fans[usize::from(fan)].groups.get_mut(&first)?;
        group.bytes += tokens.bytes();
        self.bytes += tokens.bytes();
        if !group.put((number - first) as u32, tokens) {
            return None;
        }
        let group = self.fans[usize::from(fan)].groups.remove(&first)?;
        self.forget(&group);
        Some((group.of, group.tokens()))
    }

    /// Adds input `slot` of an instruction for `number`. If it was the last one missing, returns all inputs.
    pub fn put_input(&mut self, instruction: u16, slot: u16, number: u64, token: Tokens) -> Option<Tokens> {
        let Takes::Inputs { count } = self.graph.instruction(instruction).takes else { return None };
        let waiting = &mut self.inputs[usize::from(instruction)];
        self.bytes += token.bytes();
        let group = waiting.entry(number).or_insert_with(|| Group::new(number, u32::from(count), 0));
        group.bytes += token.bytes();
        if !group.put(u32::from(slot), token) {
            return None;
        }
        let group = waiting.remove(&number)?;
        self.bytes -= group.bytes;
        Some(group.tokens())
    }

    /// The task that a token belongs to, if it is still open.
    pub fn task_of(&self, mut fan: u16, mut number: u64) -> Option<TaskId> {
        while fan != 0 {
            number = self.fans[usize::from(fan)].group_of(number)?.1.of;
            fan = self.graph.around(fan);
        }
        self.open.contains(&number).then_some(number)
    }

    /// Closes tasks that have an outcome. For results this is enough, because nothing else is left of them.
    pub fn close(&mut self, first: TaskId, count: u32) {
        for task in first..first + u64::from(count) {
            self.open.remove(&task);
        }
    }

    /// Drops a task and every token that is left of it.
    pub fn drop_task(&mut self, task: TaskId) {
        self.close(task, 1);
        let mut dead = vec![(0u16, task..task + 1)];
        while let Some((fan, numbers)) = dead.pop() {
            self.drop_inputs(fan, numbers.clone());
            for inner in 1..self.fans.len() as u16 {
                if self.graph.around(inner) != fan {
                    continue;
                }
                let groups = &mut self.fans[usize::from(inner)].groups;
                let gone: Vec<u64> =
                    groups.iter().filter(|(_, group)| numbers.contains(&group.of)).map(|(first, _)| *first).collect();
                for first in gone {
                    let Some(group) = self.fans[usize::from(inner)].groups.remove(&first) else { continue };
                    self.forget(&group);
                    dead.push((inner, first..first + u64::from(group.size)));
                }
            }
        }
    }

    fn drop_inputs(&mut self, fan: u16, numbers: std::ops::Range<u64>) {
        let of_fan = self.graph.instructions().iter().zip(&mut self.inputs).filter(|(it, _)| it.fan == fan);
        for (_, waiting) in of_fan {
            let gone: Vec<u64> = waiting.range(numbers.clone()).map(|(number, _)| *number).collect();
            for group in gone.into_iter().filter_map(|number| waiting.remove(&number)) {
                self.bytes -= group.bytes;
            }
        }
    }

    fn forget(&mut self, group: &Group) {
        self.parts -= u64::from(group.size);
        self.bytes -= group.bytes;
    }

    /// Whether no token waits, for tests.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
            && self.fans.iter().all(|fan| fan.groups.is_empty())
            && self.inputs.iter().all(BTreeMap::is_empty)
            && (self.parts, self.bytes) == (0, 0)
    }
}
