//! Several members together keep what one of them has promised.

use super::wire::{Members, TIMING, named, until};
use super::*;
use crate::space::log::replicated::{Leader, Leading};
use std::time::{Duration, Instant};

fn keep(leading: &Leading, groups: impl IntoIterator<Item = u64>) {
    let positions: Vec<_> = groups.into_iter().map(|n| leading.append(group(n))).collect();
    positions.into_iter().for_each(|position| leading.wait(position).unwrap());
}

fn numbers(state: &[Change]) -> Vec<u64> {
    tuples(state).into_keys().collect()
}

fn others(member: u64) -> Vec<u64> {
    (1..=3).filter(|other| *other != member).collect()
}

#[test]
fn what_was_promised_survives_the_member_that_promised_it() {
    let mut members = Members::new(3);
    let (leader, leading, state) = members.lead(&[1, 2, 3]);
    assert_eq!(state, []);
    keep(&leading, 0..40);
    leading.confirm(leading.position()).unwrap();
    members.kill(leader);
    let (_, second, state) = members.lead(&others(leader));
    assert_eq!(numbers(&state), numbers_after(40));
    keep(&second, 40..60);
    assert!(leading.wait(leading.append(group(40))).is_err(), "the dead promise nothing");
}

#[test]
fn what_was_promised_survives_all_members_at_once() {
    let mut members = Members::new(3);
    let (_, leading, _) = members.lead(&[1, 2, 3]);
    keep(&leading, 0..40);
    drop(leading);
    (1..=3).for_each(|member| members.kill(member));
    (1..=3).for_each(|member| members.start(member));
    let (_, leading, state) = members.lead(&[1, 2, 3]);
    assert_eq!(numbers(&state), numbers_after(40));
    keep(&leading, 40..45);
}

#[test]
fn a_member_that_is_cut_off_promises_nothing_and_says_so_in_time() {
    let members = Members::new(3);
    let (leader, leading, _) = members.lead(&[1, 2, 3]);
    keep(&leading, 0..5);
    let read_from = leading.position();
    members.wire.cut(leader);
    let position = leading.append(group(5));
    let (_, second, state) = members.lead(&others(leader));
    assert_eq!(numbers(&state), numbers_after(5));
    keep(&second, 5..20);
    // The stale engine still has tuple 0, which group 9 took from the space.
    let began = Instant::now();
    assert!(matches!(leading.confirm(read_from), Err(LogError::NotLeading { .. })));
    assert!(matches!(leading.wait(position), Err(LogError::NotLeading { .. })));
    assert!(began.elapsed() < TIMING.beat * 100);
    members.wire.heal();
    let old = &members.alive[&leader];
    until("the old leader hears of the new one", || matches!(old.leader(), Leader::At(_)));
    assert!(leading.wait(leading.append(group(6))).is_err());
    second.confirm(second.position()).unwrap();
}

#[test]
fn an_engine_that_was_replaced_changes_nothing_any_more_even_at_the_same_member() {
    let members = Members::new(1);
    let (_, first, _) = members.lead(&[1]);
    keep(&first, 0..3);
    let (_, second, state) = members.lead(&[1]);
    assert_eq!(numbers(&state), numbers_after(3));
    assert_eq!(first.wait(first.append(group(3))), Err(LogError::NotLeading { leader: None }));
    assert!(first.confirm(first.position()).is_err());
    assert!(first.wait(first.append(group(3))).is_err());
    keep(&second, 3..6);
    let (_, _, state) = members.lead(&[1]);
    assert_eq!(numbers(&state), numbers_after(6));
}

#[test]
fn a_log_that_failed_while_nothing_was_on_its_way_takes_nothing_more() {
    let members = Members::new(1);
    let (_, first, _) = members.lead(&[1]);
    keep(&first, 0..3);
    let (_, _second, _) = members.lead(&[1]);
    assert!(first.confirm(first.position()).is_err(), "another engine leads");
    assert!(first.wait(first.append(group(3))).is_err());
}

#[test]
fn a_group_that_is_too_large_ends_the_log_before_it_harms_others() {
    let members = Members::new(1);
    let (_, leading, _) = members.lead(&[1]);
    keep(&leading, 0..3);
    let large = vec![put(3, &"x".repeat(leading.most_bytes()))];
    assert!(matches!(leading.wait(leading.append(large)), Err(LogError::Misfit(_))));
    assert!(leading.wait(leading.append(group(3))).is_err());
    let (_, _, state) = members.lead(&[1]);
    assert_eq!(numbers(&state), numbers_after(3));
}

#[test]
fn one_of_three_cannot_lead_alone() {
    let mut members = Members::new(3);
    let (leader, leading, _) = members.lead(&[1, 2, 3]);
    keep(&leading, 0..3);
    others(leader).into_iter().for_each(|member| members.kill(member));
    assert!(matches!(leading.wait(leading.append(group(3))), Err(LogError::NotLeading { .. })));
    assert!(members.alive[&leader].lead(ignore).is_err());
    let back = others(leader)[0];
    members.start(back);
    let (_, _, state) = members.lead(&[leader, back]);
    // A change in progress when too few members were reachable may have happened, or not.
    assert!([numbers_after(3), numbers_after(4)].contains(&numbers(&state)));
}

#[test]
fn a_new_member_learns_the_state_although_the_log_is_cut_and_replaces_another() {
    let mut members = Members::new(3);
    let (leader, leading, _) = members.lead(&[1, 2, 3]);
    keep(&leading, 0..200);
    let large = put(1000, &"y".repeat(3 << 20)); // larger than one piece
    leading.wait(leading.append(vec![large.clone()])).unwrap();
    members.alive[&leader].cut_log();
    let gone = others(leader)[0];
    members.kill(gone);
    members.start(4);
    members.alive[&leader].change_members(&named([4]), &[gone.to_string()]).unwrap();
    assert_eq!(members.alive[&leader].members(), named([leader, others(leader)[1], 4]));
    keep(&leading, 200..210);
    // Only the new member and one other are left, so the new one must have the state.
    members.kill(leader);
    let (_, _, state) = members.lead(&[others(leader)[1], 4]);
    assert_eq!(numbers(&state), [numbers_after(210), vec![1000]].concat());
    assert!(state.contains(&large));
}

#[test]
fn who_does_not_lead_names_who_does() {
    let members = Members::new(3);
    let (leader, _leading, _) = members.lead(&[1, 2, 3]);
    let other = &members.alive[&others(leader)[0]];
    until("it hears of the leader", || other.leader() == Leader::At(leader.to_string()));
    assert_eq!(other.lead(ignore).err(), Some(LogError::NotLeading { leader: Some(leader.to_string()) }));
    assert_eq!(other.wait_for_leader(&Leader::At(leader.to_string()), Duration::ZERO), Leader::At(leader.to_string()));
}

#[test]
fn hostile_messages_are_refused() {
    let members = Members::new(1);
    let (_, leading, _) = members.lead(&[1]);
    let mut seed = 1u64;
    for length in 0..300 {
        let next = |_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u8 % if length % 2 == 0 { 255 } else { 5 }
        };
        // The addressed member and the kind of message. Valid votes and entries are not tried, because any member may send
        // them.
        let begins = [1 + (length % 5 == 0) as u8, 2 + (length % 3) as u8];
        let bytes: Vec<u8> = begins.into_iter().chain((0..length).map(next)).collect();
        assert!(!members.alive[&1].answer(&bytes).is_empty());
    }
    keep(&leading, 0..3);
}

#[test]
fn founding_again_changes_nothing() {
    let members = Members::new(3);
    let (leader, leading, _) = members.lead(&[1, 2, 3]);
    keep(&leading, 0..3);
    members.alive[&others(leader)[0]].found(&named([7])).unwrap();
    keep(&leading, 3..5);
    assert_eq!(members.alive[&leader].members(), named(1..=3));
}

#[test]
fn members_are_changed_only_so_that_the_space_goes_on() {
    let mut members = Members::new(3);
    let (leader, leading, _) = members.lead(&[1, 2, 3]);
    keep(&leading, 0..3);
    let (at, [one, other]) = (members.alive[&leader].clone(), [others(leader)[0], others(leader)[1]]);
    let refused = |add: &[u64], remove: &[u64]| {
        let remove: Vec<String> = remove.iter().map(u64::to_string).collect();
        match at.change_members(&named(add.iter().copied()), &remove) {
            Err(LogError::Misfit(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    assert!(refused(&[4], &[leader]).contains("leads cannot be removed"));
    assert!(refused(&[4], &[9]).contains("9 is no member"));
    assert!(refused(&[], &[one]).contains("3 to 9 members"));
    assert!(refused(&[one], &[]).contains("is a member already"));
    // Two members are gone, and one of them is to stay. Then no member that knows of the new one could elect it.
    members.start(4);
    members.kill(other);
    members.kill(one);
    members.start(one);
    members.wire.cut(other);
    at.change_members(&named([4]), &[other.to_string()]).unwrap();
    keep(&leading, 3..6);
    members.kill(one);
    members.start(5);
    assert!(refused(&[5], &[]).contains(&format!("that stay must be there, but not {one}")));
    assert_eq!(at.members(), named([leader, one, 4]), "who was to come is no member");
    members.start(one);
    keep(&leading, 6..9);
}

#[test]
fn what_is_for_a_member_that_had_this_address_before_is_refused() {
    let members = Members::new(1);
    let (_, leading, _) = members.lead(&[1]);
    let answer = members.alive[&1].answer(&[7, 0, 0, 0]);
    assert!(!answer.is_empty());
    keep(&leading, 0..3);
}
