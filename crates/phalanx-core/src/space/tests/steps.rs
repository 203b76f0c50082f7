//! Searches that are cut into steps. Tuples come and go in between. No tuple may be missed or given twice.

use super::model::{self, Ask, Pair, SESSIONS, Want, step};
use super::*;
use crate::space::store::scan::STEP_HERE;
use proptest::prelude::*;

fn above(limit: i64) -> Template {
    let (path, actual) = (vec![], int(limit).to_bytes());
    let query = Query::new(vec![Operation::Compare { path, comparison: Comparison::More, actual }]).unwrap();
    Template::new(vec![Pattern::Where(query)], None)
}

impl Bench {
    fn ask(&mut self, asker: Asker, template: &Template, get: &Get, goal: Goal) -> Outcome {
        self.space.ask(self.now, &Question { asker, template, get, transaction: None, goal }).unwrap()
    }

    fn go_on(&mut self, asker: Asker) -> Outcome {
        self.space.go_on(self.now, asker).unwrap()
    }

    /// Runs the search to its end. Returns the result and the number of further steps.
    fn finish(&mut self, asker: Asker) -> (Outcome, u64) {
        let mut steps = 0;
        loop {
            steps += 1;
            match self.go_on(asker) {
                Outcome::GoesOn => {}
                outcome => return (outcome, steps),
            }
        }
    }
}

fn found(outcome: Outcome) -> Vec<Vec<Value>> {
    match outcome {
        Outcome::Found(page) => page.tuples.iter().map(Tuple::values).collect(),
        Outcome::One(tuple) => tuple.iter().map(Tuple::values).collect(),
        outcome => panic!("{outcome:?}"),
    }
}

fn orders() -> [Order; 4] {
    [Order::Any, Order::Fifo, Order::Lifo, Order::Priority]
}

#[test]
fn a_step_looks_at_a_bounded_number_of_tuples() {
    let mut bench = Bench::new();
    (0..50_000).for_each(|number| bench.out(&[int(number)]));
    for goal in [Goal::Page, Goal::Count, Goal::Wait(None)] {
        let before = bench.space.info().looked_at;
        let mut outcome = bench.ask(asker(1, 1), &above(1 << 40), &Get::default(), goal);
        let mut steps = 1;
        while outcome == Outcome::GoesOn {
            let now = bench.space.info().looked_at;
            outcome = bench.go_on(asker(1, 1));
            steps += 1;
            assert!(bench.space.info().looked_at - now <= 20_000);
        }
        assert_eq!((steps, bench.space.info().looked_at - before), (6, 50_000), "{goal:?}: {outcome:?}");
    }
}

#[test]
fn a_dear_query_and_large_tuples_make_a_step_shorter() {
    let dear = |template: &Template, tuple: &Tuple| template.cost(tuple.bytes());
    let (small, large) = (Tuple::of(&[int(1)]), Tuple::of(&[Value::Bytes(vec![0; 1 << 20])]));
    let compare = || Operation::Compare { path: vec![], comparison: Comparison::More, actual: int(1).to_bytes() };
    let operations: Vec<Operation> = (0..30).map(|_| compare()).chain((0..29).map(|_| Operation::Or)).collect();
    let query = Template::new(vec![Pattern::Where(Query::new(operations).unwrap())], None);
    assert_eq!(dear(&like(&[None]), &small), 1);
    assert!(dear(&query, &small) > 50 && dear(&query, &large) > 50_000);
    let actuals = (0..4000).map(|number| int(number).to_bytes()).collect();
    let one_of = Query::new(vec![Operation::In { path: vec![], actuals }]).unwrap();
    assert!(dear(&Template::new(vec![Pattern::Where(one_of)], None), &small) > 400);
}

#[test]
fn others_take_where_a_search_stands_and_it_misses_nothing() {
    STEP_HERE.set(4);
    for order in orders() {
        for step in 0..6 {
            let mut bench = Bench::new();
            for number in 0..20 {
                let options = OutOptions { priority: Some(number % 3 - 1), ..OutOptions::default() };
                bench.out_with(&[int(number)], options).unwrap();
            }
            bench.out_with(&[int(100)], OutOptions { priority: Some(-9), ..OutOptions::default() }).unwrap();
            let get = Get { order: Some(order), ..taking() };
            let mut outcome = bench.ask(remote(1, 1), &above(50), &get, Goal::Page);
            for _ in 0..step {
                if outcome == Outcome::GoesOn {
                    outcome = bench.go_on(remote(1, 1));
                }
            }
            // All tuples but the wanted one are removed, including those where the search stands.
            (0..20).for_each(|number| assert!(bench.inp(&like(&[Some(int(number))])).is_some()));
            if outcome == Outcome::GoesOn {
                outcome = bench.finish(remote(1, 1)).0;
            }
            assert_eq!(found(outcome), [vec![int(100)]], "{order:?} after {step} steps");
            assert_eq!(bench.count(&like(&[None])), 0);
        }
    }
}

#[test]
fn what_two_searches_want_one_of_them_takes() {
    STEP_HERE.set(3);
    for order in orders() {
        let mut bench = Bench::new();
        (0..30).for_each(|number| bench.out(&[int(number)]));
        // Tuples of another kind, so that an ordered search has to compare partitions.
        bench.out(&[Value::Float(7.5)]);
        let get = Get { order: Some(order), ..taking() };
        let askers = [remote(1, 1), remote(2, 1), remote(3, 1)];
        let mut open: Vec<_> =
            askers.iter().map(|asker| (*asker, bench.ask(*asker, &above(28), &get, Goal::Page))).collect();
        let mut got: Vec<Vec<Value>> =
            open.iter().filter(|(_, it)| *it != Outcome::GoesOn).flat_map(|(_, it)| found(it.clone())).collect();
        for round in 0.. {
            assert!(round < 200, "{order:?}");
            open.retain(|(_, outcome)| *outcome == Outcome::GoesOn);
            let at = round % open.len().max(1);
            let Some((asker, outcome)) = open.get_mut(at) else { break };
            *outcome = bench.go_on(*asker);
            if let Outcome::One(tuple) = outcome {
                got.extend(tuple.iter().map(Tuple::values));
            }
        }
        assert_eq!(got, [vec![int(29)]], "{order:?}");
    }
}

#[test]
fn who_waits_gets_what_comes_while_it_searches() {
    STEP_HERE.set(5);
    for order in orders() {
        let mut bench = Bench::new();
        (0..40).for_each(|number| bench.out(&[int(number)]));
        let get = Get { order: Some(order), ..taking() };
        assert_eq!(bench.ask(remote(1, 1), &above(50), &get, Goal::Wait(None)), Outcome::GoesOn);
        bench.go_on(remote(1, 1));
        bench.out(&[int(60)]);
        assert_eq!(bench.answers(), [(1, 1, Ok(vec![int(60)]))], "{order:?}");
        assert_eq!(bench.go_on(remote(1, 1)), Outcome::Waits);
        assert_eq!(bench.count(&above(50)), 0);
        // A search that finds nothing goes on waiting.
        assert_eq!(bench.ask(remote(1, 2), &above(50), &get, Goal::Wait(None)), Outcome::GoesOn);
        assert_eq!(bench.finish(remote(1, 2)).0, Outcome::Waits);
        bench.out(&[int(61)]);
        assert_eq!(bench.answers(), [(1, 2, Ok(vec![int(61)]))]);
        // A tuple that the search finds is given once, and the request no longer waits.
        bench.out(&[int(70)]);
        let mut outcome = bench.ask(remote(1, 3), &above(65), &get, Goal::Wait(None));
        if order != Order::Lifo {
            assert_eq!(outcome, Outcome::GoesOn);
            outcome = bench.finish(remote(1, 3)).0;
        }
        assert_eq!(found(outcome), [vec![int(70)]]);
        bench.out(&[int(71)]);
        assert_eq!((bench.answers(), bench.count(&above(65))), (vec![], 1));
    }
}

#[test]
fn a_search_ends_with_its_time_its_session_and_its_transaction() {
    STEP_HERE.set(5);
    let mut bench = Bench::new();
    (0..40).for_each(|number| bench.out(&[int(number)]));
    let deadline = Some(Duration::from_secs(2));
    assert_eq!(bench.ask(asker(1, 1), &above(50), &Get::default(), Goal::Wait(deadline)), Outcome::GoesOn);
    bench.pass(2);
    assert_eq!(bench.answers(), [(1, 1, Err(SpaceError::TimedOut))]);
    assert_eq!(bench.go_on(asker(1, 1)), Outcome::Waits);
    assert_eq!(bench.space.go_on(bench.now, asker(1, 1)), Err(SpaceError::Cancelled));
    // A request that does not wait gets its answer at the end.
    assert_eq!(bench.ask(asker(1, 2), &above(50), &Get::default(), Goal::Wait(Some(bench.now))), Outcome::GoesOn);
    let end =
        std::iter::from_fn(|| Some(bench.space.go_on(bench.now, asker(1, 2)))).find(|it| *it != Ok(Outcome::GoesOn));
    assert_eq!(end, Some(Err(SpaceError::TimedOut)));
    // A page of takes whose client never asks for the rest: the taken tuples come back.
    let get = Get { limit: 100, ..taking() };
    assert_eq!(bench.ask(remote(2, 1), &like(&[None]), &get, Goal::Page), Outcome::GoesOn);
    assert_eq!(bench.space.info().unacknowledged, 5);
    bench.space.end_session(bench.now, SessionId(2));
    assert_eq!((bench.count(&like(&[None])), bench.space.searches.len()), (40, 0));
    let one = TransactionId(1);
    bench.space.begin(bench.now, SessionId(3), one, Duration::from_secs(9), Isolation::ReadCommitted).unwrap();
    (0..40).for_each(|number| {
        bench.space.out(bench.now, &[Tuple::of(&[int(number)])], &OutOptions::default(), Some(one)).unwrap();
    });
    let (template, get, transaction) = (above(90), taking(), Some(one));
    let question = Question { asker: asker(3, 1), template: &template, get: &get, transaction, goal: Goal::Page };
    assert_eq!(bench.space.ask(bench.now, &question), Ok(Outcome::GoesOn));
    bench.space.abort(bench.now, one).unwrap();
    assert_eq!(bench.space.go_on(bench.now, asker(3, 1)), Err(SpaceError::NoTransaction));
    assert!(bench.space.searches.is_empty());
}

#[test]
fn a_page_and_a_count_go_on_where_they_were() {
    STEP_HERE.set(7);
    for order in orders() {
        let mut bench = Bench::new();
        for number in 0..200 {
            let options = OutOptions { priority: Some(number % 2), ..OutOptions::default() };
            bench.out_with(&[int(number)], options).unwrap();
        }
        assert_eq!(bench.ask(asker(1, 1), &above(99), &Get::default(), Goal::Count), Outcome::GoesOn);
        assert_eq!(bench.finish(asker(1, 1)), (Outcome::Counted(100), 50));
        let get = Get { limit: 150, order: Some(order), ..taking() };
        assert_eq!(bench.ask(remote(1, 2), &above(99), &get, Goal::Page), Outcome::GoesOn);
        let mut got = found(bench.finish(remote(1, 2)).0);
        let in_order: Vec<i64> = match order {
            Order::Any | Order::Fifo => (100..200).collect(),
            Order::Lifo => (100..200).rev().collect(),
            Order::Priority => (0..100).map(|at| if at < 50 { 101 + 2 * at } else { 2 * at }).collect(),
        };
        if order == Order::Any {
            got.sort_by_key(|fields| format!("{fields:?}"));
        }
        assert_eq!(got, in_order.into_iter().map(|number| vec![int(number)]).collect::<Vec<_>>(), "{order:?}");
    }
}

#[test]
fn an_index_that_goes_while_a_search_stands_in_it_does_no_harm() {
    STEP_HERE.set(4);
    let mut bench = Bench::new();
    (0..100).for_each(|number| bench.out(&[int(7), int(number), int(number), int(number), int(number), int(number)]));
    let rare = |at: usize| like(&[0, 1, 2, 3, 4, 5].map(|position| (position == at).then(|| int(5))));
    let compare =
        Operation::Compare { path: vec![Step::Position(1)], comparison: Comparison::More, actual: int(98).to_bytes() };
    let mut patterns = vec![Pattern::actual(&int(7))];
    patterns.extend((0..5).map(|_| Pattern::Any));
    let last = Template::new(patterns, Some(Query::new(vec![compare]).unwrap()));
    (0..3).for_each(|_| assert_eq!(bench.count(&last), 1));
    assert_eq!(bench.ask(remote(1, 1), &last, &taking(), Goal::Page), Outcome::GoesOn);
    for at in 1..6 {
        (0..1200).for_each(|_| assert!(bench.rdp(&rare(at)).is_some()));
    }
    (0..50).for_each(|number| assert!(bench.inp(&like(&[None, Some(int(number)), None, None, None, None])).is_some()));
    let outcome = bench.finish(remote(1, 1)).0;
    assert_eq!(found(outcome)[0][1], int(99));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Conversations as in `model`, where each search takes many steps.
    #[test]
    fn the_engine_answers_as_a_list_does_in_steps(
        steps in proptest::collection::vec(step(), 1..300), declared in any::<bool>(), each in 1u64..4
    ) {
        STEP_HERE.set(each);
        let indexes = if declared { vec![vec![0], vec![0, 1]] } else { vec![] };
        let boxes = if declared { vec![vec![1]] } else { vec![] };
        let mut pair = Pair::new(Options { indexes, boxes, ..Options::default() });
        for step in steps {
            pair.step(step);
        }
        for session in 0..SESSIONS {
            pair.step(model::Step::EndSession { session });
        }
    }
}

#[test]
fn who_waits_until_now_gets_what_comes_back_now() {
    STEP_HERE.set(3);
    let mut pair = Pair::new(Options::default());
    let out = |fields: Vec<Value>| {
        let (lease, key, label, priority, under) = (None, None, None, 0, None);
        model::Step::Out { fields, lease, key, label, priority, under }
    };
    let wait = |ask, seconds, under| model::Step::Wait { ask, session: 0, seconds, under };
    let steps = [
        out(vec![str("a"), int(0)]),
        out(vec![int(3), int(0)]),
        model::Step::Begin { session: 0, id: 2, seconds: 1 },
        model::Step::Get { ask: Ask::pair(Want::Any, true), session: 0, under: Some(2) },
        wait(Ask::pair(Want::Actual(int(3)), true), 1, Some(2)),
        model::Step::Prepare { id: 2 },
        model::Step::Pass { seconds: 3 },
        wait(Ask::pair(Want::Actual(int(3)), true), 3, None),
        out(vec![str("a"), int(0)]),
        out(vec![str("a"), int(0)]),
        model::Step::Pass { seconds: 1 },
        wait(Ask::pair(Want::Above(0), false), 2, None),
        // The time of the transaction and of both waiting requests is over.
        model::Step::Pass { seconds: 2 },
    ];
    steps.into_iter().for_each(|step| pair.step(step));
}
