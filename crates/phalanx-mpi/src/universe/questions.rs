//! What a process asks its launcher (MPI 5.0, chapter 11).

use crate::error::{Class, Error, Result, fail};
use crate::process::world::World;
use phalanx_core::wire::ranks::{FromRank, MOST_FROM_RANK, frame};
use phalanx_core::wire::universe::{Answer, Question, Refusal};
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

/// The number of the next question.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// Answers that came and were not taken yet, by the numbers of their questions.
static ANSWERS: Mutex<BTreeMap<u32, Answer>> = Mutex::new(BTreeMap::new());

/// Asks the launcher, and waits for the answer; one that is a refusal is an error.
pub(super) async fn ask(world: &World, question: Question) -> Result<Answer> {
    let Some(control) = &world.control else {
        return fail(Class::Spawn, "this process has no launcher: start it with phalanx mpirun");
    };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let question = FromRank::Ask { number, question };
    if frame(&question).len() > MOST_FROM_RANK {
        return fail(Class::Spawn, "the commands, or the groups, are too long");
    }
    let gone = |error: io::Error| Error::new(Class::Other, format!("the launcher is gone: {error}"));
    control.tell(&question).map_err(gone)?;
    let answer = std::future::poll_fn(|_| match lock(&ANSWERS).remove(&number) {
        Some(answer) => Poll::Ready(Ok(answer)),
        None if control.is_closed() => Poll::Ready(Err(gone(io::ErrorKind::UnexpectedEof.into()))),
        None => Poll::Pending,
    });
    match answer.await? {
        Answer::Refused { why, text } => fail(class(why), text),
        answer => Ok(answer),
    }
}

/// The launcher has answered.
pub(super) fn on_answer(number: u32, answer: Answer) {
    lock(&ANSWERS).insert(number, answer);
}

fn class(why: Refusal) -> Class {
    match why {
        Refusal::Spawn => Class::Spawn,
        Refusal::Port => Class::Port,
        Refusal::Service => Class::Service,
        Refusal::Name => Class::Name,
        Refusal::Sides => Class::Comm,
        Refusal::Full => Class::NoSpace,
        Refusal::Left => Class::Other,
        Refusal::Members => Class::Comm,
        Refusal::Excluded => Class::ProcFailed,
    }
}
