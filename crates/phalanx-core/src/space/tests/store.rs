//! Which tuples are found, in which order, with which indexes, and within which limits.

use super::*;

#[test]
fn a_space_is_a_multiset() {
    let mut bench = Bench::new();
    (0..3).for_each(|_| bench.out(&[str("a"), int(1)]));
    let template = like(&[Some(str("a")), None]);
    assert_eq!(bench.count(&template), 3);
    assert_eq!(bench.rdp(&template), Some(vec![str("a"), int(1)]));
    assert_eq!(bench.count(&template), 3);
    (0..3).for_each(|_| assert!(bench.inp(&template).is_some()));
    assert_eq!(bench.inp(&template), None);
    assert_eq!(bench.space.info().encoded_bytes, 0);
}

#[test]
fn orders_choose_the_oldest_the_newest_and_the_most_urgent() {
    let mut bench = Bench::new();
    for (value, priority) in [(1, 0), (2, 5), (3, 5), (4, -1)] {
        bench.out_with(&[int(value)], OutOptions { priority: Some(priority), ..OutOptions::default() }).unwrap();
    }
    // Of another kind, so in another partition.
    bench.out_with(&[str("x")], OutOptions { priority: Some(7), ..OutOptions::default() }).unwrap();
    let any = like(&[None]);
    let first = |bench: &mut Bench, order| bench.get(&any, Get { order: Some(order), ..Get::default() }).unwrap();
    assert_eq!(first(&mut bench, Order::Fifo), [int(1)]);
    assert_eq!(first(&mut bench, Order::Lifo), [str("x")]);
    let urgent = Get { order: Some(Order::Priority), take: true, ..Get::default() };
    let all: Vec<Value> = std::iter::from_fn(|| bench.get(&any, urgent.clone())).flatten().collect();
    assert_eq!(all, [str("x"), int(2), int(3), int(1), int(4)]);
}

#[test]
fn a_key_is_unique_and_a_label_is_not() {
    let mut bench = Bench::new();
    let with = |key: &str, label: &str| OutOptions {
        key: Some(str(key).to_bytes()),
        label: Some(str(label).to_bytes()),
        ..OutOptions::default()
    };
    bench.out_with(&[int(1)], with("k", "l")).unwrap();
    assert_eq!(bench.out_with(&[int(2)], with("k", "l")), Err(SpaceError::KeyTaken));
    bench.out_with(&[int(2)], with("j", "l")).unwrap();
    let by_key = Get { key: Some(str("j").to_bytes()), ..Get::default() };
    assert_eq!(bench.get(&like(&[None]), by_key.clone()), Some(vec![int(2)]));
    assert_eq!(bench.get(&like(&[Some(int(1))]), by_key), None);
    let by_label = Get { label: Some(str("l").to_bytes()), order: Some(Order::Lifo), take: true, ..Get::default() };
    assert_eq!(bench.get(&like(&[None]), by_label), Some(vec![int(2)]));
    bench.out_with(&[int(3)], with("j", "m")).unwrap();
    let two = [Tuple::of(&[int(1)]), Tuple::of(&[int(2)])];
    assert!(matches!(bench.space.out(bench.now, &two, &with("z", "l"), None), Err(SpaceError::Options(_))));
    let broken = OutOptions { key: Some(vec![tag::STR, 9]), ..OutOptions::default() };
    assert!(matches!(bench.out_with(&[int(1)], broken), Err(SpaceError::Encoding(_))));
}

#[test]
fn an_index_builds_itself_and_keeps_searches_short() {
    let mut bench = Bench::new();
    (0..2000).for_each(|number| bench.out(&[str("a"), int(number)]));
    for number in (0..2000).rev() {
        assert!(bench.rdp(&like(&[Some(str("a")), Some(int(number))])).is_some());
    }
    let info = bench.space.info();
    assert_eq!(info.partitions[0].indexes, [vec![0, 1]]);
    assert!(info.looked_at < 3 * 2000, "looked at {} tuples in vain", info.looked_at);
}

#[test]
fn indexes_that_are_of_no_use_make_room_and_declared_ones_stay() {
    let mut bench = Bench::with(Options { indexes: vec![vec![0]], ..Options::default() });
    (0..100).for_each(|number| bench.out(&[int(number), int(number), int(number), int(number)]));
    for set in 1u32..16 {
        let template = like(&[0, 1, 2, 3].map(|position| (set & 1 << position != 0).then(|| int(77))));
        (0..1200).for_each(|_| assert!(bench.rdp(&template).is_some()));
    }
    let indexes = &bench.space.info().partitions[0].indexes;
    assert!(indexes.len() <= 5 && indexes.contains(&vec![0]), "{indexes:?}");
}

#[test]
fn boxes_find_what_a_scan_finds() {
    let between = |low: f64, high: f64| {
        let (path, low, high) = (vec![], Value::Float(low).to_bytes(), Value::Float(high).to_bytes());
        Pattern::Where(Query::new(vec![Operation::Between { path, low, high }]).unwrap())
    };
    let template = Template::new(vec![Pattern::Any, between(2.5, 4.0), between(1.0, 1e300)], None);
    let count = |boxes: Vec<Vec<u16>>| {
        let mut bench = Bench::with(Options { boxes, ..Options::default() });
        for number in 0..400 {
            bench.out(&[str("at"), Value::Float(f64::from(number % 20)), int(i64::from(number / 20))]);
        }
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX] {
            bench.out(&[str("at"), Value::Float(3.0), Value::Float(odd)]);
            bench.out(&[str("at"), Value::Float(odd), Value::Float(3.0)]);
        }
        let found = bench.count(&template);
        let taken = std::iter::from_fn(|| bench.inp(&template)).count() as u64;
        (found, taken, bench.space.info().looked_at)
    };
    let (found, taken, looked_at) = count(vec![vec![1, 2]]);
    let (scanned, ..) = count(vec![]);
    assert_eq!((found, taken), (scanned, scanned));
    assert_eq!(found, 2 * 19);
    assert!(looked_at < 100, "looked at {looked_at} tuples in vain");
}

#[test]
fn a_box_around_a_large_integer_misses_nothing() {
    let compare =
        |comparison, actual: Value| Operation::Compare { path: vec![], comparison, actual: actual.to_bytes() };
    let big = |value: i128| {
        let bytes = value.to_le_bytes();
        let sign = if value < 0 { 0xff } else { 0 };
        let end = (1..16).rev().find(|end| bytes[*end] != sign).unwrap_or(0);
        let needs_sign = (bytes[end] >= 0x80) != (value < 0);
        Value::Big(bytes[..=end + usize::from(needs_sign)].to_vec())
    };
    let mut plain = Bench::new();
    let mut boxed = Bench::with(Options { boxes: vec![vec![0]], ..Options::default() });
    let floats = [1e20, -1e20, 1.5e19, 3e30, -3e30, 1e300];
    let values = [1 << 65, -(1 << 65), (1 << 70) + 1, 10i128.pow(20), 10i128.pow(30)].map(big);
    for value in floats.map(Value::Float).into_iter().chain(values.clone()).chain([int(5), int(i64::MAX)]) {
        plain.out(std::slice::from_ref(&value));
        boxed.out(&[value]);
    }
    for actual in values.into_iter().chain([Value::Float(1.2e20), Value::Float(1e30), int(7)]) {
        for comparison in [Comparison::Less, Comparison::AtMost, Comparison::Equal, Comparison::AtLeast] {
            let query = Query::new(vec![compare(comparison, actual.clone())]).unwrap();
            let template = Template::new(vec![Pattern::Where(query)], None);
            assert_eq!(boxed.count(&template), plain.count(&template), "{comparison:?} {actual:?}");
        }
    }
}

#[test]
fn pages_are_bounded_and_go_on_where_they_ended() {
    let mut bench = Bench::new();
    (0..1000).for_each(|number| bench.out(&[int(number)]));
    bench.out(&[str("last")]);
    let mut get = Get { limit: 64, page_bytes: 4000, ..Get::default() };
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let page = bench.space.get(bench.now, local(), &like(&[None]), &get, None).unwrap();
        assert!(page.tuples.len() <= 64);
        found.extend(page.tuples.iter().flat_map(Tuple::values));
        pages += 1;
        // The last tuple of the page is taken by another client. The next page still continues behind it.
        bench.inp(&like(&[found.last().cloned()]));
        match page.next {
            Some(next) => get.after = Some(next),
            None => break,
        }
    }
    assert!(pages > 15);
    assert_eq!(found, (0..1000).map(int).chain([str("last")]).collect::<Vec<_>>());
    let hostile = Cursor { partition: 7, slot: u32::MAX, number: 3, priority: 0, end: u64::MAX };
    get.after = Some(hostile);
    assert_eq!(bench.space.get(bench.now, local(), &like(&[None]), &get, None), Ok(Page::default()));
}

#[test]
fn who_puts_what_it_reads_comes_to_an_end() {
    for order in [Order::Any, Order::Fifo, Order::Lifo, Order::Priority] {
        for under in [None, Some(TransactionId(1))] {
            let mut bench = Bench::new();
            (0..10).for_each(|number| bench.out(&[int(number)]));
            bench
                .space
                .begin(bench.now, SessionId(1), TransactionId(1), Duration::from_secs(9), Isolation::ReadCommitted)
                .unwrap();
            bench.space.out(bench.now, &[Tuple::of(&[int(10)])], &OutOptions::default(), under).unwrap();
            let mut get = Get { limit: 2, order: Some(order), ..Get::default() };
            let mut found = 0;
            for page in 0.. {
                assert!(page < 20, "{order:?}");
                let page = bench.space.get(bench.now, local(), &like(&[None]), &get, under).unwrap();
                found += page.tuples.len();
                let options = OutOptions { priority: Some(-1), ..OutOptions::default() };
                bench.space.out(bench.now, &page.tuples, &options, under).unwrap();
                get.after = page.next;
                if page.next.is_none() {
                    break;
                }
            }
            assert_eq!(found, 11, "{order:?}");
        }
    }
}

#[test]
fn a_cursor_of_another_search_does_no_harm() {
    let mut bench = Bench::with(Options { indexes: vec![vec![0]], ..Options::default() });
    for number in 0..6 {
        bench.out(&[int(number % 2), int(number)]);
    }
    let get = |after| Get { limit: 2, after, ..Get::default() };
    let page = bench.space.get(bench.now, local(), &like(&[Some(int(0)), None]), &get(None), None).unwrap();
    let other = bench.space.get(bench.now, local(), &like(&[Some(int(1)), None]), &get(page.next), None).unwrap();
    let found: Vec<_> = other.tuples.iter().map(Tuple::values).collect();
    assert_eq!(found, [vec![int(1), int(3)], vec![int(1), int(5)]]);
    let none = bench.space.get(bench.now, local(), &like(&[Some(int(7)), None]), &get(page.next), None);
    assert_eq!(none, Ok(Page::default()));
}

#[test]
fn limits_are_errors_and_change_nothing() {
    let mut bench = Bench::with(Options { most_tuples: 2, ..Options::default() });
    let three: Vec<Tuple> = (0..3).map(|number| Tuple::of(&[int(number)])).collect();
    let full = bench.space.out(bench.now, &three, &OutOptions::default(), None);
    assert!(matches!(full, Err(SpaceError::Full { most: 2, .. })));
    assert_eq!(bench.space.info().tuples, 0);
    bench.space.out(bench.now, &three[..2], &OutOptions::default(), None).unwrap();
    assert!(bench.out_with(&[int(3)], OutOptions::default()).is_err());
    let mut bench = Bench::with(Options { most_bytes: 100_000, ..Options::default() });
    let large = Value::Bytes(vec![0; 30_000]);
    let put = (0..9).filter(|_| bench.out_with(std::slice::from_ref(&large), OutOptions::default()).is_ok()).count();
    assert_eq!(put, 3);
    bench.inp(&like(&[None]));
    assert!(bench.out_with(&[large], OutOptions::default()).is_ok());
    assert!(Space::new(Options { indexes: vec![vec![16]], ..Options::default() }).is_err());
    assert!(Space::new(Options { boxes: vec![vec![0, 1, 2, 3, 4]], ..Options::default() }).is_err());
    assert!(Space::new(Options { most_nesting: 1 << 20, ..Options::default() }).is_err());
}

#[test]
fn labels_count_against_the_limits() {
    let mut bench = Bench::with(Options { most_bytes: 1_000_000, ..Options::default() });
    let tuples = vec![Tuple::of(&[int(1)]); 100];
    let with = |length| OutOptions { label: Some(Value::Bytes(vec![0; length]).to_bytes()), ..OutOptions::default() };
    let full = bench.space.out(bench.now, &tuples, &with(10_000), None);
    assert!(matches!(full, Err(SpaceError::Full { .. })), "{full:?}");
    assert!(bench.space.out(bench.now, &tuples, &with(1000), None).is_ok());
}

#[test]
fn tuples_that_are_put_at_once_share_their_label() {
    let mut bench = Bench::new();
    let label = Some(Value::Bytes(vec![7; 1000]).to_bytes());
    let tuples: Vec<Tuple> = (0..3).map(|number| Tuple::of(&[int(number)])).collect();
    let options = OutOptions { label, ..OutOptions::default() };
    bench.space.out(bench.now, &tuples, &options, None).unwrap();
    let labels: Vec<Arc<[u8]>> = bench.space.store.all().into_iter().filter_map(|it| it.extra?.label).collect();
    assert_eq!(labels.len(), 3);
    assert!(labels.iter().all(|label| Arc::ptr_eq(label, &labels[0])));
}

#[test]
fn many_signatures_share_the_last_partition() {
    let mut bench = Bench::new();
    let kinds =
        |number: usize| (0..9).map(|bit| if number >> bit & 1 == 0 { int(1) } else { str("x") }).collect::<Vec<_>>();
    (0..512).for_each(|number| bench.out(&kinds(number)));
    assert!(bench.space.info().partitions.len() <= 256);
    for number in 0..512 {
        let exact = Template::new(kinds(number).iter().map(Pattern::actual).collect(), None);
        assert_eq!(bench.inp(&exact), Some(kinds(number)));
    }
    // Partitions that became empty are reused for new signatures.
    (0..300).for_each(|_| bench.out(&[Value::None, Value::None]));
    assert_eq!(bench.count(&like(&[None, Some(Value::None)])), 300);
}

#[test]
fn what_shares_a_partition_has_the_declared_indexes() {
    let mut bench = Bench::with(Options { indexes: vec![vec![0, 8]], automatic: false, ..Options::default() });
    let kinds =
        |number: usize| (0..9).map(|bit| if number >> bit & 1 == 0 { int(1) } else { str("x") }).collect::<Vec<_>>();
    (0..512).for_each(|number| bench.out(&kinds(number)));
    let shared = bench.space.info().partitions.into_iter().find(|partition| partition.signature.is_empty()).unwrap();
    assert_eq!(shared.indexes, [vec![0, 8]]);
    let template = |number: usize| Template::new(kinds(number).iter().map(Pattern::actual).collect(), None);
    (0..512).for_each(|number| assert_eq!(bench.inp(&template(number)), Some(kinds(number))));
}

#[test]
fn leases_end_and_can_be_renewed() {
    let mut bench = Bench::new();
    let lease = |seconds| OutOptions { lease: Some(Duration::from_secs(seconds)), ..OutOptions::default() };
    let (short, long) = (bench.out_with(&[int(1)], lease(2)).unwrap(), bench.out_with(&[int(2)], lease(2)).unwrap());
    assert_eq!(bench.space.next_deadline(), Some(Duration::from_secs(2)));
    bench.space.renew(bench.now, long, None).unwrap();
    bench.now = Duration::from_secs(2);
    // Even without a tick, an expired tuple is not found.
    assert_eq!(bench.rdp(&like(&[Some(int(1))])), None);
    assert_eq!(bench.rdp(&like(&[None])), Some(vec![int(2)]));
    assert_eq!(bench.space.renew(bench.now, short, None), Err(SpaceError::NoLease));
    assert_eq!((bench.space.info().expired, bench.space.next_deadline()), (1, None));
}

#[test]
fn a_lease_is_renewed_by_whom_its_user_allows() {
    let mut bench = Bench::new();
    let lease = OutOptions { lease: Some(Duration::from_secs(9)), ..OutOptions::default() };
    let ada = Arc::from("ada");
    let put =
        |bench: &mut Bench, user| bench.space.out_by(user, bench.now, &[Tuple::of(&[int(1)])], &lease, None).unwrap();
    let (of_ada, of_nobody) = (put(&mut bench, Some(&ada)), put(&mut bench, None));
    let end = |bench: &mut Bench, number, by: &str| {
        let now = bench.now;
        bench
            .space
            .renew_if(now, number, Some(Duration::ZERO), |user, tuple| user == Some(by) && tuple.values() == [int(1)])
    };
    assert_eq!(end(&mut bench, of_ada, "eve"), Err(SpaceError::NoLease));
    assert_eq!(end(&mut bench, of_nobody, "ada"), Err(SpaceError::NoLease));
    assert_eq!(bench.count(&like(&[None])), 2);
    assert_eq!(end(&mut bench, of_ada, "ada"), Ok(()));
    assert_eq!(bench.count(&like(&[None])), 1);
}

#[test]
fn large_tuples_are_shared_and_memory_comes_back() {
    let mut bench = Bench::new();
    let large = Tuple::of(&[Value::Bytes(vec![1; 100_000])]);
    bench.space.out(bench.now, std::slice::from_ref(&large), &OutOptions::default(), None).unwrap();
    let found = bench.space.find(bench.now, local(), &like(&[None]), &taking(), None).unwrap().unwrap();
    assert_eq!(found.bytes().as_ptr(), large.bytes().as_ptr());
    let empty = bench.space.info().bytes;
    for _ in 0..3 {
        (0..20_000)
            .for_each(|number| bench.out(&[str("a"), int(number), Value::Bytes(vec![0; number as usize % 300])]));
        (0..20_000).for_each(|_| assert!(bench.inp(&like(&[None, None, None])).is_some()));
    }
    let left = bench.space.info().bytes - empty;
    assert!(left < 1_500_000, "{left} bytes are left");
}
