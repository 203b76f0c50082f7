//! Clients put, take and read tuples while members are killed and cut off. Their answers are checked for linearizability.

use super::linear::{Did, Operation, is_linearizable};
use super::wire::{Members, Wire, until};
use super::*;
use crate::space::log::replicated::{Leader, Leading, Replicated, Timing};
use phalanx_net::sync::lock;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A short beat. A member that stops leading, for whatever reason, is part of the tested history.
const TIMING: Timing = Timing { beat: Duration::from_millis(40) };
const CLIENTS: usize = 4;
/// Clients that only read. They reveal an engine that does not know that it was replaced.
const READERS: usize = 2;
/// Most operations on one kind of tuple.
const OF_A_KIND: u64 = 40;
const READS_OF_A_KIND: u64 = 80;
const ROUNDS: u64 = 9;

/// As much of an engine as the test needs: the numbers of the tuples of each kind. It decides, and returns what it changed.
#[derive(Default)]
struct Engine {
    kinds: BTreeMap<u64, Vec<u64>>,
    next: u64,
}

impl Engine {
    fn restore(&mut self, change: Change) -> Result<(), LogError> {
        match change {
            Change::Put { number, record } => {
                let values = record.tuple.values();
                let Some(Value::Int(kind)) = values.first() else { panic!("{values:?}") };
                self.kinds.entry(*kind as u64).or_default().push(number);
            }
            Change::Numbered { next } => self.next = next,
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn out(&mut self, kind: u64) -> Change {
        let number = self.next;
        self.next += 1;
        self.kinds.entry(kind).or_default().push(number);
        Change::Put { number, record: Record::of(Tuple::of(&[Value::Int(kind as i64)])) }
    }

    fn inp(&mut self, kind: u64) -> Option<Change> {
        let number = self.kinds.get_mut(&kind)?.pop()?;
        Some(Change::Gone { number })
    }

    fn rdp(&self, kind: u64) -> bool {
        self.kinds.get(&kind).is_some_and(|numbers| !numbers.is_empty())
    }
}

/// An engine and its log, as a server holds them.
struct Served {
    engine: Mutex<Engine>,
    log: Leading,
}

impl Served {
    /// Does one operation, by the rule of the log. `None`: it is unknown whether it happened, or what it would have seen.
    fn ask(&self, kind: u64, what: u64) -> Result<Did, Option<Did>> {
        let mut engine = lock(&self.engine);
        match what {
            0 => {
                let position = self.log.append(vec![engine.out(kind)]);
                drop(engine);
                self.log.wait(position).map(|()| Did::Out).map_err(|_| Some(Did::MaybeOut))
            }
            1 => match engine.inp(kind) {
                Some(gone) => {
                    let position = self.log.append(vec![gone]);
                    drop(engine);
                    self.log.wait(position).map(|()| Did::Take(true)).map_err(|_| Some(Did::MaybeTake))
                }
                None => {
                    let position = self.log.position();
                    drop(engine);
                    self.log.confirm(position).map(|()| Did::Take(false)).map_err(|_| None)
                }
            },
            _ => {
                let (found, position) = (engine.rdp(kind), self.log.position());
                drop(engine);
                self.log.confirm(position).map(|()| Did::Read(found)).map_err(|_| None)
            }
        }
    }
}

#[derive(Default)]
struct Grid {
    served: Mutex<BTreeMap<u64, Arc<Served>>>,
    /// The logical clock that orders calls and answers.
    clock: AtomicU64,
    asked: AtomicU64,
    answered: AtomicU64,
    /// The member that writing clients no longer ask; reading clients still do.
    left: AtomicU64,
    /// The newest kind that was read, and the number of its reads.
    reads: Mutex<(u64, u64)>,
    over: AtomicBool,
    history: Mutex<Vec<(u64, Operation)>>,
}

impl Grid {
    /// Serves at a member whenever it leads, until the member is killed. Clients can use an engine for a while after its member
    /// has stopped leading, because that is when a stale engine could do harm. A failed engine is replaced by a new one, even
    /// if the same member still leads.
    fn serve(&self, member: u64, replicated: &Replicated, me: &Arc<Replicated>) {
        let mut known = Leader::Unknown;
        while !self.over.load(Ordering::Relaxed) && Arc::strong_count(me) > 1 {
            let leader = replicated.wait_for_leader(&known, Duration::from_millis(20));
            let has_engine = lock(&self.served).contains_key(&member);
            if leader == Leader::Here && (known != Leader::Here || !has_engine) {
                let mut engine = Engine::default();
                if let Ok(log) = me.lead(|change| engine.restore(change)) {
                    let served = Served { engine: Mutex::new(engine), log };
                    lock(&self.served).insert(member, Arc::new(served));
                    known = Leader::Here;
                }
            } else if leader != known {
                known = leader;
            }
        }
    }

    fn ask_someone(&self, wire: &Wire, kind: u64, what: u64, but: u64) {
        let others = |(member, served): (&u64, &Arc<Served>)| (*member != but).then(|| (*member, served.clone()));
        let served: Vec<(u64, Arc<Served>)> = lock(&self.served).iter().filter_map(others).collect();
        if served.is_empty() {
            return thread::sleep(Duration::from_millis(5));
        }
        let (member, served) = &served[wire.dice() as usize % served.len()];
        let called = self.clock.fetch_add(1, Ordering::SeqCst);
        let did = served.ask(kind, what);
        let answered = self.clock.fetch_add(1, Ordering::SeqCst);
        if did.is_err() {
            // This engine holds changes that may not be in the log.
            let mut all = lock(&self.served);
            if all.get(member).is_some_and(|it| Arc::ptr_eq(it, served)) {
                all.remove(member);
            }
        }
        self.answered.fetch_add(u64::from(did.is_ok()), Ordering::Relaxed);
        if let Some(did) = did.map_or_else(|did| did, Some) {
            lock(&self.history).push((kind, Operation { called, answered, did }));
        }
    }

    fn client(&self, wire: &Wire) {
        while !self.over.load(Ordering::Relaxed) {
            let kind = self.asked.fetch_add(1, Ordering::Relaxed) / OF_A_KIND;
            self.ask_someone(wire, kind, wire.dice() % 3, self.left.load(Ordering::Relaxed));
        }
    }

    /// The number of kinds of tuples in the history.
    fn kinds(&self) -> u64 {
        lock(&self.history).iter().map(|(kind, _)| kind).collect::<BTreeSet<_>>().len() as u64
    }

    /// Whether a reader may read this kind. The checker takes a limited number of operations, and kinds other than the newest
    /// are not read.
    fn may_read(&self, kind: u64) -> bool {
        let mut reads = lock(&self.reads);
        if reads.0 < kind {
            *reads = (kind, 0);
        }
        reads.1 += u64::from(reads.0 == kind);
        reads.0 == kind && reads.1 <= READS_OF_A_KIND
    }

    fn reader(&self, wire: &Wire) {
        while !self.over.load(Ordering::Relaxed) {
            let kind = self.asked.load(Ordering::Relaxed) / OF_A_KIND;
            if self.may_read(kind) {
                self.ask_someone(wire, kind, 2, 0);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Ends the threads on drop, even after a failure, because the failure is reported only once they have ended.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn harm(members: &mut Members, grid: &Grid, round: u64) {
    let wire = members.wire.clone();
    wire.lost.store(if round % 4 == 0 { 200 } else { 20 }, Ordering::Relaxed);
    let leads = |(_, it): &(&u64, &Arc<Replicated>)| it.leader() == Leader::Here;
    let leader = members.alive.iter().find(leads).map(|(leader, _)| *leader);
    // More often than not, this is the member that serves.
    let member = leader.filter(|_| round % 3 > 0).unwrap_or(1 + wire.dice() % 3);
    if round % 3 == 1 {
        // An engine with no change on its way gets no failed write. So nothing tells it that it was replaced.
        grid.left.store(member, Ordering::Relaxed);
        thread::sleep(TIMING.beat * 2);
    }
    wire.cut(member);
    thread::sleep(TIMING.beat * 16);
    wire.heal();
    grid.left.store(0, Ordering::Relaxed);
    thread::sleep(TIMING.beat * 4);
}

#[test]
fn what_clients_were_told_could_have_happened_in_one_order() {
    let mut members = Members::timed(3, TIMING);
    members.wire.lost.store(20, Ordering::Relaxed);
    members.wire.delay.store(4, Ordering::Relaxed);
    let (grid, wire) = (Arc::new(Grid::default()), members.wire.clone());
    thread::scope(|scope| {
        let _over = Over(&grid.over);
        let serve = |member: u64, me: Arc<Replicated>| {
            let grid = grid.clone();
            scope.spawn(move || grid.serve(member, &me.clone(), &me));
        };
        members.alive.iter().for_each(|(member, it)| serve(*member, it.clone()));
        for _ in 0..CLIENTS {
            scope.spawn(|| grid.client(&wire));
        }
        for _ in 0..READERS {
            scope.spawn(|| grid.reader(&wire));
        }
        for round in 0..ROUNDS {
            if round % 3 == 2 {
                let member = 1 + wire.dice() % 3;
                members.kill(member);
                thread::sleep(Duration::from_millis(250));
                members.start(member);
                serve(member, members.alive[&member].clone());
            }
            harm(&mut members, &grid, round);
            until("clients go on", || grid.kinds() > round);
        }
        wire.lost.store(0, Ordering::Relaxed);
        let before = grid.answered.load(Ordering::Relaxed);
        until("it goes on when all is well", || grid.answered.load(Ordering::Relaxed) > before + 50);
    });
    let mut kinds: BTreeMap<u64, Vec<Operation>> = BTreeMap::new();
    for (kind, operation) in lock(&grid.history).iter() {
        kinds.entry(*kind).or_default().push(*operation);
    }
    let count = kinds.values().map(Vec::len).sum::<usize>();
    let open = kinds.values().flatten().filter(|it| matches!(it.did, Did::MaybeOut | Did::MaybeTake)).count();
    println!("{count} operations on {} kinds of tuples, {open} of them with an unknown end", kinds.len());
    for (kind, operations) in kinds {
        assert!(is_linearizable(&operations), "kind {kind}: {operations:#?}");
    }
}
