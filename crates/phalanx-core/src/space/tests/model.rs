//! The engine compared with a plain list of tuples, searched from the start. Random conversations must give the same
//! answers.

use super::*;
use proptest::prelude::*;
use std::cmp::Reverse;

pub const SESSIONS: u64 = 3;

#[derive(Debug, Clone)]
pub enum Want {
    Actual(Value),
    Any,
    Int,
    Bool,
    Above(i64),
}

#[derive(Debug, Clone)]
pub struct Ask {
    wants: Vec<Want>,
    order: Order,
    key: Option<u8>,
    label: Option<u8>,
    take: bool,
}

impl Ask {
    /// A template for any pair with this first field.
    pub fn pair(first: Want, take: bool) -> Ask {
        Ask { wants: vec![first, Want::Any], order: Order::Any, key: None, label: None, take }
    }
}

#[derive(Debug, Clone)]
pub enum Step {
    Out { fields: Vec<Value>, lease: Option<u64>, key: Option<u8>, label: Option<u8>, priority: i64, under: Option<u8> },
    Get { ask: Ask, session: u64, under: Option<u8> },
    All { ask: Ask, limit: u32 },
    Wait { ask: Ask, session: u64, seconds: u64, under: Option<u8> },
    Cancel { session: u64, back: u64 },
    Count { ask: Ask },
    Acknowledge { session: u64, back: u64 },
    EndSession { session: u64 },
    Begin { session: u64, id: u8, seconds: u64 },
    Prepare { id: u8 },
    Commit { id: u8 },
    Abort { id: u8 },
    Pass { seconds: u64 },
}

fn field() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (0i64..4).prop_map(Value::Int),
        3 => prop_oneof![Just(str("a")), Just(str("b"))],
        1 => any::<bool>().prop_map(Value::Bool),
        1 => prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), Just(1.0)].prop_map(Value::Float),
        1 => Just(Value::None),
    ]
}

fn fields() -> impl Strategy<Value = Vec<Value>> {
    prop_oneof![
        4 => (prop_oneof![Just(str("a")), Just(str("b"))], 0i64..3).prop_map(|(name, number)| vec![name, int(number)]),
        2 => proptest::collection::vec(field(), 0..4),
    ]
}

fn want() -> impl Strategy<Value = Want> {
    prop_oneof![
        5 => field().prop_map(Want::Actual),
        2 => Just(Want::Any),
        2 => Just(Want::Int),
        1 => Just(Want::Bool),
        1 => (0i64..3).prop_map(Want::Above),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let number = || proptest::option::weighted(0.1, 0u8..3);
    let order = prop_oneof![Just(Order::Any), Just(Order::Fifo), Just(Order::Lifo), Just(Order::Priority)];
    let wants = prop_oneof![
        3 => proptest::collection::vec(want(), 2),
        1 => proptest::collection::vec(want(), 0..4),
    ];
    let ask = (wants, order, number(), number(), any::<bool>());
    ask.prop_map(|(wants, order, key, label, take)| Ask { wants, order, key, label, take })
}

pub fn step() -> impl Strategy<Value = Step> {
    let number = || proptest::option::weighted(0.1, 0u8..3);
    let under = || proptest::option::weighted(0.2, 0u8..3);
    let session = || 0..SESSIONS;
    let out = (fields(), proptest::option::weighted(0.2, 1u64..5), number(), number(), -1i64..3, under());
    prop_oneof![
        10 => out.prop_map(|(fields, lease, key, label, priority, under)| Step::Out { fields, lease, key, label, priority, under }),
        8 => (ask(), session(), under()).prop_map(|(ask, session, under)| Step::Get { ask, session, under }),
        2 => (ask(), 2u32..5).prop_map(|(ask, limit)| Step::All { ask, limit }),
        5 => (ask(), session(), 1u64..5, under()).prop_map(|(ask, session, seconds, under)| Step::Wait { ask, session, seconds, under }),
        1 => (session(), 0u64..4).prop_map(|(session, back)| Step::Cancel { session, back }),
        1 => ask().prop_map(|ask| Step::Count { ask }),
        2 => (session(), 0u64..4).prop_map(|(session, back)| Step::Acknowledge { session, back }),
        1 => session().prop_map(|session| Step::EndSession { session }),
        2 => (session(), 0u8..3, 1u64..=LONGEST).prop_map(|(session, id, seconds)| Step::Begin { session, id, seconds }),
        1 => (0u8..3).prop_map(|id| Step::Prepare { id }),
        1 => (0u8..3).prop_map(|id| Step::Commit { id }),
        1 => (0u8..3).prop_map(|id| Step::Abort { id }),
        2 => (0u64..3).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

impl Want {
    fn pattern(&self) -> Pattern {
        match self {
            Want::Actual(value) => Pattern::actual(value),
            Want::Any => Pattern::Any,
            Want::Int => Pattern::of(mask::INT),
            Want::Bool => Pattern::of(mask::BOOL),
            Want::Above(limit) => {
                let (comparison, actual) = (Comparison::More, int(*limit).to_bytes());
                Pattern::Where(Query::new(vec![Operation::Compare { path: vec![], comparison, actual }]).unwrap())
            }
        }
    }

    fn fits(&self, value: &Value) -> bool {
        match (self, value) {
            (Want::Actual(Value::Float(one)), Value::Float(other)) => {
                (one.is_nan() && other.is_nan()) || one.to_bits() == other.to_bits()
            }
            (Want::Actual(one), other) => one == other,
            (Want::Any, _) | (Want::Int, Value::Int(_)) | (Want::Bool, Value::Bool(_)) => true,
            (Want::Above(limit), Value::Int(value)) => value > limit,
            (Want::Above(limit), Value::Float(value)) => *value > *limit as f64,
            _ => false,
        }
    }
}

impl Ask {
    fn template(&self) -> Template {
        Template::new(self.wants.iter().map(Want::pattern).collect(), None)
    }

    fn get(&self) -> Get {
        Get {
            take: self.take,
            order: Some(self.order),
            key: self.key.map(encoded),
            label: self.label.map(encoded),
            ..Get::default()
        }
    }

    fn fits(&self, one: &One) -> bool {
        self.wants.len() == one.fields.len()
            && self.wants.iter().zip(&one.fields).all(|(want, field)| want.fits(field))
            && self.key.is_none_or(|key| one.key == Some(key))
            && self.label.is_none_or(|label| one.label == Some(label))
    }

    fn rank(&self, one: &One) -> (Reverse<i64>, i128) {
        let number = i128::from(one.number);
        match self.order {
            Order::Any | Order::Fifo => (Reverse(0), number),
            Order::Lifo => (Reverse(0), -number),
            Order::Priority => (Reverse(one.priority), number),
        }
    }
}

fn encoded(number: u8) -> Vec<u8> {
    int(i64::from(number)).to_bytes()
}

#[derive(Debug, Clone)]
struct One {
    number: u64,
    fields: Vec<Value>,
    key: Option<u8>,
    label: Option<u8>,
    priority: i64,
    deadline: Option<u64>,
}

#[derive(Debug)]
struct Waiting {
    session: u64,
    request: u64,
    ask: Ask,
    deadline: u64,
    under: Option<u8>,
}

#[derive(Debug)]
struct Under {
    session: u64,
    deadline: u64,
    prepared: bool,
    staged: Vec<One>,
    taken: Vec<One>,
}

#[derive(Debug, Default)]
struct Model {
    now: u64,
    number: u64,
    there: Vec<One>,
    waiting: Vec<Waiting>,
    under: BTreeMap<u8, Under>,
    ended: BTreeMap<u8, bool>,
    unacknowledged: Vec<(u64, u64, One)>,
    /// Session, request, and the number of the tuple; `None` for an error.
    answers: Vec<(u64, u64, Option<Vec<Value>>)>,
}

const LONGEST: u64 = 6;

impl Model {
    fn key_is_there(&self, key: u8, under: Option<u8>) -> bool {
        let has = |one: &One| one.key == Some(key);
        let replaces = under.and_then(|id| self.under.get(&id));
        if replaces.is_some_and(|own| own.taken.iter().any(has) && !own.staged.iter().any(has)) {
            return false;
        }
        self.there.iter().any(has)
            || self.unacknowledged.iter().any(|(.., one)| has(one))
            || self.under.values().any(|own| own.staged.iter().chain(&own.taken).any(has))
    }

    fn open(&self, under: Option<u8>) -> bool {
        under.is_none_or(|id| self.under.get(&id).is_some_and(|own| !own.prepared))
    }

    /// A tuple has become visible to all, or to one transaction only.
    fn settle(&mut self, one: One, by: Option<u8>) {
        if one.deadline.is_some_and(|deadline| deadline <= self.now) && by.is_none() {
            return;
        }
        let (answers, fits) = (&mut self.answers, |it: &Waiting| it.ask.fits(&one) && (by.is_none() || it.under == by));
        self.waiting.retain(|it| {
            let reads = !it.ask.take && fits(it);
            if reads {
                answers.push((it.session, it.request, Some(one.fields.clone())));
            }
            !reads
        });
        if let Some(place) = self.waiting.iter().position(|it| it.ask.take && fits(it)) {
            let taker = self.waiting.remove(place);
            self.answers.push((taker.session, taker.request, Some(one.fields.clone())));
            return match taker.under {
                Some(id) if by.is_none() => self.under.get_mut(&id).unwrap().taken.push(one),
                Some(_) => {}
                None => self.unacknowledged.push((taker.session, taker.request, one)),
            };
        }
        match by {
            Some(id) => self.under.get_mut(&id).unwrap().staged.push(one),
            None => self.there.push(one),
        }
    }

    fn end(&mut self, id: u8, commit: bool) {
        let back = self.dissolve(id, commit);
        self.bring_back(back);
    }

    fn dissolve(&mut self, id: u8, commit: bool) -> Vec<One> {
        let Some(own) = self.under.remove(&id) else { return vec![] };
        self.ended.insert(id, commit);
        let answers = &mut self.answers;
        self.waiting.retain(|it| {
            if it.under == Some(id) {
                answers.push((it.session, it.request, None));
            }
            it.under != Some(id)
        });
        if commit { own.staged } else { own.taken }
    }

    fn bring_back(&mut self, mut back: Vec<One>) {
        back.sort_by_key(|one| one.number);
        back.into_iter().for_each(|one| self.settle(one, None));
    }

    fn tick(&mut self) {
        let now = self.now;
        self.there.retain(|one| one.deadline.is_none_or(|deadline| deadline > now));
        let over: Vec<u8> = self.under.iter().filter(|(_, own)| own.deadline <= now).map(|(id, _)| *id).collect();
        let back = over.into_iter().flat_map(|id| self.dissolve(id, false)).collect();
        self.bring_back(back);
        let answers = &mut self.answers;
        let mut late: Vec<&Waiting> = self.waiting.iter().filter(|it| it.deadline <= now).collect();
        late.sort_by_key(|it| it.deadline);
        answers.extend(late.iter().map(|it| (it.session, it.request, None)));
        self.waiting.retain(|it| it.deadline > now);
    }

    fn end_session(&mut self, session: u64) {
        self.waiting.retain(|it| it.session != session);
        let lost = self.under.iter().filter(|(_, own)| own.session == session && !own.prepared);
        let lost: Vec<u8> = lost.map(|(id, _)| *id).collect();
        let mut back: Vec<One> = lost.into_iter().flat_map(|id| self.dissolve(id, false)).collect();
        let theirs = self.unacknowledged.iter().filter(|(of, ..)| *of == session);
        back.extend(theirs.map(|(.., one)| one.clone()));
        self.unacknowledged.retain(|(of, ..)| *of != session);
        self.bring_back(back);
    }

    /// The tuples that may be found, best first, and whether the order determines which.
    fn matching(&self, ask: &Ask, under: Option<u8>) -> Vec<One> {
        let own = under.and_then(|id| self.under.get(&id)).map_or(&[][..], |own| &own.staged);
        let mut all: Vec<One> = self.there.iter().chain(own).filter(|one| ask.fits(one)).cloned().collect();
        all.sort_by_key(|one| ask.rank(one));
        all
    }

    /// Takes a tuple that was found: the engine's choice, if it had one.
    fn take(&mut self, one: &One, session: u64, request: u64, under: Option<u8>) {
        if let Some(place) = self.there.iter().position(|it| it.number == one.number) {
            let one = self.there.remove(place);
            return match under {
                Some(id) => self.under.get_mut(&id).unwrap().taken.push(one),
                None => self.unacknowledged.push((session, request, one)),
            };
        }
        let staged = &mut self.under.get_mut(&under.unwrap()).unwrap().staged;
        staged.retain(|it| it.number != one.number);
    }
}

pub struct Pair {
    pub bench: Bench,
    model: Model,
    request: u64,
    begun: BTreeMap<u8, u128>,
    serial: u128,
}

impl Pair {
    fn id(&self, under: Option<u8>) -> Option<TransactionId> {
        under.map(|id| TransactionId(self.begun.get(&id).copied().unwrap_or(0)))
    }

    pub fn new(options: Options) -> Pair {
        let bench = Bench::with(Options { longest_transaction: Duration::from_secs(LONGEST), ..options });
        Pair { bench, model: Model::default(), request: 0, begun: BTreeMap::new(), serial: 1 }
    }

    pub fn step(&mut self, step: Step) {
        self.request += 1;
        let (now, request) = (self.bench.now, self.request);
        self.model.tick();
        match step {
            Step::Out { fields, lease, key, label, priority, under } => {
                let options = OutOptions {
                    lease: lease.map(Duration::from_secs),
                    key: key.map(encoded),
                    label: label.map(encoded),
                    priority: Some(priority),
                    once: None,
                };
                let done = self.bench.space.out(now, &[Tuple::of(&fields)], &options, self.id(under));
                let possible = self.model.open(under) && !key.is_some_and(|key| self.model.key_is_there(key, under));
                assert_eq!(done.is_ok(), possible, "{done:?}");
                if possible {
                    self.model.number += 1;
                    let (number, deadline) = (self.model.number, lease.map(|lease| self.model.now + lease));
                    assert_eq!(done, Ok(number));
                    let one = One { number, fields, key, label, priority, deadline };
                    self.model.settle(one, under);
                }
            }
            Step::Get { ask, session, under } => {
                let who = remote(session, request);
                let found = self.bench.space.find(now, who, &ask.template(), &ask.get(), self.id(under));
                assert_eq!(found.is_ok(), self.model.open(under));
                if let Ok(found) = found {
                    self.check_found(&ask, found, session, request, under);
                }
            }
            Step::All { ask, limit } => self.all(&ask, limit),
            Step::Wait { ask, session, seconds, under } => {
                let who = remote(session, request);
                let deadline = now + Duration::from_secs(seconds);
                let found =
                    self.bench.space.wait(now, who, &ask.template(), &ask.get(), Some(deadline), self.id(under));
                assert_eq!(found.is_ok(), self.model.open(under));
                let Ok(found) = found else { return };
                if found.is_none() && self.model.matching(&ask, under).is_empty() {
                    let deadline = self.model.now + seconds;
                    self.model.waiting.push(Waiting { session, request, ask, deadline, under });
                } else {
                    self.check_found(&ask, found, session, request, under);
                }
            }
            Step::Cancel { session, back } => {
                let request = request.saturating_sub(back);
                let waits = |it: &Waiting| (it.session, it.request) == (session, request);
                let there = self.model.waiting.iter().any(waits);
                assert_eq!(self.bench.space.cancel(SessionId(session), request), there);
                self.model.waiting.retain(|it| !waits(it));
            }
            Step::Count { ask } => {
                let count = self.bench.space.count(now, &ask.template(), &ask.get(), None);
                assert_eq!(count, Ok(self.model.matching(&ask, None).len() as u64));
            }
            Step::Acknowledge { session, back } => {
                let request = request.saturating_sub(back);
                self.bench.space.acknowledge(SessionId(session), request);
                self.model.unacknowledged.retain(|(of, number, _)| (*of, *number) != (session, request));
            }
            Step::EndSession { session } => {
                self.bench.space.end_session(now, SessionId(session));
                self.model.end_session(session);
            }
            Step::Begin { session, id, seconds } => {
                if !self.model.under.contains_key(&id) {
                    self.serial += 1;
                    self.begun.insert(id, self.serial);
                    self.model.ended.remove(&id);
                }
                let id_there = TransactionId(self.begun[&id]);
                let done = self.bench.space.begin(
                    now,
                    SessionId(session),
                    id_there,
                    Duration::from_secs(seconds),
                    Isolation::ReadCommitted,
                );
                assert_eq!(done.is_ok(), !self.model.under.contains_key(&id));
                let deadline = self.model.now + seconds;
                let new = Under { session, deadline, prepared: false, staged: vec![], taken: vec![] };
                self.model.under.entry(id).or_insert(new);
            }
            Step::Prepare { id } => {
                let done = self.bench.space.prepare(now, self.id(Some(id)).unwrap(), None);
                assert_eq!(done.is_ok(), self.model.under.contains_key(&id));
                let now = self.model.now;
                if let Some(own) = self.model.under.get_mut(&id).filter(|own| !own.prepared) {
                    (own.prepared, own.deadline) = (true, now + LONGEST);
                    let answers = &mut self.model.answers;
                    self.model.waiting.retain(|it| {
                        if it.under == Some(id) {
                            answers.push((it.session, it.request, None));
                        }
                        it.under != Some(id)
                    });
                }
            }
            Step::Commit { id } => {
                let done = self.bench.space.commit(now, self.id(Some(id)).unwrap());
                assert_eq!(
                    done.is_ok(),
                    self.model.under.contains_key(&id) || self.model.ended.get(&id) == Some(&true)
                );
                self.model.end(id, true);
            }
            Step::Abort { id } => {
                let done = self.bench.space.abort(now, self.id(Some(id)).unwrap());
                assert_eq!(
                    done.is_ok(),
                    self.model.under.contains_key(&id) || self.model.ended.get(&id) == Some(&false)
                );
                self.model.end(id, false);
            }
            Step::Pass { seconds } => {
                self.model.now += seconds;
                self.model.tick();
                self.bench.pass(seconds);
            }
        }
        while self.bench.space.is_behind() {
            self.bench.space.on_tick(self.bench.now);
        }
        self.compare();
    }

    /// The number of the tuple that a request has just taken.
    fn taken(&self, session: u64, request: u64, under: Option<u8>) -> u64 {
        let space = &self.bench.space;
        let Some(id) = under else { return space.unacknowledged[&(SessionId(session), request)][0].number };
        let own = &space.transactions[&self.id(under).unwrap()];
        let before = &self.model.under[&id];
        match own.taken.len() > before.taken.len() {
            true => {
                let is_known = |held: &&Held| before.taken.iter().any(|one| one.number == held.number);
                own.taken.iter().find(|held| !is_known(held)).unwrap().number
            }
            false => {
                let left = own.all_staged();
                let is_left = |one: &&One| left.iter().any(|held| held.number == one.number);
                before.staged.iter().find(|one| !is_left(one)).unwrap().number
            }
        }
    }

    fn check_found(&mut self, ask: &Ask, found: Option<Tuple>, session: u64, request: u64, under: Option<u8>) {
        let matching = self.model.matching(ask, under);
        let found = found.map(|tuple| tuple.bytes().clone());
        let bytes = |one: &&One| found.as_ref() == Some(Tuple::of(&one.fields).bytes());
        let chosen = match ask.order {
            // The engine may choose any of them.
            Order::Any if found.is_some() && ask.take => {
                let number = self.taken(session, request, under);
                matching.iter().find(|one| one.number == number).filter(bytes)
            }
            Order::Any => matching.iter().find(bytes),
            _ => matching.first().filter(bytes),
        };
        assert_eq!(chosen.is_some(), found.is_some(), "{ask:?} found {found:?} of {matching:?}");
        assert_eq!(matching.is_empty(), found.is_none());
        if let (Some(one), true) = (chosen, ask.take) {
            self.model.take(one, session, request, under);
        }
    }

    /// All pages together are all matching tuples; in order, if one was asked for.
    fn all(&mut self, ask: &Ask, limit: u32) {
        let (now, who) = (self.bench.now, local());
        let mut get = Get { limit, take: false, ..ask.get() };
        let mut found = Vec::new();
        loop {
            let page = self.bench.space.get(now, who, &ask.template(), &get, None).unwrap();
            assert!(page.tuples.len() <= limit as usize);
            found.extend(page.tuples.iter().map(|tuple| tuple.bytes().clone()));
            get.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        let mut expected: Vec<_> =
            self.model.matching(ask, None).iter().map(|one| Tuple::of(&one.fields).into_bytes()).collect();
        if ask.order == Order::Any {
            found.sort();
            expected.sort();
        }
        assert_eq!(found, expected);
    }

    fn compare(&mut self) {
        let plain = |values: &Vec<Value>| Tuple::of(values).into_bytes();
        let answers = self.bench.answers();
        let mut answers: Vec<_> =
            answers.into_iter().map(|(of, request, answer)| (of, request, answer.ok().as_ref().map(plain))).collect();
        let expected = std::mem::take(&mut self.model.answers);
        let mut expected: Vec<_> =
            expected.into_iter().map(|(of, request, answer)| (of, request, answer.as_ref().map(plain))).collect();
        answers.sort();
        expected.sort();
        assert_eq!(answers, expected);
        let info = self.bench.space.info();
        assert_eq!(info.tuples, self.model.there.len() as u64);
        assert_eq!(info.takers + info.readers, self.model.waiting.len() as u64);
        assert_eq!(info.transactions, self.model.under.len() as u64);
        assert_eq!(info.unacknowledged, self.model.unacknowledged.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_answers_as_a_list_does(steps in proptest::collection::vec(step(), 1..400), declared in any::<bool>()) {
        let indexes = if declared { vec![vec![0], vec![0, 1]] } else { vec![] };
        let boxes = if declared { vec![vec![1]] } else { vec![] };
        let mut pair = Pair::new(Options { indexes, boxes, ..Options::default() });
        for step in steps {
            pair.step(step);
        }
        for session in 0..SESSIONS {
            pair.step(Step::EndSession { session });
        }
    }
}
