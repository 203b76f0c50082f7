//! Clients put, take and read while members are killed and cut off; what they were told is checked for linearizability.

use super::linear::{Did, Operation, is_linearizable};
use super::wire::{Members, TIMING, Wire, until};
use super::*;
use crate::space::log::replicated::{Leader, Leading, Replicated};
use phalanx_net::sync::lock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const CLIENTS: usize = 4;
/// Clients that only read: an engine that does not know that it was replaced shows itself by them.
const READERS: usize = 2;
/// Operations on one kind of tuple.
const OF_A_KIND: u64 = 40;
const READS_OF_A_KIND: u64 = 80;
const ROUNDS: u64 = 9;

/// As much of an engine as the test needs: numbers of the tuples of each kind. It decides, and says what it changed.
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

/// An engine and its log, as a server has them.
struct Served {
    engine: Mutex<Engine>,
    log: Leading,
}

impl Served {
    /// One operation, by the rule of the log; `None`: nobody knows whether it happened, or what it would have seen.
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
    /// Killed members and their engines are left alone.
    clock: AtomicU64,
    asked: AtomicU64,
    answered: AtomicU64,
    /// Clients that write do not ask this member any more; those that only read do.
    left: AtomicU64,
    /// Of the newest kind.
    reads: Mutex<(u64, u64)>,
    over: AtomicBool,
    history: Mutex<Vec<(u64, Operation)>>,
}

impl Grid {
    /// Serves at a member whenever it leads, until the member is killed. An engine is left to the clients for a while after
    /// its member stopped to lead: that is when it could do harm.
    fn serve(&self, member: u64, replicated: &Replicated, me: &Arc<Replicated>) {
        let mut known = Leader::Unknown;
        while !self.over.load(Ordering::Relaxed) && Arc::strong_count(me) > 1 {
            let leader = replicated.wait_for_leader(&known, Duration::from_millis(20));
            if leader == Leader::Here && known != Leader::Here {
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
            // Its engine knows what may not be.
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

    /// The checker takes only so many.
    fn may_read(&self, kind: u64) -> bool {
        let mut reads = lock(&self.reads);
        *reads = if reads.0 == kind { (kind, reads.1 + 1) } else { (kind, 0) };
        reads.1 < READS_OF_A_KIND
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

fn harm(members: &mut Members, grid: &Grid, round: u64) {
    let wire = members.wire.clone();
    wire.lost.store(if round % 4 == 0 { 200 } else { 20 }, Ordering::Relaxed);
    let leads = |(_, it): &(&u64, &Arc<Replicated>)| it.leader() == Leader::Here;
    let leader = members.alive.iter().find(leads).map(|(leader, _)| *leader);
    // The one that serves, more often than not.
    let member = leader.filter(|_| round % 3 > 0).unwrap_or(1 + wire.dice() % 3);
    if round % 3 == 1 {
        // An engine that has nothing on its way is not told by a failure that it was replaced.
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
    let mut members = Members::new(3);
    members.wire.lost.store(20, Ordering::Relaxed);
    members.wire.delay.store(4, Ordering::Relaxed);
    let (grid, wire) = (Arc::new(Grid::default()), members.wire.clone());
    thread::scope(|scope| {
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
        }
        wire.lost.store(0, Ordering::Relaxed);
        let before = grid.answered.load(Ordering::Relaxed);
        until("it goes on when all is well", || grid.answered.load(Ordering::Relaxed) > before + 50);
        grid.over.store(true, Ordering::Relaxed);
    });
    let mut kinds: BTreeMap<u64, Vec<Operation>> = BTreeMap::new();
    for (kind, operation) in lock(&grid.history).iter() {
        kinds.entry(*kind).or_default().push(*operation);
    }
    let count = kinds.values().map(Vec::len).sum::<usize>();
    let open = kinds.values().flatten().filter(|it| matches!(it.did, Did::MaybeOut | Did::MaybeTake)).count();
    println!("{count} operations on {} kinds of tuples, {open} of them with an unknown end", kinds.len());
    assert!(kinds.len() > 5, "{}", kinds.len());
    for (kind, operations) in kinds {
        assert!(is_linearizable(&operations), "kind {kind}: {operations:#?}");
    }
}
