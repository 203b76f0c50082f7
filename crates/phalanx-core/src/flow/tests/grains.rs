//! Coarse instructions are fired one at a time, fine ones together, and the engine follows changes of grain.

use super::Grid;
use super::integers::Form;
use super::plan::{Fault, Kind, Plan, Recruiting, Stream, microseconds, milliseconds};
use crate::event::Fact;
use std::collections::BTreeMap;
use std::time::Duration;

fn farm(grain: Duration, tasks: u64) -> Stream {
    Stream { grains: vec![grain], tasks, ..Stream::default() }
}

/// Tasks in each firing, in the order of firing.
fn firings(grid: &Grid) -> Vec<u32> {
    let fired =
        grid.facts.iter().filter_map(|fact| if let Fact::Fired { tasks, .. } = fact { Some(*tasks) } else { None });
    fired.collect()
}

/// The largest number of tasks that one interpreter had in flight at once.
fn most_in_flight(grid: &Grid) -> u32 {
    let (mut in_flight, mut most) = (BTreeMap::<_, u32>::new(), 0);
    for fact in &grid.facts {
        match *fact {
            Fact::Fired { interpreter, tasks, .. } => *in_flight.entry(interpreter).or_default() += tasks,
            Fact::Answered { interpreter, tasks, .. } | Fact::Returned { interpreter, tasks } => {
                *in_flight.entry(interpreter).or_default() -= tasks;
            }
            _ => {}
        }
        most = most.max(in_flight.values().copied().max().unwrap_or_default());
    }
    most
}

#[test]
fn coarse_grains_go_one_at_a_time() {
    for delay in [microseconds(50), milliseconds(1)] {
        let streams = vec![farm(milliseconds(150), 30)];
        let grid = Grid::run(Plan { streams, delays: vec![delay], ..Plan::default() });
        grid.readers[0].expect_everything();
        assert_eq!(most_in_flight(&grid), 1, "with a delay of {delay:?}");
    }
}

#[test]
fn also_where_making_the_code_ready_took_long() {
    let stream = Stream { staging: milliseconds(1500), ..farm(milliseconds(150), 30) };
    let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
    assert_eq!(most_in_flight(&grid), 1, "the time for imports is not the network's");
}

#[test]
fn fine_grains_are_coalesced() {
    let tasks = 100_000;
    let grid = Grid::run(Plan { streams: vec![farm(microseconds(1), tasks)], ..Plan::default() });
    grid.readers[0].expect_everything();
    let firings = firings(&grid);
    assert!(firings.len() < 100, "{} firings", firings.len());
    assert!(firings.iter().all(|tasks| *tasks <= 2 * 2000), "more than 2 ms, twice");
}

/// Ten seconds of fine work for interpreters with a slow network. Returns when it was done.
fn far_away(plan: Plan) -> Duration {
    let plan = Plan { streams: vec![farm(microseconds(500), 20_000)], delays: vec![milliseconds(50)], ..plan };
    let grid = Grid::run(plan);
    grid.readers[0].expect_everything();
    grid.done
}

#[test]
fn enough_is_in_flight_to_hide_a_long_round_trip() {
    let done = far_away(Plan { interpreters: 1, ..Plan::default() });
    assert!(done < milliseconds(11_000), "{done:?} for ten seconds of work");
}

#[test]
fn also_with_who_is_replaced_and_with_who_comes_late() {
    let faults = vec![Fault { interpreter: 1, step: 300, kind: Kind::Dies }];
    let done = far_away(Plan { interpreters: 1, faults, ..Plan::default() });
    assert!(done < milliseconds(11_000), "{done:?} for ten seconds of work");
    let recruits = vec![Recruiting::default(), Recruiting { takes: milliseconds(2000), fails: false }];
    let done = far_away(Plan { recruits, ..Plan::default() });
    assert!(done < milliseconds(6600), "{done:?} for six seconds of work");
}

#[test]
fn what_gets_coarser_is_given_back_and_cut() {
    for form in [Form::Packed, Form::Separate] {
        let grains = [vec![microseconds(2); 250], vec![milliseconds(30); 250]].concat();
        let stream = Stream { form, grains, ..farm(Duration::ZERO, 2200) };
        let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
        grid.readers[0].expect_everything();
        assert!(grid.facts.iter().any(|fact| matches!(fact, Fact::Returned { .. })));
        assert_eq!(firings(&grid).last(), Some(&1), "coarse at the end");
    }
}

#[test]
fn what_stays_does_not_keep_fine_grains_from_being_coalesced() {
    for form in [Form::Packed, Form::Separate] {
        let stream = Stream { instructions: 3, heavy: 1, form, ..farm(microseconds(10), 20_000) };
        let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
        grid.readers[0].expect_everything();
        assert!(firings(&grid).len() < 1000, "{} firings of 0.6 s of work", firings(&grid).len());
        let answers = grid.facts.iter().filter(|fact| matches!(fact, Fact::Answered { .. })).count();
        assert!(answers < 1000, "{answers} answers");
        let stayed: u64 = grid
            .facts
            .iter()
            .filter_map(|fact| if let Fact::Stayed { bytes, .. } = fact { Some(*bytes) } else { None })
            .sum();
        assert_eq!(stayed, (2 * 20_000) << 20, "two tokens of each task");
    }
}

/// If only some tokens are heavy, an answer holds tasks that were fired through equally many instructions.
#[test]
fn also_where_only_some_tokens_stay() {
    for heavy in [2, 3, 7] {
        let stream = Stream { instructions: 3, heavy, ..farm(microseconds(10), 5000) };
        let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
        grid.readers[0].expect_everything();
    }
}

/// The makespan, and the ideal one, in which all interpreters are busy until the end.
fn makespan_over_ideal(plan: Plan) -> f64 {
    let work = |stream: &Stream| (0..stream.tasks).map(|task| stream.grain(task, 0)).sum::<Duration>();
    let ideal = plan.streams.iter().map(work).sum::<Duration>() / plan.interpreters;
    let grid = Grid::run(plan);
    grid.readers[0].expect_everything();
    grid.done.as_secs_f64() / ideal.as_secs_f64()
}

/// Two thousand tasks of 10 µs, followed by eight of two seconds, which are all in the last firings.
fn jump(form: Form) -> Stream {
    let grains = [vec![microseconds(10); 250], vec![milliseconds(2000)]].concat();
    Stream { form, grains, ..farm(Duration::ZERO, 2008) }
}

#[test]
fn where_the_grain_jumps_the_rest_goes_to_who_has_nothing_to_do() {
    for (form, interpreters) in [(Form::Packed, 4), (Form::Separate, 4), (Form::Packed, 2), (Form::Separate, 8)] {
        let plan = Plan { interpreters, streams: vec![jump(form)], ..Plan::default() };
        let ratio = makespan_over_ideal(plan);
        assert!(ratio < 1.05, "{ratio:.2} of the ideal with {interpreters} interpreters, {form:?}");
    }
}

/// The round trip is so long that a second task is worth sending ahead, but not while others are free sooner.
#[test]
fn two_tasks_are_not_at_one_interpreter_while_another_has_none() {
    let plan = Plan { streams: vec![farm(milliseconds(1000), 6)], delays: vec![milliseconds(40)], ..Plan::default() };
    let grid = Grid::run(plan);
    grid.readers[0].expect_everything();
    assert!(grid.done < milliseconds(3500), "{:?} for three seconds of work", grid.done);
}
