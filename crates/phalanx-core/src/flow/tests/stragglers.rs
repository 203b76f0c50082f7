//! Near the end of a stream, work that one interpreter holds for far too long is fired a second time. The first result
//! wins.

use super::Grid;
use super::integers::Form;
use super::plan::{Fault, KINDS, Kind, Plan, Stream, TICK, microseconds, milliseconds};
use crate::event::Fact;
use crate::flow::{KILLS, RunOptions};
use std::time::Duration;

const SILENCE: Duration = milliseconds(1600);

fn stream(grain: Duration, tasks: u64) -> Stream {
    Stream { form: Form::Separate, grains: vec![grain], tasks, ..Stream::default() }
}

/// One interpreter is twenty times slower than the two others: number 3, since 3 % 3 = 0.
fn uneven(streams: Vec<Stream>) -> Plan {
    Plan { interpreters: 3, slowness: vec![20, 1, 1], silence: SILENCE, streams, ..Plan::default() }
}

fn without(stream: Stream) -> Stream {
    Stream { options: RunOptions { stragglers: false, ..stream.options }, ..stream }
}

fn doubled(grid: &Grid) -> usize {
    grid.facts.iter().filter(|fact| matches!(fact, Fact::Doubled { .. })).count()
}

fn dropped(grid: &Grid) -> usize {
    grid.facts.iter().filter(|fact| matches!(fact, Fact::Dropped { .. })).count()
}

#[test]
fn the_end_does_not_wait_for_the_slowest() {
    let patient = Grid::run(uneven(vec![without(stream(milliseconds(100), 30))]));
    let quick = Grid::run(uneven(vec![stream(milliseconds(100), 30)]));
    quick.readers[0].expect_everything();
    assert_eq!((doubled(&patient), doubled(&quick)), (0, 1));
    assert!(patient.done > milliseconds(2000), "the slow one's first task alone takes two seconds");
    assert!(quick.done < milliseconds(1900), "{:?}", quick.done);
    assert_eq!(dropped(&quick), 1, "the late answer came, and was dropped");
    assert!(quick.dismissed.is_empty());
}

#[test]
fn a_frozen_one_costs_less_than_its_silence() {
    for grain in [microseconds(100), milliseconds(5), milliseconds(100)] {
        let tasks = (Duration::from_secs(2).as_nanos() / grain.as_nanos()) as u64;
        let plan = Plan { silence: SILENCE, streams: vec![stream(grain, tasks)], ..Plan::default() };
        let well = Grid::run(plan.clone());
        // The last messages before the heartbeats that follow the end.
        for step in [4, 5, 6] {
            let last = well.seats.values().next().map_or(0, |seat| seat.steps) - 16 - step;
            let faults = vec![Fault { interpreter: 1, step: last, kind: Kind::Freezes }];
            let grid = Grid::run(Plan { faults, ..plan.clone() });
            grid.readers[0].expect_everything();
            if grid.done > well.done + SILENCE {
                panic!("{grain:?}: {:?} instead of {:?}", grid.done, well.done);
            }
        }
    }
}

#[test]
fn a_frozen_one_at_the_very_end_is_not_waited_for() {
    let plan = Plan { silence: SILENCE, streams: vec![stream(milliseconds(100), 10)], ..Plan::default() };
    let well = Grid::run(plan.clone());
    let (frozen, mut quick) = (|step| vec![Fault { interpreter: 1, step, kind: Kind::Freezes }], 0);
    for step in 8..24 {
        let grid = Grid::run(Plan { faults: frozen(step), ..plan.clone() });
        grid.readers[0].expect_everything();
        if doubled(&grid) > 0 && grid.done < well.done + milliseconds(300) + TICK * 2 {
            quick += 1;
        }
    }
    assert!(quick > 0, "somewhere in these steps is the last task");
}

/// Also with programs for which nothing may be fired twice.
#[test]
fn nothing_waits_behind_a_long_one_while_somebody_has_nothing_to_do() {
    // Eight short tasks, then one that takes a minute, and others beside them.
    let uneven = Stream { grains: vec![microseconds(1500), milliseconds(60_000)], ..stream(Duration::ZERO, 9) };
    for others in [20, 50, 200] {
        let streams = vec![without(uneven.clone()), without(stream(microseconds(1500), others))];
        let plan = Plan { interpreters: 2, silence: SILENCE, streams, ..Plan::default() };
        let grid = Grid::run_until(plan, Duration::from_secs(5));
        let got = |reader: usize| grid.readers[reader].got.len() as u64;
        assert_eq!((got(0), got(1)), (8, others));
        assert_eq!(doubled(&grid), 0);
    }
}

#[test]
fn nothing_is_doubled_while_the_stream_goes_on() {
    let endless = stream(milliseconds(100), u64::MAX);
    let endless = Stream { options: RunOptions { ordered: false, ..endless.options }, ..endless };
    let grid = Grid::run_until(uneven(vec![endless]), Duration::from_secs(20));
    assert_eq!(doubled(&grid), 0);
}

/// With ordered results, nothing is delivered before the slowest result, so no further tasks are taken.
#[test]
fn a_window_does_not_wait_for_the_slowest() {
    let endless = stream(milliseconds(100), u64::MAX);
    let patient = Grid::run_until(uneven(vec![without(endless.clone())]), Duration::from_secs(20));
    let quick = Grid::run_until(uneven(vec![endless]), Duration::from_secs(20));
    let (patient, quick) = (patient.readers[0].got.len(), quick.readers[0].got.len());
    assert!(quick > patient * 2, "{patient} and {quick} results");
}

#[test]
fn even_interpreters_double_nothing() {
    for grain in [microseconds(3), milliseconds(1), milliseconds(30), milliseconds(300)] {
        let grid = Grid::run(Plan { interpreters: 3, streams: vec![stream(grain, 100)], ..Plan::default() });
        grid.readers[0].expect_everything();
        assert_eq!(doubled(&grid), 0, "{grain:?}");
    }
}

#[test]
fn each_straggler_is_doubled_once() {
    let slow = Plan { interpreters: 4, slowness: vec![50, 1], ..uneven(vec![stream(milliseconds(100), 20)]) };
    let grid = Grid::run(slow);
    grid.readers[0].expect_everything();
    assert_eq!(doubled(&grid), 2, "two slow ones hold one task each");
}

/// A race in which one interpreter dies, freezes or breaks the protocol, at every point of the race.
#[test]
fn whoever_is_lost_in_a_race_costs_no_result() {
    let fine = stream(microseconds(200), 300);
    let raising = Stream { raising: vec![1, 8, 15], instructions: 2, ..stream(milliseconds(50), 16) };
    for (slowness, stream) in [(20, stream(milliseconds(100), 8)), (1000, fine), (20, raising)] {
        let plan = Plan { slowness: vec![slowness, 1, 1], ..uneven(vec![stream]) };
        let well = Grid::run(plan.clone());
        well.readers[0].expect_everything();
        assert!(doubled(&well) > 0);
        for (id, seat) in &well.seats {
            for (step, kind) in (0..seat.steps).flat_map(|step| KINDS.map(|kind| (step, kind))) {
                let faults = vec![Fault { interpreter: id.0, step, kind }];
                let grid = Grid::run(Plan { faults, ..plan.clone() });
                grid.readers[0].expect_everything();
            }
        }
    }
}

#[test]
fn a_culprit_is_not_fired_more_often_because_it_is_slow() {
    for killing in [vec![32], vec![32, 33]] {
        // The last ones kill their interpreters after a second, when other interpreters are idle.
        let grains = [vec![milliseconds(20); 4], vec![milliseconds(1000)]].concat();
        let last = killing.last().map_or(0, |last| last + 1);
        let stream = Stream { grains, killing: killing.clone(), ..stream(Duration::ZERO, last) };
        let grid = Grid::run(Plan { interpreters: 3, streams: vec![stream], ..Plan::default() });
        grid.readers[0].expect_everything();
        let mut culprits = grid.readers[0].culprits();
        culprits.sort_unstable();
        assert_eq!(culprits, killing);
        assert!(doubled(&grid) > 0, "the culprit was late too");
        assert_eq!(grid.seats.len() - 3, KILLS * killing.len());
    }
}

#[test]
fn what_was_not_begun_is_given_back() {
    let fine = Stream { tasks: 400, ..stream(milliseconds(3), 0) };
    let grid = Grid::run(Plan { slowness: vec![200, 1, 1], ..uneven(vec![fine]) });
    grid.readers[0].expect_everything();
    let returned = grid.facts.iter().filter(|fact| matches!(fact, Fact::Returned { .. })).count();
    assert!(doubled(&grid) > 0 && returned > 0);
}
