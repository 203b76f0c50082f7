//! A request that is repeated because its outcome was not heard happens once, even at the next engine.

use super::kept::{filled, kept};
use super::*;

const SESSION: SessionId = SessionId(1);
const CLIENT: u128 = 1 << 99;

fn once(number: u64, open_from: u64) -> Option<Once> {
    Some(Once { client: CLIENT, number, open_from })
}

fn out(bench: &mut Bench, once: Option<Once>) -> Result<u64, SpaceError> {
    let options = OutOptions { once, ..OutOptions::default() };
    bench.space.out(bench.now, &[Tuple::of(&[Value::Int(1)])], &options, None)
}

fn tuples(bench: &Bench) -> u64 {
    bench.space.info().tuples
}

#[test]
fn an_out_that_is_repeated_happens_once_here_and_in_the_next_engine() {
    let mut bench = kept(Options::default());
    bench.space.remember_client(SESSION, CLIENT);
    let first = out(&mut bench, once(1, 1)).unwrap();
    assert_eq!(out(&mut bench, once(1, 1)), Ok(first));
    assert_eq!(tuples(&bench), 1);
    // Another request of the same client was never done.
    let mut next = filled(&mut bench);
    assert_eq!(out(&mut next, once(1, 1)), Ok(first));
    assert_eq!(tuples(&next), 1);
    out(&mut next, once(2, 1)).unwrap();
    assert_eq!(tuples(&next), 2);
}

#[test]
fn what_failed_was_not_done_and_may_be_asked_again() {
    let mut bench = kept(Options { most_tuples: 1, ..Options::default() });
    bench.space.remember_client(SESSION, CLIENT);
    out(&mut bench, once(1, 1)).unwrap();
    assert!(matches!(out(&mut bench, once(2, 2)), Err(SpaceError::Full { .. })));
    assert!(matches!(out(&mut bench, once(2, 2)), Err(SpaceError::Full { .. })));
    assert_eq!(bench.space.take_changes().len(), 3, "the client, the tuple, and that it was put");
}

#[test]
fn who_was_forgotten_is_told_so_and_nothing_is_done() {
    let mut bench = kept(Options::default());
    assert_eq!(out(&mut bench, once(1, 1)), Err(SpaceError::UnknownClient));
    bench.space.remember_client(SESSION, CLIENT);
    out(&mut bench, once(1, 1)).unwrap();
    for other in 0..MOST_CLIENTS as u128 {
        bench.space.remember_client(SESSION, other);
    }
    assert_eq!(out(&mut bench, once(1, 1)), Err(SpaceError::UnknownClient));
    assert_eq!(out(&mut filled(&mut bench), once(1, 1)), Err(SpaceError::UnknownClient));
    assert_eq!(tuples(&bench), 1);
}

#[test]
fn who_registers_many_clients_pushes_out_only_their_own() {
    let mut bench = kept(Options::default());
    let (ada, most) = (SessionId(2), Shares { waiters: 1, transactions: 1, clients: 3 });
    bench.space.remember_client(SESSION, CLIENT);
    bench.space.add_user(ada, "ada".into(), most);
    (0..4).for_each(|client| bench.space.remember_client(ada, client));
    let is_known = |bench: &mut Bench, client| out(bench, Some(Once { client, number: 1, open_from: 1 })).is_ok();
    let known = |bench: &mut Bench| [0, 1, 3, CLIENT].map(|client| is_known(bench, client));
    assert_eq!(known(&mut bench), [false, true, true, true]);
    // The next engine knows the clients' users.
    let mut next = filled(&mut bench);
    assert_eq!(known(&mut next), [false, true, true, true]);
    next.space.add_user(ada, "ada".into(), most);
    next.space.remember_client(ada, 5);
    assert_eq!((1..4).filter(|client| is_known(&mut next, *client)).count(), 2);
    assert!(is_known(&mut next, CLIENT) && is_known(&mut next, 5));
}

#[test]
fn no_more_is_remembered_than_a_client_may_ask_for() {
    let mut bench = kept(Options::default());
    bench.space.remember_client(SESSION, CLIENT);
    for number in 1..=MOST_OPEN {
        out(&mut bench, once(number, 1)).unwrap();
    }
    assert!(matches!(out(&mut bench, once(MOST_OPEN + 1, 1)), Err(SpaceError::Full { .. })));
    out(&mut bench, once(MOST_OPEN + 1, MOST_OPEN)).unwrap();
    assert!(matches!(out(&mut bench, once(1, 1)), Err(SpaceError::Uncertain(_))), "it said that it has heard of it");
    out(&mut bench, once(u64::MAX, u64::MAX)).unwrap();
    assert_eq!(tuples(&bench), MOST_OPEN + 2);
}

#[test]
fn a_commit_that_is_repeated_tells_its_outcome_also_in_the_next_engine() {
    let mut bench = kept(Options::default());
    bench.space.remember_client(SESSION, CLIENT);
    let (session, second) = (SessionId(1), Duration::from_secs(1));
    for number in 0..3 {
        bench.space.begin(bench.now, session, TransactionId(number), second, Isolation::ReadCommitted).unwrap();
        let tuple = [Tuple::of(&[Value::Int(number as i64)])];
        bench.space.out(bench.now, &tuple, &OutOptions::default(), Some(TransactionId(number))).unwrap();
    }
    bench.space.prepare(bench.now, TransactionId(1), None).unwrap();
    bench.space.commit_once(bench.now, TransactionId(0), once(1, 1).as_ref()).unwrap();
    bench.space.commit(bench.now, TransactionId(1)).unwrap();
    // The third transaction is open, and ends with this engine.
    let mut next = filled(&mut bench);
    for _ in 0..2 {
        next.space.commit_once(next.now, TransactionId(0), once(1, 1).as_ref()).unwrap();
        next.space.commit(next.now, TransactionId(0)).unwrap();
        next.space.commit(next.now, TransactionId(1)).unwrap();
        assert_eq!(next.space.abort(next.now, TransactionId(1)), Err(SpaceError::NoTransaction));
        let never = next.space.commit_once(next.now, TransactionId(2), once(2, 1).as_ref());
        assert_eq!(never, Err(SpaceError::NoTransaction));
    }
    assert_eq!(tuples(&next), 2);
}
