//! Repeatable reads: a transaction commits only if the tuples that it has read are still there.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const ONE: TransactionId = TransactionId(1);
const TWO: TransactionId = TransactionId(2);

fn begin(bench: &mut Bench, id: TransactionId, isolation: Isolation) {
    bench.space.begin(bench.now, SessionId(id.0 as u64), id, Duration::from_secs(60), isolation).unwrap();
}

/// A space with these numbers, and two transactions with repeatable reads.
fn begun(numbers: &[i64]) -> Bench {
    let mut bench = Bench::new();
    numbers.iter().for_each(|number| bench.out(&[int(*number)]));
    begin(&mut bench, ONE, Isolation::RepeatableRead);
    begin(&mut bench, TWO, Isolation::RepeatableRead);
    bench
}

fn read(bench: &mut Bench, id: TransactionId, number: i64) -> bool {
    bench.space.find(bench.now, local(), &like(&[Some(int(number))]), &Get::default(), Some(id)).unwrap().is_some()
}

fn take(bench: &mut Bench, id: Option<TransactionId>, number: i64) -> bool {
    bench.space.find(bench.now, local(), &like(&[Some(int(number))]), &taking(), id).unwrap().is_some()
}

fn is_forgotten(bench: &Bench) -> bool {
    bench.space.reads_of.is_empty()
}

#[test]
fn write_skew_is_refused() {
    let mut bench = begun(&[1, 2]);
    for id in [ONE, TWO] {
        assert!(read(&mut bench, id, 1) && read(&mut bench, id, 2));
    }
    assert!(take(&mut bench, Some(ONE), 1) && take(&mut bench, Some(TWO), 2));
    assert_eq!(bench.space.prepare(bench.now, ONE, None), Err(SpaceError::ReadChanged));
    assert_eq!(bench.space.commit(bench.now, ONE), Err(SpaceError::ReadChanged));
    assert_eq!(bench.space.commit(bench.now, ONE), Err(SpaceError::NoTransaction)); // so the other transaction's reads hold
    assert_eq!(bench.space.commit(bench.now, TWO), Ok(()));
    assert!(take(&mut bench, None, 1) && !take(&mut bench, None, 2) && is_forgotten(&bench));
}

#[test]
fn read_committed_allows_it() {
    let mut bench = Bench::new();
    bench.out(&[int(1)]);
    begin(&mut bench, ONE, Isolation::ReadCommitted);
    assert!(read(&mut bench, ONE, 1) && take(&mut bench, None, 1) && is_forgotten(&bench));
    assert_eq!(bench.space.commit(bench.now, ONE), Ok(()));
}

#[test]
fn what_was_taken_and_came_back_was_not_changed() {
    let mut bench = begun(&[1]);
    assert!(read(&mut bench, ONE, 1) && take(&mut bench, Some(TWO), 1));
    bench.space.abort(bench.now, TWO).unwrap();
    assert_eq!(bench.space.commit(bench.now, ONE), Ok(()));
    assert!(is_forgotten(&bench));
}

#[test]
fn its_own_takes_and_puts_change_nothing() {
    let mut bench = begun(&[1]);
    assert!(read(&mut bench, ONE, 1) && take(&mut bench, Some(ONE), 1));
    bench.space.out(bench.now, &[Tuple::of(&[int(7)])], &OutOptions::default(), Some(ONE)).unwrap();
    assert!(read(&mut bench, ONE, 7) && take(&mut bench, Some(ONE), 7));
    assert_eq!(bench.space.commit(bench.now, ONE), Ok(()));
}

#[test]
fn a_promise_outlasts_what_comes_after_it() {
    let mut bench = begun(&[1]);
    assert!(read(&mut bench, ONE, 1));
    bench.space.prepare(bench.now, ONE, None).unwrap();
    assert!(take(&mut bench, None, 1));
    assert_eq!(bench.space.commit(bench.now, ONE), Ok(()));
    assert!(is_forgotten(&bench));
}

#[test]
fn a_tuple_that_a_waiting_taker_gets_at_once_was_read_and_is_gone() {
    let mut bench = begun(&[]);
    let found = bench.space.wait(bench.now, asker(1, 1), &like(&[Some(int(1))]), &Get::default(), None, Some(ONE));
    assert_eq!(found, Ok(None));
    bench.wait(asker(3, 1), &like(&[Some(int(1))]), &taking(), 9);
    bench.out(&[int(1)]);
    assert_eq!(bench.answers().len(), 2);
    assert_eq!(bench.space.commit(bench.now, ONE), Err(SpaceError::ReadChanged));
}

#[test]
fn a_lease_that_ends_changes_what_was_read() {
    let mut bench = begun(&[]);
    let lease = OutOptions { lease: Some(Duration::from_secs(2)), ..OutOptions::default() };
    bench.out_with(&[int(1)], lease).unwrap();
    assert!(read(&mut bench, ONE, 1));
    bench.pass(3);
    assert_eq!(bench.space.commit(bench.now, ONE), Err(SpaceError::ReadChanged));
}

#[test]
fn what_was_counted_was_read() {
    let mut bench = begun(&[1, 2]);
    let count =
        |bench: &mut Bench, number| bench.space.count(bench.now, &like(&[number]), &Get::default(), Some(ONE)).unwrap();
    assert_eq!(count(&mut bench, None), 2);
    assert!(take(&mut bench, Some(TWO), 2));
    assert_eq!(bench.space.prepare(bench.now, ONE, None), Err(SpaceError::ReadChanged));
    bench.space.abort(bench.now, TWO).unwrap();
    assert_eq!(bench.space.commit(bench.now, ONE), Ok(()));
    assert!(is_forgotten(&bench));
}

#[test]
fn who_only_looks_where_something_is_does_not_rely_on_it() {
    let mut bench = begun(&[1]);
    let peeking = Get { peeks: true, ..Get::default() };
    let (one, two) = (like(&[Some(int(1))]), like(&[Some(int(2))]));
    assert!(bench.space.find(bench.now, local(), &one, &peeking, Some(ONE)).unwrap().is_some());
    let found = bench.space.wait(bench.now, asker(1, 1), &two, &peeking, None, Some(ONE));
    assert_eq!(found, Ok(None));
    bench.out(&[int(2)]);
    assert_eq!(bench.answers().len(), 1);
    assert!(take(&mut bench, None, 1) && take(&mut bench, None, 2));
    assert_eq!(bench.space.commit(bench.now, ONE), Ok(()));
}

#[test]
fn one_user_leaves_room_for_others() {
    let mut bench = Bench::new();
    let shares = Shares { waiters: 9, transactions: 99, clients: 9 };
    for session in 1..=9 {
        let user = if session < 9 { "ada" } else { "bob" };
        bench.space.users.add(SessionId(session), user.into(), shares);
        begin(&mut bench, TransactionId(session.into()), Isolation::RepeatableRead);
    }
    for number in 0..60 {
        let tuples: Vec<Tuple> = (0..1000).map(|at| Tuple::of(&[int(1000 * number + at)])).collect();
        bench.space.out(bench.now, &tuples, &OutOptions::default(), None).unwrap();
    }
    let mut count = |id: u128| bench.space.count(bench.now, &like(&[None]), &Get::default(), Some(TransactionId(id)));
    assert!((1..=4).all(|id| count(id) == Ok(60_000)));
    let Err(SpaceError::Full { what, most }) = count(5) else { panic!("ada reads more") };
    assert_eq!((&what[..], most), ("tuples read in one user's transactions with repeatable reads", 1 << 18));
    assert_eq!(count(9), Ok(60_000));
    (1..=9).for_each(|id| bench.space.abort(bench.now, TransactionId(id)).unwrap());
    assert!(is_forgotten(&bench));
}

#[test]
fn reads_have_a_limit() {
    let mut bench = begun(&[]);
    for number in 0..66 {
        let tuples: Vec<Tuple> = (0..1000).map(|at| Tuple::of(&[int(1000 * number + at)])).collect();
        bench.space.out(bench.now, &tuples, &OutOptions::default(), None).unwrap();
    }
    let mut get = Get { limit: 1000, page_bytes: 1 << 20, ..Get::default() };
    let refused = loop {
        match bench.space.get(bench.now, local(), &like(&[None]), &get, Some(ONE)) {
            Ok(page) => get.after = Some(page.next.unwrap()),
            Err(error) => break error,
        }
    };
    let SpaceError::Full { what, most } = refused else { panic!("{refused}") };
    assert_eq!((&what[..], most), ("tuples read in one transaction with repeatable reads", 1 << 16));
    assert!(bench.space.count(bench.now, &like(&[None]), &Get::default(), Some(ONE)).is_err());
    assert!(take(&mut bench, Some(ONE), 1)); // takes without a further read
    bench.space.abort(bench.now, ONE).unwrap();
    assert!(is_forgotten(&bench));
}

#[derive(Debug, Clone)]
enum Step {
    Put(i64),
    Read(usize, i64),
    Take(Option<usize>, i64),
    Prepare(usize),
    Commit(usize),
    Abort(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (own, number) = (0..3usize, 0..6i64);
    prop_oneof![
        2 => number.clone().prop_map(Step::Put),
        5 => (own.clone(), number.clone()).prop_map(|(own, number)| Step::Read(own, number)),
        4 => (proptest::option::weighted(0.7, own.clone()), number).prop_map(|(own, number)| Step::Take(own, number)),
        1 => own.clone().prop_map(Step::Prepare),
        2 => own.clone().prop_map(Step::Commit),
        1 => own.prop_map(Step::Abort),
    ]
}

/// A transaction in the model: the tuples it has read and taken, and whether it is prepared.
#[derive(Debug, Default)]
struct Own {
    id: u128,
    read: BTreeSet<(i64, u32)>,
    taken: BTreeSet<(i64, u32)>,
    prepared: bool,
}

proptest! {
    /// Each number is in the space at most once, so it is known which tuple was read. After a new put it is another
    /// tuple.
    #[test]
    fn it_commits_exactly_if_all_that_it_has_read_is_there(steps in proptest::collection::vec(step(), 0..60)) {
        let mut bench = Bench::new();
        let mut there: BTreeSet<(i64, u32)> = BTreeSet::new();
        let (mut copies, mut next) = (0, 3);
        let mut own: Vec<Own> = (0..3).map(|id| Own { id, ..Own::default() }).collect();
        own.iter().for_each(|own| begin(&mut bench, TransactionId(own.id), Isolation::RepeatableRead));
        let at = |there: &BTreeSet<(i64, u32)>, number| there.iter().find(|(it, _)| *it == number).copied();
        for step in steps {
            let id = |which: usize, own: &[Own]| TransactionId(own[which].id);
            match step {
                Step::Put(number) => {
                    let held = own.iter().any(|own| at(&own.taken, number).is_some());
                    if !held && at(&there, number).is_none() {
                        copies += 1;
                        there.insert((number, copies));
                        bench.out(&[int(number)]);
                    }
                }
                Step::Read(which, number) if !own[which].prepared => {
                    let found = at(&there, number);
                    prop_assert_eq!(read(&mut bench, id(which, &own), number), found.is_some());
                    own[which].read.extend(found);
                }
                Step::Take(which, number) if which.is_none_or(|which| !own[which].prepared) => {
                    let found = at(&there, number);
                    prop_assert_eq!(take(&mut bench, which.map(|it| id(it, &own)), number), found.is_some());
                    there.retain(|it| Some(*it) != found);
                    which.into_iter().for_each(|which| own[which].taken.extend(found));
                }
                Step::Prepare(which) | Step::Commit(which) => {
                    let it = &own[which];
                    let may = it.prepared || it.read.iter().all(|read| there.contains(read) || it.taken.contains(read));
                    let commits = matches!(step, Step::Commit(_));
                    let done = match commits {
                        true => bench.space.commit(bench.now, id(which, &own)),
                        false => bench.space.prepare(bench.now, id(which, &own), None),
                    };
                    prop_assert_eq!(done, if may { Ok(()) } else { Err(SpaceError::ReadChanged) });
                    own[which].prepared |= may;
                    if commits {
                        if !may {
                            there.append(&mut own[which].taken);
                        }
                        own[which] = Own { id: next, ..Own::default() };
                        begin(&mut bench, TransactionId(next), Isolation::RepeatableRead);
                        next += 1;
                    }
                }
                Step::Abort(which) => {
                    bench.space.abort(bench.now, id(which, &own)).unwrap();
                    there.append(&mut own[which].taken);
                    own[which] = Own { id: next, ..Own::default() };
                    begin(&mut bench, TransactionId(next), Isolation::RepeatableRead);
                    next += 1;
                }
                _ => {}
            }
        }
        own.iter().for_each(|own| bench.space.abort(bench.now, TransactionId(own.id)).unwrap());
        prop_assert!(is_forgotten(&bench));
    }
}
