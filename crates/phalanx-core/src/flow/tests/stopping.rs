//! Tasks that are stopped while they run: their interpreter is ended and replaced, and all other tasks come, once.

use super::Grid;
use super::plan::{Plan, Stream, microseconds, milliseconds};
use super::reader::Got;
use crate::event::{Cause, Event, Fact};
use crate::flow::{Options, RunOptions};
use crate::ids::{InterpreterId, RunId};
use crate::wire::{FromInterpreter, ToInterpreter};
use bytes::Bytes;
use std::time::Duration;

fn with_timeout(timeout: Duration, retries: u32) -> Vec<Options> {
    vec![Options { timeout: Some(timeout), retries, ..Options::default() }; 3]
}

fn hanging(tasks: Vec<u64>) -> Stream {
    let options = RunOptions { stragglers: false, ..Stream::default().options };
    Stream { hanging: tasks, options, settings: with_timeout(milliseconds(500), 0), ..Stream::default() }
}

fn losses(grid: &Grid) -> Vec<String> {
    let cause = |fact: &Fact| match fact {
        Fact::Lost { cause, .. } => Some(cause.clone()),
        _ => None,
    };
    grid.facts.iter().filter_map(cause).collect()
}

#[test]
fn a_late_task_fails_and_all_others_come() {
    // small tasks, so that the late one is in a batch with others
    let grid = Grid::run(Plan { streams: vec![hanging(vec![30])], ..Plan::default() });
    grid.readers[0].expect_everything();
    assert_eq!(grid.readers[0].got[30], (30, Got::TimedOut(1)));
    assert_eq!(losses(&grid), ["was ended: a task there ran longer than its timeout of 0.5 s"]);
    assert_eq!(grid.engine.interpreters.len(), 2, "the interpreter was replaced");
}

#[test]
fn several_late_tasks_fail_one_after_the_other() {
    for tasks in [vec![0], vec![0, 1, 2], vec![58, 59], (0..60).step_by(7).collect()] {
        let grid = Grid::run(Plan { streams: vec![hanging(tasks.clone())], ..Plan::default() });
        grid.readers[0].expect_everything();
        assert_eq!(losses(&grid).len(), tasks.len(), "{tasks:?}");
    }
}

#[test]
fn no_other_task_is_under_suspicion() {
    let grains = vec![microseconds(10)];
    let stream = Stream { tasks: 400, grains, ..hanging(vec![100, 200, 300]) };
    let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
    grid.readers[0].expect_everything();
    assert!(grid.readers[0].culprits().is_empty());
}

#[test]
fn a_straggler_that_is_fired_twice_has_its_time_at_both() {
    let options = RunOptions { stragglers: true, ..Stream::default().options };
    let stream = Stream { tasks: 20, grains: vec![milliseconds(30)], options, ..hanging(vec![19]) };
    let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
    grid.readers[0].expect_everything();
    assert!(grid.facts.iter().any(|fact| matches!(fact, Fact::Doubled { .. })), "it was fired twice");
    assert_eq!(losses(&grid).len(), 2);
}

#[test]
fn a_timeout_that_nothing_exceeds_changes_nothing() {
    let stream = Stream { instructions: 3, settings: with_timeout(milliseconds(500), 2), ..Stream::default() };
    let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
    grid.readers[0].expect_everything();
    assert!(losses(&grid).is_empty());
}

#[test]
fn an_instruction_with_a_timeout_neither_follows_nor_is_followed() {
    let settings = vec![Options::default(), Options { timeout: Some(milliseconds(500)), ..Options::default() }];
    let stream = Stream { instructions: 4, heavy: 1, settings, ..Stream::default() };
    let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
    grid.readers[0].expect_everything();
    let stayed = |wanted| {
        grid.facts.iter().any(|fact| matches!(fact, Fact::Stayed { instruction, .. } if *instruction == wanted))
    };
    assert!(!stayed(0) && !stayed(1) && stayed(2));
}

/// A grid that computes a stream whose task number 5 hangs, without a timeout, some time after it began to hang.
fn with_a_hanging_task(tasks: u64) -> Grid {
    let options = RunOptions { ordered: false, stragglers: false, ..Stream::default().options };
    let stream = Stream { tasks, options, hanging: vec![5], ..Stream::default() };
    let mut grid = Grid::run_until(Plan { streams: vec![stream], ..Plan::default() }, milliseconds(900));
    grid.readers[0].cancels = true;
    grid
}

fn cancel(grid: &mut Grid, task: u64) -> bool {
    let (now, run) = (grid.now, grid.readers[0].run);
    grid.engine.cancel(now, run, task)
}

#[test]
fn a_cancelled_task_ends_its_interpreter_only() {
    let mut grid = with_a_hanging_task(60);
    assert_eq!(grid.readers[0].got.len(), 59, "all others are done");
    assert!(cancel(&mut grid, 5));
    let end = grid.now + milliseconds(100);
    grid.run_on_until(end);
    grid.readers[0].expect_everything();
    assert_eq!(grid.readers[0].got.last(), Some(&(5, Got::Cancelled)));
    assert_eq!(losses(&grid), ["was ended: a task there was cancelled"]);
    assert_eq!(grid.engine.interpreters.len(), 2, "the interpreter was replaced");
}

#[test]
fn a_task_with_an_outcome_is_not_cancelled() {
    let mut grid = with_a_hanging_task(60);
    assert!(!cancel(&mut grid, 4) && !cancel(&mut grid, 60) && !cancel(&mut grid, u64::MAX));
    let (now, other) = (grid.now, RunId(99));
    assert!(!grid.engine.cancel(now, other, 0), "a run that does not exist");
    assert!(losses(&grid).is_empty());
}

#[test]
fn any_task_can_be_cancelled_at_any_time() {
    // every task, at moments when it waits, is in flight in a batch, runs, or is done
    for task in (0..60).step_by(3) {
        for at in [0, 11, 12, 13, 14, 15].map(milliseconds) {
            let options = RunOptions { ordered: false, ..Stream::default().options };
            let grains = vec![microseconds(300), milliseconds(1)];
            let stream = Stream { options, grains, hanging: vec![task], ..Stream::default() };
            let mut grid = Grid::run_until(Plan { streams: vec![stream], ..Plan::default() }, at);
            grid.readers[0].cancels = true;
            let is_cancelled = cancel(&mut grid, task);
            let end = grid.now + Duration::from_secs(5);
            grid.run_on_until(end);
            match is_cancelled {
                true => grid.readers[0].expect_everything(),
                false => assert!(cancel(&mut grid, task), "it was not fed before"),
            }
        }
    }
}

#[test]
fn a_cancelled_task_that_is_done_first_has_its_result() {
    for task in 0..60 {
        let options = RunOptions { ordered: true, ..Stream::default().options };
        let stream = Stream { options, grains: vec![microseconds(400)], ..Stream::default() };
        let mut grid = Grid::run_until(Plan { streams: vec![stream], ..Plan::default() }, milliseconds(13));
        grid.readers[0].cancels = true;
        cancel(&mut grid, task);
        let end = grid.now + Duration::from_secs(2);
        grid.run_on_until(end);
        grid.readers[0].expect_everything();
        assert!(grid.engine.runs[&grid.readers[0].run].cancelled.is_empty(), "nothing is left");
    }
}

#[test]
fn a_stopped_run_ends_the_interpreters_that_go_on_with_it() {
    let grains = vec![milliseconds(5)]; // so that the task is alone in its batch
    let stream = |tasks, hanging| Stream { tasks, hanging, grains: grains.clone(), ..Stream::default() };
    let closed = Stream { close_after: Some(11), stops: true, ..stream(60, vec![11]) };
    let plan = Plan { streams: vec![closed, stream(60, Vec::new())], ..Plan::default() };
    let grid = Grid::run(plan);
    grid.readers[1].expect_everything();
    assert_eq!(losses(&grid), ["was ended: its computation was closed"]);
    assert!(grid.engine.interpreters.values().all(|it| it.in_flight.is_empty()), "nothing of it runs any more");
}

#[test]
fn a_stopped_run_of_short_tasks_ends_no_interpreter() {
    let closed = Stream { close_after: Some(10), stops: true, ..Stream::default() };
    let grid = Grid::run(Plan { streams: vec![closed, Stream::default()], ..Plan::default() });
    grid.readers[1].expect_everything();
    assert!(losses(&grid).is_empty());
}

#[test]
fn an_interpreter_that_stops_without_a_reason_breaks_the_protocol() {
    let mut grid = with_a_hanging_task(60);
    let (id, firing) = holder(&grid);
    let stop = FromInterpreter::Stop { firing, token: grid.engine.interpreters[&id].in_flight[0].answered };
    grid.seats.get_mut(&id).expect("it has the task").faulty = true;
    grid.engine.on(grid.now, Event::Message { id, message: stop, body: Bytes::new() });
    assert!(!grid.engine.interpreters.contains_key(&id));
    let end = grid.now + milliseconds(50);
    grid.run_on_until(end);
    let broken = Cause::Protocol { what: crate::error::WireError::UnexpectedAnswer.to_string() };
    assert_eq!(losses(&grid), [broken.to_string()]);
}

#[test]
fn a_stop_for_what_was_answered_is_ignored() {
    let mut grid = with_a_hanging_task(60);
    let (id, firing) = holder(&grid);
    for (firing, token) in [(firing, u32::MAX - 1), (crate::ids::FiringId(firing.0 + 1000), 0)] {
        let message = FromInterpreter::Stop { firing, token };
        grid.engine.on(grid.now, Event::Message { id, message, body: Bytes::new() });
    }
    assert!(grid.engine.interpreters.contains_key(&id) && losses(&grid).is_empty());
}

fn holder(grid: &Grid) -> (InterpreterId, crate::ids::FiringId) {
    let holder = grid.engine.interpreters.iter().find(|(_, it)| !it.in_flight.is_empty());
    holder.map(|(id, it)| (*id, it.in_flight[0].id)).expect("an interpreter has the task")
}

#[test]
fn what_was_cancelled_is_not_fired_again_after_a_loss() {
    let mut grid = with_a_hanging_task(60);
    let (id, _) = holder(&grid);
    assert!(cancel(&mut grid, 5));
    // the interpreter dies before it hears of it
    grid.engine.on(grid.now, Event::Lost { id, cause: Cause::Died { how: "by the test".to_owned() } });
    let end = grid.now + milliseconds(50);
    grid.run_on_until(end);
    grid.readers[0].expect_everything();
    assert_eq!(grid.readers[0].got.last(), Some(&(5, Got::Cancelled)));
}

#[test]
fn a_message_to_cancel_names_the_token() {
    let mut grid = with_a_hanging_task(60);
    cancel(&mut grid, 5);
    let mut sent = Vec::new();
    while let Some(command) = grid.engine.next_command() {
        if let crate::event::Command::Send { message: ToInterpreter::Cancel { token, .. }, .. } = command {
            sent.push(token);
        }
    }
    assert_eq!(sent.len(), 1, "only its holder is asked");
}
