//! Whole tuples: all of them in pages, and withdrawn by their spots under a transaction.

use super::*;

const ONE: TransactionId = TransactionId(1);
const MINUTE: Duration = Duration::from_secs(60);

fn mover() -> SessionId {
    SessionId(7)
}

fn browse(bench: &mut Bench) -> Vec<Whole> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let (page, next) = bench.space.browse(bench.now, mover(), after).unwrap();
        all.extend(page);
        after = next;
        if after.is_none() {
            return all;
        }
    }
}

fn withdraw(bench: &mut Bench, spots: &[Spot]) -> Result<Vec<Whole>, SpaceError> {
    let asker = Asker { session: mover(), request: 1, acknowledges: false };
    bench.space.withdraw_whole(bench.now, asker, spots, ONE)
}

fn begin(bench: &mut Bench) {
    bench.space.begin(bench.now, mover(), ONE, MINUTE, Isolation::ReadCommitted).unwrap();
}

#[test]
fn every_tuple_is_on_one_page_whatever_it_looks_like() {
    let mut bench = Bench::new();
    bench.out(&[]);
    for number in 0..2 * MOST_WHOLE as i64 {
        bench.out(&[int(number)]);
        bench.out(&[str("x"), int(number)]);
    }
    bench.out(&[Value::Bytes(vec![7; 5 << 20]), str("longer than a page")]);
    begin(&mut bench);
    bench.space.out(bench.now, &[Tuple::of(&[str("not committed")])], &OutOptions::default(), Some(ONE)).unwrap();
    let all = browse(&mut bench);
    assert_eq!(all.len(), 4 * MOST_WHOLE + 2);
    let numbers: BTreeSet<u64> = all.iter().map(|whole| whole.beside.spot.number).collect();
    assert_eq!(numbers.len(), all.len());
}

#[test]
fn a_page_ends_among_free_slots_and_the_next_goes_on() {
    let mut bench = Bench::new();
    let most = 3 << 16;
    for number in 0..most {
        bench.out(&[int(number)]);
    }
    for number in (0..most).filter(|number| number % 50 != 0) {
        bench.inp(&like(&[Some(int(number))])).unwrap();
    }
    let (page, next) = bench.space.browse(bench.now, mover(), None).unwrap();
    assert!(page.len() < MOST_WHOLE && next.is_some(), "what is looked at is bounded");
    assert_eq!(browse(&mut bench).len(), (most as usize).div_ceil(50));
}

#[test]
fn what_was_said_with_a_tuple_is_told() {
    let mut bench = Bench::new();
    let lease = Some(Duration::from_secs(100));
    let (key, label) = (Some(int(1).to_bytes()), Some(str("night").to_bytes()));
    let said = OutOptions { lease, key: key.clone(), label: label.clone(), priority: Some(7), once: None };
    bench.out_with(&[str("all")], said).unwrap();
    bench.pass(40);
    let [whole] = &browse(&mut bench)[..] else { panic!("one") };
    let Beside { lease, priority, .. } = whole.beside;
    assert_eq!((lease, priority), (Some(Duration::from_secs(60)), 7));
    assert_eq!((&whole.beside.key, &whole.beside.label), (&key, &label));
    bench.pass(60);
    assert_eq!(browse(&mut bench), []);
}

#[test]
fn what_is_withdrawn_is_gone_with_the_commit_and_back_with_the_abort() {
    for commits in [true, false] {
        let mut bench = Bench::new();
        bench.out(&[str("a")]);
        bench.out(&[str("b"), int(1)]);
        let spots: Vec<Spot> = browse(&mut bench).iter().map(|whole| whole.beside.spot).collect();
        begin(&mut bench);
        assert_eq!(withdraw(&mut bench, &spots).unwrap().len(), 2);
        assert_eq!(withdraw(&mut bench, &spots).unwrap(), [], "they are there once");
        assert_eq!(browse(&mut bench), []);
        match commits {
            true => bench.space.commit(bench.now, ONE).unwrap(),
            false => bench.space.abort(bench.now, ONE).unwrap(),
        }
        assert_eq!(browse(&mut bench).len(), if commits { 0 } else { 2 });
    }
}

#[test]
fn spots_of_others_and_of_nothing_withdraw_nothing() {
    let mut bench = Bench::new();
    bench.out(&[str("a")]);
    let spot = browse(&mut bench)[0].beside.spot;
    assert_eq!(withdraw(&mut bench, &[spot]), Err(SpaceError::NoTransaction));
    begin(&mut bench);
    let wrong = [
        Spot { number: spot.number + 1, ..spot },
        Spot { slot: spot.slot + 1, ..spot },
        Spot { slot: u32::MAX, ..spot },
        Spot { partition: u32::MAX, ..spot },
    ];
    assert_eq!(withdraw(&mut bench, &wrong).unwrap(), []);
    assert!(matches!(withdraw(&mut bench, &vec![spot; MOST_WHOLE + 1]), Err(SpaceError::Full { .. })));
    for after in wrong {
        assert!(bench.space.browse(bench.now, mover(), Some(after)).is_ok());
    }
    assert_eq!(browse(&mut bench).len(), 1);
}

#[test]
fn who_goes_by_a_card_that_was_replaced_is_told() {
    let mut bench = Bench::new();
    bench.out(&[str("a")]);
    let spot = browse(&mut bench)[0].beside.spot;
    begin(&mut bench);
    assert!(bench.space.go_by_card(mover(), b""));
    bench.space.replace_card(bench.now, Bytes::from_static(b"another move"), b"").unwrap();
    assert_eq!(bench.space.browse(bench.now, mover(), None), Err(SpaceError::OtherMembers));
    assert_eq!(withdraw(&mut bench, &[spot]), Err(SpaceError::OtherMembers));
}
