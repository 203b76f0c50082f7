//! An engine filled from the sum of its changes equals the original engine.

use super::super::Past;
use super::super::change::{Change, Prepared, Record, Taker};
use super::model::{Pair, SESSIONS, Step, step};
use super::*;
use crate::space::kept::{GRACE, HERE};
use proptest::prelude::*;

/// An arbitrary moment: the end of 2026.
const EPOCH: u64 = 1_798_000_000_000;

/// The sum of changes, computed in the plainest way.
#[derive(Default)]
struct State {
    next: u64,
    tuples: BTreeMap<u64, Record>,
    prepared: BTreeMap<u128, Prepared>,
    left_to: BTreeMap<u128, (Coordinator, u64)>,
    identity: u128,
    card: Bytes,
    ended: Vec<(TransactionId, bool)>,
    clients: BTreeMap<u128, Past>,
}

impl State {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Opened { .. } => {}
            Change::Numbered { next } => self.next = self.next.max(next),
            Change::Put { number, record } => {
                self.next = self.next.max(number + 1);
                assert_eq!(self.tuples.insert(number, record), None);
            }
            Change::Gone { number } => assert!(self.tuples.remove(&number).is_some(), "{number} is not there"),
            Change::Taken { number, taker } => {
                let before = self.tuples.get_mut(&number).unwrap().taker.replace(taker);
                assert_eq!(before, None);
            }
            Change::Back { number } => assert!(self.tuples.get_mut(&number).unwrap().taker.take().is_some()),
            Change::Expires { number, expires } => self.tuples.get_mut(&number).unwrap().expires = expires,
            Change::Prepared { transaction, prepared } => {
                assert_eq!(self.prepared.insert(transaction.0, prepared), None);
            }
            Change::Card { card } => self.card = card,
            Change::Identity { identity } => self.identity = identity,
            Change::LeftTo { transaction, coordinator, since } => {
                assert!(self.prepared.contains_key(&transaction.0));
                assert_eq!(self.left_to.insert(transaction.0, (coordinator, since)), None);
            }
            Change::Ended { transaction, committed } => {
                self.left_to.remove(&transaction.0);
                let own = self.prepared.remove(&transaction.0).unwrap();
                self.ended.push((transaction, committed));
                if committed {
                    own.takes.iter().for_each(|number| self.apply(Change::Gone { number: *number }));
                    own.puts.into_iter().for_each(|(number, record)| self.apply(Change::Put { number, record }));
                }
            }
            Change::HasEnded { transaction, committed } => self.ended.push((transaction, committed)),
            Change::Client { client, past } => assert_eq!(self.clients.insert(client, past), None),
            Change::Forgotten { client } => assert!(self.clients.remove(&client).is_some()),
            Change::Done { once, outcome } => self.clients.get_mut(&once.client).unwrap().remember(&once, outcome),
        }
    }

    /// An engine with this state, `later` after the first one.
    fn fill(&self, options: Options, later: Duration) -> Space {
        let mut space = Space::new(options).unwrap();
        space.keep_changes(EPOCH + later.as_millis() as u64, u64::MAX);
        for (number, record) in self.tuples.clone() {
            space.fill(Change::Put { number, record }).unwrap();
        }
        for (transaction, prepared) in self.prepared.clone() {
            space.fill(Change::Prepared { transaction: TransactionId(transaction), prepared }).unwrap();
        }
        space.fill(Change::Card { card: self.card.clone() }).unwrap();
        for (transaction, (coordinator, since)) in self.left_to.clone() {
            space.fill(Change::LeftTo { transaction: TransactionId(transaction), coordinator, since }).unwrap();
        }
        for (client, past) in self.clients.clone() {
            space.fill(Change::Client { client, past }).unwrap();
        }
        for (transaction, committed) in self.ended.clone() {
            space.fill(Change::HasEnded { transaction, committed }).unwrap();
        }
        space.fill(Change::Numbered { next: self.next }).unwrap();
        space.filled(Duration::ZERO);
        space
    }
}

/// The attributes of a tuple, and its deadline.
type Said = (Extra, Option<u64>);

/// The tuples, with deadlines in milliseconds since the Unix epoch.
fn tuples(space: &Space, later: Duration) -> Vec<(u64, Tuple, Option<Said>)> {
    let told = |held: Held| {
        let extra = held.extra.map(|extra| {
            let deadline = extra.deadline.map(|deadline| EPOCH + (later + deadline).as_millis() as u64);
            (Extra { deadline: None, ..*extra }, deadline)
        });
        // An empty set of attributes equals none.
        let extra = extra.filter(|(extra, deadline)| deadline.is_some() || *extra != Extra::default());
        (held.number, held.tuple, extra)
    };
    space.store.all().into_iter().map(told).collect()
}

pub(super) fn kept(options: Options) -> Bench {
    let mut bench = Bench::with(options);
    bench.space.keep_changes(EPOCH, u64::MAX);
    bench
}

/// An engine like the one of `bench`, filled from its changes.
pub(super) fn filled(bench: &mut Bench) -> Bench {
    let mut state = State::default();
    bench.space.take_changes().into_iter().for_each(|change| state.apply(change));
    Bench { space: state.fill(bench.space.options.clone(), bench.now), now: Duration::ZERO }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn an_engine_that_is_filled_is_the_one_that_it_was(
        steps in proptest::collection::vec(step(), 1..300), later in 0u64..4, commits in any::<bool>(),
    ) {
        let mut pair = Pair::new(Options::default());
        pair.bench.space.keep_changes(EPOCH, u64::MAX);
        let mut state = State::default();
        for step in steps {
            pair.step(step);
            pair.bench.space.take_changes().into_iter().for_each(|change| state.apply(change));
        }
        pair.step(Step::Pass { seconds: later });
        pair.bench.space.take_changes().into_iter().for_each(|change| state.apply(change));
        let then = pair.bench.now;
        let mut other = state.fill(pair.bench.space.options.clone(), then);
        // Clients that are gone give their tuples back, in both.
        (0..SESSIONS).for_each(|session| pair.step(Step::EndSession { session }));
        prop_assert_eq!(tuples(&other, then), tuples(&pair.bench.space, Duration::ZERO));
        // Prepared transactions can still be ended.
        let ids: Vec<TransactionId> = pair.bench.space.transactions.keys().copied().collect();
        prop_assert_eq!(ids.len(), other.transactions.len());
        for id in ids {
            let space = &mut pair.bench.space;
            let (one, two) = match commits {
                true => (space.commit(then, id), other.commit(Duration::ZERO, id)),
                false => (space.abort(then, id), other.abort(Duration::ZERO, id)),
            };
            prop_assert_eq!(one, two);
        }
        prop_assert_eq!(tuples(&other, then), tuples(&pair.bench.space, Duration::ZERO));
        prop_assert_eq!(other.held, (0, 0));
        // The new engine in turn reports the changes that have happened since.
        other.take_changes().into_iter().for_each(|change| state.apply(change));
        let again = state.fill(other.options.clone(), then);
        prop_assert_eq!(tuples(&again, then), tuples(&other, then));
    }
}

#[test]
fn a_space_that_is_not_kept_collects_nothing() {
    let mut bench = Bench::new();
    bench.out(&[int(1)]);
    assert_eq!(bench.space.take_changes(), vec![]);
}

#[test]
fn who_took_and_comes_back_says_what_arrived() {
    let mut bench = kept(Options::default());
    bench.space.introduce(SessionId(1), 77);
    for number in 0..4 {
        bench.out(&[int(number)]);
        bench.space.find(bench.now, remote(1, number as u64), &like(&[Some(int(number))]), &taking(), None).unwrap();
    }
    bench.space.acknowledge(SessionId(1), 3);
    let mut after = filled(&mut bench);
    assert_eq!(after.count(&like(&[None])), 0);
    assert_eq!(after.space.info().unacknowledged, 3);
    after.space.client_is_back(after.now, SessionId(1), 78, |_| true);
    after.space.client_is_back(after.now, SessionId(1), 77, |request| request == 0);
    assert_eq!(after.inp(&like(&[Some(int(0))])), None);
    assert_eq!(after.inp(&like(&[None])), Some(vec![int(1)]));
    assert_eq!(after.inp(&like(&[None])), Some(vec![int(2)]));
    assert_eq!(after.space.next_deadline(), None);
}

#[test]
fn what_nobody_comes_back_for_is_there_again_after_a_while() {
    let mut bench = kept(Options::default());
    bench.space.introduce(SessionId(1), 77);
    bench.out(&[int(1)]);
    bench.space.find(bench.now, remote(1, 1), &like(&[None]), &taking(), None).unwrap();
    let mut after = filled(&mut bench);
    after.now = GRACE - Duration::from_secs(1);
    assert_eq!(after.rdp(&like(&[None])), None);
    assert_eq!(after.space.next_deadline(), Some(GRACE));
    after.pass(1);
    assert_eq!(after.rdp(&like(&[None])), Some(vec![int(1)]));
}

#[test]
fn a_client_whose_session_ended_may_come_back_too() {
    let mut bench = kept(Options::default());
    bench.space.introduce(SessionId(1), 77);
    for number in 0..3 {
        bench.out(&[int(number)]);
        bench.space.find(bench.now, remote(1, number as u64), &like(&[None]), &taking(), None).unwrap();
    }
    bench.space.end_session(bench.now, SessionId(1));
    assert_eq!(bench.space.info().unacknowledged, 3);
    // The client reconnects again, before it reported anything of the first time. The session is not yet known to have
    // ended.
    bench.space.introduce(SessionId(2), 77);
    bench.out(&[int(3)]);
    bench.space.find(bench.now, remote(2, 3), &like(&[None]), &taking(), None).unwrap();
    bench.space.client_is_back(bench.now, SessionId(3), 77, |request| request != 1 && request != 3);
    assert_eq!(bench.inp(&like(&[None])), Some(vec![int(1)]));
    assert_eq!(bench.inp(&like(&[None])), Some(vec![int(3)]));
    assert_eq!(bench.inp(&like(&[None])), None);
    assert_eq!(tuples(&filled(&mut bench).space, Duration::ZERO), vec![]);
}

#[test]
fn what_was_taken_in_the_process_that_ended_is_there_again_at_once() {
    let mut bench = kept(Options::default());
    bench.out(&[int(1)]);
    bench.space.find(bench.now, remote(1, 1), &like(&[None]), &taking(), None).unwrap();
    let mut after = filled(&mut bench);
    assert_eq!(after.rdp(&like(&[None])), Some(vec![int(1)]));
    let changes = after.space.take_changes();
    assert_eq!(changes, vec![Change::Back { number: 1 }]);
}

#[test]
fn events_go_on_behind_those_that_were_forgotten() {
    let mut bench = kept(Options::default());
    (0..5).for_each(|number| bench.out(&[int(number)]));
    let last = bench.space.info().events;
    let mut after = filled(&mut bench);
    let watching = after.space.watch(SessionId(1), 1, Arc::new(like(&[None])), Some(last - 2)).unwrap();
    assert!(watching.missed >= 2);
    assert!(watching.last >= last);
}

#[test]
fn what_is_no_state_or_does_not_fit_together_is_refused() {
    let put = |number, key| {
        let record = Record { key, ..Record::of(Tuple::of(&[int(1)])) };
        Change::Put { number, record }
    };
    let taker = Taker { client: HERE, request: 1 };
    for change in [Change::Gone { number: 1 }, Change::Back { number: 1 }, Change::Taken { number: 1, taker }] {
        let mut bench = kept(Options::default());
        assert!(matches!(bench.space.fill(change), Err(SpaceError::NotKept(_))));
    }
    let mut bench = kept(Options::default());
    let key = Some(int(7).to_bytes().into());
    bench.space.fill(put(1, key.clone())).unwrap();
    assert!(matches!(bench.space.fill(put(2, key)), Err(SpaceError::NotKept(_))));
    let prepared = Prepared { takes: vec![9], ..Prepared::default() };
    let fill = bench.space.fill(Change::Prepared { transaction: TransactionId(1), prepared });
    assert!(matches!(fill, Err(SpaceError::NotKept(_))));
}

#[test]
fn no_more_is_put_at_once_than_a_log_takes() {
    let mut bench = Bench::new();
    bench.space.keep_changes(EPOCH, 4000);
    let (now, long) = (bench.now, str(&"x".repeat(900)));
    let id = TransactionId(1);
    bench.space.begin(now, SessionId(1), id, Duration::from_secs(5), Isolation::ReadCommitted).unwrap();
    let mut out = |number: usize, id| {
        let tuples = vec![Tuple::of(std::slice::from_ref(&long)); number];
        bench.space.out(now, &tuples, &OutOptions::default(), id)
    };
    assert!(matches!(out(3, None), Err(SpaceError::Full { .. })));
    assert!(out(1, None).is_ok() && out(1, None).is_ok());
    assert!(out(1, Some(id)).is_ok() && out(1, Some(id)).is_ok());
    assert!(matches!(out(1, Some(id)), Err(SpaceError::Full { .. })));
}

#[test]
fn a_lease_is_its_users_also_after_a_refill() {
    let mut space = Space::new(Options::default()).unwrap();
    space.keep_changes(EPOCH, u64::MAX);
    let ada: Arc<str> = "ada".into();
    let leased = OutOptions { lease: Some(Duration::from_secs(60)), ..OutOptions::default() };
    let number = space.out_by(Some(&ada), Duration::ZERO, &[Tuple::of(&[int(1)])], &leased, None).unwrap();
    let mut state = State::default();
    space.take_changes().into_iter().for_each(|change| state.apply(change));
    let mut filled = state.fill(Options::default(), Duration::from_secs(1));
    let by = |name: &'static str| move |user: Option<&str>, _: &Tuple| user == Some(name);
    let lease = Some(Duration::from_secs(600));
    assert_eq!(filled.renew_if(Duration::ZERO, number, lease, by("eve")), Err(SpaceError::NoLease));
    filled.renew_if(Duration::ZERO, number, lease, by("ada")).unwrap();
    filled.on_tick(Duration::from_secs(100));
    assert_eq!(filled.count(Duration::from_secs(100), &like(&[None]), &Get::default(), None), Ok(1));
}
