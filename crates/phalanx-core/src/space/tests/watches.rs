//! Numbered events, for watches that are open and for those that reconnect.

use super::*;

fn watch(bench: &mut Bench, session: u64, name: &str, since: Option<u64>) -> Watching {
    let template = Arc::new(like(&[Some(str(name)), None]));
    bench.space.watch(SessionId(session), 1, template, since).unwrap()
}

fn events(bench: &mut Bench) -> Vec<(u64, u64, Vec<Value>)> {
    let event = |command| match command {
        Command::Notify { session, sequence, tuple, .. } => Some((session.0, sequence, tuple.values())),
        Command::Answer { .. } => None,
    };
    bench.commands().into_iter().filter_map(event).collect()
}

#[test]
fn every_matching_out_is_an_event_even_if_it_is_taken_at_once() {
    let mut bench = Bench::new();
    bench.out(&[str("a"), int(0)]);
    assert_eq!(watch(&mut bench, 1, "a", None), Watching { last: 1, missed: 0 });
    bench.wait(asker(2, 1), &like(&[None, Some(int(1))]), &taking(), 9);
    bench.out(&[str("a"), int(1)]);
    bench.out(&[str("b"), int(2)]);
    bench.out(&[str("a"), int(3)]);
    assert_eq!(events(&mut bench), [(1, 2, vec![str("a"), int(1)]), (1, 4, vec![str("a"), int(3)])]);
    assert!(bench.space.unwatch(SessionId(1), 1));
    assert!(!bench.space.unwatch(SessionId(1), 1));
    bench.out(&[str("a"), int(4)]);
    assert_eq!(events(&mut bench), []);
}

#[test]
fn a_watch_goes_on_where_another_ended() {
    let mut bench = Bench::with(Options { log_events: 3, ..Options::default() });
    watch(&mut bench, 1, "a", None);
    (1..=2).for_each(|number| bench.out(&[str("a"), int(number)]));
    bench.space.end_session(bench.now, SessionId(1));
    bench.commands();
    (3..=4).for_each(|number| bench.out(&[str("a"), int(number)]));
    assert_eq!(watch(&mut bench, 2, "a", Some(2)), Watching { last: 4, missed: 0 });
    assert_eq!(events(&mut bench), [(2, 3, vec![str("a"), int(3)]), (2, 4, vec![str("a"), int(4)])]);
    // Event 1 is not in the log any more.
    assert_eq!(watch(&mut bench, 3, "a", Some(0)), Watching { last: 4, missed: 1 });
    assert_eq!(events(&mut bench).len(), 3);
    assert_eq!(watch(&mut bench, 4, "a", Some(4)), Watching { last: 4, missed: 0 });
    assert_eq!(events(&mut bench), []);
}

#[test]
fn a_watch_does_not_go_on_behind_an_event_that_there_was_not() {
    let mut bench = Bench::new();
    bench.out(&[str("a"), int(1)]);
    for since in [2, u64::MAX] {
        let asked = bench.space.watch(SessionId(1), 1, Arc::new(like(&[None, None])), Some(since));
        assert_eq!(asked, Err(SpaceError::NoEvent { since, last: 1 }));
    }
    assert_eq!(bench.space.info().watches, 0);
    assert_eq!(watch(&mut bench, 1, "a", Some(1)), Watching { last: 1, missed: 0 });
}

#[test]
fn events_make_room_for_tuples() {
    let put = |watched: bool| {
        let mut bench = Bench::with(Options { most_bytes: 100_000, ..Options::default() });
        if watched {
            watch(&mut bench, 1, "a", None);
        }
        for number in 0..1000 {
            bench.out(&[str("a"), Value::Bytes(vec![0; 2000])]);
            assert!(bench.inp(&like(&[None, None])).is_some());
            assert!(bench.space.info().bytes <= 100_000 + 2500, "{number}");
        }
        bench.commands();
        let last = bench.space.info().events;
        let missed = u64::from(!watched);
        assert_eq!(watch(&mut bench, 2, "a", Some(last - 1)), Watching { last, missed });
        (0..99).filter(|_| bench.out_with(&[Value::Bytes(vec![0; 5000])], OutOptions::default()).is_ok()).count()
    };
    // A watch takes a little.
    assert!(put(true) + 1 >= put(false) && put(false) > 10);
}

#[test]
fn the_log_is_bounded_in_bytes() {
    let mut bench = Bench::with(Options { log_bytes: 10_000, ..Options::default() });
    watch(&mut bench, 1, "a", None);
    (0..10).for_each(|_| bench.out(&[str("a"), Value::Bytes(vec![0; 3000])]));
    bench.out(&[str("a"), Value::Bytes(vec![0; 30_000])]);
    bench.commands();
    assert_eq!(watch(&mut bench, 2, "a", Some(0)), Watching { last: 11, missed: 11 });
}

#[test]
fn a_commit_is_an_event_and_a_return_is_none() {
    let mut bench = Bench::new();
    bench.out(&[str("a"), int(1)]);
    watch(&mut bench, 1, "a", None);
    let id = TransactionId(1);
    bench.space.begin(bench.now, SessionId(2), id, Duration::from_secs(9), Isolation::ReadCommitted).unwrap();
    bench.space.out(bench.now, &[Tuple::of(&[str("a"), int(2)])], &OutOptions::default(), Some(id)).unwrap();
    assert_eq!(events(&mut bench), []);
    bench.space.commit(bench.now, id).unwrap();
    assert_eq!(events(&mut bench), [(1, 2, vec![str("a"), int(2)])]);
    bench.space.find(bench.now, remote(3, 1), &like(&[None, None]), &taking(), None).unwrap();
    bench.space.end_session(bench.now, SessionId(3));
    assert_eq!(events(&mut bench), []);
}
