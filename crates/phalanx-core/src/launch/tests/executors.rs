//! Conversations about worlds that are spawned on executors.

use super::*;
use crate::wire::universe::{Answer, Question, Refusal, Side, Wanted};
use Command::{End, Forget, Start};

const LEVEL: Levels = Levels::all(Level::Private);

/// Two ranks on two of three executors.
fn remote() -> Launch {
    let mut it = joined(&[0, 1], false);
    it.options.is_remote = true;
    it
}

fn spawn(it: &mut Launch, processes: u32) -> Vec<Command> {
    let programs = vec![Wanted { processes, command: vec![b"child".to_vec()], folder: vec![], host: None }];
    let parents = Side { context: 7, processes: vec![0, 1] };
    it.on_message(MS, 0, FromRank::Ask { number: 3, question: Question::Spawn { parents, programs } });
    it.take()
}

/// The world that begins with process 2: one process on executor 1, the others on executor 2.
fn place(it: &mut Launch, processes: u32) -> bool {
    let levels = vec![vec![LEVEL; 3]; 3];
    let place = |name: &str, host, processes| Place { name: name.into(), host, processes };
    let places = vec![place("lab1", 1, 1), place("lab2", 2, processes - 1)];
    it.on_placed(MS, 2..2 + processes, places, levels)
}

fn join(it: &mut Launch, rank: u32) -> Vec<Command> {
    it.on_message(MS, rank, FromRank::Joined { listens: Some(listens(rank)) });
    it.take()
}

fn entry(rank: u32, machine: u32) -> Entry {
    Entry { machine, listens: listens(rank), levels: LEVEL }
}

fn tell(rank: u32, message: ToRank) -> Command {
    Tell { ranks: vec![rank], message }
}

#[test]
fn a_world_on_several_executors_hears_of_itself_and_then_of_its_parents() {
    let mut it = remote();
    assert!(matches!(&spawn(&mut it, 2)[..], [Start { machine: 2, ranks, .. }] if *ranks == (2..4)));
    assert!(place(&mut it, 2));
    assert_eq!(join(&mut it, 3), []);
    let table = || ToRank::Table { entries: vec![entry(2, 1), entry(3, 2)] };
    let born = || ToRank::Born { parents: Side { context: 7, processes: vec![0, 1] } };
    let answer = Answer::Side(Side { context: 0, processes: vec![2, 3] });
    let commands = join(&mut it, 2);
    assert_eq!(commands[..2], [tell(2, table()), tell(3, table())]);
    assert_eq!(commands[2..4], [tell(2, born()), tell(3, born())]);
    assert_eq!(commands[4..], [tell(0, ToRank::Answer { number: 3, answer })]);
}

/// The same world, after all have joined.
fn with_children() -> Launch {
    let mut it = remote();
    spawn(&mut it, 2);
    place(&mut it, 2);
    join(&mut it, 2);
    join(&mut it, 3);
    it
}

#[test]
fn processes_of_two_worlds_are_told_of_each_other_when_both_listen() {
    let mut it = with_children();
    it.on_message(MS, 1, FromRank::Meet { process: 3 });
    let listen = |process| ToRank::Listen { process };
    assert_eq!(it.take(), [tell(1, listen(3)), tell(3, listen(1))]);
    it.on_message(MS, 3, FromRank::Meet { process: 1 });
    assert_eq!(it.take(), [], "the first is heard");
    it.on_message(MS, 3, FromRank::Listens { process: 1, listens: listens(3) });
    assert_eq!(it.take(), []);
    it.on_message(MS, 1, FromRank::Listens { process: 3, listens: listens(1) });
    let connect = |process| ToRank::Connect { process, entries: vec![entry(1, 1), entry(3, 2)] };
    assert_eq!(it.take(), [tell(1, connect(3)), tell(3, connect(1))]);
    it.on_message(MS, 1, FromRank::Listens { process: 3, listens: listens(1) });
    assert_eq!(it.take(), [], "that was heard");
}

#[test]
fn who_has_ended_is_not_met() {
    let mut it = with_children();
    it.options.keep_going = true;
    it.on_message(MS, 1, FromRank::Meet { process: 3 });
    it.on_end(MS, 3, &Exit::Signal(9));
    it.take();
    it.on_message(MS, 1, FromRank::Listens { process: 3, listens: listens(1) });
    assert_eq!(it.take(), [], "it has heard of the loss");
}

#[test]
fn who_is_about_to_meet_a_process_that_leaves_hears_of_it() {
    for connects in [false, true] {
        let mut it = with_children();
        it.on_message(MS, 1, FromRank::Meet { process: 3 });
        it.on_message(MS, 3, FromRank::Listens { process: 1, listens: listens(3) });
        if connects {
            it.on_message(MS, 1, FromRank::Listens { process: 3, listens: listens(1) });
        }
        it.take();
        it.on_message(MS, 3, FromRank::Finalized);
        assert_eq!(it.take(), [tell(1, ToRank::Left { process: 3 })]);
    }
}

#[test]
fn nonsense_about_meetings_ends_the_program() {
    for (process, certificate) in [(9, 1), (1, 1), (3, MOST_CERTIFICATE + 1)] {
        let mut it = with_children();
        let listens = Listens { certificate: vec![0; certificate], ..listens(1) };
        it.on_message(MS, 1, FromRank::Listens { process, listens });
        assert_eq!(said(&it.take()).len(), 1, "{process}");
    }
}

#[test]
fn a_world_for_which_there_are_no_places_is_refused_with_words() {
    let mut it = remote();
    spawn(&mut it, 2);
    it.on_end(MS, 2, &Exit::Unstarted("0 places are free".into()));
    let text = "process 0 of 2 cannot be started: 0 places are free".to_owned();
    let answer = Answer::NotSpawned { text, failed: vec![0] };
    assert_eq!(it.take(), [tell(0, ToRank::Answer { number: 3, answer }), End { machine: 2 }]);
    it.on_end(MS, 3, &Exit::Unstarted("0 places are free".into()));
    assert_eq!(it.take(), [Forget { machine: 2 }]);
}

#[test]
fn all_machines_of_a_world_are_ended_and_forgotten_together() {
    let mut it = remote();
    spawn(&mut it, 3);
    place(&mut it, 3);
    join(&mut it, 3);
    it.on_end(MS, 2, &Exit::Code(4));
    assert_eq!(it.take()[1..], [End { machine: 3 }, End { machine: 4 }]);
    assert_eq!(join(&mut it, 4), [End { machine: 4 }], "it was started too late to be killed");
    it.on_end(MS, 3, &Exit::Signal(9));
    it.on_end(MS, 4, &Exit::Signal(9));
    assert_eq!(it.take(), [Forget { machine: 3 }, Forget { machine: 4 }]);
}

#[test]
fn a_world_that_nobody_waits_for_any_more_needs_no_places() {
    let mut it = remote();
    it.options.keep_going = true;
    spawn(&mut it, 2);
    it.on_end(MS, 0, &Exit::Signal(9));
    assert!(!place(&mut it, 2));
}

#[test]
fn on_executors_as_elsewhere_there_are_limits() {
    let commands = spawn(&mut remote(), MOST_SPAWNED + 1);
    let [Tell { message: ToRank::Answer { answer: Answer::Refused { why, .. }, .. }, .. }] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!(*why, Refusal::Spawn);
}
