//! Conversations about leaving slow machines.

use super::*;
use Command::{Restart, Return, Seek};

const SLOW: Why = Why::Slow { steps: 10, tenths: 41 };
const BECAUSE: &str = "its last 10 steps took 4.1 times as long as those of other machines";

/// Process 0 asks for it.
fn leave(it: &mut Launch, now: Duration, process: u32, why: Why) -> Vec<Command> {
    it.on_message(now, 0, FromRank::Leave { process, why });
    it.take()
}

/// All processes were ended for the move. Returns the commands that follow.
fn killed(it: &mut Launch) -> Vec<Command> {
    assert!(it.take().contains(&Signal { number: 9 }), "nobody goes on");
    end_all(it, &Exit::Signal(9))
}

/// The program runs again, with its ranks on these machines.
fn placed(it: &mut Launch, machines: &[&str], machine_of: &[usize]) -> Vec<Command> {
    let machines = machines.iter().map(|name| (*name).to_owned()).collect();
    it.on_restarted(9 * MS, Options { machines, machine_of: machine_of.to_vec(), ..it.options.clone() });
    let commands = it.take();
    join_all(it, 0);
    commands
}

/// A wish for which there are places, up to the restart that follows.
fn move_all(it: &mut Launch, process: u32, why: Why) -> Vec<Command> {
    let machine = it.options.machine_of[process as usize];
    let places = it.options.machine_of.iter().filter(|its| **its == machine).count() as u32;
    assert_eq!(leave(it, MS, process, why), [Seek { machine, places }]);
    it.on_places(2 * MS, machine, Ok(()));
    assert_eq!(it.take(), [Tell { ranks: vec![0], message: ToRank::Save }]);
    it.on_message(3 * MS, 0, FromRank::Saved { superstep: 30 });
    killed(it)
}

#[test]
fn a_slow_machine_is_left_at_a_checkpoint_that_is_made_for_that() {
    let mut it = saving(&[0, 1, 1, 2], 3, 20);
    assert_eq!(leave(&mut it, MS, 1, SLOW), [Seek { machine: 1, places: 2 }]);
    assert_eq!(leave(&mut it, MS, 3, SLOW), [], "one after the other");
    it.on_places(2 * MS, 1, Ok(()));
    assert_eq!(it.take(), [Tell { ranks: vec![0], message: ToRank::Save }]);
    it.on_message(3 * MS, 0, FromRank::Saved { superstep: 23 });
    assert_eq!(it.take(), [Say(format!("ranks 1 to 2 will move from lab1: {BECAUSE}")), Signal { number: 9 }]);
    let commands = end_all(&mut it, &Exit::Signal(9));
    let plan = Say("the program goes on from superstep 23".into());
    assert_eq!(commands, [plan, Restart { without: vec![], leave: Some(1) }]);
    let commands = placed(&mut it, &["lab0", "spare", "lab2"], &[0, 1, 1, 2]);
    assert_eq!(commands, [Say("ranks 1 to 2 moved from lab1 to spare".into())]);
    (0..4).for_each(|rank| it.on_message(MS, rank, FromRank::Finalized));
    let summary = format!("moved: ranks 1 to 2 from lab1 to spare at superstep 23: {BECAUSE}");
    assert_eq!(end_all(&mut it, &Exit::Code(0)), [Say(summary), Finish { code: 0 }]);
}

#[test]
fn what_is_slow_again_elsewhere_is_not_moved_again() {
    let mut it = saving(&[0, 1], 3, 20);
    move_all(&mut it, 1, SLOW);
    placed(&mut it, &["lab0", "spare"], &[0, 1]);
    let text =
        "rank 1 cannot move from spare: it was moved before, so what it computes takes longer, and not its machine";
    assert_eq!(leave(&mut it, 99_000 * MS, 1, SLOW), [Say(format!("{text} ({BECAUSE})"))]);
    assert_eq!(leave(&mut it, 199_000 * MS, 1, SLOW), [], "that is said once");
    assert_eq!(leave(&mut it, 199_000 * MS, 1, Why::Asked), [Seek { machine: 1, places: 1 }], "the user knows better");
}

#[test]
fn without_places_the_program_goes_on_and_they_are_looked_for_later() {
    let mut it = saving(&[0, 1], 3, 20);
    leave(&mut it, MS, 1, SLOW);
    it.on_places(2 * MS, 1, Err("none".into()));
    assert_eq!(it.take(), [Say(format!("rank 1 cannot move from lab1: none ({BECAUSE})"))]);
    assert_eq!(leave(&mut it, 20_000 * MS, 1, SLOW), []);
    assert_eq!(leave(&mut it, 40_000 * MS, 1, SLOW), [Seek { machine: 1, places: 1 }]);
    it.on_places(40_000 * MS, 1, Err("none".into()));
    assert_eq!(it.take(), [], "that is known");
    it.on_message(40_000 * MS, 0, FromRank::Saved { superstep: 40 });
    assert_eq!(it.take(), [], "a checkpoint as any other");
}

#[test]
fn who_asks_is_heard_sooner() {
    let mut it = saving(&[0, 1], 3, 20);
    leave(&mut it, MS, 0, Why::Asked);
    it.on_places(2 * MS, 0, Err("none".into()));
    assert_eq!(said(&it.take()), ["rank 0 cannot move from lab0: none (the program asks for it)"]);
    assert_eq!(leave(&mut it, 3 * MS, 0, Why::Asked), []);
    assert_eq!(leave(&mut it, 6000 * MS, 0, Why::Asked), [Seek { machine: 0, places: 1 }]);
}

#[test]
fn where_there_is_no_other_machine_that_is_said() {
    let mut it = saving(&[0, 0], 3, 20);
    it.options.bound = Some("all are here".into());
    let text = "ranks 0 to 1 cannot move from lab0: all are here (the program asks for it)";
    assert_eq!(leave(&mut it, MS, 1, Why::Asked), [Say(text.into())]);
}

#[test]
fn a_move_that_fails_ends_where_the_program_was() {
    let mut it = saving(&[0, 1], 3, 20);
    assert!(matches!(move_all(&mut it, 1, SLOW).last(), Some(Restart { leave: Some(1), .. })));
    it.on_not_restarted(5 * MS, "a place was taken");
    let text = "rank 1 cannot move from lab1: a place was taken; the program goes on where it was";
    assert_eq!(it.take(), [Say(text.into()), Return]);
    assert_eq!(placed(&mut it, &["lab0", "lab1"], &[0, 1]), []);
    assert_eq!(leave(&mut it, 99_000 * MS, 1, SLOW).len(), 1, "it is not tried again");
    it.on_end(MS, 1, &Exit::Signal(9));
    it.on_end(MS, 0, &Exit::Signal(9));
    assert!(matches!(it.take().last(), Some(Restart { leave: None, .. })), "a loss is what it always is");
    it.on_not_restarted(9 * MS, "too few places");
    let commands = it.take();
    assert_eq!(said(&commands)[0], "the program cannot go on: too few places");
    assert!(matches!(commands.last(), Some(Finish { .. })));
}

#[test]
fn a_start_on_the_machine_that_was_to_be_left_is_no_move() {
    let mut it = saving(&[0, 1], 3, 20);
    move_all(&mut it, 1, SLOW);
    let commands = placed(&mut it, &["lab0", "lab1"], &[0, 1]);
    let text = "rank 1 cannot move from lab1: places elsewhere were taken; the program goes on there";
    assert_eq!(commands, [Say(text.into())]);
    assert_eq!(leave(&mut it, 20_000 * MS, 1, SLOW), []);
    assert_eq!(leave(&mut it, 60_000 * MS, 1, SLOW), [Seek { machine: 1, places: 1 }]);
}

#[test]
fn a_way_back_that_fails_is_the_end() {
    let mut it = saving(&[0, 1], 3, 20);
    move_all(&mut it, 1, SLOW);
    it.on_not_restarted(5 * MS, "a place was taken");
    it.take();
    it.on_not_restarted(6 * MS, "the other too");
    let commands = it.take();
    assert_eq!(said(&commands), ["the program cannot go on: the other too"]);
    assert_eq!(commands.last(), Some(&Finish { code: 1 }));
}

#[test]
fn a_loss_comes_first() {
    let mut it = saving(&[0, 1], 3, 20);
    leave(&mut it, MS, 1, SLOW);
    it.on_end(MS, 1, &Exit::Signal(9));
    it.on_places(2 * MS, 1, Ok(()));
    assert_eq!(said(&it.take()).len(), 1, "only the loss");
    it.on_end(3 * MS, 0, &Exit::Signal(9));
    assert!(matches!(it.take().last(), Some(Restart { leave: None, .. })));
    placed(&mut it, &["lab0", "lab1"], &[0, 1]);
    it.on_places(4 * MS, 1, Ok(()));
    assert_eq!(it.take(), [], "that was before");
}

#[test]
fn a_machine_that_is_gone_while_it_is_left_is_done_without_too() {
    let mut it = saving(&[0, 1], 0, 20);
    leave(&mut it, MS, 1, SLOW);
    it.on_places(2 * MS, 1, Ok(()));
    it.on_message(3 * MS, 0, FromRank::Saved { superstep: 30 });
    it.on_machine_gone(4 * MS, 1, "it does not answer");
    it.on_end(4 * MS, 0, &Exit::Signal(9));
    assert_eq!(it.take().last(), Some(&Restart { without: vec![1], leave: Some(1) }));
}

#[test]
fn a_program_that_has_come_to_its_end_is_not_moved() {
    let mut it = saving(&[0, 1], 3, 20);
    leave(&mut it, MS, 1, SLOW);
    it.on_places(2 * MS, 1, Ok(()));
    it.on_message(3 * MS, 0, FromRank::Saved { superstep: 30 });
    (0..2).for_each(|rank| it.on_message(4 * MS, rank, FromRank::Finalized));
    assert_eq!(end_all(&mut it, &Exit::Code(0)).last(), Some(&Finish { code: 0 }));
}

#[test]
fn an_interrupt_ends_a_move() {
    let mut it = saving(&[0, 1], 3, 20);
    move_all(&mut it, 1, SLOW);
    it.on_interrupt(5 * MS, 2);
    assert_eq!(it.take().last(), Some(&Finish { code: 130 }));
}

#[test]
fn a_process_that_there_is_not_is_nonsense() {
    let mut it = saving(&[0, 1], 3, 20);
    let commands = leave(&mut it, MS, 7, SLOW);
    assert!(said(&commands)[0].contains("does not speak the launcher's language"), "{commands:?}");
}
