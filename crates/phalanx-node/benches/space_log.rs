//! What it costs that a tuple lasts: on this machine's disk, and at three members that are all on this machine.
//!
//! `cargo bench -p phalanx-node --bench space_log`
#![expect(clippy::unwrap_used, reason = "a measurement that fails says so by failing")]

use bytes::Bytes;
use phalanx_core::space::change::{Change, Record};
use phalanx_core::space::{Replica, Tuple, Value};
use phalanx_node::space::log::replicated::{Later, Leader, Network, Replicated, Timing};
use phalanx_node::space::log::{Durable, Log};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(1);

/// Members in this process.
#[derive(Default)]
struct Process(Mutex<BTreeMap<String, Weak<Replicated>>>);

impl Network for Process {
    fn ask(&self, to: &Replica, message: Bytes, _patience: Duration) -> Later<io::Result<Bytes>> {
        let member = self.0.lock().unwrap().get(&to.address).and_then(Weak::upgrade);
        Box::pin(async move { Ok(member.ok_or(io::ErrorKind::NotConnected)?.answer_later(&message).await) })
    }
}

fn out(number: u64) -> Vec<Change> {
    let tuple = Tuple::of(&[Value::Str("found".into()), Value::Bytes(vec![7; 16]), Value::Int(number as i64)]);
    vec![Change::Put { number, record: Record::of(tuple) }]
}

/// How often `work` is done, by so many threads, and how long it takes each time.
fn measure(what: &str, threads: u64, work: impl Fn(u64) + Sync) {
    let (done, next) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while began.elapsed() < TIME {
                    work(next.fetch_add(1, Ordering::Relaxed));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (done, took) = (done.into_inner(), began.elapsed().as_secs_f64());
    let each = took * threads as f64 / done as f64;
    println!("{what:<12} {threads:>3} sessions {:>9.0} a second {:>9.0} us each", done as f64 / took, each * 1e6);
}

/// Outs, and reads, of one session and of many.
fn log(what: &str, log: &impl Log) {
    let number = AtomicU64::new(0);
    for threads in [1, 8, 64] {
        measure(&format!("{what} out"), threads, |_| {
            let position = log.append(out(number.fetch_add(1, Ordering::Relaxed)));
            log.wait(position).unwrap();
        });
    }
    for threads in [1, 64] {
        measure(&format!("{what} rdp"), threads, |_| log.confirm(log.position()).unwrap());
    }
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let durable = Durable::open(&path("durable"), |_| Ok(())).unwrap();
    log("durable", &durable);
    drop(durable);
    let began = Instant::now();
    let mut tuples = 0;
    let durable = Durable::open(&path("durable"), |_| {
        tuples += 1;
        Ok(())
    });
    println!("{:<12} {tuples} records in {:.0} ms", "recovery", began.elapsed().as_secs_f64() * 1e3);
    drop(durable);

    let network = Arc::new(Process::default());
    let replica = |member: u64| Replica { name: member.to_string(), address: member.to_string() };
    let names: BTreeMap<u64, Replica> = (1..=3).map(|member| (member, replica(member))).collect();
    let start = |member: &u64| {
        let started =
            Replicated::start(*member, &path(&member.to_string()), Timing::default(), network.clone()).unwrap();
        network.0.lock().unwrap().insert(member.to_string(), Arc::downgrade(&started));
        started
    };
    let members: Vec<Arc<Replicated>> = names.keys().map(start).collect();
    members[0].found(&names).unwrap();
    let leads = || members.iter().find(|member| member.leader() == Leader::Here);
    while leads().is_none() {
        thread::sleep(Duration::from_millis(10));
    }
    log("replicas", &leads().unwrap().lead(|_| Ok(())).unwrap());
}
