//! Conversations with a launch. No process is started.

mod agreements;
mod executors;
mod gathering;
mod moving;
mod worlds;

use super::*;
use crate::level::Level;
use crate::wire::ranks::Why;
use Command::{Finish, Say, Signal, Tell};

const MS: Duration = Duration::from_millis(1);

fn launch(machine_of: &[usize], keep_going: bool) -> Launch {
    let count = machine_of.iter().max().map_or(0, |last| last + 1);
    let machines = (0..count).map(|number| format!("lab{number}")).collect();
    let levels = vec![vec![Levels::all(Level::Private); count]; count];
    let (machine_of, host_of) = (machine_of.to_vec(), (0..count).collect());
    Launch::new(Options { machines, machine_of, host_of, levels, keep_going, restarts: 0, ..Options::default() })
}

/// All ranks have joined. The commands so far are dropped.
fn joined(machine_of: &[usize], keep_going: bool) -> Launch {
    let mut it = launch(machine_of, keep_going);
    for rank in 0..machine_of.len() as u32 {
        it.on_message(MS, rank, FromRank::Joined { listens: Some(listens(rank)) });
    }
    it.take();
    it
}

fn listens(rank: u32) -> Listens {
    let address = format!("10.0.0.{rank}:400").parse().expect("is an address");
    Listens { address, certificate: vec![rank as u8] }
}

fn end_all(it: &mut Launch, exit: &Exit) -> Vec<Command> {
    (0..it.ranks.len() as u32).for_each(|rank| it.on_end(5 * MS, rank, exit));
    it.take()
}

fn said(commands: &[Command]) -> Vec<&str> {
    commands.iter().filter_map(|it| if let Say(text) = it { Some(text.as_str()) } else { None }).collect()
}

#[test]
fn all_is_well_when_all_ended_well() {
    assert_eq!(end_all(&mut launch(&[0, 0, 0], false), &Exit::Code(0)), [Finish { code: 0 }]);
    let mut it = joined(&[0, 0], false);
    (0..2).for_each(|rank| it.on_message(MS, rank, FromRank::Finalized));
    assert_eq!(end_all(&mut it, &Exit::Code(0)), [Finish { code: 0 }]);
}

#[test]
fn the_first_failure_ends_the_others_and_gives_the_code() {
    let mut it = launch(&[0, 0, 0], false);
    it.on_end(MS, 1, &Exit::Code(7));
    assert_eq!(it.take(), [Say("rank 1 on lab0 exited with status 7".into()), Signal { number: 15 }]);
    it.on_end(2 * MS, 0, &Exit::Signal(15));
    it.on_time(500 * MS);
    assert_eq!(it.take(), []);
    it.on_time(it.deadline().expect("rank 2 still lives"));
    assert_eq!(it.take(), [Signal { number: 9 }]);
    it.on_end(1500 * MS, 2, &Exit::Signal(9));
    assert_eq!(it.take(), [Finish { code: 7 }]);
}

#[test]
fn who_passes_messages_hears_of_a_loss_before_it_is_ended() {
    let mut it = joined(&[0, 0, 1], false);
    it.on_end(MS, 2, &Exit::Signal(9));
    let text = "rank 2 on lab1 was killed by signal 9 (SIGKILL)";
    let message = ToRank::Lost { rank: 2, text: text.into() };
    assert_eq!(it.take(), [Tell { ranks: vec![0, 1], message }, Say(text.into())]);
    let asked = it.deadline().expect("the others live");
    it.on_time(asked);
    assert_eq!(it.take(), [Signal { number: 15 }]);
    assert!(it.deadline().expect("the others live") < 2000 * MS, "all ends within two seconds");
    it.on_end(asked, 0, &Exit::Code(1));
    it.on_end(asked, 1, &Exit::Signal(15));
    assert_eq!(it.take(), [Finish { code: 137 }]);
}

#[test]
fn a_program_that_keeps_going_does_so_without_the_rank() {
    let mut it = joined(&[0, 0, 0], true);
    it.on_end(MS, 1, &Exit::Signal(11));
    let text = "rank 1 on lab0 was killed by signal 11 (SIGSEGV)";
    let message = ToRank::Lost { rank: 1, text: text.into() };
    assert_eq!(it.take(), [Tell { ranks: vec![0, 2], message }, Say(format!("{text}; the others go on"))]);
    [0, 2].into_iter().for_each(|rank| it.on_message(MS, rank, FromRank::Finalized));
    assert_eq!(end_all(&mut it, &Exit::Code(0)), [Finish { code: 0 }]);
}

#[test]
fn a_program_of_which_nobody_is_left_has_failed() {
    let mut it = joined(&[0, 0], true);
    assert_eq!(end_all(&mut it, &Exit::Signal(9)).last(), Some(&Finish { code: 137 }));
}

#[test]
fn processes_that_pass_no_messages_go_on_but_a_failure_counts() {
    let mut it = launch(&[0, 0], true);
    it.on_end(MS, 0, &Exit::Code(3));
    it.on_end(MS, 1, &Exit::Code(0));
    assert_eq!(it.take().last(), Some(&Finish { code: 3 }));
}

#[test]
fn ending_without_finalize_is_a_failure() {
    let mut it = joined(&[0, 0], false);
    it.on_end(MS, 0, &Exit::Code(0));
    assert_eq!(said(&it.take()), ["rank 0 on lab0 ended without MPI_Finalize"]);
    it.on_end(MS, 1, &Exit::Signal(15));
    assert_eq!(it.take(), [Finish { code: 1 }]);
}

#[test]
fn of_a_bsp_program_bsps_words_are_said() {
    let bsp = |machine_of: &[usize]| Launch::new(Options { is_bsp: true, ..launch(machine_of, false).options });
    let mut it = bsp(&[0, 0]);
    (0..2).for_each(|rank| it.on_message(MS, rank, FromRank::Joined { listens: None }));
    it.on_end(MS, 1, &Exit::Code(0));
    assert_eq!(said(&it.take()), ["pid 1 on lab0 ended without bsp end"]);
    let mut it = bsp(&[0, 0]);
    it.on_message(MS, 0, FromRank::Joined { listens: None });
    it.on_end(MS, 1, &Exit::Code(0));
    assert_eq!(said(&it.take()), ["pid 1 on lab0 ended without bsp begin, and others wait for it"]);
}

#[test]
fn nobody_waits_for_a_rank_that_will_never_join() {
    for keep_going in [false, true] {
        let mut it = launch(&[0, 0], keep_going);
        it.on_end(MS, 1, &Exit::Code(0));
        assert_eq!(it.take(), []);
        it.on_message(MS, 0, FromRank::Joined { listens: None });
        assert_eq!(said(&it.take()), ["rank 1 on lab0 ended without MPI_Init, and others wait for it"]);
    }
}

#[test]
fn an_abort_ends_all_with_its_code_and_words_that_steer_no_terminal() {
    for (code, exit) in [(5, 5), (0, 1), (256, 1), (-1, 255)] {
        let mut it = joined(&[0, 0], true);
        it.on_message(MS, 1, FromRank::Abort { code, text: "\x1b[2Jno\n".into() });
        let commands = it.take();
        assert_eq!(said(&commands), [format!("rank 1 on lab0 aborted with code {code}: \\x1b[2Jno")]);
        assert!(matches!(&commands[0], Tell { ranks, message: ToRank::Abort { rank: 1, .. } } if *ranks == [0]));
        assert_eq!(end_all(&mut it, &Exit::Code(9)), [Finish { code: exit }]);
    }
}

#[test]
fn the_table_goes_out_when_all_have_joined() {
    let mut it = launch(&[0, 1, 1], false);
    it.options.levels[0][1] = Levels::all(Level::Clear);
    for rank in [2, 0] {
        it.on_message(MS, rank, FromRank::Joined { listens: Some(listens(rank)) });
    }
    assert_eq!(it.take(), []);
    it.on_message(MS, 1, FromRank::Joined { listens: Some(listens(1)) });
    let commands = it.take();
    let [Tell { ranks, message: ToRank::Table { entries } }, Tell { ranks: others, .. }] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!((&ranks[..], &others[..]), (&[0][..], &[1, 2][..]));
    assert_eq!(entries.iter().map(|entry| entry.machine).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(entries[2].listens, listens(2));
    assert_eq!(entries[2].levels, Levels::all(Level::Clear));
}

#[test]
fn a_rank_that_does_not_say_where_it_listens_ends_a_program_on_several_machines() {
    let mut it = launch(&[0, 1], false);
    (0..2).for_each(|rank| it.on_message(MS, rank, FromRank::Joined { listens: None }));
    assert_eq!(said(&it.take()).len(), 1);
}

#[test]
fn an_interrupt_asks_and_a_second_one_does_not() {
    let mut it = joined(&[0, 0], false);
    it.on_interrupt(MS, 2);
    assert_eq!(it.take(), [Signal { number: 15 }]);
    it.on_interrupt(2 * MS, 2);
    assert_eq!(it.take(), [Signal { number: 9 }]);
    assert_eq!(end_all(&mut it, &Exit::Signal(9)), [Finish { code: 130 }]);
}

#[test]
fn a_failure_is_not_renamed_by_those_that_follow() {
    let mut it = joined(&[0, 0, 0], false);
    it.on_end(MS, 2, &Exit::Code(4));
    it.on_interrupt(MS, 2);
    it.on_message(MS, 1, FromRank::Abort { code: 9, text: String::new() });
    let commands = it.take();
    assert_eq!(said(&commands).len(), 1);
    assert_eq!(end_all(&mut it, &Exit::Code(1)), [Finish { code: 4 }]);
}

#[test]
fn a_machine_that_is_gone_takes_its_ranks_with_it() {
    let mut it = joined(&[0, 1, 1], false);
    it.on_machine_gone(MS, 1, "it does not answer");
    let text = "rank 1 on lab1 is lost: it does not answer";
    assert_eq!(said(&it.take()), [text]);
    it.on_end(2 * MS, 0, &Exit::Signal(15));
    assert_eq!(it.take(), [Finish { code: 1 }]);
}

#[test]
fn a_certificate_that_is_none_ends_the_program() {
    let mut it = launch(&[0, 1], false);
    let listens = Listens { certificate: vec![0; MOST_CERTIFICATE + 1], ..listens(0) };
    it.on_message(MS, 0, FromRank::Joined { listens: Some(listens) });
    assert_eq!(said(&it.take()).len(), 1);
}

#[test]
fn who_joins_late_hears_of_earlier_losses() {
    let mut it = launch(&[0, 0], true);
    it.on_message(MS, 1, FromRank::Joined { listens: None });
    it.on_end(MS, 1, &Exit::Signal(9));
    it.take();
    it.on_message(2 * MS, 0, FromRank::Joined { listens: None });
    let text = "rank 1 on lab0 was killed by signal 9 (SIGKILL)".to_owned();
    assert_eq!(it.take(), [Tell { ranks: vec![0], message: ToRank::Lost { rank: 1, text } }]);
}

/// A program with so many processes on one machine, which has reported checkpoints and may be restarted.
fn saving(machine_of: &[usize], restarts: u32, superstep: u32) -> Launch {
    let mut it = launch(machine_of, false);
    it.restart = restart::Restart::new(restarts);
    join_all(&mut it, superstep);
    it
}

fn join_all(it: &mut Launch, superstep: u32) {
    for rank in 0..it.ranks.len() as u32 {
        it.on_message(MS, rank, FromRank::Joined { listens: Some(listens(rank)) });
    }
    it.on_message(MS, 0, FromRank::Saved { superstep });
    it.take();
}

fn restarted(it: &mut Launch) {
    let options = it.options.clone();
    it.on_restarted(6 * MS, options);
}

#[test]
fn a_program_with_checkpoints_is_started_again_after_a_loss() {
    let mut it = saving(&[0, 0], 2, 20);
    it.on_end(MS, 1, &Exit::Signal(9));
    let text = "rank 1 on lab0 was killed by signal 9 (SIGKILL)";
    assert_eq!(it.take(), [Say(text.into()), Signal { number: 9 }]);
    it.on_end(2 * MS, 0, &Exit::Signal(9));
    let text = "the program goes on from superstep 20 (try 1 of 2)";
    assert_eq!(it.take(), [Say(text.into()), Command::Restart { without: vec![], leave: None }]);
    restarted(&mut it);
    join_all(&mut it, 0);
    (0..2).for_each(|rank| it.on_message(MS, rank, FromRank::Finalized));
    assert_eq!(end_all(&mut it, &Exit::Code(0)), [Finish { code: 0 }]);
}

#[test]
fn a_program_that_gets_no_further_is_not_started_for_ever() {
    let mut it = saving(&[0, 0], 2, 0);
    for _ in 0..2 {
        assert!(matches!(end_all(&mut it, &Exit::Signal(11)).last(), Some(Command::Restart { .. })));
        restarted(&mut it);
        join_all(&mut it, 0);
    }
    it.on_end(MS, 1, &Exit::Signal(11));
    assert_eq!(
        said(&it.take()),
        [
            "rank 1 on lab0 was killed by signal 11 (SIGSEGV), and is not started again: there is no new checkpoint after 2 tries"
        ]
    );
    assert_eq!(end_all(&mut it, &Exit::Signal(15)), [Finish { code: 139 }]);
}

#[test]
fn a_new_checkpoint_gives_new_tries() {
    let mut it = saving(&[0, 0], 1, 0);
    for superstep in [10, 20, 30] {
        it.on_message(MS, 0, FromRank::Saved { superstep });
        assert!(matches!(end_all(&mut it, &Exit::Signal(9)).last(), Some(Command::Restart { .. })));
        restarted(&mut it);
        join_all(&mut it, superstep);
    }
    assert_eq!(end_all(&mut it, &Exit::Signal(9)).last(), Some(&Finish { code: 137 }));
}

#[test]
fn a_machine_that_is_gone_is_done_without() {
    let mut it = saving(&[0, 1, 1], 1, 10);
    it.on_machine_gone(MS, 1, "it does not answer");
    it.on_end(2 * MS, 0, &Exit::Signal(9));
    assert_eq!(it.take().last(), Some(&Command::Restart { without: vec![1], leave: None }));
}

#[test]
fn a_rank_that_fails_because_a_machine_is_gone_before_that_is_known_is_no_fault_of_the_program() {
    let mut it = saving(&[0, 1], 1, 10);
    it.on_end(MS, 0, &Exit::Code(1));
    it.on_time(it.deadline().expect("rank 1 may live"));
    it.on_machine_gone(900 * MS, 1, "it does not answer");
    assert_eq!(it.take().last(), Some(&Command::Restart { without: vec![1], leave: None }));
}

#[test]
fn what_a_program_does_to_itself_it_would_do_again() {
    for exit in [Exit::Code(1), Exit::Code(0), Exit::Unstarted("no".into())] {
        let mut it = saving(&[0, 0], 3, 10);
        it.on_end(MS, 1, &exit);
        it.on_time(it.deadline().expect("rank 0 lives"));
        it.on_end(MS, 0, &Exit::Signal(15));
        assert!(matches!(it.take().last(), Some(Finish { .. })), "{exit:?}");
    }
    let mut it = saving(&[0, 0], 3, 10);
    it.on_message(MS, 1, FromRank::Abort { code: 5, text: "no".into() });
    assert_eq!(end_all(&mut it, &Exit::Signal(9)).last(), Some(&Finish { code: 5 }));
}

#[test]
fn a_program_without_checkpoints_is_not_started_again() {
    let mut it = joined(&[0, 0], false);
    it.restart = restart::Restart::new(3);
    assert_eq!(end_all(&mut it, &Exit::Signal(9)).last(), Some(&Finish { code: 137 }));
}

#[test]
fn an_interrupt_is_the_end_whatever_is_under_way() {
    let mut it = saving(&[0, 0], 3, 10);
    it.on_end(MS, 1, &Exit::Signal(9));
    it.on_interrupt(2 * MS, 2);
    it.on_end(3 * MS, 0, &Exit::Signal(9));
    assert!(matches!(it.take().last(), Some(Finish { .. })));
    let mut it = saving(&[0, 0], 3, 10);
    end_all(&mut it, &Exit::Signal(9));
    it.on_interrupt(7 * MS, 2);
    assert!(matches!(it.take().last(), Some(Finish { .. })), "nothing is left to be ended");
    let mut it = saving(&[0, 0], 3, 10);
    end_all(&mut it, &Exit::Signal(9));
    it.on_trouble(7 * MS, "too few places are left".into(), 1);
    let commands = it.take();
    assert_eq!(said(&commands), ["too few places are left"]);
    assert!(matches!(commands.last(), Some(Finish { .. })));
}
