//! Waiting requests: fairness, deadlines, and that a thousand waiters do not slow down unrelated requests.

use super::*;
use crate::space::store::scan::STEP_HERE;

#[test]
fn all_readers_get_a_tuple_and_then_the_first_taker() {
    let mut bench = Bench::new();
    let template = like(&[Some(str("a")), None]);
    assert_eq!(bench.wait(asker(1, 1), &template, &taking(), 9), None);
    assert_eq!(bench.wait(asker(2, 1), &template, &taking(), 9), None);
    assert_eq!(bench.wait(asker(3, 1), &template, &Get::default(), 9), None);
    assert_eq!(bench.wait(asker(4, 1), &template, &Get::default(), 9), None);
    bench.out(&[str("b"), int(0)]);
    assert_eq!(bench.answers(), []);
    bench.out(&[str("a"), int(1)]);
    let answer = || Ok(vec![str("a"), int(1)]);
    assert_eq!(bench.answers(), [(3, 1, answer()), (4, 1, answer()), (1, 1, answer())]);
    assert_eq!(bench.count(&template), 0);
    bench.out(&[str("a"), int(2)]);
    assert_eq!(bench.answers(), [(2, 1, Ok(vec![str("a"), int(2)]))]);
}

#[test]
fn takers_with_different_templates_are_served_in_the_order_in_which_they_came() {
    let mut bench = Bench::new();
    let templates =
        [like(&[None, None]), like(&[Some(str("a")), None]), like(&[None, Some(int(1))]), typed("a", mask::INT)];
    for (number, template) in templates.iter().enumerate() {
        bench.wait(asker(1, number as u64), template, &taking(), 9);
    }
    (0..4).for_each(|_| bench.out(&[str("a"), int(1)]));
    let order: Vec<u64> = bench.answers().iter().map(|(_, request, _)| *request).collect();
    assert_eq!(order, [0, 1, 2, 3]);
}

#[test]
fn deadlines_answer_and_cancelled_ones_do_not() {
    let mut bench = Bench::new();
    bench.wait(asker(1, 1), &like(&[None]), &taking(), 2);
    bench.wait(asker(1, 2), &like(&[None]), &Get::default(), 5);
    assert_eq!(bench.space.next_deadline(), Some(Duration::from_secs(2)));
    bench.pass(2);
    assert_eq!(bench.answers(), [(1, 1, Err(SpaceError::TimedOut))]);
    assert!(bench.space.cancel(SessionId(1), 2));
    assert!(!bench.space.cancel(SessionId(1), 2));
    bench.pass(9);
    bench.out(&[int(1)]);
    assert_eq!(bench.answers(), []);
    let at_once = bench.space.wait(bench.now, asker(1, 3), &like(&[None, None]), &taking(), Some(bench.now), None);
    assert_eq!(at_once, Err(SpaceError::TimedOut));
}

#[test]
fn waiters_are_limited_and_numbers_used_once() {
    let options = Options { most_session_waiters: 2, most_waiters: 3, ..Options::default() };
    let mut bench = Bench::with(options);
    let mut wait = |session, request| {
        let template = like(&[None]);
        bench.space.wait(bench.now, asker(session, request), &template, &taking(), None, None)
    };
    assert_eq!(wait(1, 1), Ok(None));
    assert_eq!(wait(1, 1), Err(SpaceError::NumberTaken));
    assert_eq!(wait(1, 2), Ok(None));
    assert!(matches!(wait(1, 3), Err(SpaceError::Full { most: 2, .. })));
    assert_eq!(wait(2, 1), Ok(None));
    assert!(matches!(wait(3, 1), Err(SpaceError::Full { most: 3, .. })));
}

#[test]
fn a_waiters_key_and_label_count() {
    let mut bench = Bench::new();
    let label = Some(str("l").to_bytes());
    bench.wait(asker(1, 1), &like(&[None]), &Get { label: label.clone(), ..taking() }, 9);
    bench.out(&[int(1)]);
    assert_eq!(bench.answers(), []);
    bench.out_with(&[int(2)], OutOptions { label, ..OutOptions::default() }).unwrap();
    assert_eq!(bench.answers(), [(1, 1, Ok(vec![int(2)]))]);
}

#[test]
fn many_shapes_of_templates_are_all_served() {
    let mut bench = Bench::new();
    for set in 0u32..64 {
        let template = like(&[0, 1, 2, 3, 4, 5].map(|position| (set & 1 << position != 0).then(|| int(1))));
        bench.wait(asker(1, u64::from(set)), &template, &taking(), 9);
    }
    (0..64).for_each(|_| bench.out(&[int(1), int(1), int(1), int(1), int(1), int(1)]));
    let order: Vec<u64> = bench.answers().iter().map(|(_, request, _)| *request).collect();
    assert_eq!(order, (0..64).collect::<Vec<u64>>());
    assert_eq!(bench.space.info().takers, 0);
}

/// A template that matches numbers above a limit, with the most expensive query that is allowed.
fn dear(limit: i64) -> Template {
    let compare = || Operation::Compare { path: vec![], comparison: Comparison::More, actual: int(limit).to_bytes() };
    let operations = (0..30).map(|_| compare()).chain((0..29).map(|_| Operation::And)).collect();
    Template::new(vec![Pattern::Where(Query::new(operations).unwrap())], None)
}

#[test]
fn an_out_asks_a_bounded_number_of_those_who_wait_and_all_of_them_in_the_end() {
    let mut bench = Bench::new();
    (0..3000).for_each(|number| drop(bench.wait(asker(1, number), &dear(number as i64 + 1000), &taking(), 9)));
    bench.wait(asker(2, 0), &dear(0), &Get::default(), 9);
    bench.wait(asker(2, 1), &dear(0), &taking(), 9);
    let cost = dear(0).cost(Tuple::of(&[int(5)]).bytes());
    // The only matching taker is behind three thousand others. The tuple is stored, and the taker gets it later.
    bench.out(&[int(5)]);
    assert_eq!(bench.answers(), [(2, 0, Ok(vec![int(5)]))]);
    assert_eq!(bench.count(&like(&[None])), 1);
    assert_eq!(bench.space.next_deadline(), Some(Duration::ZERO));
    let mut calls = 0;
    while bench.space.is_behind() {
        bench.space.on_tick(bench.now);
        calls += 1;
    }
    assert!(calls >= 3000 * cost / 20_000 - 2, "{calls} calls");
    assert_eq!(bench.answers(), [(2, 1, Ok(vec![int(5)]))]);
    assert_eq!(bench.count(&like(&[None])), 0);
    assert_ne!(bench.space.next_deadline(), Some(Duration::ZERO));
}

#[test]
fn what_is_taken_before_all_who_wait_are_asked_is_given_once() {
    STEP_HERE.set(10);
    let mut bench = Bench::new();
    (0..9).for_each(|number| drop(bench.wait(asker(1, number), &dear(100), &taking(), 9)));
    bench.wait(asker(2, 0), &dear(0), &taking(), 9);
    let before = bench.space.info().bytes;
    bench.out(&[int(5)]);
    bench.out(&[int(6)]);
    assert_eq!(bench.inp(&like(&[Some(int(5))])), Some(vec![int(5)]));
    // A request that comes now searches the store itself.
    assert_eq!(bench.wait(asker(3, 0), &dear(0), &Get::default(), 9), Some(vec![int(6)]));
    while bench.space.is_behind() {
        bench.space.on_tick(bench.now);
    }
    assert_eq!(bench.answers(), [(2, 0, Ok(vec![int(6)]))]);
    assert!(bench.space.info().bytes < before && bench.count(&like(&[None])) == 0);
}

#[test]
fn events_are_told_in_their_order_however_long_it_takes() {
    STEP_HERE.set(10);
    let mut bench = Bench::new();
    (0..9).for_each(|number| drop(bench.wait(asker(1, number), &dear(100), &taking(), 9)));
    let watch =
        |bench: &mut Bench, session| bench.space.watch(SessionId(session), 0, Arc::new(dear(0)), None).unwrap().last;
    (11..14).for_each(|session| assert_eq!(watch(&mut bench, session), 0));
    (1..6).for_each(|number| bench.out(&[int(number)]));
    // A watch that begins now gets events from now on.
    assert_eq!(watch(&mut bench, 14), 5);
    bench.out(&[int(6)]);
    assert!(bench.space.is_behind());
    while bench.space.is_behind() {
        bench.space.on_tick(bench.now);
    }
    let mut told: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for command in bench.commands() {
        let Command::Notify { session, sequence, .. } = command else { panic!("{command:?}") };
        told.entry(session.0).or_default().push(sequence);
    }
    let all: Vec<u64> = (1..7).collect();
    assert_eq!(told, BTreeMap::from([(11, all.clone()), (12, all.clone()), (13, all), (14, vec![6])]));
}
