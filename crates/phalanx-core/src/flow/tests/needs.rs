//! Instructions with needs are fired where an interpreter has what they need. Interpreters that have it are found.

use super::Grid;
use super::grid::needs;
use super::plan::{Plan, Recruiting, Stream, milliseconds};
use crate::event::{Command, Event, Fact, Lack, Outcome};
use crate::flow::{Config, Engine, Graph, Marks, Options, RunOptions};
use crate::ids::{InterpreterId, RunId};
use crate::level::Level;
use crate::needs::{Facts, Needs};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// No interpreter of the engine's own tests is silent for so long.
const LONG: Duration = Duration::from_secs(1_000_000);

fn with(needs: &[u16]) -> Stream {
    let settings = needs.iter().map(|needs| Options { needs: *needs, ..Options::default() }).collect();
    Stream { instructions: needs.len() as u16, settings, grains: vec![milliseconds(5)], ..Stream::default() }
}

fn done(plan: Plan) -> Grid {
    let grid = Grid::run(plan);
    grid.readers.iter().for_each(super::reader::Reader::expect_everything);
    grid
}

fn released(grid: &Grid) -> usize {
    grid.facts.iter().filter(|fact| matches!(fact, Fact::Released { .. })).count()
}

fn fired_at(grid: &Grid, wanted: u16) -> Vec<InterpreterId> {
    let mut fired: Vec<_> = grid
        .facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Fired { interpreter, instruction, .. } if *instruction == wanted => Some(*interpreter),
            _ => None,
        })
        .collect();
    fired.dedup();
    fired
}

#[test]
fn what_is_there_is_used_and_no_interpreter_is_exchanged_for_it() {
    let grid = done(Plan { interpreters: 3, streams: vec![with(&[1])], labels: vec!["red"], ..Plan::default() });
    assert_eq!((released(&grid), grid.seats.len()), (0, 3));
}

#[test]
fn idle_interpreters_are_exchanged_for_those_that_have_it() {
    let grid = done(Plan { interpreters: 3, streams: vec![with(&[0, 1])], ..Plan::default() });
    assert!((1..=3).contains(&released(&grid)), "{} were released", released(&grid));
    assert!(fired_at(&grid, 1).iter().all(|id| id.0 > 3));
}

#[test]
fn one_interpreter_does_it_all_in_turns_where_the_contract_has_no_more() {
    let stream = Stream { tasks: 6, ..with(&[1, 2]) };
    let grid = done(Plan { interpreters: 1, streams: vec![stream], ..Plan::default() });
    assert!(grid.seats.len() >= 3, "one without, one with each label");
}

#[test]
fn work_without_needs_goes_on_while_what_others_need_is_looked_for_in_vain() {
    let mut recruits = vec![Recruiting::default(); 2];
    recruits.extend([Recruiting { fails: true, takes: milliseconds(10) }; 2]);
    let streams = vec![Stream { tasks: 400, ..with(&[0]) }, with(&[1])];
    let grid = done(Plan { streams, recruits, ..Plan::default() });
    let failed = grid.facts.iter().filter(|fact| matches!(fact, Fact::RecruitFailed { .. })).count();
    assert!(failed >= 1);
}

/// An engine with one interpreter that has nothing, and work that needs a label. Returns the run.
fn alone(patience: Duration) -> (Engine, RunId) {
    let mut engine = Engine::new(Config { interpreters: 1, goal: None, silence: LONG, patience });
    let number = engine.need(needs("red")).unwrap();
    let program = engine.stage(Graph::chain(1), bytes::Bytes::new());
    engine.mark(program, Marks::default());
    engine.set_options(program, vec![Options { needs: number, ..Options::default() }]);
    recruited(&mut engine, Duration::ZERO, 1, "");
    let options = RunOptions { ordered: true, ahead: SECOND, spare: 1, stragglers: false, contract: false, size: None };
    let run = engine.open(Duration::ZERO, program, options);
    engine.feed(Duration::ZERO, run, super::integers::tokens(super::integers::Form::Packed, &[0])).unwrap();
    (engine, run)
}

fn recruited(engine: &mut Engine, now: Duration, id: u32, labels: &str) {
    let (id, name, machine) = (InterpreterId(id), "lab".to_owned(), "lab".to_owned());
    engine.on(now, Event::Recruited { id, name, machine, pid: 1, level: Level::Clear });
    let facts = Arc::new(Facts::from([("labels".to_owned(), labels.to_owned())]));
    engine.on(now, Event::Has { id, own: facts.clone(), machine: facts });
}

fn commands(engine: &mut Engine) -> Vec<Command> {
    std::iter::from_fn(|| engine.next_command()).collect()
}

fn sought(commands: &[Command]) -> Option<Arc<Needs>> {
    commands.iter().find_map(|command| match command {
        Command::RecruitFor { needs } => Some(needs.clone()),
        _ => None,
    })
}

fn abandoned(commands: &[Command]) -> Option<(Vec<String>, bool)> {
    commands.iter().find_map(|command| match command {
        Command::Deliver { outcome: Outcome::Abandoned { losses, recruited }, .. } => {
            Some((losses.clone(), *recruited))
        }
        _ => None,
    })
}

fn lacking(lack: Lack) -> Event {
    Event::Lacking { needs: Arc::new(needs("red")), reason: "nowhere".to_owned(), lack }
}

#[test]
fn the_idle_one_makes_room_before_another_one_is_looked_for() {
    let (mut engine, _) = alone(SECOND);
    engine.on(milliseconds(1), Event::Tick);
    let commands = commands(&mut engine);
    let place = |fits: fn(&Command) -> bool| commands.iter().position(fits).unwrap();
    let dismissed = place(|it| matches!(it, Command::Dismiss { id } if id.0 == 1));
    assert!(dismissed < place(|it| matches!(it, Command::RecruitFor { .. })));
    assert_eq!(*sought(&commands).unwrap(), needs("red"));
    assert!(!commands.iter().any(|it| matches!(it, Command::Send { to, .. } if to.0 == 1)));
    recruited(&mut engine, milliseconds(2), 2, "red");
    let fired = |it: &Command| matches!(it, Command::Record(Fact::Fired { interpreter, .. }) if interpreter.0 == 2);
    assert!(self::commands(&mut engine).iter().any(fired));
}

#[test]
fn what_no_machine_has_ends_the_run_with_the_reason() {
    let (mut engine, _) = alone(Duration::from_secs(1000));
    engine.on(milliseconds(1), Event::Tick);
    assert!(abandoned(&commands(&mut engine)).is_none());
    engine.on(milliseconds(2), lacking(Lack::Never));
    let commands = commands(&mut engine);
    assert_eq!(abandoned(&commands), Some((vec!["nowhere".to_owned()], false)));
    assert!(commands.iter().any(|it| matches!(it, Command::Recruit)), "the place is filled again");
    assert!(engine.repository.next().is_none());
}

#[test]
fn machines_out_of_reach_are_waited_for_as_patience_allows_and_busy_ones_for_good() {
    for (lack, waits) in [(Lack::Away, 60), (Lack::Busy, 100_000)] {
        let (mut engine, _) = alone(Duration::from_secs(60));
        let (mut now, mut attempts, mut ended) = (milliseconds(1), 0, None);
        while ended.is_none() && now < Duration::from_secs(2000) {
            engine.on(now, Event::Tick);
            let said = commands(&mut engine);
            if sought(&said).is_some() {
                attempts += 1;
                engine.on(now, lacking(lack));
            }
            ended = abandoned(&commands(&mut engine)).map(|_| now);
            now += milliseconds(150);
            // The place that was released is filled again each time.
            if engine.interpreters.is_empty() {
                recruited(&mut engine, now, attempts + 10, "");
            }
        }
        assert_eq!(ended.map(|at| at.as_secs() / waits), if lack == Lack::Away { Some(1) } else { None });
        assert!((3..100).contains(&attempts), "{attempts} attempts: the pause grows");
    }
}

#[test]
fn needs_are_known_by_their_number_and_nothing_is_needed_by_none() {
    let (mut engine, _) = alone(SECOND);
    assert_eq!(engine.need(Needs::default()), Some(0));
    let [red, blue] = ["red", "blue"].map(|label| engine.need(needs(label)).unwrap());
    assert_ne!(red, blue);
    assert_eq!(engine.need(needs("red")), Some(red));
}
