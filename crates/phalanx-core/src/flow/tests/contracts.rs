//! Contracts on time are met with as few interpreters as needed. The number follows the need, without flapping.

use super::Grid;
use super::plan::{Fault, Kind, Plan, Recruiting, Stream, milliseconds};
use crate::event::{Event, Fact};
use crate::flow::{Goal, RunOptions};
use std::collections::BTreeSet;
use std::time::Duration;

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// An endless stream, or one that announces its size.
fn stream(grain: u64, tasks: Option<u64>) -> Stream {
    let plain = Stream::default();
    let options = RunOptions { ordered: false, size: tasks, ..plain.options };
    Stream { grains: vec![milliseconds(grain)], tasks: tasks.unwrap_or(u64::MAX), options, ..plain }
}

fn plan(goal: Goal, stream: Stream) -> Plan {
    Plan { interpreters: 20, goal: Some(goal), streams: vec![stream], ..Plan::default() }
}

/// The sequence of wanted numbers of interpreters.
fn wanted(grid: &Grid) -> Vec<u32> {
    let wanted = grid.facts.iter().filter_map(|fact| match fact {
        Fact::Wanted { interpreters } => Some(*interpreters),
        _ => None,
    });
    wanted.collect()
}

fn released(grid: &Grid) -> usize {
    grid.facts.iter().filter(|fact| matches!(fact, Fact::Released { .. })).count()
}

/// The last report: reached, met, why.
fn last_report(grid: &Grid) -> (f64, bool, Option<String>) {
    let mut reports = grid.facts.iter().filter_map(|fact| match fact {
        Fact::Contract { reached, met, why, .. } => Some((*reached, *met, why.clone())),
        _ => None,
    });
    reports.next_back().expect("a report")
}

#[test]
fn a_rate_is_kept_by_as_many_as_it_takes() {
    for (grain, rate, expected) in [(100, 50.0, 5..=7), (100, 5.0, 1..=1), (1000, 10.0, 10..=13), (3, 1000.0, 3..=5)] {
        let grid = Grid::run_until(plan(Goal::Throughput(rate), stream(grain, None)), seconds(20));
        assert!(expected.contains(&grid.engine.wanted()), "{:?} for {rate}/s of {grain} ms", wanted(&grid));
        let (reached, met, why) = last_report(&grid);
        assert!(met && why.is_none() && reached >= rate * 0.95, "{reached} of {rate}");
        assert!(grid.readers[0].unmet.is_empty());
    }
}

#[test]
fn who_wants_all_gets_more_when_machines_come_and_loses_nothing_when_they_go() {
    let stream = Stream { grains: vec![milliseconds(100)], tasks: 400, ..Stream::default() };
    let mut grid = Grid::run_until(Plan { interpreters: 2, streams: vec![stream], ..Plan::default() }, seconds(2));
    assert_eq!(grid.seats.len(), 2);
    grid.engine.on(grid.now, Event::Offered { interpreters: 6 });
    grid.run_on_until(seconds(4));
    assert_eq!((wanted(&grid), grid.seats.len()), (vec![6], 6));
    for interpreters in [3, 0] {
        grid.engine.on(grid.now, Event::Offered { interpreters });
    }
    grid.run_on_until(grid.now);
    assert_eq!(wanted(&grid), [6, 3, 1]);
    while !grid.readers[0].is_done() {
        let end = grid.now + seconds(1);
        grid.run_on_until(end);
    }
    grid.readers[0].expect_everything();
}

#[test]
fn the_instructions_of_a_task_are_added_up() {
    let unfused = Stream { instructions: 3, ..stream(40, None) };
    let grid = Grid::run_until(plan(Goal::Throughput(25.0), unfused), seconds(20));
    assert!((3..=5).contains(&grid.engine.wanted()), "{:?}", wanted(&grid));
    assert!(last_report(&grid).1);
    let unfused = Stream { instructions: 3, ..stream(40, Some(100)) };
    let grid = Grid::run(plan(Goal::Deadline(6.0), unfused));
    assert!((2..=5).contains(&grid.engine.wanted()), "{:?}", wanted(&grid));
    assert!(last_report(&grid).1, "{:?}", last_report(&grid));
}

#[test]
fn imports_are_no_reason_to_recruit() {
    let slow_to_begin = Stream { staging: milliseconds(900), ..stream(10, None) };
    let grid = Grid::run_until(plan(Goal::Throughput(50.0), slow_to_begin), seconds(20));
    assert_eq!(wanted(&grid), [], "half an interpreter does it");
    assert!(last_report(&grid).1);
}

#[test]
fn slow_interpreters_are_made_up_for() {
    let even = Plan { slowness: vec![1], ..plan(Goal::Throughput(40.0), stream(100, None)) };
    let uneven = Plan { slowness: vec![4, 1], ..even.clone() };
    let (even, uneven) = (Grid::run_until(even, seconds(20)), Grid::run_until(uneven, seconds(20)));
    assert!(uneven.engine.wanted() > even.engine.wanted());
    assert!(last_report(&uneven).1, "{:?}", last_report(&uneven));
}

#[test]
fn it_does_not_flap() {
    // Times between 20 and 180 ms, in an order that the window does not even out.
    let grains = (0..37).map(|n| milliseconds(20 + n * 67 % 160)).collect();
    let uneven = Stream { grains, ..stream(0, None) };
    let grid = Grid::run_until(plan(Goal::Throughput(50.0), uneven), seconds(120));
    assert!(last_report(&grid).1, "{:?}", last_report(&grid));
    let wanted = wanted(&grid);
    assert!(released(&grid) <= 6 && wanted.len() <= 18, "{wanted:?} in two minutes");
}

#[test]
fn who_is_not_needed_any_more_is_let_go_with_nothing_in_flight() {
    // 8 tasks of 400 ms, then many of 40.
    let grains = [vec![milliseconds(400); 8], vec![milliseconds(40); 200]].concat();
    let grid = Grid::run(plan(Goal::Throughput(20.0), Stream { grains, ..stream(0, Some(1600)) }));
    grid.readers[0].expect_everything();
    let wanted = wanted(&grid);
    assert!(wanted.iter().max() >= Some(&8) && wanted.last() <= Some(&2), "{wanted:?}");
    assert!(released(&grid) >= 6 && grid.dismissed.is_empty());
    let lost = grid.facts.iter().filter(|fact| matches!(fact, Fact::Lost { .. })).count();
    assert_eq!(lost, 0, "who is let go is not lost");
}

#[test]
fn a_deadline_is_kept_by_as_many_as_it_takes() {
    for (grain, tasks, deadline, expected) in
        [(100, 200, 10.0, 2..=4), (100, 20, 5.0, 1..=1), (1000, 40, 8.0, 5..=9), (2, 10_000, 5.0, 4..=6)]
    {
        let grid = Grid::run(plan(Goal::Deadline(deadline), stream(grain, Some(tasks))));
        grid.readers[0].expect_everything();
        let most = wanted(&grid).into_iter().max().unwrap_or(1);
        assert!(expected.contains(&most), "{:?} for {tasks} of {grain} ms in {deadline} s", wanted(&grid));
        let (reached, met, why) = last_report(&grid);
        assert!(met && why.is_none() && reached <= deadline, "{reached} of {deadline} s");
        assert!(grid.readers[0].unmet.is_empty());
    }
}

#[test]
fn everything_is_used_while_nobody_knows_how_much_is_left() {
    let unknown = Stream { options: RunOptions { size: None, ..Stream::default().options }, ..stream(100, Some(400)) };
    let grid = Grid::run(plan(Goal::Deadline(60.0), unknown));
    assert_eq!(wanted(&grid).first(), Some(&20));
    assert!(last_report(&grid).1);
}

#[test]
fn what_cannot_be_met_is_said_once_and_computed_all_the_same() {
    let rate = plan(Goal::Throughput(100.0), stream(100, Some(200)));
    let deadline = plan(Goal::Deadline(5.0), stream(100, Some(200)));
    for plan in [rate, deadline] {
        let grid = Grid::run(Plan { interpreters: 2, ..plan });
        grid.readers[0].expect_everything();
        let [(_, _, why)] = &grid.readers[0].unmet[..] else { panic!("{:?}", grid.readers[0].unmet) };
        assert_eq!(why, "more interpreters than 2 are not offered");
        let (reached, met, _) = last_report(&grid);
        assert!(!met && reached > 9.0, "{reached}");
        assert_eq!(wanted(&grid), [2]);
    }
}

#[test]
fn it_is_said_as_soon_as_it_is_known() {
    let grid =
        Grid::run_until(Plan { interpreters: 2, ..plan(Goal::Deadline(60.0), stream(100, Some(10_000))) }, seconds(10));
    let [(asked, reached, _)] = &grid.readers[0].unmet[..] else { panic!("not said") };
    assert!(*asked == 60.0 && (480.0..520.0).contains(reached), "{reached} s for 1000 s of work shared by two");
}

#[test]
fn who_cannot_be_recruited_is_named() {
    let recruits =
        [vec![Recruiting::default()], vec![Recruiting { fails: true, ..Recruiting::default() }; 500]].concat();
    let grid = Grid::run_until(Plan { recruits, ..plan(Goal::Throughput(50.0), stream(100, None)) }, seconds(10));
    let [(_, _, why)] = &grid.readers[0].unmet[..] else { panic!("not said") };
    assert!(why.starts_with("only 1 of ") && why.contains("can be had: no machine for "), "{why}");
}

#[test]
fn a_slow_reader_is_named_and_costs_no_interpreters() {
    let slow = Plan { reading: milliseconds(900), ..plan(Goal::Throughput(50.0), stream(100, None)) };
    let grid = Grid::run_until(slow, seconds(30));
    let [(_, _, why)] = &grid.readers[0].unmet[..] else { panic!("{:?}", grid.readers[0].unmet) };
    assert_eq!(why, "its results are read no faster");
    assert!(grid.engine.wanted() <= 7, "{:?}", wanted(&grid));
}

#[test]
fn losses_are_replaced_and_the_contract_is_kept() {
    let faults = (1..=6).map(|interpreter| Fault { interpreter, step: 40, kind: Kind::Dies }).collect();
    let grid = Grid::run_until(Plan { faults, ..plan(Goal::Throughput(30.0), stream(100, None)) }, seconds(30));
    assert!(last_report(&grid).1, "{:?}", last_report(&grid));
    assert!((3..=5).contains(&grid.engine.wanted()));
}

#[test]
fn a_number_of_interpreters_is_kept_as_before() {
    let grid = Grid::run(Plan { goal: None, interpreters: 3, ..plan(Goal::Deadline(1.0), stream(100, Some(100))) });
    assert_eq!((grid.engine.wanted(), grid.seats.len()), (3, 3));
    assert!(!grid.facts.iter().any(|fact| matches!(fact, Fact::Contract { .. } | Fact::Wanted { .. })));
}

/// An interpreter that was to leave stays if the others die.
#[test]
fn the_last_one_stays() {
    let goal = Goal::Throughput(0.001);
    let faults = (1..=30).map(|interpreter| Fault { interpreter, step: 9, kind: Kind::DiesAnswersLost }).collect();
    let grid = Grid::run(Plan { faults, ..plan(goal, stream(30, Some(200))) });
    grid.readers[0].expect_everything();
    let wanted: BTreeSet<u32> = wanted(&grid).into_iter().collect();
    assert!(wanted.len() <= 1, "one is always enough: {wanted:?}");
}
