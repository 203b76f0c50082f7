//! The tasks taken from the stream ahead of the reader of results are bounded.

use super::Grid;
use super::plan::{Plan, Stream, microseconds, milliseconds};
use super::reader::Reader;
use crate::event::{Command, Event};
use crate::flow::RunOptions;
use crate::wire::{FromInterpreter, Shape, ToInterpreter, Tokens};
use std::time::Duration;

/// The tasks taken in five seconds from an endless stream whose results are not read.
fn taken(interpreters: u32, stream: Stream) -> u64 {
    let stream = Stream { tasks: u64::MAX, ..stream };
    let reading = Duration::from_secs(1000);
    let plan = Plan { interpreters, streams: vec![stream], reading, ..Plan::default() };
    let grid = Grid::run_until(plan, Duration::from_secs(5));
    let waiting: u64 = grid.engine.repository.works().map(|work| u64::from(work.count)).sum();
    assert_eq!(waiting, 0, "all that was taken is computed");
    assert_eq!(grid.readers[0].got.len() as u64, grid.readers[0].fed);
    grid.readers[0].fed
}

fn options(ahead: u64, spare: u32) -> RunOptions {
    RunOptions { ahead: milliseconds(ahead), spare, ..Stream::default().options }
}

#[test]
fn by_the_spare_batches_where_no_time_is_given() {
    let stream = |grain| Stream { options: options(0, 4), grains: vec![grain], ..Stream::default() };
    assert_eq!(taken(2, stream(milliseconds(100))), 2 * 4);
    assert_eq!(taken(3, stream(milliseconds(100))), 3 * 4);
    let batch = 20; // 2 ms of work
    let taken = taken(2, stream(microseconds(100)));
    assert!(taken <= 2 * 4 * batch && taken > 2 * 4 * batch - batch, "{taken}");
}

#[test]
fn by_the_time_ahead() {
    let stream = Stream { options: options(250, 1), grains: vec![milliseconds(2)], ..Stream::default() };
    assert_eq!(taken(2, stream), 2 * 125);
}

#[test]
fn by_the_time_ahead_in_all_instructions_together() {
    let grains = vec![milliseconds(1)];
    let stream = Stream { instructions: 4, options: options(400, 1), grains, ..Stream::default() };
    assert_eq!(taken(2, stream), 2 * 100);
}

#[test]
fn by_number_where_grains_are_very_fine() {
    let options = options(60_000, 4);
    let taken = taken(2, Stream { options, grains: vec![Duration::from_nanos(200)], ..Stream::default() });
    assert!((100_000..=131_072).contains(&taken), "{taken}");
}

/// Answers a firing of small tasks with large results.
fn answer_heavily(grid: &mut Grid, bytes: u64) {
    while let Some(command) = grid.engine.next_command() {
        let Command::Send { to: id, message: ToInterpreter::Fire { firing, count, .. }, .. } = command else {
            continue;
        };
        let bytes = u64::from(count) * bytes;
        let (shape, busy) = (Shape::Packed { count, bytes }, u64::from(count) * 10_000);
        let message =
            FromInterpreter::Fired { firing, shape, ways: Vec::new(), stayed: Vec::new(), busy, protection: 0 };
        grid.now += milliseconds(1);
        grid.engine.on(grid.now, Event::Message { id, message, body: vec![0; bytes as usize].into() });
    }
}

#[test]
fn by_the_bytes_of_tasks_and_by_those_of_results() {
    for (task, result) in [(1 << 20, 8), (8, 1 << 20)] {
        let mut grid = Grid::run(Plan { streams: vec![Stream { tasks: 0, ..Stream::default() }], ..Plan::default() });
        let run = Reader::open(&mut grid.engine, 0, &Stream::default()).run;
        let mut taken = 0;
        while let room @ 1.. = grid.engine.room(run) {
            taken += room;
            let tasks = Tokens::packed(room, vec![0; room as usize * task].into());
            grid.engine.feed(grid.now, run, tasks).unwrap();
            answer_heavily(&mut grid, result);
        }
        assert!((64..80).contains(&taken), "{taken} tasks with 1 MB each are taken");
    }
}
