//! This process's part of the program, and how it ends.

use phalanx_mpi::bsp::Bsp;
use phalanx_mpi::error::{Class, Result, fail};
use phalanx_mpi::life;
use phalanx_mpi::world::world;
use phalanx_net::sync::lock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static PROCESS: Mutex<Option<Bsp>> = Mutex::new(None);
static ENDED: AtomicBool = AtomicBool::new(false);

pub fn begin(most: u32) -> Result<()> {
    let mut process = lock(&PROCESS);
    if process.is_some() || ENDED.load(Ordering::Relaxed) {
        return fail(Class::Other, "it was called before");
    }
    *process = Bsp::begin(Some(most))?;
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
        Ok(Err(error)) => exit_with(&format!("{name}: {error}")),
        Err(_) => exit_with(&format!("{name}: an error of phalanx itself")),
    }
}

/// Ends the program on all processes.
pub fn exit_with(text: &str) -> ! {
    let text = match world() {
        Ok(world) => {
            let text = format!("pid {}: {text}", world.rank);
            world.tell_abort(1, &text);
            text
        }
        Err(_) => text.to_string(),
    };
    life::abort(1, &text)
}
