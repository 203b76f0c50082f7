//! Exactly-once delivery: the flow engine of a manager, its interpreters and the links between them.
//!
//! The engine is the real one. Interpreters compute, die, raise exceptions, return tasks, fall silent and come back, in
//! every order that is possible. In every state, each task has at most one outcome, which is the right one. In every end
//! each task has one: nothing is lost, whatever was.

mod grid;
mod interpreter;
mod model;

use crate::explore_all;
use model::{Farm, Faults};

const LOST: &str = "an interpreter is lost with work in flight";
const DOUBLED: &str = "a straggler is fired a second time";
const DROPPED: &str = "the later answer of a race is dropped";
const LATE: &str = "a message of a lost interpreter arrives";
const RETURNED: &str = "tasks are returned";
const BEHIND: &str = "tasks are returned behind an answer of their firing";
const RAISED: &str = "a task raises an exception";
const LIED: &str = "an interpreter breaks the protocol";
const CULPRIT: &str = "a task is the culprit";

/// One instruction, without faults.
const PLAIN: Farm = Farm { interpreters: 2, instructions: 1, tasks: 4, batch: 2, ordered: true, faults: Faults::NONE };
/// More states than any of these models has.
const MOST: usize = 2_000_000;

#[test]
fn every_result_is_delivered_once_when_interpreters_die() {
    let faults = Faults { deaths: 2, raises: 1, ..Faults::NONE };
    explore_all("deaths", &Farm { faults, ..PLAIN }, MOST, &[LOST, RAISED]);
}

#[test]
fn every_result_is_delivered_once_in_any_order() {
    let faults = Faults { deaths: 2, returns: 1, ..Faults::NONE };
    explore_all("without order", &Farm { faults, ordered: false, ..PLAIN }, MOST, &[LOST, RETURNED]);
}

#[test]
fn every_result_is_delivered_once_when_interpreters_are_slow() {
    let faults = Faults { waits: 2, returns: 1, raises: 1, ..Faults::NONE };
    explore_all("slow", &Farm { faults, ..PLAIN }, MOST, &[DOUBLED, DROPPED, RETURNED, RAISED]);
}

#[test]
fn every_result_is_delivered_once_when_one_of_a_race_dies() {
    let faults = Faults { deaths: 1, waits: 2, ..Faults::NONE };
    explore_all("races", &Farm { faults, ..PLAIN }, MOST, &[LOST, DOUBLED, DROPPED]);
}

#[test]
fn every_result_is_delivered_once_when_interpreters_are_cut_off_and_come_back() {
    let faults = Faults { cuts: 2, ..Faults::NONE };
    explore_all("cut off", &Farm { faults, tasks: 3, ..PLAIN }, MOST, &[LOST, LATE, DOUBLED]);
}

/// The interpreter gets all tasks behind the first one in one firing.
#[test]
fn every_result_is_delivered_once_when_tasks_return_behind_an_answer() {
    let faults = Faults { deaths: 1, returns: 2, raises: 1, ..Faults::NONE };
    let farm = Farm { faults, interpreters: 1, tasks: 5, batch: 4, ..PLAIN };
    explore_all("returned", &farm, MOST, &[LOST, BEHIND, RAISED]);
}

#[test]
fn every_result_of_a_chain_is_delivered_once() {
    let faults = Faults { deaths: 1, waits: 1, ..Faults::NONE };
    explore_all("chain", &Farm { faults, instructions: 2, tasks: 3, ..PLAIN }, MOST, &[LOST, DOUBLED]);
}

#[test]
fn a_task_that_kills_three_interpreters_is_reported_once() {
    let faults = Faults { deaths: 4, ..Faults::NONE };
    explore_all("culprit", &Farm { faults, tasks: 3, ..PLAIN }, MOST, &[LOST, CULPRIT]);
}

#[test]
fn an_interpreter_that_repeats_or_reorders_answers_makes_no_task_count_twice_or_for_another_firing() {
    let faults = Faults { lies: 1, deaths: 1, ..Faults::NONE };
    explore_all("liar", &Farm { faults, ..PLAIN }, MOST, &[LOST, LIED]);
    let faults = Faults { lies: 1, raises: 1, ..Faults::NONE };
    explore_all("liar with exceptions", &Farm { faults, ..PLAIN }, MOST, &[LOST, LIED, RAISED]);
}
