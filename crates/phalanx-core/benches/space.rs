//! What operations of a tuple space cost inside Rust, and what a small tuple takes of memory.
//!
//! `cargo bench -p phalanx-core --bench space` prints one JSON object: nanoseconds of an operation in this thread's time, the median of several turns,
//! with 100 000 and with 1 000 000 tuples `("todo", 16 bytes)`, whose keys are read in random order; bytes of a tuple. With
//! `-- --profile` it only reads, for a profiler.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails says so")]

use phalanx_core::ids::SessionId;
use phalanx_core::space::{Asker, Get, Options, OutOptions, Pattern, Space, Template, Tuple, Value, mask};
use rustix::time::{ClockId, clock_gettime};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts what is allocated, so that what a space says of its memory can be checked.
struct Counting;

static ALLOCATED: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ASKER: Asker = Asker { session: SessionId(0), request: 0, acknowledges: false };
const NOW: Duration = Duration::ZERO;
const TURNS: usize = 5;
const READS: u64 = 100_000;
const BATCH: usize = 64;
const WAITERS: u64 = 1000;

/// The key of a number: 16 bytes that look random.
fn key(number: u64) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635;
    [mixed.to_le_bytes(), mixed.rotate_left(29).wrapping_mul(0xd134_2543_de82_ef95).to_le_bytes()].concat()
}

fn tuple(number: u64) -> Tuple {
    Tuple::of(&[Value::Str("todo".into()), Value::Bytes(key(number))])
}

fn template(number: u64) -> Template {
    Template::new(vec![Pattern::actual(&Value::Str("todo".into())), Pattern::actual(&Value::Bytes(key(number)))], None)
}

/// Numbers below `end` in an order without order.
fn shuffled(end: u64) -> Vec<u64> {
    (0..READS).map(|turn| turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % end).collect()
}

/// Nanoseconds of this thread's time for one operation, on what was made ready just before, as a caller's would be. What
/// else the machine does does not count.
fn timed<T>(ready: impl Fn(u64) -> T, numbers: &[u64], mut operate: impl FnMut(&T)) -> f64 {
    let clock = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let mut spent = Duration::ZERO;
    for batch in numbers.chunks(BATCH) {
        let batch: Vec<T> = batch.iter().map(|number| ready(*number)).collect();
        let start = clock();
        batch.iter().for_each(&mut operate);
        spent += clock() - start;
    }
    spent.as_nanos() as f64 / numbers.len() as f64
}

/// A space with so many tuples and an index for their keys; what an `out` took.
fn filled(tuples: u64) -> (Space, f64) {
    let mut space = Space::new(Options::default()).unwrap();
    // The first templates teach the space its index.
    let options = OutOptions::default();
    for number in 0..100 {
        space.out(NOW, &[tuple(number)], &options, None).unwrap();
    }
    for number in 0..100 {
        space.find(NOW, ASKER, &template(number), &Get::default(), None).unwrap().unwrap();
    }
    let spent = put(&mut space, &(100..tuples).collect::<Vec<u64>>());
    (space, spent)
}

fn put(space: &mut Space, numbers: &[u64]) -> f64 {
    let options = OutOptions::default();
    timed(tuple, numbers, |tuple| {
        space.out(NOW, std::slice::from_ref(tuple), &options, None).unwrap();
    })
}

fn find(space: &mut Space, numbers: &[u64], take: bool, template: impl Fn(u64) -> Template) -> f64 {
    let get = Get { take, ..Get::default() };
    timed(template, numbers, |template| {
        black_box(space.find(NOW, ASKER, template, &get, None).unwrap().unwrap());
    })
}

/// A thousand takers, each blocked on its own key: an `out` that wakes none, and one that wakes one.
fn wake(space: &mut Space) -> (f64, f64) {
    let get = Get { take: true, ..Get::default() };
    for number in 0..WAITERS {
        let asker = Asker { session: SessionId(1), request: number + 1, acknowledges: false };
        let template = template((1 << 40) + number);
        assert!(space.wait(NOW, asker, &template, &get, None, None).unwrap().is_none());
    }
    let others: Vec<u64> = (0..WAITERS).map(|number| (1 << 41) + number).collect();
    let passing = put(space, &others);
    let wanted: Vec<u64> = (0..WAITERS).rev().map(|number| (1 << 40) + number).collect();
    let waking = put(space, &wanted);
    assert_eq!(std::iter::from_fn(|| space.next_command()).count() as u64, WAITERS);
    find(space, &others, true, template);
    (passing, waking)
}

/// All the memory of a space with so many tuples, and what it says of it, for each byte of the encoded tuples.
fn memory(tuples: u64) -> (f64, f64, f64) {
    let before = ALLOCATED.load(Ordering::Relaxed);
    let mut space = Space::new(Options { indexes: vec![vec![0, 1]], ..Options::default() }).unwrap();
    for number in 0..tuples {
        space.out(NOW, &[tuple(number)], &OutOptions::default(), None).unwrap();
    }
    let allocated = ALLOCATED.load(Ordering::Relaxed) - before;
    let info = space.info();
    let encoded = info.encoded_bytes as f64;
    (encoded / tuples as f64, allocated as f64 / encoded, info.bytes as f64 / encoded)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    if std::env::args().any(|argument| argument == "--profile") {
        let (mut space, _) = filled(100_000);
        return (0..100).for_each(|_| {
            find(&mut space, &shuffled(100_000), false, template);
        });
    }
    let mut rows: Vec<(String, f64)> = Vec::new();
    for tuples in [100_000, 1_000_000] {
        let mut add = |name: &str, values: Vec<f64>| rows.push((format!("{name}, {tuples} tuples"), median(values)));
        let (mut space, out) = filled(tuples);
        add("out while filling, ns", vec![out]);
        let keys = shuffled(tuples);
        add("rdp by key, ns", (0..TURNS).map(|_| find(&mut space, &keys, false, template)).collect());
        let any = |_| Template::new(vec![Pattern::of(mask::STR), Pattern::of(mask::BYTES)], None);
        add("rdp of any, ns", (0..TURNS).map(|_| find(&mut space, &keys, false, any)).collect());
        let new: Vec<u64> = (tuples..tuples + 20_000).collect();
        let turn = |_| (put(&mut space, &new), find(&mut space, &new, true, template));
        let (outs, takes) = (0..TURNS).map(turn).unzip();
        add("out, ns", outs);
        add("inp by key, ns", takes);
        let (passing, waking) = (0..TURNS).map(|_| wake(&mut space)).unzip();
        add("out past 1000 blocked takers, ns", passing);
        add("out that wakes one of 1000 blocked takers, ns", waking);
        drop(space);
        let (encoded, allocated, said) = memory(tuples);
        add("bytes of an encoded tuple", vec![encoded]);
        add("memory, by encoded size", vec![allocated]);
        add("memory as the space counts it, by encoded size", vec![said]);
    }
    let rows: Vec<_> = rows.iter().map(|(name, value)| format!("  {name:?}: {value:.2}")).collect();
    println!("{{\n{}\n}}", rows.join(",\n"));
}
