//! If no interpreter is left and none can be recruited, runs end with an error that names the losses. They never hang.

use super::Grid;
use super::plan::{Fault, Kind, Plan, Recruiting, Stream, TICK, milliseconds};
use super::reader::Reader;
use crate::event::Fact;
use crate::flow::RunOptions;
use std::time::Duration;

fn recruiting(takes: u64, fails: bool) -> Recruiting {
    Recruiting { takes: milliseconds(takes), fails }
}

fn dies(interpreter: u32, step: usize) -> Fault {
    Fault { interpreter, step, kind: Kind::Dies }
}

fn losses(grid: &Grid) -> &[String] {
    grid.readers[0].abandoned.as_deref().expect("abandoned")
}

#[test]
fn where_nobody_can_be_recruited() {
    let recruits = vec![recruiting(5, true), recruiting(900, true)];
    let grid = Grid::run(Plan { recruits, ..Plan::default() });
    assert_eq!(losses(&grid), ["no machine for 1", "no machine for 2"]);
    assert!(grid.done >= milliseconds(900), "there was hope until then");
    assert!(!grid.readers[0].recruited, "nobody was lost");
}

#[test]
fn where_the_last_one_dies_and_is_not_replaced() {
    let stream = Stream { grains: vec![milliseconds(50)], ..Stream::default() };
    let recruits = [[recruiting(5, false); 2].as_slice(), &[recruiting(40, true); 100]].concat();
    let faults = vec![dies(1, 9), dies(2, 15)];
    let grid = Grid::run(Plan { streams: vec![stream.clone(), stream], recruits, faults, ..Plan::default() });
    let died = |id: u32| format!("interpreter/{id} died: killed by signal 9");
    for reader in &grid.readers {
        reader.expect_nothing_wrong();
        let losses = reader.abandoned.as_ref().expect("every run is abandoned");
        assert!(losses.contains(&died(1)) && losses.contains(&died(2)), "{losses:?}");
        assert!(reader.recruited);
    }
}

#[test]
fn not_where_one_is_left() {
    let recruits = [[recruiting(5, false); 2].as_slice(), &[recruiting(40, true); 100]].concat();
    let stream = Stream { grains: vec![milliseconds(50)], ..Stream::default() };
    let grid = Grid::run(Plan { streams: vec![stream], recruits, faults: vec![dies(1, 9)], ..Plan::default() });
    grid.readers[0].expect_everything();
}

#[test]
fn not_where_a_late_recruit_comes() {
    let recruits = vec![recruiting(5, true), recruiting(20_000, false)];
    let grid = Grid::run(Plan { recruits, ..Plan::default() });
    grid.readers[0].expect_everything();
}

#[test]
fn a_missing_one_is_looked_for_again() {
    let recruits = vec![recruiting(5, false), recruiting(5, true), recruiting(5, true), recruiting(5, false)];
    let stream = Stream { grains: vec![milliseconds(100)], ..Stream::default() };
    let grid = Grid::run(Plan { streams: vec![stream], recruits, ..Plan::default() });
    grid.readers[0].expect_everything();
    assert_eq!(grid.seats.len(), 2);
}

#[test]
fn an_error_names_a_bounded_number_of_losses() {
    let stream = Stream { grains: vec![milliseconds(50)], tasks: 200, ..Stream::default() };
    let recruits = [[recruiting(5, false); 40].as_slice(), &[recruiting(5, true); 10]].concat();
    let faults = (1..=40).map(|id| dies(id, 5)).collect();
    let grid = Grid::run(Plan { streams: vec![stream], recruits, faults, ..Plan::default() });
    assert_eq!(losses(&grid).len(), 16);
}

const PATIENCE: Duration = Duration::from_secs(30);

/// Two interpreters die early. That many recruits fail afterwards, and then machines are available again.
fn restart(failures: usize, patience: Duration) -> Plan {
    let recruits = [[recruiting(5, false); 2].as_slice(), &vec![recruiting(40, true); failures]].concat();
    let stream = Stream { grains: vec![milliseconds(20)], ..Stream::default() };
    let unordered = RunOptions { ordered: false, ..stream.options };
    let streams = vec![stream.clone(), Stream { options: unordered, ..stream }];
    Plan { streams, recruits, faults: vec![dies(1, 9), dies(2, 9)], patience, ..Plan::default() }
}

#[test]
fn machines_that_come_back_in_time_are_used_again_and_nothing_is_lost() {
    for failures in [1, 2, 7, 20] {
        let grid = Grid::run(restart(failures, PATIENCE));
        grid.readers.iter().for_each(Reader::expect_everything);
        assert!(grid.seats.len() >= 4, "both are replaced");
    }
}

/// An owner closes a machine for the night, or only its owner's lunch is over.
#[test]
fn while_machines_are_closed_runs_wait_longer_than_their_patience() {
    let closed = Plan { closed_until: PATIENCE * 3, ..restart(190, PATIENCE) };
    let grid = Grid::run(closed.clone());
    grid.readers.iter().for_each(Reader::expect_everything);
    assert!(grid.done > PATIENCE * 3, "ended after {:?}", grid.done);
    let never = Grid::run(Plan { recruits: vec![recruiting(40, true); 200], faults: Vec::new(), ..closed.clone() });
    assert!(
        never.readers.iter().all(|reader| reader.abandoned.is_none()),
        "nor are they abandoned before the first one"
    );
    let lost = Grid::run(Plan { recruits: restart(10_000, PATIENCE).recruits, ..closed });
    let patience = lost.done.saturating_sub(PATIENCE * 3);
    assert!(lost.readers.iter().all(|reader| reader.abandoned.is_some()));
    assert!(
        patience + Duration::from_secs(2) >= PATIENCE && patience <= PATIENCE + Duration::from_secs(3),
        "{patience:?}"
    );
}

#[test]
fn recruiting_is_tried_again_less_and_less_often_until_patience_is_over() {
    let grid = Grid::run(restart(10_000, PATIENCE));
    assert!(grid.readers.iter().all(|reader| reader.abandoned.is_some()));
    assert!(grid.done >= PATIENCE && grid.done < PATIENCE + Duration::from_secs(2), "ended after {:?}", grid.done);
    let tried = grid.facts.iter().filter(|fact| matches!(fact, Fact::RecruitFailed { .. })).count();
    assert!((2 * 25..2 * 40).contains(&tried), "both are tried again about once a second, not {tried} times");
}

#[test]
fn the_next_run_after_a_final_failure_tries_again_as_patiently() {
    let mut grid = Grid::run(restart(10_000, PATIENCE));
    let next = Reader::open(&mut grid.engine, 0, &Stream::default());
    let opened = grid.now;
    grid.readers = vec![next];
    let end = opened + PATIENCE - TICK;
    grid.run_on_until(end);
    assert!(grid.readers[0].abandoned.is_none());
    grid.run_on_until(end + Duration::from_secs(3));
    assert!(grid.readers[0].abandoned.is_some());
}

/// The user's thread may hand over tasks that it took before the run was abandoned, while new interpreters arrive.
#[test]
fn an_abandoned_run_stays_abandoned_and_the_next_one_recruits_anew() {
    use super::integers;
    use crate::event::{Command, Event};
    use crate::ids::InterpreterId;

    let recruits = vec![recruiting(5, true), recruiting(5, true)];
    let mut grid = Grid::run(Plan { recruits, ..Plan::default() });
    let abandoned = grid.readers[0].run;
    grid.engine.feed(grid.now, abandoned, integers::tokens(integers::Form::Packed, &[0])).unwrap();
    assert_eq!(grid.engine.room(abandoned), 0);
    let next = Reader::open(&mut grid.engine, 0, &Stream::default());
    let (id, name, machine) = (InterpreterId(9), "interpreter/9".to_owned(), "machine".to_owned());
    let level = crate::level::Level::Clear;
    grid.engine.on(grid.now + Duration::from_secs(1), Event::Recruited { id, name, machine, pid: 9, level });
    let commands: Vec<Command> = std::iter::from_fn(|| grid.engine.next_command()).collect();
    assert_eq!(commands.iter().filter(|command| matches!(command, Command::Recruit)).count(), 2);
    assert!(!commands.iter().any(|command| matches!(command, Command::Send { .. })), "an abandoned task is fired");
    assert!(grid.engine.room(next.run) > 0);
}
