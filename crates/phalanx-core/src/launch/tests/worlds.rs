//! Conversations about worlds that are spawned, and about ports.

use super::*;
use crate::wire::universe::{Answer, MOST_PORT_NAME, Question, Refusal, Side, Wanted};
use Command::{End, Forget, Meet, Start};

fn side(processes: &[u32]) -> Side {
    Side { context: 7, processes: processes.to_vec() }
}

fn wanted(processes: u32) -> Wanted {
    Wanted { processes, command: vec![b"child".to_vec()], folder: b"/".to_vec(), host: None }
}

fn ask(it: &mut Launch, rank: u32, number: u32, question: Question) -> Vec<Command> {
    it.on_message(MS, rank, FromRank::Ask { number, question });
    it.take()
}

fn spawn(it: &mut Launch, asker: u32, processes: u32) -> Vec<Command> {
    ask(it, asker, 3, Question::Spawn { parents: side(&[0, 1]), programs: vec![wanted(processes)] })
}

fn join(it: &mut Launch, rank: u32) -> Vec<Command> {
    it.on_message(MS, rank, FromRank::Joined { listens: None });
    it.take()
}

fn answer(rank: u32, number: u32, answer: Answer) -> Command {
    Tell { ranks: vec![rank], message: ToRank::Answer { number, answer } }
}

fn refusal(commands: &[Command]) -> Refusal {
    match commands {
        [Tell { message: ToRank::Answer { answer: Answer::Refused { why, .. }, .. }, .. }] => *why,
        other => panic!("{other:?}"),
    }
}

/// Two ranks, and a spawned world of two more.
fn with_children() -> Launch {
    let mut it = joined(&[0, 0], false);
    spawn(&mut it, 0, 2);
    join(&mut it, 2);
    join(&mut it, 3);
    it
}

#[test]
fn the_parents_hear_of_a_world_when_all_of_it_have_joined() {
    let mut it = joined(&[0, 0], false);
    assert_eq!(spawn(&mut it, 1, 2), [Start { machine: 1, ranks: 2..4, programs: vec![wanted(2)] }]);
    let born = |rank| Tell { ranks: vec![rank], message: ToRank::Born { parents: side(&[0, 1]) } };
    assert_eq!(join(&mut it, 3), [born(3)]);
    let children = Side { context: 0, processes: vec![2, 3] };
    assert_eq!(join(&mut it, 2), [born(2), answer(1, 3, Answer::Side(children))]);
}

#[test]
fn a_program_on_one_machine_has_no_other_to_spawn_on() {
    for (host, may) in [("lab9", false), ("", false), ("localhost", true), ("lab0", true)] {
        let mut it = joined(&[0, 0], false);
        let programs = vec![wanted(1), Wanted { host: Some(host.into()), ..wanted(1) }];
        let commands = ask(&mut it, 0, 3, Question::Spawn { parents: side(&[0, 1]), programs });
        assert_eq!(matches!(commands[..], [Start { .. }]), may, "{host}: {commands:?}");
        let said = format!("no executor is called {host}: all of the program is on lab0");
        let refused = Answer::Refused { why: Refusal::Spawn, text: said };
        assert_eq!(commands == [answer(0, 3, refused)], !may, "{host}");
    }
}

#[test]
fn a_world_of_which_one_cannot_be_started_is_ended_and_nothing_else_is() {
    for (exit, words) in [
        (Exit::Unstarted("no such file".into()), "process 1 of 3 cannot be started: no such file"),
        (Exit::Code(0), "process 1 of 3 ended without MPI_Init"),
        (Exit::Signal(9), "process 1 of 3 was killed by signal 9 (SIGKILL)"),
    ] {
        let mut it = joined(&[0, 0], false);
        spawn(&mut it, 0, 3);
        join(&mut it, 2);
        it.on_end(MS, 3, &exit);
        let failed = Answer::NotSpawned { text: words.into(), failed: vec![1] };
        assert_eq!(it.take(), [answer(0, 3, failed), End { machine: 1 }]);
        [2, 4].into_iter().for_each(|rank| it.on_end(2 * MS, rank, &Exit::Signal(9)));
        assert_eq!(it.take(), [Forget { machine: 1 }]);
        (0..2).for_each(|rank| it.on_message(MS, rank, FromRank::Finalized));
        (0..2).for_each(|rank| it.on_end(3 * MS, rank, &Exit::Code(0)));
        assert_eq!(it.take(), [Finish { code: 0 }]);
    }
}

#[test]
fn the_program_ends_when_all_worlds_have() {
    let mut it = with_children();
    (0..4).for_each(|rank| it.on_message(MS, rank, FromRank::Finalized));
    (0..2).for_each(|rank| it.on_end(MS, rank, &Exit::Code(0)));
    it.on_end(MS, 3, &Exit::Code(0));
    assert_eq!(it.take(), []);
    it.on_end(MS, 2, &Exit::Code(0));
    assert_eq!(it.take(), [Forget { machine: 1 }, Finish { code: 0 }]);
}

#[test]
fn a_child_that_fails_ends_the_program() {
    let mut it = with_children();
    it.on_end(MS, 3, &Exit::Code(5));
    let commands = it.take();
    assert_eq!(said(&commands), ["rank 1 of spawned world 1 on lab0 exited with status 5"]);
    let told = |command: &Command| matches!(command, Tell { message: ToRank::Lost { rank: 3, .. }, .. });
    assert_eq!(commands.iter().filter(|command| told(command)).count(), 2, "one for each machine");
    [0, 1, 2].into_iter().for_each(|rank| it.on_end(MS, rank, &Exit::Signal(15)));
    assert_eq!(it.take().last(), Some(&Finish { code: 5 }));
}

#[test]
fn who_quickly_leaves_has_been_there() {
    let mut it = joined(&[0, 0], false);
    spawn(&mut it, 0, 2);
    join(&mut it, 2);
    it.on_message(MS, 2, FromRank::Finalized);
    it.on_end(MS, 2, &Exit::Code(0)); // its last message overtook the first one of the other
    assert_eq!(it.take(), []);
    assert!(matches!(&join(&mut it, 3)[..], [Tell { .. }, Tell { ranks, .. }] if *ranks == [0]));
    it.on_message(MS, 0, FromRank::Meet { process: 2 });
    assert_eq!(it.take(), [Tell { ranks: vec![0], message: ToRank::Left { process: 2 } }]);
}

#[test]
fn what_cannot_be_spawned_is_refused() {
    let mut it = joined(&[0, 0], false);
    let none = Wanted { command: Vec::new(), ..wanted(1) };
    for programs in [vec![], vec![wanted(0)], vec![none], vec![wanted(MOST_SPAWNED + 1)], vec![wanted(u32::MAX); 2]] {
        let question = Question::Spawn { parents: side(&[0]), programs };
        assert_eq!(refusal(&ask(&mut it, 0, 1, question)), Refusal::Spawn);
    }
    let stranger = Question::Spawn { parents: side(&[9]), programs: vec![wanted(1)] };
    assert_eq!(refusal(&ask(&mut it, 0, 1, stranger)), Refusal::Spawn);
    it.options.fixed = Some("not here".into());
    assert_eq!(refusal(&spawn(&mut it, 0, 1)), Refusal::Spawn);
}

#[test]
fn so_many_live_at_a_time_and_no_more() {
    let mut it = joined(&[0, 0], false);
    spawn(&mut it, 0, MOST_SPAWNED);
    assert_eq!(refusal(&spawn(&mut it, 1, 1)), Refusal::Spawn);
    it.on_end(MS, 2, &Exit::Code(1));
    it.take();
    assert!(matches!(spawn(&mut it, 1, 1)[..], [Start { machine: 2, .. }]));
}

#[test]
fn a_world_whose_parent_has_ended_is_not_waited_for() {
    let mut it = joined(&[0, 0], true);
    spawn(&mut it, 1, 1);
    it.on_end(MS, 1, &Exit::Signal(9));
    assert!(it.take().contains(&End { machine: 1 }));
}

#[test]
fn two_processes_are_connected_once_whoever_asks() {
    let mut it = with_children();
    for (rank, process) in [(0, 3), (3, 0), (0, 3)] {
        it.on_message(MS, rank, FromRank::Meet { process });
    }
    assert_eq!(it.take(), [Meet { one: 0, other: 3 }]);
    it.on_message(MS, 0, FromRank::Meet { process: 1 }); // they share memory
    assert_eq!(it.take(), []);
    it.on_message(MS, 0, FromRank::Meet { process: 4 });
    assert_eq!(said(&it.take()).len(), 1);
}

#[test]
fn who_has_not_joined_asks_for_nothing() {
    let mut it = launch(&[0, 0], false);
    it.on_message(MS, 0, FromRank::Meet { process: 1 });
    assert_eq!(said(&it.take()).len(), 1);
}

#[test]
fn an_abort_ends_all_worlds() {
    let mut it = with_children();
    it.on_message(MS, 2, FromRank::Abort { code: 4, text: String::new() });
    assert_eq!(said(&it.take()), ["rank 0 of spawned world 1 on lab0 aborted with code 4"]);
    it.on_time(it.deadline().expect("all live"));
    assert_eq!(it.take(), [Signal { number: 15 }]);
    assert_eq!(refusal(&spawn(&mut it, 0, 1)), Refusal::Spawn);
    assert_eq!(end_all(&mut it, &Exit::Signal(15)).last(), Some(&Finish { code: 4 }));
}

#[test]
fn who_accepts_and_who_connects_meet_in_either_order() {
    let port = || "here".to_owned();
    for accepts_first in [true, false] {
        let mut it = joined(&[0, 0, 0], false);
        assert_eq!(ask(&mut it, 0, 1, Question::OpenPort { port: port() }), [answer(0, 1, Answer::Done)]);
        let accept = Question::Accept { port: port(), side: side(&[0]) };
        let connect = Question::Connect { port: port(), side: side(&[1, 2]) };
        let (first, second) = if accepts_first { ((0, accept), (1, connect)) } else { ((1, connect), (0, accept)) };
        assert_eq!(ask(&mut it, first.0, 5, first.1), []);
        let both = ask(&mut it, second.0, 5, second.1);
        let to = |rank, processes: &[u32]| answer(rank, 5, Answer::Side(side(processes)));
        assert!(both.len() == 2 && both.contains(&to(0, &[1, 2])) && both.contains(&to(1, &[0])), "{both:?}");
    }
}

#[test]
fn nobody_waits_at_a_port_that_is_gone() {
    let mut it = joined(&[0, 0, 0], true);
    let connect = || Question::Connect { port: "here".into(), side: side(&[1]) };
    assert_eq!(refusal(&ask(&mut it, 1, 1, connect())), Refusal::Port);
    ask(&mut it, 0, 1, Question::OpenPort { port: "here".into() });
    assert_eq!(ask(&mut it, 1, 2, connect()), []);
    let closed = ask(&mut it, 0, 2, Question::ClosePort { port: "here".into() });
    assert_eq!((refusal(&closed[..1]), &closed[1]), (Refusal::Port, &answer(0, 2, Answer::Done)));
    ask(&mut it, 2, 1, Question::OpenPort { port: "here".into() });
    assert_eq!(ask(&mut it, 1, 3, connect()), []);
    it.on_message(MS, 2, FromRank::Finalized);
    assert_eq!(refusal(&it.take()), Refusal::Port);
}

#[test]
fn services_are_found_while_their_owners_live() {
    let mut it = joined(&[0, 0], false);
    let publish = || Question::Publish { service: "sum".into(), port: "here".into() };
    let look_up = || Question::Lookup { service: "sum".into() };
    assert_eq!(refusal(&ask(&mut it, 1, 1, look_up())), Refusal::Service);
    assert_eq!(ask(&mut it, 0, 1, publish()), [answer(0, 1, Answer::Done)]);
    assert_eq!(refusal(&ask(&mut it, 1, 1, publish())), Refusal::Name);
    assert_eq!(ask(&mut it, 1, 2, look_up()), [answer(1, 2, Answer::Port("here".into()))]);
    it.on_message(MS, 0, FromRank::Finalized);
    assert_eq!(refusal(&ask(&mut it, 1, 3, look_up())), Refusal::Service);
    let long = Question::Publish { service: "x".repeat(MOST_PORT_NAME + 1), port: String::new() };
    assert_eq!(refusal(&ask(&mut it, 1, 4, long)), Refusal::Name);
}

#[test]
fn a_process_does_not_meet_itself_at_a_port() {
    let mut it = joined(&[0, 0], false);
    ask(&mut it, 0, 1, Question::OpenPort { port: "here".into() });
    ask(&mut it, 0, 2, Question::Accept { port: "here".into(), side: side(&[0, 1]) });
    let both = ask(&mut it, 1, 1, Question::Connect { port: "here".into(), side: side(&[1]) });
    assert_eq!((refusal(&both[..1]), refusal(&both[1..])), (Refusal::Sides, Refusal::Sides));
}
