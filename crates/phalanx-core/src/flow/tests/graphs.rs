//! Programs that are graphs, with every loss at every point of their conversations. The expected results are computed
//! without an engine, one token after the other.

use super::Grid;
use super::integers::{self, Form, of_task, task_of};
use super::losses::every_loss;
use super::plan::{Plan, Stream, microseconds, milliseconds};
use crate::flow::{Graph, Instruction, RunOptions, Takes, Target};
use std::collections::{BTreeMap, VecDeque};

/// A task with more firings is in an endless loop.
const MOST_FIRINGS: usize = 10_000;

/// The output of an instruction.
#[derive(Debug, PartialEq, Eq)]
pub enum Gift {
    On(Vec<u64>),
    Past(u64),
}

/// The output of instruction `number`. It shows which tokens the instruction was fired on, and in which order.
pub fn fire(number: u16, instruction: &Instruction, tokens: &[u64]) -> Gift {
    let task = tokens.first().map_or(0, |token| task_of(*token));
    let mix = |way: u64, more: u64| (way * 31 + more + 7) % 99_991;
    let ways = tokens.iter().map(|token| token % of_task(1));
    let way = ways.fold(u64::from(number) + 13 * task, mix);
    let token = of_task(task) + way;
    let leaves = !instruction.past.is_empty() && way % 3 == 0;
    match instruction.splits {
        _ if leaves => Gift::Past(token),
        Some(_) => Gift::On((0..way % 6).map(|part| of_task(task) + mix(way, part)).collect()),
        None => Gift::On(vec![token]),
    }
}

/// The output of an instruction that gives one token, as `on`.
pub fn only(number: u16, instruction: &Instruction, tokens: &[u64]) -> u64 {
    match fire(number, instruction, tokens) {
        Gift::On(given) if given.len() == 1 => given[0],
        gift => panic!("what stays is one token, and not {gift:?}"),
    }
}

/// The position of a token: its part of each split, from the outermost to the innermost.
type Place = Vec<(usize, usize)>;

/// One task's way through a graph.
struct Reference<'a> {
    graph: &'a Graph,
    raises: &'a dyn Fn(u64, u16) -> bool,
    ahead: VecDeque<(Target, u64, Place)>,
    inputs: BTreeMap<(u16, Place), BTreeMap<u16, u64>>,
    splits: Vec<(Place, Vec<Option<u64>>)>,
    raised: bool,
    result: Option<u64>,
}

/// The task's result; `None`: it raises an exception.
pub fn result(graph: &Graph, task: u64, raises: &dyn Fn(u64, u16) -> bool) -> Option<u64> {
    let ahead = graph.entry().iter().map(|target| (*target, of_task(task), Place::new())).collect();
    let (inputs, splits) = (BTreeMap::new(), Vec::new());
    let mut reference = Reference { graph, raises, ahead, inputs, splits, raised: false, result: None };
    let mut firings = 0;
    while let Some((target, token, place)) = reference.ahead.pop_front() {
        firings += 1;
        assert!(firings < MOST_FIRINGS, "task {task} has no end");
        reference.arrive(target, token, place);
    }
    assert!(reference.raised || reference.result.is_some(), "task {task} comes to nothing");
    reference.result.filter(|_| !reference.raised)
}

impl Reference<'_> {
    fn arrive(&mut self, target: Target, token: u64, mut place: Place) {
        let Target::Instruction { instruction, slot } = target else {
            assert!(self.result.replace(token).is_none(), "two results");
            return;
        };
        match self.graph.instruction(instruction).takes {
            Takes::Token => self.fire(instruction, &[token], place),
            Takes::Inputs { count } => {
                let inputs = self.inputs.entry((instruction, place.clone())).or_default();
                inputs.insert(slot, token);
                if inputs.len() == usize::from(count) {
                    let inputs = self.inputs.remove(&(instruction, place.clone())).unwrap();
                    self.fire(instruction, &inputs.into_values().collect::<Vec<_>>(), place);
                }
            }
            Takes::Parts { .. } => {
                let (split, part) = place.pop().unwrap();
                self.splits[split].1[part] = Some(token);
                self.join(instruction, split);
            }
        }
    }

    fn join(&mut self, instruction: u16, split: usize) {
        let (around, parts) = self.splits[split].clone();
        if let Some(parts) = parts.into_iter().collect::<Option<Vec<_>>>() {
            self.fire(instruction, &parts, around);
        }
    }

    fn fire(&mut self, number: u16, tokens: &[u64], place: Place) {
        let instruction = self.graph.instruction(number);
        self.raised |= tokens.first().is_some_and(|token| (self.raises)(task_of(*token), number));
        let (targets, tokens) = match fire(number, instruction, tokens) {
            Gift::Past(token) => (&instruction.past, vec![token]),
            Gift::On(tokens) => (&instruction.on, tokens),
        };
        let past = std::ptr::eq(targets, &instruction.past) && !instruction.past.is_empty();
        let split = instruction.splits.filter(|_| !past).map(|fan| (fan, self.splits.len()));
        if let Some((fan, split)) = split {
            self.splits.push((place.clone(), vec![None; tokens.len()]));
            if tokens.is_empty() {
                self.join(self.graph.join(fan), split);
            }
        }
        for (part, token) in tokens.into_iter().enumerate() {
            let inside = split.map(|(_, split)| (split, part));
            let place: Place = place.iter().copied().chain(inside).collect();
            self.ahead.extend(targets.iter().map(|target| (*target, token, place.clone())));
        }
    }
}

fn to(instruction: u16) -> Vec<Target> {
    vec![Target::Instruction { instruction, slot: 0 }]
}

fn token(fan: u16, on: Vec<Target>) -> Instruction {
    Instruction { fan, takes: Takes::Token, on, past: Vec::new(), splits: None }
}

fn split(fan: u16, into: u16, on: Vec<Target>) -> Instruction {
    Instruction { splits: Some(into), ..token(fan, on) }
}

fn join(fan: u16, parts: u16, on: Vec<Target>) -> Instruction {
    Instruction { takes: Takes::Parts { fan: parts }, ..token(fan, on) }
}

fn graph(instructions: Vec<Instruction>) -> Graph {
    Graph::new(to(0), instructions).unwrap()
}

/// Split, fire on every part, join.
pub fn map() -> Graph {
    graph(vec![split(0, 1, to(1)), token(1, to(2)), join(0, 1, vec![Target::Result])])
}

/// A map of maps, and two instructions for each of the innermost parts.
pub fn nested() -> Graph {
    let inner = [split(1, 2, to(2)), token(2, to(3)), token(2, to(4)), join(1, 2, to(5))];
    let instructions =
        [vec![split(0, 1, to(1))], inner.to_vec(), vec![join(0, 1, to(6)), token(0, vec![Target::Result])]];
    graph(instructions.concat())
}

/// A map, repeated as long as a condition holds: the tree of a reduction.
pub fn looped() -> Graph {
    let past = vec![Target::Result];
    let again = Instruction { splits: Some(1), past: past.clone(), ..join(0, 1, to(1)) };
    graph(vec![Instruction { past, ..split(0, 1, to(1)) }, token(1, to(2)), again])
}

/// The task and the outputs of two instructions on it are the inputs of a third one.
pub fn diamond() -> Graph {
    let input = |slot| Target::Instruction { instruction: 2, slot };
    let both = vec![to(0)[0], to(1)[0], input(1)];
    let third = Instruction { takes: Takes::Inputs { count: 3 }, ..token(0, vec![Target::Result]) };
    Graph::new(both, vec![token(0, vec![input(0)]), token(0, vec![input(2)]), third]).unwrap()
}

/// A map of loops of diamonds.
pub fn deep() -> Graph {
    let input = |slot| Target::Instruction { instruction: 4, slot };
    let test = Instruction { past: to(5), ..token(1, vec![to(2)[0], to(3)[0]]) };
    let third = Instruction { takes: Takes::Inputs { count: 2 }, ..token(1, to(1)) };
    let branches = [token(1, vec![input(1)]), token(1, vec![input(0)])];
    let [left, right] = branches;
    graph(vec![split(0, 1, to(1)), test, left, right, third, join(0, 1, vec![Target::Result])])
}

/// All graphs.
pub fn graphs() -> Vec<Graph> {
    vec![map(), nested(), looped(), diamond(), deep()]
}

/// A stream through a graph in which some tasks raise an exception.
pub fn stream(graph: Graph) -> Stream {
    let options = RunOptions { ahead: milliseconds(250), spare: 4, ..Stream::default().options };
    let grains = vec![microseconds(100), milliseconds(3), microseconds(20)];
    let (instructions, raising) = (graph.len() as u16, vec![2, 3, 7]);
    let graph = Some(graph);
    Stream { graph, instructions, form: Form::Separate, options, grains, raising, tasks: 10, ..Stream::default() }
}

#[test]
fn every_task_comes_to_what_its_graph_makes_of_it() {
    for graph in graphs() {
        for (ordered, grain) in [(true, microseconds(5)), (false, milliseconds(30))] {
            let options = RunOptions { ordered, ahead: milliseconds(250), spare: 4, ..Stream::default().options };
            let stream = Stream { options, grains: vec![grain], tasks: 150, ..stream(graph.clone()) };
            let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
            grid.readers[0].expect_everything();
        }
    }
}

#[test]
fn whatever_is_lost_of_a_map() {
    let stream = Stream { piece: 1, ..stream(map()) };
    every_loss(&Plan { streams: vec![stream], delays: vec![microseconds(300)], ..Plan::default() });
}

#[test]
fn whatever_is_lost_of_nested_maps() {
    let stream = Stream { patience: 5, tasks: 6, ..stream(nested()) };
    every_loss(&Plan { streams: vec![stream], ..Plan::default() });
}

#[test]
fn whatever_is_lost_of_a_loop() {
    every_loss(&Plan { streams: vec![stream(looped())], ..Plan::default() });
}

#[test]
fn whatever_is_lost_of_a_graph_with_branches() {
    every_loss(&Plan { streams: vec![stream(diamond())], delays: vec![milliseconds(1)], ..Plan::default() });
}

#[test]
fn whatever_is_lost_of_all_of_them_nested() {
    every_loss(&Plan { streams: vec![Stream { tasks: 6, ..stream(deep()) }], ..Plan::default() });
}

#[test]
fn a_part_that_ends_its_interpreters_is_its_tasks_culprit() {
    for graph in graphs() {
        let stream = Stream { killing: vec![5], raising: Vec::new(), ..stream(graph) };
        let grid = Grid::run(Plan { interpreters: 3, streams: vec![stream], ..Plan::default() });
        grid.readers[0].expect_everything();
        assert_eq!(grid.readers[0].culprits(), vec![5]);
    }
}

#[test]
fn a_single_interpreter_finishes_tasks_in_their_order() {
    for graph in graphs() {
        let options = RunOptions { ordered: false, ahead: milliseconds(250), spare: 4, ..Stream::default().options };
        let stream = Stream { options, grains: vec![milliseconds(30)], tasks: 20, ..stream(graph) };
        let grid = Grid::run(Plan { interpreters: 1, streams: vec![stream], ..Plan::default() });
        grid.readers[0].expect_everything();
        assert!(grid.readers[0].got.iter().map(|(task, _)| *task).eq(0..20));
    }
}

#[test]
fn parts_of_fine_grain_are_coalesced() {
    let stream = Stream { grains: vec![microseconds(1)], tasks: 20_000, raising: Vec::new(), ..stream(map()) };
    let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
    grid.readers[0].expect_everything();
    let fired = grid.facts.iter().filter(|fact| matches!(fact, crate::event::Fact::Fired { .. })).count();
    assert!(fired < 600, "{fired} firings for 20 000 tasks of up to five parts");
}

#[test]
fn graphs_that_would_lose_tokens_are_refused() {
    let refused = |instructions: Vec<Instruction>| assert!(Graph::new(to(0), instructions).is_err());
    refused(Vec::new());
    refused(vec![token(0, Vec::new())]);
    refused(vec![token(0, to(1))]);
    refused(vec![split(0, 1, vec![Target::Result])]);
    refused(vec![split(0, 1, to(1)), token(1, vec![Target::Result])]);
    refused(vec![split(0, 1, to(1)), token(0, vec![Target::Result])]);
    refused(vec![split(0, 2, to(1)), join(0, 2, vec![Target::Result])]);
    refused(vec![split(0, 1, to(1)), join(1, 1, vec![Target::Result])]);
    refused(vec![token(0, vec![Target::Instruction { instruction: 0, slot: 1 }])]);
    let starving = Instruction { takes: Takes::Inputs { count: 2 }, ..token(0, vec![Target::Result]) };
    refused(vec![token(0, to(1)), starving]);
}

#[test]
fn packed_tasks_of_a_graph_are_refused() {
    let mut grid = Grid::run(Plan { streams: vec![Stream { tasks: 0, ..stream(map()) }], ..Plan::default() });
    let run = super::reader::Reader::open(&mut grid.engine, 0, &stream(map())).run;
    assert!(grid.engine.feed(grid.now, run, integers::tokens(Form::Packed, &[1, 2])).is_err());
    assert!(grid.engine.feed(grid.now, run, integers::tokens(Form::Separate, &[1, 2])).is_ok());
}
