//! This process's part of the program, and how it ends.

use phalanx_mpi::bsp::{Bsp, Point};
use phalanx_mpi::error::{Class, Result, fail};
use phalanx_mpi::operations::collective::Span;
use phalanx_mpi::process::world::world;
use phalanx_mpi::universe::leaving;
use phalanx_net::sync::lock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

static PROCESS: Mutex<Option<Bsp>> = Mutex::new(None);
static ENDED: AtomicBool = AtomicBool::new(false);
/// Supersteps from one checkpoint to the next, unless the user says another number.
static EVERY: AtomicU32 = AtomicU32::new(0);
/// What the program declares, in order.
static DECLARED: Mutex<Declared> = Mutex::new(Declared(Vec::new()));

struct Declared(Vec<Span>);

// SAFETY: the memory is lent for as long as the program runs, to whichever thread works on it.
unsafe impl Send for Declared {}

pub fn begin(most: u32) -> Result<()> {
    let mut process = lock(&PROCESS);
    if process.is_some() || ENDED.load(Ordering::Relaxed) {
        return fail(Class::Other, "it was called before");
    }
    *process = Bsp::begin(Some(most), EVERY.load(Ordering::Relaxed))?;
    if process.is_none() {
        std::process::exit(0); // one process too many
    }
    Ok(())
}

pub fn end() -> Result<()> {
    with(|bsp| bsp.end())?;
    ENDED.store(true, Ordering::Relaxed);
    *lock(&PROCESS) = None;
    Ok(())
}

/// How often checkpoints are made; before the program has begun.
pub fn set_checkpoints(every: u32) -> Result<()> {
    if lock(&PROCESS).is_some() {
        return fail(Class::Other, "call it before bsp_begin");
    }
    EVERY.store(every, Ordering::Relaxed);
    Ok(())
}

/// Checkpoints save this memory too.
pub fn declare(memory: Span) {
    lock(&DECLARED).0.push(memory);
}

/// Ends the superstep where the program can go on; whether it goes on from what was saved.
pub fn checkpoint() -> Result<bool> {
    let declared = &lock(&DECLARED).0;
    with(|bsp| match bsp.checkpoint()? {
        Point::GoOn => Ok(false),
        Point::Save => {
            // SAFETY: the program lends what it has declared.
            let state: Vec<u8> = declared.iter().flat_map(|memory| unsafe { memory.bytes() }).copied().collect();
            bsp.save(&state).map(|()| false)
        }
        Point::TakenUp(state) => fill(declared, &state).map(|()| true),
    })
}

fn fill(declared: &[Span], state: &[u8]) -> Result<()> {
    let bytes: usize = declared.iter().map(|memory| memory.length()).sum();
    if bytes != state.len() {
        let text = format!("{} bytes were declared when the program was saved, and now {bytes}", state.len());
        return fail(Class::NotSame, text);
    }
    let mut rest = state;
    for memory in declared {
        let (own, others) = rest.split_at(memory.length());
        // SAFETY: the program lends what it has declared.
        unsafe { std::ptr::copy_nonoverlapping(own.as_ptr(), memory.start(), own.len()) };
        rest = others;
    }
    Ok(())
}

/// Does something at this process.
pub fn with<T>(act: impl FnOnce(&mut Bsp) -> Result<T>) -> Result<T> {
    match lock(&PROCESS).as_mut() {
        Some(bsp) => act(bsp),
        None if ENDED.load(Ordering::Relaxed) => fail(Class::Other, "the program has ended"),
        None => fail(Class::Other, "call bsp_begin first"),
    }
}

/// The same where the program need not have begun.
pub fn alone<T>(act: impl FnOnce(Option<&mut Bsp>) -> Result<T>) -> Result<T> {
    act(lock(&PROCESS).as_mut())
}

/// Calls the body of a function; where it fails, the program ends.
pub fn guard<T>(name: &str, body: impl FnOnce() -> Result<T>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        // The launcher knows of the loss, and whether the program goes on without this process.
        Ok(Err(error)) if error.class == Class::ProcFailed => {
            eprintln!("phalanx: {name}: {error}");
            std::process::exit(1)
        }
        Ok(Err(error)) => exit_with(&format!("{name}: {error}")),
        Err(_) => exit_with(&format!("{name}: an error of phalanx itself")),
    }
}

/// Ends the program on all processes.
pub fn exit_with(text: &str) -> ! {
    let text = match world() {
        Ok(world) => {
            let text = format!("pid {}: {text}", world.place());
            world.tell_abort(1, &text);
            text
        }
        Err(_) => text.to_string(),
    };
    leaving::abort(1, &text)
}
