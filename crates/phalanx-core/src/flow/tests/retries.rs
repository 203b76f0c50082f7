//! Tasks that are tried again after an exception, a timeout, or as the culprit: as often as asked for, and not oftener.

use super::Grid;
use super::graphs;
use super::integers::Form;
use super::plan::{Plan, Stream, milliseconds};
use super::reader::Got;
use crate::event::Fact;
use crate::flow::{KILLS, Options};

fn with_retries(retries: u32) -> Vec<Options> {
    vec![Options { retries, timeout: Some(milliseconds(500)), ..Options::default() }; 20]
}

fn retries(grid: &Grid) -> Vec<u32> {
    let retry = |fact: &Fact| match fact {
        Fact::Retried { retry, .. } => Some(*retry),
        _ => None,
    };
    grid.facts.iter().filter_map(retry).collect()
}

#[test]
fn an_exception_comes_after_the_last_attempt() {
    for most in 0..4 {
        let stream = Stream { instructions: 2, raising: vec![7], settings: with_retries(most), ..Stream::default() };
        let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
        grid.readers[0].expect_everything();
        assert_eq!(grid.readers[0].got[7], (7, Got::Raised));
        assert_eq!(retries(&grid), (1..=most).collect::<Vec<_>>());
    }
}

#[test]
fn every_task_has_its_own_attempts() {
    let stream = Stream { raising: vec![7, 8, 9], settings: with_retries(2), ..Stream::default() };
    let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
    grid.readers[0].expect_everything();
    assert_eq!(retries(&grid).len(), 6);
}

#[test]
fn a_late_task_is_tried_again_too() {
    let stream = Stream { hanging: vec![7], settings: with_retries(2), ..Stream::default() };
    let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
    grid.readers[0].expect_everything();
    assert_eq!((&grid.readers[0].got[7], retries(&grid)), (&(7, Got::TimedOut(3)), vec![1, 2]));
}

#[test]
fn a_culprit_is_tried_again_too() {
    let stream = Stream { killing: vec![7], settings: with_retries(1), ..Stream::default() };
    let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
    grid.readers[0].expect_everything();
    let Got::Culprit(killed) = &grid.readers[0].got[7].1 else { panic!("{:?}", grid.readers[0].got[7]) };
    assert_eq!((killed.len(), retries(&grid)), (2 * KILLS, vec![1]));
}

#[test]
fn parts_of_a_task_are_tried_again_one_by_one() {
    for graph in graphs::graphs() {
        let instructions = graph.len() as u16;
        let (tasks, raising) = (12, (0..12).collect());
        let graph = Some(graph);
        let settings = with_retries(2);
        let stream =
            Stream { graph, instructions, tasks, raising, settings, form: Form::Separate, ..Stream::default() };
        let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
        grid.readers[0].expect_everything();
        assert!(retries(&grid).iter().all(|retry| *retry <= 2));
    }
}

#[test]
fn a_closed_run_is_not_tried_again() {
    let raising = (0..60).collect();
    let closed = Stream { raising, settings: with_retries(1000), close_after: Some(0), ..Stream::default() };
    let grid = Grid::run(Plan { streams: vec![closed, Stream::default()], ..Plan::default() });
    grid.readers[1].expect_everything();
    assert!(grid.engine.repository.next().is_none());
}
