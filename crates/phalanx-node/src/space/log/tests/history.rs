//! Clients put, take and read while members are killed and cut off; what they were told is checked for linearizability.

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

/// Quick: whoever stops to lead, for whatever reason, is part of the history.
const TIMING: Timing = Timing { beat: Duration::from_millis(40) };
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
    /// Of the newest kind that was read.
    reads: Mutex<(u64, u64)>,
    over: AtomicBool,
    history: Mutex<Vec<(u64, Operation)>>,
}

impl Grid {
    /// Serves at a member whenever it leads, until the member is killed. An engine is left to the clients for a while after
    /// its member stopped to lead: that is when it could do harm. One that failed is followed by another, also where the
    /// same member goes on to lead.
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

    /// Of how many kinds of tuples something is known.
    fn kinds(&self) -> u64 {
        lock(&self.history).iter().map(|(kind, _)| kind).collect::<BTreeSet<_>>().len() as u64
    }

    /// The checker takes only so many. Of a kind that is not the newest any more, by the time a reader gets here, none are read.
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

/// Ends the threads, also where something here failed: nobody would hear of that before they end.
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
