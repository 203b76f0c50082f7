//! Fireable work of a higher priority is fired first.

use super::Grid;
use super::plan::{Plan, Stream, milliseconds};
use crate::event::Fact;
use crate::flow::{Options, RunOptions};

fn stream(priority: i32) -> Stream {
    let options = RunOptions { ahead: milliseconds(10_000), ..Stream::default().options };
    let settings = vec![Options { priority, ..Options::default() }; 2];
    Stream { tasks: 30, options, settings, grains: vec![milliseconds(20)], ..Stream::default() }
}

/// The numbers of the streams, in the order in which their tasks were fired.
fn fired(grid: &Grid) -> Vec<usize> {
    let fired = grid.facts.iter().filter_map(|fact| match fact {
        Fact::Fired { run, .. } => grid.readers.iter().position(|reader| reader.run == *run),
        _ => None,
    });
    fired.collect()
}

#[test]
fn the_higher_one_first() {
    let grid = Grid::run(Plan { interpreters: 1, streams: vec![stream(0), stream(5), stream(-5)], ..Plan::default() });
    grid.readers.iter().for_each(super::reader::Reader::expect_everything);
    let order = fired(&grid);
    let last = |stream| order.iter().rposition(|it| *it == stream).expect("was fired");
    let first = |stream| order.iter().position(|it| *it == stream).expect("was fired");
    // the pace of a program is unknown at first, and then it gives its tasks in small parts
    assert!(last(1) < last(0) && last(0) < last(2) && first(1) <= first(2), "{order:?}");
    assert!(order[order.len() - 10..].iter().all(|it| *it == 2), "{order:?}");
}

#[test]
fn stages_that_are_further_on_go_first_without_one() {
    let two = Stream { instructions: 2, tasks: 10, ..stream(0) };
    let grid = Grid::run(Plan { interpreters: 1, streams: vec![two], ..Plan::default() });
    grid.readers[0].expect_everything();
}
