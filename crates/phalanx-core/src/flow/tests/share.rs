//! Interpreters that an executor asks for are given back without a loss, and no more than it asks for.

use super::Grid;
use super::plan::{Plan, Recruiting, Stream, milliseconds};
use crate::event::{Cause, Event, Fact};
use crate::ids::InterpreterId;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Eight seconds of work for four interpreters. No others can be had.
fn four(grain: u64) -> Plan {
    let stream = Stream { grains: vec![milliseconds(grain)], tasks: 32_000 / grain, ..Stream::default() };
    let refused = Recruiting { fails: true, ..Recruiting::default() };
    let mut recruits = vec![Recruiting::default(); 4];
    recruits.resize(100, refused);
    Plan { interpreters: 4, streams: vec![stream], recruits, patience: Duration::from_secs(60), ..Plan::default() }
}

fn share(grid: &mut Grid, keep: u32) {
    let among = (1..=4).map(InterpreterId).collect();
    grid.engine.on(grid.now, Event::Share { among, keep });
}

fn count(grid: &Grid, fits: impl Fn(&Fact) -> bool) -> usize {
    grid.facts.iter().filter(|fact| fits(fact)).count()
}

fn released(grid: &Grid) -> usize {
    count(grid, |fact| matches!(fact, Fact::Released { .. }))
}

fn finish(mut grid: Grid) -> Grid {
    while !grid.readers[0].is_done() {
        let end = grid.now + milliseconds(150);
        grid.run_on_until(end);
    }
    grid.readers[0].expect_everything();
    grid
}

#[test]
fn as_many_leave_as_are_asked_for_and_nothing_is_lost() {
    for grain in [1, 40, 900] {
        let mut grid = Grid::run_until(four(grain), SECOND);
        // said at every tick, as a driver does
        while grid.now < SECOND * 4 {
            share(&mut grid, 2);
            let end = grid.now + milliseconds(150);
            grid.run_on_until(end);
        }
        assert_eq!((grid.engine.staff(), released(&grid), grid.engine.wanted()), (2, 2, 4), "{grain} ms");
        assert_eq!(count(&grid, |fact| matches!(fact, Fact::AskedBack { interpreters: 2 })), 1);
        let grid = finish(grid);
        assert_eq!((released(&grid), count(&grid, |fact| matches!(fact, Fact::Lost { .. }))), (2, 0));
    }
}

#[test]
fn all_stay_if_the_other_user_leaves_before_they_are_done() {
    let mut grid = Grid::run_until(four(900), SECOND + milliseconds(200));
    share(&mut grid, 1);
    grid.run_on_until(SECOND + milliseconds(250));
    assert_eq!(grid.engine.staff(), 1);
    share(&mut grid, u32::MAX);
    assert_eq!(grid.engine.staff(), 4);
    assert_eq!(released(&finish(grid)), 0);
}

#[test]
fn a_contract_keeps_no_interpreter_that_is_asked_for() {
    let mut grid = Grid::run_until(four(900), SECOND + milliseconds(200));
    share(&mut grid, 3);
    grid.run_on_until(SECOND * 4); // recruiting is tried again meanwhile
    assert_eq!((grid.engine.staff(), released(&grid)), (3, 1));
}

#[test]
fn a_task_whose_interpreters_are_taken_is_no_culprit() {
    let mut plan = four(900);
    plan.recruits = Vec::new();
    let mut grid = Grid::run_until(plan, SECOND + milliseconds(200));
    for _ in 0..20 {
        let taken: Vec<InterpreterId> = grid.engine.interpreters.keys().copied().collect();
        for id in taken {
            grid.seats.get_mut(&id).expect("a seat").faulty = true;
            let closed = Cause::Closed { why: "its owner uses it".to_owned() };
            let cause = if id.0 % 2 == 0 { Cause::Taken } else { closed };
            grid.engine.on(grid.now, Event::Lost { id, cause });
        }
        let end = grid.now + milliseconds(200);
        grid.run_on_until(end);
    }
    finish(grid);
}
