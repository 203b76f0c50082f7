//! Computations of every kind, with several losses at once: every result exactly once, or an error that names losses.

use super::Grid;
use super::graphs;
use super::integers::Form;
use super::plan::{Fault, KINDS, Plan, Recruiting, Stream, microseconds, milliseconds};
use crate::flow::{Goal, Options, RunOptions};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::time::Duration;

/// From zero to a second; each order of magnitude is equally likely.
fn time() -> impl Strategy<Value = Duration> {
    (select(vec![1, 10, 100, 1000, 10_000, 100_000]), 0..10u64).prop_map(|(unit, n)| microseconds(unit * n))
}

fn stream() -> impl Strategy<Value = Stream> {
    let tasks = || vec(0..120u64, 0..4);
    let options = (any::<bool>(), time(), 0..6u32, any::<bool>()).prop_map(|(ordered, ahead, spare, stragglers)| {
        let size = stragglers.then_some(70); // as wrong as what a user's own type may say
        RunOptions { ordered, ahead, spare, stragglers, contract: true, size }
    });
    let form = select(vec![Form::Packed, Form::Separate]);
    let pieces = || prop_oneof![Just(usize::MAX), 1..9usize];
    let closing = prop_oneof![4 => Just(None), 1 => (0..100u64).prop_map(Some)];
    let costs = (vec(time(), 1..6), prop_oneof![Just(Duration::ZERO), time()]);
    (1..5u16, 0..120u64, form, options, costs, tasks(), (pieces(), pieces(), 0..4u64), closing).prop_map(
        |(instructions, tasks, form, options, (grains, staging), raising, (piece, patience, heavy), close_after)| {
            let killing = Vec::new();
            Stream {
                graph: None,
                instructions,
                tasks,
                form,
                options,
                grains,
                staging,
                raising,
                killing,
                heavy,
                piece,
                patience,
                close_after,
                ..Stream::default()
            }
        },
    )
}

/// A stream through a chain or a graph.
fn any_stream() -> impl Strategy<Value = Stream> {
    let graph = prop_oneof![1 => Just(None), 1 => select(graphs::graphs()).prop_map(Some)];
    (stream(), graph).prop_map(|(stream, graph)| match graph {
        Some(graph) => Stream {
            instructions: graph.len() as u16,
            graph: Some(graph),
            form: Form::Separate,
            tasks: stream.tasks / 12,
            grains: stream.grains.into_iter().map(|grain| grain.min(milliseconds(10))).collect(),
            ..stream
        },
        None => stream,
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    (1..7u32, 0..60usize, select(KINDS.to_vec())).prop_map(|(interpreter, step, kind)| Fault {
        interpreter,
        step,
        kind,
    })
}

fn plan() -> impl Strategy<Value = Plan> {
    let recruiting = (time(), prop::bool::weighted(0.2)).prop_map(|(takes, fails)| Recruiting { takes, fails });
    let sleep =
        prop_oneof![3 => Just(None), 1 => (time(), time()).prop_map(|(from, long)| Some((from, from + long * 10)))];
    let ways = (vec(recruiting, 0..10), vec(time(), 1..4), time(), sleep);
    let goals = vec![None, Some(Goal::Throughput(50.0)), Some(Goal::Deadline(0.5)), Some(Goal::Deadline(5.0))];
    let machines = select(vec![vec![1], vec![1, 10], vec![10, 1, 1]]);
    let asked = (1..5u32, select(goals), machines);
    (asked, vec(any_stream(), 1..4), vec(fault(), 0..6), ways).prop_map(
        |((interpreters, goal, slowness), streams, faults, ways)| {
            let (recruits, delays, reading, sleep) = ways;
            let delays = delays.into_iter().map(|delay: Duration| delay.min(milliseconds(200))).collect();
            Plan { interpreters, goal, slowness, streams, faults, recruits, delays, reading, sleep, ..Plan::default() }
        },
    )
}

/// Panics unless the streams have their expected outcomes. If recruiting fails, an error is allowed too.
fn expect_right(grid: &Grid) {
    let hopeless = grid.plan.recruits.iter().any(|recruiting| recruiting.fails);
    for reader in &grid.readers {
        reader.expect_nothing_wrong();
        match &reader.abandoned {
            Some(losses) => assert!(hopeless && !losses.is_empty(), "abandoned without need"),
            None if reader.closed => {}
            None => reader.expect_everything(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn results_come_exactly_once_whatever_is_lost(plan in plan()) {
        expect_right(&Grid::run(plan));
    }

    #[test]
    fn late_tasks_are_stopped_and_all_others_come(
        plan in plan(),
        hanging in vec(0..120u64, 0..3),
        retries in 0..3u32,
        priorities in vec(-1..2i32, 1..4),
        stops in any::<bool>(),
    ) {
        // longer than all that a sound task takes
        let timeout = Some(Duration::from_secs(60));
        let settings = |number: usize| {
            Options { timeout, retries, priority: priorities[number % priorities.len()], needs: 0 }
        };
        let streams = plan.streams.into_iter().enumerate().map(|(number, stream)| Stream {
            settings: (0..usize::from(stream.instructions)).map(|it| settings(it + number)).collect(),
            hanging: hanging.clone(),
            raising: if retries == 0 { stream.raising.clone() } else { Vec::new() },
            stops,
            ..stream
        });
        expect_right(&Grid::run(Plan { streams: streams.collect(), ..plan }));
    }

    #[test]
    fn instructions_are_fired_only_where_they_have_what_they_need(
        plan in plan(),
        needs in vec(0..3u16, 1..5),
        labels in vec(select(vec!["", "red", "blue", "blue red"]), 1..4),
        retries in 0..2u32,
        priorities in vec(-1..2i32, 1..3),
    ) {
        let settings = |number: usize| Options {
            timeout: None,
            retries,
            priority: priorities[number % priorities.len()],
            needs: needs[number % needs.len()],
        };
        let streams = plan.streams.into_iter().enumerate().map(|(number, stream)| Stream {
            settings: (0..usize::from(stream.instructions)).map(|it| settings(it + number)).collect(),
            raising: if retries == 0 { stream.raising.clone() } else { Vec::new() },
            ..stream
        });
        expect_right(&Grid::run(Plan { streams: streams.collect(), labels, ..plan }));
    }

    #[test]
    fn culprits_are_found_among_innocents(plan in plan(), killing in vec(0..120u64, 1..4), answers_lost in any::<bool>()) {
        let streams = plan.streams.into_iter().map(|stream| Stream { killing: killing.clone(), ..stream });
        let plan = Plan { streams: streams.collect(), crashes_lose_answers: answers_lost, ..plan };
        expect_right(&Grid::run(plan));
    }
}

/// An answer that arrives at the moment when the program wakes up must not overtake the one before it.
#[test]
fn who_wakes_up_hears_answers_in_their_order() {
    let one = |tasks, grains| Stream {
        instructions: 1,
        tasks,
        grains,
        options: RunOptions {
            ordered: false,
            ahead: Duration::ZERO,
            spare: 0,
            stragglers: false,
            contract: true,
            size: None,
        },
        ..Stream::default()
    };
    let recruiting = |takes| Recruiting { takes: milliseconds(takes), fails: false };
    let plan = Plan {
        interpreters: 4,
        goal: Some(Goal::Deadline(0.5)),
        streams: vec![one(9, vec![Duration::ZERO, milliseconds(200)]), one(84, vec![milliseconds(10)])],
        recruits: [0, 40, 0].map(recruiting).to_vec(),
        delays: [0, 100, 30].map(milliseconds).to_vec(),
        reading: microseconds(1),
        sleep: Some((milliseconds(400), milliseconds(410))),
        ..Plan::default()
    };
    expect_right(&Grid::run(plan));
}
