//! The end of a session: what ends with it, and which tuples come back.

use super::*;

#[test]
fn a_taker_that_dies_before_its_acknowledgement_took_nothing() {
    let mut bench = Bench::new();
    (1..=3).for_each(|number| bench.out(&[int(number)]));
    let fifo = Get { order: Some(Order::Fifo), ..taking() };
    let take = |bench: &mut Bench, request| {
        bench
            .space
            .find(bench.now, remote(1, request), &like(&[None]), &fifo, None)
            .unwrap()
            .map(|tuple| tuple.values())
    };
    assert_eq!(take(&mut bench, 1), Some(vec![int(1)]));
    assert_eq!(take(&mut bench, 2), Some(vec![int(2)]));
    bench.space.acknowledge(SessionId(1), 1);
    assert_eq!(bench.space.info().unacknowledged, 1);
    bench.space.end_session(bench.now, SessionId(1));
    // At its old place in the order.
    assert_eq!(bench.get(&like(&[None]), fifo.clone()), Some(vec![int(2)]));
    assert_eq!(bench.get(&like(&[None]), fifo.clone()), Some(vec![int(3)]));
    assert_eq!(bench.space.info().tuples, 0);
}

#[test]
fn what_comes_back_goes_to_who_waits() {
    let mut bench = Bench::new();
    bench.wait(remote(1, 1), &like(&[None]), &taking(), 9);
    bench.wait(remote(2, 1), &like(&[None]), &taking(), 9);
    bench.out(&[int(1)]);
    assert_eq!(bench.answers(), [(1, 1, Ok(vec![int(1)]))]);
    bench.space.end_session(bench.now, SessionId(1));
    assert_eq!(bench.answers(), [(2, 1, Ok(vec![int(1)]))]);
    bench.space.acknowledge(SessionId(2), 1);
    bench.space.end_session(bench.now, SessionId(2));
    assert_eq!(bench.count(&like(&[None])), 0);
}

#[test]
fn waiters_and_watches_go_with_their_session() {
    let mut bench = Bench::new();
    bench.wait(asker(1, 1), &like(&[None]), &taking(), 9);
    bench.wait(asker(1, 2), &like(&[None]), &Get::default(), 9);
    bench.space.watch(SessionId(1), 3, Arc::new(like(&[None])), None).unwrap();
    bench.space.end_session(bench.now, SessionId(1));
    bench.out(&[int(1)]);
    assert_eq!(bench.commands(), []);
    assert_eq!(bench.count(&like(&[None])), 1);
    let info = bench.space.info();
    assert_eq!((info.takers, info.readers, info.watches), (0, 0, 0));
}

#[test]
fn the_key_of_what_is_on_its_way_is_still_taken() {
    let mut bench = Bench::new();
    let keyed = || OutOptions { key: Some(int(1).to_bytes()), ..OutOptions::default() };
    bench.out_with(&[int(1)], keyed()).unwrap();
    bench.space.find(bench.now, remote(1, 1), &like(&[None]), &taking(), None).unwrap().unwrap();
    assert_eq!(bench.out_with(&[int(2)], keyed()), Err(SpaceError::KeyTaken));
    bench.space.acknowledge(SessionId(1), 1);
    bench.out_with(&[int(2)], keyed()).unwrap();
}

#[test]
fn who_goes_by_another_card_is_told_so_and_waits_no_longer() {
    let mut bench = Bench::new();
    let card = |text: &'static str| Bytes::from_static(text.as_bytes());
    assert!(!bench.space.go_by_card(SessionId(1), b"a"));
    let now = bench.now;
    assert_eq!(bench.space.replace_card(now, card("a"), b"b"), Ok(false));
    assert_eq!(bench.space.replace_card(now, card("a"), b""), Ok(true));
    assert!(bench.space.go_by_card(SessionId(1), b"a"));
    assert!(bench.space.go_by_card(SessionId(2), b"a"));
    bench.wait(asker(1, 1), &like(&[Some(int(1))]), &taking(), 9);
    bench.wait(asker(3, 1), &like(&[Some(int(2))]), &taking(), 9);
    for session in [1, 3] {
        let (transaction, minute) = (TransactionId(session.into()), Duration::from_secs(60));
        bench.space.begin(now, SessionId(session), transaction, minute, Isolation::ReadCommitted).unwrap();
        bench.space.out(now, &[Tuple::of(&[int(9)])], &OutOptions::default(), Some(transaction)).unwrap();
    }
    assert_eq!(bench.space.replace_card(now, card("b"), b"a"), Ok(true));
    assert_eq!(bench.space.commit(now, TransactionId(1)), Err(SpaceError::NoTransaction));
    assert_eq!(bench.space.commit(now, TransactionId(3)), Ok(()));
    assert!(bench.space.go_by_card(SessionId(2), b"b"));
    assert_eq!(bench.answers(), [(1, 1, Err(SpaceError::OtherMembers))]);
    let ask = |session, bench: &mut Bench| {
        bench.space.find(bench.now, asker(session, 5), &like(&[None]), &Get::default(), None).map(drop)
    };
    assert_eq!(ask(1, &mut bench), Err(SpaceError::OtherMembers));
    assert_eq!((ask(2, &mut bench), ask(3, &mut bench)), (Ok(()), Ok(())));
    bench.space.end_session(bench.now, SessionId(1));
    assert_eq!(bench.space.check_card(SessionId(1)), Ok(()));
    let long = bench.space.replace_card(now, vec![0; change::MOST_CARD + 1].into(), b"b");
    assert!(matches!(long, Err(SpaceError::Full { .. })));
}
