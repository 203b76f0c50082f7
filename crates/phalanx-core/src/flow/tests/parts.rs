//! The parts of one token: many parts, more than are allowed, and invalid ones.

use super::Grid;
use super::graphs::{map, stream};
use super::plan::{Plan, Stream, milliseconds};
use super::reader::Reader;
use crate::event::{Command, Event, Outcome};
use crate::flow::forward::MOST_PARTS;
use crate::flow::pace::MOST_TOKENS;
use crate::ids::{FiringId, InterpreterId, RunId};
use crate::wire::{FromInterpreter, ToInterpreter, Tokens};

/// An idle grid with a run of a map, whose first task is being split.
fn splitting() -> (Grid, RunId, InterpreterId, FiringId) {
    let mut grid = Grid::run(Plan { streams: vec![Stream { tasks: 0, ..stream(map()) }], ..Plan::default() });
    let run = Reader::open(&mut grid.engine, 0, &stream(map())).run;
    grid.engine.feed(grid.now, run, separate(1)).unwrap();
    let (id, firing) = next_firing(&mut grid).unwrap();
    (grid, run, id, firing)
}

fn separate(count: u32) -> Tokens {
    Tokens::separate(vec![7; count as usize].into(), vec![1; count as usize], Vec::new())
}

/// The next firing that the engine commands. Other commands are ignored.
fn next_firing(grid: &mut Grid) -> Option<(InterpreterId, FiringId)> {
    while let Some(command) = grid.engine.next_command() {
        if let Command::Send { to, message: ToInterpreter::Fire { firing, .. }, .. } = command {
            return Some((to, firing));
        }
    }
    None
}

fn say(grid: &mut Grid, id: InterpreterId, message: FromInterpreter, tokens: &Tokens) {
    grid.now += milliseconds(1);
    grid.engine.on(grid.now, Event::Message { id, message, body: tokens.to_owned_bytes() });
}

fn send_ahead(grid: &mut Grid, id: InterpreterId, firing: FiringId, parts: &Tokens) {
    say(grid, id, FromInterpreter::Ahead { firing, shape: parts.shape().clone() }, parts);
}

fn answer(grid: &mut Grid, id: InterpreterId, firing: FiringId, ways: Vec<u32>, tokens: &Tokens) {
    let message = FromInterpreter::Fired {
        firing,
        shape: tokens.shape().clone(),
        ways,
        stayed: Vec::new(),
        busy: 1000,
        protection: 0,
    };
    say(grid, id, message, tokens);
}

fn is_dismissed(grid: &mut Grid, id: InterpreterId) -> bool {
    let mut commands = std::iter::from_fn(|| grid.engine.next_command());
    commands.any(|command| matches!(command, Command::Dismiss { id: dismissed } if dismissed == id))
}

#[test]
fn the_window_counts_parts_as_it_counts_tasks() {
    let (mut grid, run, id, firing) = splitting();
    let piece = separate(MOST_TOKENS);
    for _ in 0..8 {
        send_ahead(&mut grid, id, firing, &piece);
    }
    answer(&mut grid, id, firing, vec![8 * MOST_TOKENS + 1], &separate(1));
    grid.engine.read(run, 0);
    assert_eq!(grid.engine.room(run), 0, "131 072 parts are enough");
    let mut parts = 0;
    while let Some((id, firing)) = next_firing(&mut grid) {
        let head = grid.engine.interpreters[&id].in_flight.iter().find(|head| head.id == firing).unwrap();
        let (count, joins) = (head.tasks(), head.work.is_group);
        if joins {
            assert_eq!((count, head.work.tokens.count()), (1, 8 * MOST_TOKENS + 1), "the join has all parts");
        } else {
            parts += count;
        }
        answer(&mut grid, id, firing, Vec::new(), &separate(count));
    }
    assert_eq!(parts, 8 * MOST_TOKENS + 1);
    assert!(grid.engine.room(run) > 0, "and then there is room again");
}

#[test]
fn more_parts_than_are_allowed_end_the_interpreter() {
    let (mut grid, _, id, firing) = splitting();
    let piece = separate(MOST_TOKENS);
    for sent in 0..=MOST_PARTS / MOST_TOKENS {
        assert!(!is_dismissed(&mut grid, id), "after {sent} messages");
        send_ahead(&mut grid, id, firing, &piece);
    }
    send_ahead(&mut grid, id, firing, &separate(1));
    assert!(is_dismissed(&mut grid, id));
}

#[test]
fn nothing_ahead_and_parts_of_what_does_not_split_end_the_interpreter() {
    let (mut grid, _, id, firing) = splitting();
    send_ahead(&mut grid, id, firing, &Tokens::none());
    assert!(is_dismissed(&mut grid, id));

    let (mut grid, _, id, firing) = splitting();
    answer(&mut grid, id, firing, vec![1], &separate(1));
    let (id, firing) = next_firing(&mut grid).unwrap();
    send_ahead(&mut grid, id, firing, &separate(1));
    assert!(is_dismissed(&mut grid, id), "a part's instruction gives one token");
}

#[test]
fn an_exception_takes_back_what_was_sent_ahead() {
    let (mut grid, run, id, firing) = splitting();
    send_ahead(&mut grid, id, firing, &separate(3));
    say(&mut grid, id, FromInterpreter::Failed { firing, busy: 0 }, &Tokens::none());
    let outcomes = std::iter::from_fn(|| grid.engine.next_command());
    let raised = |command: Command| matches!(command, Command::Deliver { run: of, outcome: Outcome::Raised { task: 0, .. } } if of == run);
    assert_eq!(outcomes.filter_map(|command| raised(command).then_some(())).count(), 1);
    assert!(grid.engine.runs[&run].groups.as_ref().unwrap().is_empty());
    assert!(grid.engine.repository.next().is_none());
}

#[test]
fn the_other_parts_of_a_task_that_raised_are_dropped() {
    let (mut grid, run, id, firing) = splitting();
    answer(&mut grid, id, firing, vec![1000], &separate(1000));
    let firings: Vec<_> = std::iter::from_fn(|| next_firing(&mut grid)).collect();
    assert_eq!(firings.len(), 2, "one part for each interpreter, whose grain is unknown");
    say(&mut grid, firings[0].0, FromInterpreter::Failed { firing: firings[0].1, busy: 0 }, &Tokens::none());
    assert!(grid.engine.runs[&run].groups.as_ref().unwrap().is_empty());
    answer(&mut grid, firings[1].0, firings[1].1, Vec::new(), &separate(1));
    assert!(next_firing(&mut grid).is_none() && grid.engine.repository.next().is_none());
    grid.engine.finish(run);
    let ended = |command| matches!(command, Command::Deliver { outcome: Outcome::Ended, .. });
    assert!(std::iter::from_fn(|| grid.engine.next_command()).any(ended), "one outcome settles the task");
}

#[test]
fn parts_go_before_what_was_not_split_yet() {
    let (mut grid, run, id, firing) = splitting();
    answer(&mut grid, id, firing, vec![0], &Tokens::none());
    let (id, firing) = next_firing(&mut grid).unwrap();
    answer(&mut grid, id, firing, Vec::new(), &separate(1));
    grid.engine.feed(grid.now, run, separate(10)).unwrap();
    let (id, firing) = next_firing(&mut grid).unwrap();
    assert_eq!(grid.engine.interpreters[&id].in_flight[0].tasks(), 10, "the grain is known to be fine");
    let everybody_else: Vec<_> = grid.engine.interpreters.keys().copied().filter(|other| *other != id).collect();
    answer(&mut grid, id, firing, vec![4], &separate(4));
    say(&mut grid, id, FromInterpreter::Returned { firing, kept: 1 }, &Tokens::none());
    let in_flight = |id| grid.engine.interpreters[id].in_flight.iter().map(|firing| firing.work.instruction);
    let fired: Vec<u16> = everybody_else.iter().chain([&id]).flat_map(in_flight).collect();
    assert_eq!(fired, [1, 1], "parts, whose grain is unknown, one for each interpreter");
    assert_eq!(grid.engine.repository.works().map(|work| work.instruction).collect::<Vec<_>>(), [1, 0]);
}
