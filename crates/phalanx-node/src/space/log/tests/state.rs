//! For any changes, the state in the tables is what the changes add up to.

use super::disk::Disk;
use super::*;
use crate::space::log::store::Store;
use phalanx_core::ids::TransactionId;
use phalanx_core::space::change::{Prepared, Taker};
use phalanx_core::space::{Coordinator, MOST_ENDED, Once, Options, Past};

fn state_of(groups: Vec<Vec<Change>>) -> Vec<Change> {
    let disk = Disk::default();
    let log = Durable::start(Store::on(disk.clone()).unwrap(), ignore).unwrap();
    groups.into_iter().for_each(|changes| log.wait(log.append(changes)).unwrap());
    drop(log);
    let mut state = Vec::new();
    let take = |change| {
        state.push(change);
        Ok(())
    };
    drop(Durable::start(Store::on(Disk::of(disk.bytes())).unwrap(), take).unwrap());
    state
}

fn with(number: u64, text: &str, how: impl FnOnce(&mut Record)) -> Change {
    let Change::Put { number, mut record } = put(number, text) else { unreachable!() };
    how(&mut record);
    Change::Put { number, record }
}

#[test]
fn a_new_space_has_its_options_and_nothing_else() {
    let options = Box::new(Options { most_tuples: 7, ..Options::default() });
    let opened = Change::Opened { options };
    assert_eq!(state_of(vec![vec![opened.clone()]]), [opened]);
}

#[test]
fn numbers_are_not_given_twice_although_their_tuples_are_gone() {
    assert_eq!(state_of(vec![vec![put(4, "a")], vec![gone(4)]]), [Change::Numbered { next: 5 }]);
    assert_eq!(state_of(vec![vec![Change::Numbered { next: 9 }]]), [Change::Numbered { next: 9 }]);
}

#[test]
fn what_is_said_of_a_tuple_is_kept_with_it() {
    let taker = Taker { client: 1 << 100, request: 3 };
    let field = |value: i64| Some(Value::Int(value).to_bytes().into());
    let how = |record: &mut Record| {
        (record.key, record.label) = (field(1), field(2));
        (record.priority, record.expires) = (-5, Some(1_800_000_000_000));
    };
    let before = with(0, "a", how);
    let groups =
        vec![vec![before], vec![Change::Taken { number: 0, taker }, Change::Expires { number: 0, expires: None }]];
    let after = with(0, "a", |record| {
        how(record);
        (record.taker, record.expires) = (Some(taker), None);
    });
    assert_eq!(state_of(groups.clone()), [after, Change::Numbered { next: 1 }]);
    let back = [groups, vec![vec![Change::Back { number: 0 }]]].concat();
    assert!(
        matches!(&state_of(back)[0], Change::Put { record, .. } if record.taker.is_none() && record.priority == -5)
    );
}

#[test]
fn a_prepared_transaction_waits_for_its_end() {
    let Change::Put { record, .. } = put(8, "new") else { unreachable!() };
    let transaction = TransactionId(5);
    let prepared = Prepared { until: 99, puts: vec![(8, record)], takes: vec![1] };
    let prepare = vec![vec![put(1, "old")], vec![Change::Prepared { transaction, prepared: prepared.clone() }]];
    let waiting = [put(1, "old"), Change::Prepared { transaction, prepared }, Change::Numbered { next: 9 }];
    assert_eq!(state_of(prepare.clone()), waiting);
    let (places, space) = (vec!["lab1:7400".into()], "jobs".into());
    let coordinator = Coordinator { places, space, identity: 7, durable: true };
    let left_to = Change::LeftTo { transaction, coordinator, since: 5 };
    let [old, prepared, next] = waiting;
    let left = [prepare.clone(), vec![vec![left_to.clone()]]].concat();
    assert_eq!(state_of(left.clone()), [old, prepared, left_to, next]);
    let gone = [left, vec![vec![Change::Ended { transaction, committed: false }]]].concat();
    assert!(!state_of(gone).iter().any(|change| matches!(change, Change::LeftTo { .. })));
    let ended = |committed| [prepare.clone(), vec![vec![Change::Ended { transaction, committed }]]].concat();
    let remembered = |committed| Change::HasEnded { transaction, committed };
    assert_eq!(state_of(ended(false)), [put(1, "old"), remembered(false), Change::Numbered { next: 9 }]);
    assert_eq!(state_of(ended(true)), [put(8, "new"), remembered(true), Change::Numbered { next: 9 }]);
}

#[test]
fn what_was_done_for_a_client_is_kept_until_it_or_the_client_is_forgotten() {
    let client = |client, past| Change::Client { client, past };
    let done = |number, open_from| Change::Done { once: Once { client: 7, number, open_from }, outcome: number * 10 };
    let made = vec![vec![client(7, Past::default()), client(8, Past::default())], vec![put(0, "a"), done(1, 1)]];
    let of = |groups: &[Vec<Change>]| state_of(groups.to_vec()).into_iter().skip(1).collect::<Vec<_>>();
    let past = |open_from, done: &[(u64, u64)]| {
        client(7, Past { open_from, done: done.iter().copied().collect(), user: None })
    };
    let next = Change::Numbered { next: 1 };
    assert_eq!(of(&made), [past(1, &[(1, 10)]), client(8, Past::default()), next.clone()]);
    let later = [made, vec![vec![done(3, 1), done(2, 2)], vec![Change::Forgotten { client: 8 }]]].concat();
    assert_eq!(of(&later), [past(2, &[(2, 20), (3, 30)]), next]);
}

#[test]
fn of_ended_transactions_only_the_last_are_kept() {
    let ended = |number| Change::HasEnded { transaction: TransactionId(number), committed: true };
    let most = MOST_ENDED as u128;
    assert_eq!(state_of(vec![(0..most + 3).map(ended).collect()]), (3..most + 3).map(ended).collect::<Vec<_>>());
}

#[test]
fn sessions_that_wait_at_the_same_time_share_a_commit() {
    let disk = Disk::default();
    let log = Durable::start(Store::on(disk.clone()).unwrap(), ignore).unwrap();
    let syncs = || disk.steps().iter().filter(|step| **step == super::disk::Step::Sync).count();
    let before = syncs();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let log = &log;
            scope.spawn(move || {
                let positions: Vec<_> = (0..100).map(|n| log.append(vec![put(thread * 100 + n, "a")])).collect();
                positions.into_iter().for_each(|position| log.wait(position).unwrap());
            });
        }
    });
    assert!(syncs() - before < 800, "{} syncs for 800 groups", syncs() - before);
}

#[test]
fn the_identity_and_the_last_card_are_kept() {
    let card = |text: &'static str| Change::Card { card: text.as_bytes().into() };
    let known = Change::Identity { identity: 7 };
    let state = state_of(vec![vec![card("one"), known.clone()], vec![put(1, "a")], vec![card("other")]]);
    assert_eq!(state, [known, card("other"), put(1, "a"), Change::Numbered { next: 2 }]);
}
