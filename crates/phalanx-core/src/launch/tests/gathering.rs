//! Programs that save files of their own, and go on from them after a loss.

use super::*;
use Command::{Fetch, Keep, Release};

/// All ranks of a program that survives losses have joined.
fn surviving(machine_of: &[usize], restarts: u32) -> Launch {
    let options = Options { restarts, survives: Some(0), ..launch(machine_of, false).options };
    let mut it = Launch::new(options);
    join(&mut it);
    it
}

fn join(it: &mut Launch) {
    for rank in 0..it.ranks.len() as u32 {
        it.on_message(MS, rank, FromRank::Joined { listens: Some(listens(rank)) });
    }
    it.take();
}

fn complete(it: &mut Launch, step: u64) -> Vec<Command> {
    (0..it.ranks.len() as u32).for_each(|rank| it.on_completed(MS, rank, step));
    it.take()
}

/// The launcher gets the step.
fn bring(it: &mut Launch, step: u64) {
    assert_eq!(complete(it, step), [Fetch { step }]);
    let machines = it.machines_of(0);
    machines.into_iter().for_each(|machine| it.on_fetched(MS, machine, step, Ok(())));
    assert_eq!(it.take(), [Keep { step }]);
    it.on_kept(MS, step, Ok(()));
    assert_eq!(it.take(), [Release { step }]);
}

#[test]
fn a_checkpoint_counts_when_all_machines_have_sent_the_files_of_all_ranks() {
    let mut it = surviving(&[0, 0, 1], 3);
    it.on_completed(MS, 0, 10);
    it.on_completed(MS, 1, 10);
    assert_eq!(it.take(), []);
    it.on_completed(MS, 2, 10);
    assert_eq!(it.take(), [Fetch { step: 10 }]);
    it.on_fetched(MS, 1, 10, Ok(()));
    assert_eq!(it.take(), []);
    it.on_fetched(MS, 0, 10, Ok(()));
    assert_eq!(it.take(), [Keep { step: 10 }]);
    it.on_kept(MS, 10, Ok(()));
    assert_eq!(it.take(), [Release { step: 10 }]);
}

#[test]
fn ranks_that_save_faster_than_the_launcher_receives_lose_what_is_in_between() {
    let mut it = surviving(&[0, 1], 3);
    assert_eq!(complete(&mut it, 1), [Fetch { step: 1 }]);
    assert_eq!(complete(&mut it, 2), []);
    (3..200).for_each(|step| assert_eq!(complete(&mut it, step), [Release { step }], "room is made meanwhile"));
    it.on_completed(MS, 0, 200);
    (0..2).for_each(|machine| it.on_fetched(MS, machine, 1, Ok(())));
    it.on_kept(MS, 1, Ok(()));
    assert_eq!(it.take(), [Keep { step: 1 }, Release { step: 1 }, Fetch { step: 199 }]);
}

#[test]
fn a_lost_rank_is_restarted_from_what_the_launcher_has() {
    let mut it = surviving(&[0, 1], 3);
    bring(&mut it, 10);
    assert_eq!(complete(&mut it, 20), [Fetch { step: 20 }]);
    it.on_end(MS, 1, &Exit::Signal(9));
    it.on_fetched(MS, 0, 20, Ok(()));
    it.on_end(2 * MS, 0, &Exit::Signal(9));
    let commands = it.take();
    assert!(said(&commands).contains(&"the program goes on from step 10 (try 1 of 3)"), "{commands:?}");
    assert_eq!(commands.last(), Some(&Command::Restart { without: vec![], leave: None }));
    restarted(&mut it);
    join(&mut it);
    it.on_fetched(MS, 1, 20, Ok(()));
    assert_eq!(it.take(), [], "what an earlier start sends late means nothing");
    assert_eq!(complete(&mut it, 10), [], "the program has it already");
    bring(&mut it, 20);
}

#[test]
fn a_program_is_restarted_from_its_beginning_too_and_gives_up_without_progress() {
    let mut it = surviving(&[0, 0], 2);
    for _ in 0..2 {
        assert!(matches!(end_all(&mut it, &Exit::Signal(11)).last(), Some(Command::Restart { .. })));
        restarted(&mut it);
        join(&mut it);
    }
    bring(&mut it, 5);
    assert!(matches!(end_all(&mut it, &Exit::Signal(11)).last(), Some(Command::Restart { .. })), "there was progress");
}

#[test]
fn a_checkpoint_that_fails_is_told_once_and_done_without() {
    let mut it = surviving(&[0, 1], 3);
    bring(&mut it, 10);
    for step in [20, 30] {
        assert_eq!(complete(&mut it, step), [Fetch { step }]);
        it.on_fetched(MS, 1, step, Err("no space is left".into()));
        it.on_fetched(MS, 0, step, Ok(()));
        let told = "the checkpoint of step 20 does not count: no space is left; the newest is that of step 10";
        assert_eq!(said(&it.take()), if step == 20 { vec![told] } else { vec![] });
    }
    bring(&mut it, 40);
}

#[test]
fn a_lost_connection_is_a_loss_whatever_the_rank_does_then() {
    for then in [FromRank::Abort { code: 75, text: String::new() }, FromRank::Finalized] {
        let mut it = surviving(&[0, 1], 3);
        it.on_message(MS, 0, FromRank::Cut { process: 1 });
        it.on_message(MS, 0, then);
        assert!(matches!(end_all(&mut it, &Exit::Code(1)).last(), Some(Command::Restart { .. })));
    }
    let mut it = joined(&[0, 1], false);
    it.on_message(MS, 0, FromRank::Cut { process: 1 });
    assert_eq!(it.take(), [], "other programs decide themselves");
    let mut it = surviving(&[0, 1], 3);
    it.on_message(MS, 0, FromRank::Cut { process: 700 });
    assert_eq!(it.take(), []);
}

#[test]
fn ranks_and_steps_that_make_no_sense_are_ignored() {
    let mut it = surviving(&[0, 1], 3);
    it.on_completed(MS, 70, 1);
    it.on_fetched(MS, 0, 1, Ok(()));
    (0..10_000).for_each(|step| it.on_completed(MS, 0, step));
    assert_eq!(it.take(), []);
    assert_eq!(it.gathering.saved[0].len(), 64);
}
