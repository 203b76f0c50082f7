//! Every result arrives exactly once and in order, with one loss at every point of the conversation with every
//! interpreter.

use super::Grid;
use super::integers::Form;
use super::plan::{Fault, KINDS, Kind, Plan, Stream, microseconds, milliseconds};
use crate::flow::RunOptions;

/// Computes the plan with every kind of failure at each of the first messages of each interpreter.
pub fn every_loss(plan: &Plan) {
    let well = Grid::compute(plan.clone());
    well.readers.iter().for_each(|reader| reader.expect_everything());
    assert_eq!(well.seats.len(), plan.interpreters as usize, "somebody was replaced without need");
    for (id, seat) in &well.seats {
        for (step, kind) in (0..seat.steps).flat_map(|step| KINDS.map(|kind| (step, kind))) {
            let faults = vec![Fault { interpreter: id.0, step, kind }];
            one_loss(Plan { faults, ..plan.clone() });
        }
    }
}

fn one_loss(plan: Plan) {
    let (kind, silence) = (plan.faults[0].kind, plan.silence);
    let grid = Grid::run(plan);
    grid.readers.iter().for_each(|reader| reader.expect_everything());
    let dismissed = usize::from(!matches!(kind, Kind::Dies | Kind::DiesAnswersLost));
    assert_eq!(grid.dismissed.len(), dismissed);
    if matches!(kind, Kind::Freezes | Kind::ComesLate) {
        let (_, silent) = grid.dismissed[0];
        assert!(silent >= silence && silent < silence + super::plan::TICK, "dismissed after {silent:?}");
    }
    assert_eq!(grid.seats.len(), grid.plan.interpreters as usize + 1, "one was lost, one replaces it");
}

fn options(ordered: bool) -> RunOptions {
    RunOptions { ordered, ..Stream::default().options }
}

#[test]
fn what_was_lost_is_fired_again_first_and_in_its_order() {
    let stream = Stream { options: options(false), tasks: 400, ..Stream::default() };
    for step in 0..60 {
        let faults = vec![Fault { interpreter: 1, step, kind: Kind::Dies }];
        let grid = Grid::run(Plan { interpreters: 1, streams: vec![stream.clone()], faults, ..Plan::default() });
        let tasks = grid.readers[0].got.iter().map(|(task, _)| *task);
        assert!(tasks.eq(0..400), "a single interpreter's results come in order without being asked for it");
    }
}

#[test]
fn in_a_farm_of_fine_grains() {
    every_loss(&Plan { interpreters: 3, delays: vec![microseconds(50), microseconds(900)], ..Plan::default() });
}

#[test]
fn in_a_farm_of_coarse_grains() {
    let grains = vec![milliseconds(30), milliseconds(300)];
    let stream = Stream { form: Form::Separate, options: options(false), tasks: 24, grains, ..Stream::default() };
    every_loss(&Plan { streams: vec![stream], ..Plan::default() });
}

#[test]
fn in_an_unfused_pipeline() {
    let grains = vec![microseconds(50), milliseconds(3), microseconds(700)];
    let stream = Stream { instructions: 3, form: Form::Separate, tasks: 40, grains, ..Stream::default() };
    every_loss(&Plan { streams: vec![stream], delays: vec![milliseconds(2)], ..Plan::default() });
}

#[test]
fn where_heavy_tokens_stay() {
    let grains = vec![microseconds(50), milliseconds(3), microseconds(700)];
    let (form, raising) = (Form::Separate, vec![4, 12]);
    let stream = Stream { instructions: 3, form, tasks: 24, grains, heavy: 2, raising, ..Stream::default() };
    every_loss(&Plan { streams: vec![stream], ..Plan::default() });
}

#[test]
fn where_tasks_raise_and_interpreters_answer_in_pieces_and_give_back() {
    let (raising, piece, patience) = (vec![3, 4, 17, 39], 3, 7);
    let stream = Stream { instructions: 2, tasks: 40, raising, piece, patience, ..Stream::default() };
    every_loss(&Plan { streams: vec![stream], ..Plan::default() });
}

#[test]
fn between_two_runs() {
    let grains = vec![milliseconds(5), microseconds(10)];
    let second = Stream { options: options(false), form: Form::Separate, grains, tasks: 32, ..Stream::default() };
    every_loss(&Plan { streams: vec![Stream { tasks: 30, ..Stream::default() }, second], ..Plan::default() });
}
