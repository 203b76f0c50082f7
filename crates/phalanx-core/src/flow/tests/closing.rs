//! A closed run is not fired any more, and late answers for it are ignored.

use super::Grid;
use super::plan::{Fault, KINDS, Plan, Stream, microseconds, milliseconds};
use crate::event::Fact;

/// The first of two runs is closed while its tasks are in flight and in the repository. Every later fact is checked:
/// the run must not be fired or delivered.
fn plan() -> Plan {
    let grains = vec![milliseconds(4), microseconds(100)];
    let closed = Stream { instructions: 2, tasks: 200, close_after: Some(11), grains, ..Stream::default() };
    let other = Stream { tasks: 40, grains: vec![milliseconds(1)], ..Stream::default() };
    Plan { streams: vec![closed, other], ..Plan::default() }
}

#[test]
fn others_go_on() {
    let grid = Grid::run(plan());
    grid.readers[0].expect_nothing_wrong();
    grid.readers[1].expect_everything();
    let fired = grid.facts.iter().filter(|fact| matches!(fact, Fact::Fired { run, .. } if *run == grid.readers[0].run));
    let answered =
        grid.facts.iter().filter(|fact| matches!(fact, Fact::Answered { run, .. } if *run == grid.readers[0].run));
    assert_eq!(fired.count(), answered.count(), "what was in flight is answered, late");
}

#[test]
fn what_is_lost_with_an_interpreter_is_not_fired_again() {
    let steps = Grid::run(plan()).seats.values().map(|seat| seat.steps).max().unwrap_or_default();
    for (step, kind) in (0..steps).flat_map(|step| KINDS.map(|kind| (step, kind))) {
        let grid = Grid::run(Plan { faults: vec![Fault { interpreter: 1, step, kind }], ..plan() });
        grid.readers[0].expect_nothing_wrong();
        grid.readers[1].expect_everything();
    }
}

#[test]
fn an_engine_with_nothing_but_a_closed_run_is_empty() {
    let grid = Grid::run(Plan { streams: vec![plan().streams[0].clone()], ..plan() });
    assert!(grid.engine.repository.next().is_none() && grid.engine.runs.is_empty() && grid.engine.programs.is_empty());
    let in_flight: usize = grid.engine.interpreters.values().map(|interpreter| interpreter.in_flight.len()).sum();
    assert_eq!(in_flight, 0);
}
