//! Whether MPI may be used: from `MPI_Init` to `MPI_Finalize`, or while there are sessions.

use crate::constants::*;
use crate::error::{Class, Result, fail};
use phalanx_net::sync::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

/// Looked at in every call.
static RUNNING: AtomicBool = AtomicBool::new(false);
/// Likewise, in some.
static CONCURRENT: AtomicBool = AtomicBool::new(true);
static LIFE: Mutex<Life> = Mutex::new(Life { begun: None, ended: false, sessions: 0, thread: None });

struct Life {
    /// The level of thread support, from MPI_Init on.
    begun: Option<i32>,
    ended: bool,
    sessions: usize,
    /// The one that called MPI_Init.
    thread: Option<ThreadId>,
}

impl Life {
    fn tell(&self) {
        RUNNING.store((self.begun.is_some() && !self.ended) || self.sessions > 0, Ordering::Release);
        let in_turn = self.begun.is_some_and(|level| level < MPI_THREAD_MULTIPLE) && self.sessions == 0;
        CONCURRENT.store(!in_turn, Ordering::Release);
    }
}

/// Fails before `MPI_Init` and after `MPI_Finalize`.
#[inline]
pub fn check() -> Result<()> {
    if RUNNING.load(Ordering::Acquire) { Ok(()) } else { not_running() }
}

#[cold]
fn not_running() -> Result<()> {
    match lock(&LIFE).ended {
        true => fail(Class::Other, "MPI is finalized"),
        false => fail(Class::Other, "MPI is not initialized: call MPI_Init first"),
    }
}

/// MPI_Init_thread, of the world model: the level of thread support that there is.
pub fn begin(required: i32) -> Result<i32> {
    if !(MPI_THREAD_SINGLE..=MPI_THREAD_MULTIPLE).contains(&required) {
        return fail(Class::Arg, format!("required is {required}, no level of thread support"));
    }
    let mut life = lock(&LIFE);
    if life.begun.is_some() {
        return fail(Class::Other, "MPI_Init was called before");
    }
    life.begun = Some(required);
    life.thread = Some(std::thread::current().id());
    life.tell();
    Ok(required)
}

/// MPI_Finalize.
pub fn end() -> Result<()> {
    let mut life = lock(&LIFE);
    life.ended = true;
    life.tell();
    Ok(())
}

/// Whether several threads may call at once. Otherwise the program has promised that they call one after the other
/// (MPI_Init_thread).
#[inline]
pub fn is_concurrent() -> bool {
    CONCURRENT.load(Ordering::Relaxed)
}

/// MPI_Session_init.
pub fn begin_session() {
    let mut life = lock(&LIFE);
    life.sessions += 1;
    life.tell();
}

/// MPI_Session_finalize.
pub fn end_session() {
    let mut life = lock(&LIFE);
    life.sessions = life.sessions.saturating_sub(1);
    life.tell();
}

/// Whether the process has had sessions only, and all are finalized.
pub fn had_sessions_only() -> bool {
    let life = lock(&LIFE);
    life.begun.is_none() && life.sessions == 0
}

/// MPI_Initialized: stays so for ever.
pub fn is_begun() -> bool {
    lock(&LIFE).begun.is_some()
}

/// MPI_Finalized.
pub fn is_ended() -> bool {
    lock(&LIFE).ended
}

/// MPI_Query_thread.
pub fn thread_level() -> i32 {
    lock(&LIFE).begun.unwrap_or(MPI_THREAD_MULTIPLE)
}

/// MPI_Is_thread_main.
pub fn is_main_thread() -> bool {
    lock(&LIFE).thread == Some(std::thread::current().id())
}
