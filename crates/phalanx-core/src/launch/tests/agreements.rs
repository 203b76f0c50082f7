//! Conversations about agreements after losses, and revoked communicators.

use super::*;
use crate::wire::universe::{Answer, Ballot, Members, Question, Refusal};

fn ballot(rank: u32, flag: i32) -> Ballot {
    let (members, acknowledged, unreachable) = (Members::of(&[0, 1, 2, 3]), Vec::new(), Vec::new());
    Ballot {
        context: 8,
        turn: 1,
        members,
        shrinks: false,
        flag,
        acknowledged,
        unreachable,
        offer: u64::from(rank) + 100,
        secured: false,
    }
}

fn vote(it: &mut Launch, rank: u32, ballot: Ballot) {
    it.on_message(MS, rank, FromRank::Ask { number: 5, question: Question::Agree(ballot) });
}

fn answers(commands: &[Command]) -> Vec<(u32, &Answer)> {
    let answer = |it| match it {
        &Tell { ref ranks, message: ToRank::Answer { number: 5, ref answer } } => Some((ranks[0], answer)),
        _ => None,
    };
    commands.iter().filter_map(answer).collect()
}

fn refusal(commands: &[Command]) -> Refusal {
    match answers(commands)[..] {
        [(_, Answer::Refused { why, .. })] => *why,
        ref other => panic!("{other:?}"),
    }
}

fn all_vote(it: &mut Launch, ranks: &[u32]) -> Vec<Command> {
    ranks.iter().for_each(|rank| vote(it, *rank, ballot(*rank, 7)));
    it.take()
}

/// All orders of four ranks.
fn orders() -> Vec<[u32; 4]> {
    let all = (0..256u32).map(|number| [number & 3, number >> 2 & 3, number >> 4 & 3, number >> 6]);
    all.filter(|order| (0..4).all(|rank| order.contains(&rank))).collect()
}

#[test]
fn nobody_hears_anything_before_all_have_spoken_and_then_all_hear_the_same() {
    for order in orders() {
        let mut it = joined(&[0, 0, 1, 1], true);
        for (place, rank) in order.into_iter().enumerate() {
            assert!(it.take().is_empty(), "{order:?} {place}");
            vote(&mut it, rank, ballot(rank, 0b1111 & !(1 << (rank / 2))));
        }
        let agreed = Answer::Agreed { flag: 0b1100, lost: vec![], unacknowledged: false, offer: 100, secured: false };
        let expected: Vec<_> = (0..4).map(|rank| (rank, &agreed)).collect();
        assert_eq!(answers(&it.take()), expected);
    }
}

/// Any process dies, at any step.
#[test]
fn a_death_at_any_step_is_known_to_all_or_to_nobody() {
    for (order, victim, step) in
        orders().into_iter().flat_map(|it| (0..4).flat_map(move |who| (0..=4).map(move |step| (it, who, step))))
    {
        let mut it = joined(&[0, 0, 1, 1], true);
        let mut commands = Vec::new();
        for place in 0..=4 {
            if place == step {
                it.on_end(MS, victim, &Exit::Signal(9));
            }
            if let Some(rank) = order.get(place).filter(|rank| **rank != victim || place < step) {
                vote(&mut it, *rank, ballot(*rank, 1 << rank | 16));
            }
            commands.extend(it.take());
        }
        let told = answers(&commands);
        // Only a process that voted before the last vote, and died after it, took part.
        let lives = step == 4;
        let heard: Vec<u32> = told.iter().map(|(rank, _)| *rank).collect();
        assert_eq!(
            heard,
            (0..4).filter(|rank| lives || *rank != victim).collect::<Vec<_>>(),
            "{order:?} {victim} {step}"
        );
        let (lost, offer) = if lives { (vec![], 100) } else { (vec![victim], if victim == 0 { 101 } else { 100 }) };
        let agreed = Answer::Agreed { flag: 16, unacknowledged: !lost.is_empty(), lost, offer, secured: false };
        assert!(told.iter().all(|(_, answer)| **answer == agreed), "{told:?}");
        let place = |is: &dyn Fn(&Command) -> bool| commands.iter().position(is);
        let loss = place(&|it| matches!(it, Tell { message: ToRank::Lost { .. }, .. }));
        let first = place(&|it| matches!(it, Tell { message: ToRank::Answer { .. }, .. }));
        assert!(lives || loss < first, "who hears of a decision knows of the losses");
    }
}

#[test]
fn a_machine_that_goes_takes_its_ranks_out() {
    let mut it = joined(&[0, 0, 1, 1], true);
    assert!(all_vote(&mut it, &[0, 1, 3]).is_empty());
    it.on_machine_gone(MS, 1, "it is silent");
    let agreed = Answer::Agreed { flag: 7, lost: vec![2, 3], unacknowledged: true, offer: 100, secured: false };
    assert_eq!(answers(&it.take()), [(0, &agreed), (1, &agreed)]);
}

#[test]
fn a_loss_that_all_have_acknowledged_is_no_error_and_who_left_is_not_awaited() {
    for (knowing, unacknowledged) in [(&[0, 1, 3][..], false), (&[0, 1], true)] {
        let mut it = joined(&[0, 0, 1, 1], true);
        it.on_end(MS, 2, &Exit::Signal(9));
        it.take();
        for rank in [0, 1, 3] {
            let acknowledged = if knowing.contains(&rank) { vec![2] } else { vec![] };
            vote(&mut it, rank, Ballot { acknowledged, ..ballot(rank, -1) });
        }
        let agreed = Answer::Agreed { flag: -1, lost: vec![2], unacknowledged, offer: 100, secured: false };
        assert_eq!(answers(&it.take()), [(0, &agreed), (1, &agreed), (3, &agreed)]);
    }
    let mut it = joined(&[0, 0, 1, 1], true);
    all_vote(&mut it, &[0, 1, 2]);
    it.on_message(MS, 3, FromRank::Finalized);
    assert_eq!(answers(&it.take()).len(), 3);
}

#[test]
fn of_two_who_cannot_reach_each_other_one_is_excluded_everywhere() {
    // Rank 0 is cut off from both others, on the neighbouring machine, although it votes last.
    let mut it = joined(&[0, 1, 1, 1], true);
    for (rank, unreachable) in [(3, vec![0]), (1, vec![0]), (2, vec![]), (0, vec![1])] {
        vote(&mut it, rank, Ballot { unreachable, ..ballot(rank, 1) });
    }
    let agreed = Answer::Agreed { flag: 1, lost: vec![0], unacknowledged: true, offer: 101, secured: false };
    let commands = it.take();
    assert_eq!(answers(&commands)[1..], [(1, &agreed), (2, &agreed), (3, &agreed)]);
    assert!(matches!(answers(&commands)[0], (0, Answer::Refused { why: Refusal::Excluded, .. })));
    for (rank, waits) in [(0, false), (1, true), (2, true), (3, false)] {
        vote(&mut it, rank, Ballot { turn: 2, ..ballot(rank, 1) });
        assert_eq!(it.take().is_empty(), waits, "{rank}");
    }
}

#[test]
fn who_makes_different_calls_hears_so_and_the_next_ones_are_in_step() {
    let mut it = joined(&[0, 0, 1, 1], true);
    for rank in [0, 2, 1] {
        vote(&mut it, rank, Ballot { shrinks: rank == 2, ..ballot(rank, 1) });
        assert!(it.take().is_empty());
    }
    vote(&mut it, 3, ballot(3, 1));
    let commands = it.take();
    let refused = |(rank, answer): (u32, &Answer)| {
        assert!(matches!(answer, Answer::Refused { why: Refusal::Members, .. }), "{rank}");
        rank
    };
    assert_eq!(answers(&commands).into_iter().map(refused).collect::<Vec<_>>(), [0, 1, 2, 3]);
    for rank in 0..3 {
        vote(&mut it, rank, Ballot { turn: 2, shrinks: true, ..ballot(rank, 1) });
    }
    assert!(it.take().is_empty());
    vote(&mut it, 3, Ballot { turn: 2, shrinks: true, ..ballot(3, 1) });
    assert!(answers(&it.take()).iter().all(|(_, answer)| matches!(answer, Answer::Agreed { .. })));
}

#[test]
fn words_that_do_not_fit_are_refused() {
    let mut it = joined(&[0, 0, 1, 1], true);
    for members in [vec![], vec![0, 1], vec![2, 1, 3], vec![2, 2], vec![3]] {
        let members = Members::of(&members);
        vote(&mut it, 2, Ballot { members, ..ballot(2, 1) });
        assert_eq!(refusal(&it.take()), Refusal::Members);
    }
    assert!(all_vote(&mut it, &[1]).is_empty());
    vote(&mut it, 1, ballot(1, 1));
    assert_eq!(refusal(&it.take()), Refusal::Members, "it has spoken");
    for more in [4, 70_000] {
        vote(&mut it, 0, Ballot { turn: 2, members: Members::of(&[0, more]), ..ballot(0, 3) });
        assert_eq!(refusal(&it.take()), Refusal::Members, "{more} does not exist");
    }
}

#[test]
fn all_others_of_a_communicator_hear_that_it_was_revoked() {
    let mut it = launch(&[0, 0, 1, 1], true);
    (0..3).for_each(|rank| it.on_message(MS, rank, FromRank::Joined { listens: None }));
    it.take();
    it.on_message(MS, 1, FromRank::Revoke { context: 12, processes: vec![0, 1, 2, 70_000] });
    let told = |ranks: &[u32], context| Tell { ranks: ranks.to_vec(), message: ToRank::Revoked { context } };
    assert_eq!(it.take(), [told(&[0], 12), told(&[2], 12)]);
    it.on_message(MS, 1, FromRank::Revoke { context: 0, processes: vec![0, 1, 2, 3] });
    assert_eq!(it.take(), [told(&[0], 0), told(&[2], 0)]);
    it.on_message(MS, 3, FromRank::Joined { listens: None });
    assert!(it.take().contains(&told(&[3], 0)), "who comes later hears of it");
}

/// Two agreements are open. The one in which a process is excluded completes the other, and all hear of the exclusion
/// first.
#[test]
fn who_is_excluded_is_lost_to_all_and_nobody_waits_for_it_elsewhere() {
    let mut it = joined(&[0, 1, 1, 1, 1], true);
    let other = Ballot { context: 12, members: Members::of(&[0, 3]), ..ballot(3, 2) };
    vote(&mut it, 3, other.clone());
    for (rank, unreachable) in [(1, vec![0]), (2, vec![0]), (3, vec![]), (0, vec![])] {
        assert!(it.take().is_empty(), "{rank}");
        vote(&mut it, rank, Ballot { unreachable, ..ballot(rank, 1) });
    }
    let commands = it.take();
    let is_loss = |it: &Command| matches!(it, Tell { message: ToRank::Lost { rank: 0, .. }, .. });
    let hear: Vec<u32> = commands.iter().filter(|it| is_loss(it)).flat_map(ranks_of).collect();
    assert_eq!(hear, [1, 2, 3, 4]);
    let answer = |it: &Command| matches!(it, Tell { message: ToRank::Answer { .. }, .. });
    assert!(commands.iter().position(is_loss) < commands.iter().position(answer));
    let without = |flag, offer| Answer::Agreed { flag, lost: vec![0], unacknowledged: true, offer, secured: false };
    let (here, there) = (without(1, 101), without(2, 103));
    let agreed: Vec<_> = answers(&commands).into_iter().filter(|(rank, _)| *rank != 0).collect();
    assert_eq!(agreed, [(3, &there), (1, &here), (2, &here), (3, &here)]);
    // It ends before it has heard so, or begins another one. No process waits for it, and processes that join later
    // hear of it too.
    vote(&mut it, 0, Ballot { turn: 2, ..other });
    assert_eq!(refusal(&it.take()), Refusal::Excluded);
    it.on_end(MS, 0, &Exit::Signal(9));
    assert!(answers(&it.take()).is_empty());
}

fn ranks_of(command: &Command) -> Vec<u32> {
    if let Tell { ranks, .. } = command { ranks.clone() } else { Vec::new() }
}

#[test]
fn one_who_knows_that_a_communicator_is_protected_is_enough() {
    let mut it = joined(&[0, 0, 1, 1], true);
    (0..4).for_each(|rank| vote(&mut it, rank, Ballot { secured: rank == 2, ..ballot(rank, 1) }));
    let agreed = |(_, answer): (u32, &Answer)| matches!(answer, Answer::Agreed { secured: true, offer: 100, .. });
    assert_eq!(answers(&it.take()).into_iter().filter(|it| agreed(*it)).count(), 4);
}

#[test]
fn who_has_other_members_in_mind_keeps_nobody_waiting() {
    let mut it = joined(&[0, 0, 1, 1], true);
    let refused = |(rank, answer): (u32, &Answer)| {
        assert!(matches!(answer, Answer::Refused { why: Refusal::Members, .. }), "{rank}");
        rank
    };
    for (turn, order) in (1..).zip(orders()) {
        let of = |members: &[u32], rank| Ballot { turn, members: Members::of(members), ..ballot(rank, 1) };
        let mut told = Vec::new();
        for rank in order {
            assert!(told.is_empty() || rank == 3, "{order:?}: all who agree are answered at once");
            vote(&mut it, rank, of(if rank == 3 { &[0, 1, 3] } else { &[0, 1, 2] }, rank));
            told.extend(it.take());
        }
        let told = answers(&told).into_iter();
        if order[3] == 3 {
            let (agreed, late): (Vec<_>, Vec<_>) =
                told.partition(|(_, answer)| matches!(answer, Answer::Agreed { .. }));
            assert_eq!(agreed.into_iter().map(|(rank, _)| rank).collect::<Vec<_>>(), [0, 1, 2]);
            assert_eq!(late.into_iter().map(refused).collect::<Vec<_>>(), [3], "they will not come to it");
        } else {
            assert_eq!(told.map(refused).collect::<Vec<_>>(), [0, 1, 2, 3], "{order:?}");
        }
    }
}

#[test]
fn an_agreement_of_others_with_the_same_context_is_another_one() {
    let mut it = joined(&[0, 0, 1, 1], true);
    for ranks in [[0, 1], [2, 3]] {
        for rank in ranks {
            assert!(it.take().is_empty());
            vote(&mut it, rank, Ballot { members: Members::of(&ranks), ..ballot(rank, 1) });
        }
        let agreed = it.take();
        assert!(answers(&agreed).iter().all(|(_, answer)| matches!(answer, Answer::Agreed { .. })), "{agreed:?}");
    }
}

/// It waits in two agreements, and is excluded in one of them.
#[test]
fn who_is_excluded_hears_so_in_all_its_agreements() {
    let mut it = joined(&[0, 1, 1, 1], true);
    vote(&mut it, 0, Ballot { context: 12, ..ballot(0, 1) });
    for (rank, unreachable) in [(1, vec![0]), (2, vec![0, 0, 9]), (3, vec![]), (0, vec![])] {
        vote(&mut it, rank, Ballot { unreachable, ..ballot(rank, 1) });
    }
    let commands = it.take();
    let its: Vec<_> = answers(&commands).into_iter().filter(|(rank, _)| *rank == 0).collect();
    assert_eq!(its.len(), 2);
    assert!(its.iter().all(|(_, it)| matches!(it, Answer::Refused { why: Refusal::Excluded, .. })));
    assert_eq!(said(&commands), ["rank 0 on lab0 is lost: others cannot reach it, and go on without it"]);
    // Its end is not a further loss.
    it.on_end(MS, 0, &Exit::Code(1));
    let commands = it.take();
    assert!(!commands.iter().any(|it| matches!(it, Tell { message: ToRank::Lost { .. }, .. })), "{commands:?}");
}

#[test]
fn more_agreements_than_there_can_be_end_the_program_with_words() {
    let mut it = joined(&[0, 0, 1, 1], true);
    for turn in 0..=1 << 8 {
        assert!(it.take().is_empty(), "{turn}");
        vote(&mut it, 2, Ballot { turn, ..ballot(2, 1) });
    }
    assert_eq!(said(&it.take()), ["rank 2 on lab1 begins an agreement while 256 others of it wait for somebody"]);
    assert!(it.deadline().is_some());
}

/// Votes from before a restart do not count afterwards.
#[test]
fn agreements_do_not_outlive_a_program_that_is_started_again() {
    let mut it = joined(&[0, 0, 1, 1], true);
    assert!(all_vote(&mut it, &[0, 1, 2]).is_empty());
    it.on_restarted(MS, launch(&[0, 0, 1, 1], true).options);
    (0..4).for_each(|rank| it.on_message(MS, rank, FromRank::Joined { listens: None }));
    it.take();
    assert!(all_vote(&mut it, &[3, 2, 1]).is_empty());
    assert_eq!(answers(&all_vote(&mut it, &[0])).len(), 4);
}

#[test]
fn members_are_runs_and_wrong_ones_are_none() {
    for numbers in [&[][..], &[5], &[0, 1, 2, 3], &[1, 3, 4, 9], &[0, 65_535], &[7, 7]] {
        let ascends = numbers.is_sorted_by(|one, next| one < next);
        assert_eq!(Members::of(numbers).list(1 << 16), Some(numbers.to_vec()).filter(|_| ascends), "{numbers:?}");
    }
    assert_eq!(Members::of(&[2, 1]).list(1 << 16), None);
    assert_eq!(Members::of(&[2, 2]).list(1 << 16), None);
    // Hostile input: a few bytes that would expand to very much memory.
    for runs in [vec![(0u32, u32::MAX)], vec![(u32::MAX, 2)], vec![(1, 0)], vec![(0, 40_000), (40_000, 40_000)]] {
        let bytes = postcard::to_allocvec(&runs).expect("numbers");
        let members: Members = postcard::from_bytes(&bytes).expect("it is of that form");
        assert_eq!(members.list(1 << 16), None, "{runs:?}");
    }
}
