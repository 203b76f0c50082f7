//! Interpreters that are silent for too long are dismissed, unless the manager itself was suspended.

use super::Grid;
use super::plan::{Fault, Kind, Plan, Stream, TICK, milliseconds};
use crate::event::{Command, Event};
use crate::flow::{Config, Engine};
use crate::ids::InterpreterId;
use crate::level::Level;
use std::time::Duration;

const SILENCE: Duration = milliseconds(1600);

/// Four seconds of work, three interpreters.
fn plan() -> Plan {
    let stream = Stream { grains: vec![milliseconds(100)], tasks: 120, ..Stream::default() };
    Plan { interpreters: 3, silence: SILENCE, streams: vec![stream], ..Plan::default() }
}

fn freezes(interpreter: u32, step: usize) -> Fault {
    Fault { interpreter, step, kind: Kind::Freezes }
}

#[test]
fn the_frozen_are_dismissed_within_the_silence_and_a_tick() {
    let faults = vec![freezes(1, 7), freezes(2, 7), freezes(3, 12), freezes(5, 0)];
    let grid = Grid::run(Plan { faults, ..plan() });
    grid.readers[0].expect_everything();
    assert_eq!(grid.dismissed.len(), 4);
    let in_time = |silent| (SILENCE..SILENCE + TICK).contains(&silent);
    assert!(grid.dismissed.iter().all(|(_, silent)| in_time(*silent)), "{:?}", grid.dismissed);
}

#[test]
fn who_slept_itself_dismisses_nobody() {
    for slept in [milliseconds(900), SILENCE, Duration::from_secs(100)] {
        let sleep = Some((milliseconds(1003), milliseconds(1003) + slept));
        let grid = Grid::run(Plan { sleep, ..plan() });
        grid.readers[0].expect_everything();
        assert!(grid.dismissed.is_empty(), "{:?}", grid.dismissed);
    }
}

#[test]
fn who_froze_while_the_manager_slept_is_noticed_afterwards() {
    let wakes = Duration::from_secs(60);
    let grid = Grid::run(Plan { sleep: Some((milliseconds(1003), wakes)), faults: vec![freezes(1, 30)], ..plan() });
    grid.readers[0].expect_everything();
    let lost = grid.now - wakes;
    assert_eq!(grid.dismissed.len(), 1, "after {lost:?}");
}

fn recruited(interpreters: u32, now: Duration) -> Engine {
    let mut engine = Engine::new(Config { interpreters, goal: None, silence: SILENCE, patience: Duration::ZERO });
    for id in (1..=interpreters).map(InterpreterId) {
        let (name, machine) = (format!("interpreter/{}", id.0), "machine".to_owned());
        engine.on(now, Event::Recruited { id, name, machine, pid: 1, level: Level::Private });
    }
    engine
}

fn dismissed(engine: &mut Engine) -> Vec<InterpreterId> {
    let commands = std::iter::from_fn(|| engine.next_command());
    commands.filter_map(|command| if let Command::Dismiss { id } = command { Some(id) } else { None }).collect()
}

#[test]
fn part_of_a_long_message_is_a_sign_of_life() {
    let mut engine = recruited(2, Duration::ZERO);
    for tick in 1..20 {
        engine.on(TICK * tick, Event::Heard { id: InterpreterId(2) });
        engine.on(TICK * tick, Event::Tick);
    }
    assert_eq!(dismissed(&mut engine), [InterpreterId(1)]);
}

#[test]
fn ticks_that_are_all_late_count_a_part_of_their_time() {
    for late in [milliseconds(450), milliseconds(790), milliseconds(1500)] {
        let mut engine = recruited(1, Duration::ZERO);
        for tick in 1..4 {
            engine.on(late * tick, Event::Tick);
        }
        assert_eq!(dismissed(&mut engine), [], "after three ticks {late:?} apart");
        engine.on(late * 4, Event::Tick);
        assert_eq!(dismissed(&mut engine), [InterpreterId(1)]);
    }
}

#[test]
fn a_process_that_is_seen_to_live_may_be_silent_for_long_but_not_for_ever() {
    let mut engine = recruited(2, Duration::ZERO);
    let mut lost = Vec::new();
    for tick in 1..=SILENCE.as_millis() as u32 * 20 / 150 + 1 {
        engine.on(TICK * tick, Event::Alive { id: InterpreterId(2) });
        engine.on(TICK * tick, Event::Tick);
        lost.extend(dismissed(&mut engine).into_iter().map(|id| (id, tick)));
    }
    assert_eq!(lost, [(InterpreterId(1), 11), (InterpreterId(2), 214)]);
}

#[test]
fn a_process_that_is_not_seen_to_live_any_more_is_lost_at_the_next_tick() {
    let mut engine = recruited(1, Duration::ZERO);
    for tick in 1..30 {
        engine.on(TICK * tick, Event::Alive { id: InterpreterId(1) });
        engine.on(TICK * tick, Event::Tick);
    }
    assert_eq!(dismissed(&mut engine), []);
    engine.on(TICK * 30, Event::Tick);
    assert_eq!(dismissed(&mut engine), [InterpreterId(1)]);
}

#[test]
fn a_starved_manager_notices_silence_in_the_end() {
    let mut engine = recruited(1, Duration::ZERO);
    for tick in 1..20 {
        engine.on(SILENCE * tick, Event::Tick);
    }
    assert_eq!(dismissed(&mut engine), [InterpreterId(1)]);
}

#[test]
fn who_was_heard_while_ticks_were_late_has_no_credit_for_it() {
    let mut engine = recruited(1, Duration::ZERO);
    let late = Duration::from_secs(60);
    engine.on(late - TICK, Event::Heard { id: InterpreterId(1) });
    for tick in 0..12 {
        engine.on(late + TICK * tick, Event::Tick);
    }
    assert_eq!(dismissed(&mut engine), [InterpreterId(1)]);
}

#[test]
fn interpreters_are_told_that_the_manager_lives() {
    let grid = Grid::run_until(Plan { streams: Vec::new(), ..plan() }, Duration::from_secs(5));
    for seat in grid.seats.values() {
        // Half of the messages are the interpreter's own beats.
        assert!(seat.steps >= 2 * 10, "{} beats in five seconds", seat.steps / 2);
    }
}
