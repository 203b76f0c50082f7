//! Transactions: atomic, isolated, over several spaces, and ended by a timeout or with their owner.

use super::*;
use crate::space::store::links::STEPS;

const ONE: TransactionId = TransactionId(1);
const MINUTE: Duration = Duration::from_secs(60);

fn begun() -> Bench {
    let mut bench = Bench::new();
    bench.out(&[str("old")]);
    bench.space.begin(bench.now, SessionId(1), ONE, MINUTE, Isolation::ReadCommitted).unwrap();
    bench.space.out(bench.now, &[Tuple::of(&[str("new")])], &OutOptions::default(), Some(ONE)).unwrap();
    let taken = bench.space.find(bench.now, local(), &like(&[Some(str("old"))]), &taking(), Some(ONE)).unwrap();
    assert!(taken.is_some());
    bench
}

fn all(bench: &mut Bench) -> Vec<Value> {
    let get = Get { limit: 10, ..Get::default() };
    let page = bench.space.get(bench.now, local(), &like(&[None]), &get, None).unwrap();
    page.tuples.iter().flat_map(Tuple::values).collect()
}

#[test]
fn nobody_else_sees_what_is_not_committed() {
    let mut bench = begun();
    assert_eq!(all(&mut bench), []);
    let own = bench.space.count(bench.now, &like(&[None]), &Get::default(), Some(ONE));
    assert_eq!(own, Ok(1));
    bench.wait(asker(2, 1), &like(&[Some(str("new"))]), &Get::default(), 9);
    assert_eq!(bench.answers(), []);
    bench.space.commit(bench.now, ONE).unwrap();
    assert_eq!(all(&mut bench), [str("new")]);
    assert_eq!(bench.answers(), [(2, 1, Ok(vec![str("new")]))]);
    assert_eq!(bench.space.commit(bench.now, ONE), Ok(()));
    assert_eq!(bench.space.abort(bench.now, ONE), Err(SpaceError::NoTransaction));
}

#[test]
fn an_abort_leaves_what_was() {
    let mut bench = begun();
    bench.wait(asker(2, 1), &like(&[Some(str("old"))]), &Get::default(), 9);
    bench.space.abort(bench.now, ONE).unwrap();
    assert_eq!(all(&mut bench), [str("old")]);
    assert_eq!(bench.answers(), [(2, 1, Ok(vec![str("old")]))]);
    assert_eq!(bench.space.abort(bench.now, ONE), Ok(()));
    assert_eq!(bench.space.commit(bench.now, ONE), Err(SpaceError::NoTransaction));
}

#[test]
fn time_or_the_owners_end_abort() {
    let mut bench = begun();
    bench.pass(60);
    assert_eq!(all(&mut bench), [str("old")]);
    let late = bench.space.out(bench.now, &[Tuple::of(&[int(1)])], &OutOptions::default(), Some(ONE));
    assert_eq!(late, Err(SpaceError::NoTransaction));
    let mut bench = begun();
    bench.space.end_session(bench.now, SessionId(1));
    assert_eq!(all(&mut bench), [str("old")]);
}

#[test]
fn what_is_prepared_outlives_its_owner() {
    let mut spaces = [begun(), begun()];
    for bench in &mut spaces {
        bench.space.prepare(bench.now, ONE, None).unwrap();
        bench.space.prepare(bench.now, ONE, None).unwrap();
        bench.space.end_session(bench.now, SessionId(1));
        bench.pass(61);
        let more = bench.space.out(bench.now, &[Tuple::of(&[int(1)])], &OutOptions::default(), Some(ONE));
        assert_eq!(more, Err(SpaceError::Prepared));
    }
    for bench in &mut spaces {
        bench.space.commit(bench.now, ONE).unwrap();
        assert_eq!(all(bench), [str("new")]);
    }
}

fn coordinator() -> Coordinator {
    Coordinator { places: vec!["lab1:7400".into()], space: "jobs".into(), identity: 7, durable: true }
}

#[test]
fn who_decides_is_asked_soon_after_the_owners_end_and_then_ever_more_rarely() {
    let mut bench = begun();
    bench.space.prepare(bench.now, ONE, Some(coordinator())).unwrap();
    assert_eq!(bench.space.in_doubt(bench.now), []);
    bench.pass(1);
    assert_eq!(bench.space.in_doubt(bench.now), []);
    bench.space.end_session(bench.now, SessionId(1));
    let asked = |bench: &mut Bench| {
        bench.now = bench.space.next_deadline().unwrap();
        let doubts = bench.space.in_doubt(bench.now);
        assert!(doubts.iter().all(|doubt| doubt.coordinator == coordinator() && doubt.transaction == ONE));
        assert_eq!(doubts.len(), 1);
        doubts[0].age
    };
    let ages: Vec<u128> = (0..4).map(|_| asked(&mut bench).as_millis()).collect();
    assert_eq!(ages, [1000, 1250, 1750, 2750]);
    bench.space.commit(bench.now, ONE).unwrap();
    assert_eq!(all(&mut bench), [str("new")]);
    assert_eq!(bench.space.next_deadline(), None);
}

#[test]
fn who_decides_is_asked_where_a_living_owner_does_not_end_it() {
    let mut bench = begun();
    bench.space.prepare(bench.now, ONE, Some(coordinator())).unwrap();
    bench.pass(2);
    assert_eq!(bench.space.in_doubt(bench.now).len(), 1);
    bench.space.abort(bench.now, ONE).unwrap();
    assert_eq!((all(&mut bench), bench.space.next_deadline()), (vec![str("old")], None));
}

#[test]
fn a_coordinator_says_how_it_ended_or_that_it_cannot_know() {
    let mut bench = begun();
    let decision = |bench: &mut Bench, number, age| {
        bench.space.decision(bench.now, TransactionId(number), Duration::from_secs(age))
    };
    assert_eq!(decision(&mut bench, 1, 9), Decision::Open);
    bench.space.commit(bench.now, ONE).unwrap();
    assert_eq!(decision(&mut bench, 1, 9), Decision::Committed);
    bench.space.begin(bench.now, SessionId(2), TransactionId(2), MINUTE, Isolation::ReadCommitted).unwrap();
    bench.space.end_session(bench.now, SessionId(2));
    assert_eq!(decision(&mut bench, 2, 9), Decision::Aborted);
    assert_eq!(decision(&mut bench, 3, 9), Decision::Aborted);
    bench.pass(100);
    for number in 0..MOST_ENDED as u128 {
        bench
            .space
            .begin(bench.now, SessionId(3), TransactionId(10 + number), MINUTE, Isolation::ReadCommitted)
            .unwrap();
        bench.space.commit(bench.now, TransactionId(10 + number)).unwrap();
    }
    // The transactions of a hundred seconds ago are forgotten. One that ended later would be remembered.
    assert_eq!(decision(&mut bench, 1, 90), Decision::Aborted);
    assert_eq!(decision(&mut bench, 1, 99), Decision::Forgotten);
}

#[test]
fn a_promise_is_kept_for_an_hour_while_who_decides_cannot_be_asked_and_says_how_old_it_is_after_a_restart() {
    let mut bench = Bench::new();
    bench.space.keep_changes(1_000_000_000, u64::MAX);
    bench.space.begin(bench.now, SessionId(1), ONE, MINUTE, Isolation::ReadCommitted).unwrap();
    bench.space.out(bench.now, &[Tuple::of(&[str("new")])], &OutOptions::default(), Some(ONE)).unwrap();
    bench.space.prepare(bench.now, ONE, Some(coordinator())).unwrap();
    let kept = bench.space.take_changes();
    // The member was away for twenty minutes.
    let away = Duration::from_secs(1200);
    let mut space = Space::new(Options::default()).unwrap();
    space.keep_changes(1_000_000_000 + (bench.now + away).as_millis() as u64, u64::MAX);
    kept.into_iter().for_each(|change| space.fill(change).unwrap());
    space.filled(Duration::ZERO);
    let doubts = space.in_doubt(Duration::from_secs(1));
    assert_eq!(doubts.len(), 1);
    assert_eq!(doubts[0].age, away + Duration::from_secs(1));
    space.on_tick(Duration::from_secs(3599));
    assert_eq!(space.info().transactions, 1);
    space.on_tick(Duration::from_secs(3600));
    assert_eq!(space.info().transactions, 0);
}

#[test]
fn a_coordinator_that_cannot_be_one_is_refused() {
    let mut bench = begun();
    for places in [vec![], vec!["a".repeat(600)], vec!["a".to_owned(); 17]] {
        let prepared = bench.space.prepare(bench.now, ONE, Some(Coordinator { places, ..coordinator() }));
        assert!(matches!(prepared, Err(SpaceError::Options(_))), "{prepared:?}");
    }
    assert_eq!(all(&mut bench), []);
    bench.space.abort(bench.now, ONE).unwrap();
}

#[test]
fn the_key_of_a_tuple_can_be_given_to_another_one() {
    let keyed = || OutOptions { key: Some(int(1).to_bytes()), ..OutOptions::default() };
    for commits in [true, false] {
        let mut bench = Bench::new();
        bench.out_with(&[int(1)], keyed()).unwrap();
        bench.space.begin(bench.now, SessionId(1), ONE, MINUTE, Isolation::ReadCommitted).unwrap();
        bench.space.find(bench.now, local(), &like(&[None]), &taking(), Some(ONE)).unwrap().unwrap();
        bench.space.out(bench.now, &[Tuple::of(&[int(2)])], &keyed(), Some(ONE)).unwrap();
        let again = bench.space.out(bench.now, &[Tuple::of(&[int(3)])], &keyed(), Some(ONE));
        assert_eq!(again, Err(SpaceError::KeyTaken));
        assert_eq!(bench.out_with(&[int(3)], keyed()), Err(SpaceError::KeyTaken));
        match commits {
            true => bench.space.commit(bench.now, ONE).unwrap(),
            false => bench.space.abort(bench.now, ONE).unwrap(),
        }
        let by_key = Get { key: Some(int(1).to_bytes()), ..Get::default() };
        assert_eq!(bench.get(&like(&[None]), by_key), Some(vec![int(if commits { 2 } else { 1 })]));
        assert_eq!(bench.out_with(&[int(3)], keyed()), Err(SpaceError::KeyTaken));
    }
}

#[test]
fn who_waits_under_a_transaction_gets_what_it_puts_or_its_end() {
    let mut bench = Bench::new();
    bench.space.begin(bench.now, SessionId(1), ONE, MINUTE, Isolation::ReadCommitted).unwrap();
    let wait = |bench: &mut Bench, request, name: &str| {
        let template = like(&[Some(str(name))]);
        bench.space.wait(bench.now, asker(1, request), &template, &taking(), None, Some(ONE))
    };
    assert_eq!(wait(&mut bench, 1, "own"), Ok(None));
    assert_eq!(wait(&mut bench, 2, "others"), Ok(None));
    assert_eq!(wait(&mut bench, 3, "nobody's"), Ok(None));
    bench.space.out(bench.now, &[Tuple::of(&[str("own")])], &OutOptions::default(), Some(ONE)).unwrap();
    bench.out(&[str("others")]);
    assert_eq!(bench.answers(), [(1, 1, Ok(vec![str("own")])), (1, 2, Ok(vec![str("others")]))]);
    bench.space.abort(bench.now, ONE).unwrap();
    assert_eq!(bench.answers(), [(1, 3, Err(SpaceError::NoTransaction))]);
    assert_eq!(all(&mut bench), [str("others")]);
}

#[test]
fn pages_of_a_transaction_begin_with_what_it_put() {
    let mut bench = Bench::new();
    (0..5).for_each(|number| bench.out(&[int(number)]));
    bench.space.begin(bench.now, SessionId(1), ONE, MINUTE, Isolation::ReadCommitted).unwrap();
    for number in 5..10 {
        bench.space.out(bench.now, &[Tuple::of(&[int(number)])], &OutOptions::default(), Some(ONE)).unwrap();
    }
    for take in [false, true] {
        let mut get = Get { limit: 2, take, ..Get::default() };
        let mut found = Vec::new();
        loop {
            let page = bench.space.get(bench.now, local(), &like(&[None]), &get, Some(ONE)).unwrap();
            found.extend(page.tuples.iter().flat_map(Tuple::values));
            get.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        assert_eq!(found, [5, 6, 7, 8, 9, 0, 1, 2, 3, 4].map(int));
    }
    bench.space.abort(bench.now, ONE).unwrap();
    assert_eq!(all(&mut bench), [0, 1, 2, 3, 4].map(int));
}

#[test]
fn transactions_count_against_the_limits() {
    let mut bench = Bench::with(Options { most_tuples: 2, most_transactions: 1, ..Options::default() });
    bench.space.begin(bench.now, SessionId(1), ONE, MINUTE, Isolation::ReadCommitted).unwrap();
    assert_eq!(
        bench.space.begin(bench.now, SessionId(1), ONE, MINUTE, Isolation::ReadCommitted),
        Err(SpaceError::NumberTaken)
    );
    let second = bench.space.begin(bench.now, SessionId(1), TransactionId(2), MINUTE, Isolation::ReadCommitted);
    assert!(matches!(second, Err(SpaceError::Full { most: 1, .. })));
    let put =
        |bench: &mut Bench| bench.space.out(bench.now, &[Tuple::of(&[int(1)])], &OutOptions::default(), Some(ONE));
    assert!(put(&mut bench).is_ok() && put(&mut bench).is_ok());
    assert!(matches!(put(&mut bench), Err(SpaceError::Full { most: 2, .. })));
    bench.space.commit(bench.now, ONE).unwrap();
    assert_eq!(bench.space.info().tuples, 2);
}

#[test]
fn what_an_abort_brings_back_finds_its_places_in_a_few_steps() {
    const MANY: i64 = 30_000;
    let mut bench = Bench::with(Options { indexes: vec![vec![0]], ..Options::default() });
    (0..MANY).for_each(|number| bench.out(&[int(number % 7), int(number), int(number % 3)]));
    bench.space.begin(bench.now, SessionId(1), ONE, MINUTE, Isolation::ReadCommitted).unwrap();
    // Each of them is between others that stay, also in the lists of the index.
    let template = like(&[None, None, Some(int(1))]);
    let fifo = Get { order: Some(Order::Fifo), limit: MANY as u32, page_bytes: u64::MAX, ..taking() };
    let page = bench.space.get(bench.now, local(), &template, &fifo, Some(ONE)).unwrap();
    assert_eq!(page.tuples.len() as i64, MANY / 3);
    let before = STEPS.get();
    bench.space.abort(bench.now, ONE).unwrap();
    let steps = STEPS.get() - before;
    assert!(steps < 10 * MANY as u64, "{steps} steps");
    let all = Get { limit: MANY as u32, page_bytes: u64::MAX, order: Some(Order::Fifo), ..Get::default() };
    for first in [None, Some(int(3))] {
        let wanted = like(&[first.clone(), None, None]);
        let page = bench.space.get(bench.now, local(), &wanted, &all, None).unwrap();
        let found: Vec<Value> = page.tuples.iter().map(|tuple| tuple.values()[1].clone()).collect();
        let expected = (0..MANY).filter(|number| first.is_none() || number % 7 == 3).map(int);
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_transaction_takes_what_it_put_in_every_order() {
    // So many that the test ends in time only if no operation looks at all others.
    const MANY: i64 = 50_000;
    for (order, first) in [(Order::Any, 0), (Order::Fifo, 0), (Order::Lifo, MANY - 1), (Order::Priority, MANY / 2)] {
        let mut bench = Bench::new();
        bench.space.begin(bench.now, SessionId(1), ONE, MINUTE, Isolation::ReadCommitted).unwrap();
        let tuples: Vec<Tuple> = (0..MANY).map(|number| Tuple::of(&[int(number)])).collect();
        let (lower, upper) = tuples.split_at(MANY as usize / 2);
        for (tuples, priority) in [(lower, 1), (upper, 2)] {
            let options = OutOptions { priority: Some(priority), ..OutOptions::default() };
            bench.space.out(bench.now, tuples, &options, Some(ONE)).unwrap();
        }
        let get = Get { order: Some(order), ..taking() };
        let mut take = || bench.space.find(bench.now, local(), &like(&[None]), &get, Some(ONE)).unwrap();
        assert_eq!(take().map(|tuple| tuple.values()), Some(vec![int(first)]));
        assert_eq!(std::iter::from_fn(take).count() as i64, MANY - 1);
        assert_eq!(bench.space.info().bytes, Bench::new().space.info().bytes);
    }
}

#[test]
fn one_session_leaves_transactions_for_others() {
    let mut bench = Bench::with(Options { most_transactions: 80, ..Options::default() });
    let mut begin = |session, id| {
        bench.space.begin(bench.now, SessionId(session), TransactionId(id), MINUTE, Isolation::ReadCommitted)
    };
    (0..10).for_each(|id| begin(1, id).unwrap());
    assert!(matches!(begin(1, 10), Err(SpaceError::Full { most: 10, .. })));
    assert_eq!(begin(2, 10), Ok(()));
    bench.space.abort(bench.now, TransactionId(3)).unwrap();
    let mut begin = |session, id| {
        bench.space.begin(bench.now, SessionId(session), TransactionId(id), MINUTE, Isolation::ReadCommitted)
    };
    assert_eq!(begin(1, 11), Ok(()));
    assert!(begin(1, 12).is_err());
    bench.space.end_session(bench.now, SessionId(1));
    let mut begin = |session, id| {
        bench.space.begin(bench.now, SessionId(session), TransactionId(id), MINUTE, Isolation::ReadCommitted)
    };
    (20..30).for_each(|id| begin(1, id).unwrap());
}
