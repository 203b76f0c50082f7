//! A program is staged once at each interpreter, before its first firing there. The simulated interpreters check this.

use super::Grid;
use super::plan::{Fault, Kind, Plan, Stream, milliseconds};
use super::reader::Reader;
use crate::event::Command;
use crate::ids::InterpreterId;
use crate::wire::ToInterpreter;

#[test]
fn at_those_that_fire_it_and_at_their_replacements() {
    let stream = |tasks| Stream { instructions: 2, tasks, grains: vec![milliseconds(5)], ..Stream::default() };
    let faults = vec![Fault { interpreter: 1, step: 20, kind: Kind::Dies }];
    let grid = Grid::run(Plan { streams: vec![stream(60), stream(30), stream(0)], faults, ..Plan::default() });
    grid.readers.iter().for_each(Reader::expect_everything);
    let staged = |id: u32| grid.engine.interpreters[&InterpreterId(id)].staged.len();
    assert_eq!((staged(2), staged(3)), (2, 2), "what is never fired is not staged");
}

#[test]
fn and_is_forgotten_only_where_it_was_staged() {
    let mut grid =
        Grid::run(Plan { interpreters: 3, streams: vec![Stream { tasks: 1, ..Stream::default() }], ..Plan::default() });
    let (run, program) = (grid.readers[0].run, *grid.engine.programs.keys().next().expect("one program"));
    grid.engine.close(run);
    grid.engine.forget(program);
    let commands: Vec<Command> = std::iter::from_fn(|| grid.engine.next_command()).collect();
    let [Command::Send { to, message, body }] = commands.as_slice() else { panic!("not one message: {commands:?}") };
    assert_eq!((*to, message, body.len()), (InterpreterId(1), &ToInterpreter::Forget { program }, 0));
}
