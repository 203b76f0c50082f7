//! A task that kills its interpreters is found after exactly three deaths, and no other task is accused.

use super::Grid;
use super::integers::Form;
use super::plan::{Fault, KINDS, Kind, Plan, Stream, microseconds, milliseconds};
use crate::flow::{KILLS, LOSSES};

fn kills(grid: &Grid) -> usize {
    grid.seats.len() - grid.plan.interpreters as usize
}

fn expect_culprits(grid: &Grid, tasks: &[u64]) {
    grid.readers.iter().for_each(|reader| reader.expect_everything());
    let mut culprits = grid.readers[0].culprits();
    culprits.sort_unstable();
    assert_eq!(culprits, tasks);
}

#[test]
fn a_coarse_culprit_ends_three_interpreters() {
    let stream = Stream { grains: vec![milliseconds(40)], killing: vec![11], ..Stream::default() };
    let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
    expect_culprits(&grid, &[11]);
    assert_eq!(kills(&grid), KILLS);
}

#[test]
fn a_culprit_in_the_middle_of_a_batch_ends_three_and_the_others_of_its_batch_are_delivered() {
    for (form, grain, tasks) in [(Form::Packed, 1, 20_000), (Form::Separate, 20, 4000), (Form::Packed, 20, 400)] {
        let (grains, culprit) = (vec![microseconds(grain)], tasks * 5 / 8);
        let stream = Stream { form, grains, tasks, killing: vec![culprit], ..Stream::default() };
        let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
        expect_culprits(&grid, &[culprit]);
        assert_eq!(kills(&grid), KILLS);
    }
}

#[test]
fn culprits_that_are_neighbours_are_all_found() {
    let (grains, killing) = (vec![microseconds(20)], vec![250, 251, 253]);
    let stream = Stream { instructions: 2, grains, tasks: 400, killing, ..Stream::default() };
    let grid = Grid::run(Plan { streams: vec![stream], ..Plan::default() });
    expect_culprits(&grid, &[250, 251, 253]);
    // The first kill puts the first one's whole batch under suspicion, so the kills of the others count from one.
    assert!((3 * KILLS - 2..=3 * KILLS).contains(&kills(&grid)), "{} were lost", kills(&grid));
}

#[test]
fn a_culprit_alone_with_the_last_interpreter_is_found() {
    let stream = Stream { tasks: 1, killing: vec![0], ..Stream::default() };
    let grid = Grid::run(Plan { interpreters: 1, streams: vec![stream], ..Plan::default() });
    expect_culprits(&grid, &[0]);
    assert_eq!(kills(&grid), KILLS);
}

#[test]
fn who_names_the_losses_names_them_in_order() {
    let stream = Stream { tasks: 1, killing: vec![0], ..Stream::default() };
    let grid = Grid::run(Plan { interpreters: 1, streams: vec![stream], ..Plan::default() });
    let killed = (1..=KILLS).map(|id| format!("interpreter/{id} died: killed by signal 9")).collect();
    assert_eq!(grid.readers[0].got, [(0, super::reader::Got::Culprit(killed))]);
}

/// Answers of earlier tasks are in flight when the culprit kills the interpreter, again and again, and are lost.
#[test]
fn nobody_is_accused_because_answers_were_lost() {
    for killing in [vec![24], vec![24, 25], vec![40, 44, 47]] {
        let grains = vec![microseconds(100), microseconds(600)];
        let stream = Stream { grains, tasks: 80, killing: killing.clone(), ..Stream::default() };
        let delays = vec![milliseconds(3)];
        let grid = Grid::run(Plan { streams: vec![stream], delays, crashes_lose_answers: true, ..Plan::default() });
        expect_culprits(&grid, &killing);
    }
}

/// A faulty task need not crash: it may freeze its process, or have a result that cannot be sent. But silence may be
/// the network's fault, so it takes longer to accuse a task.
#[test]
fn losses_of_every_kind_count() {
    for kind in KINDS {
        // An interpreter's first messages are the program and the firing; then it answers.
        let most = if matches!(kind, Kind::Freezes | Kind::ComesLate) { LOSSES } else { KILLS };
        let faults = (1..=most as u32).map(|interpreter| Fault { interpreter, step: 2, kind });
        let stream = Stream { tasks: 1, grains: vec![milliseconds(500)], ..Stream::default() };
        let grid =
            Grid::run(Plan { interpreters: 1, streams: vec![stream], faults: faults.collect(), ..Plan::default() });
        assert_eq!((kills(&grid), grid.readers[0].culprits()), (most, vec![0]), "{kind:?}");
    }
}

/// An executor that restarts again and again loses the same long task each time.
#[test]
fn interpreters_that_are_gone_with_their_executor_accuse_no_task_before_the_sixth() {
    use crate::event::{Cause, Command, Event, Outcome};
    use crate::flow::{Config, Engine};
    use crate::ids::InterpreterId;
    use std::time::Duration;

    let (interpreters, patience) = (1, Duration::from_secs(30));
    let mut engine = Engine::new(Config { interpreters, goal: None, silence: patience, patience });
    let reader = super::reader::Reader::open(&mut engine, 0, &Stream::default());
    engine.feed(Duration::ZERO, reader.run, super::integers::tokens(Form::Packed, &[0])).unwrap();
    let mut lost = 0;
    while lost < 10 {
        let (id, name, machine) = (InterpreterId(lost), "lab".to_owned(), "lab".to_owned());
        let level = crate::level::Level::Clear;
        engine.on(Duration::ZERO, Event::Recruited { id, name, machine, pid: 1, level });
        engine.on(Duration::ZERO, Event::Lost { id, cause: Cause::Gone { how: "restarted".to_owned() } });
        lost += 1;
        let mut commands = std::iter::from_fn(|| engine.next_command());
        let accused = |command| matches!(command, Command::Deliver { outcome: Outcome::Culprit { .. }, .. });
        if commands.any(accused) {
            break;
        }
    }
    assert_eq!(lost, crate::flow::LOSSES as u32);
}
