//! The file pointer that the processes of a file share (MPI 5.0, 14.4.4): the first of them has it, and answers the
//! others' messages whenever it makes progress. So nothing stays behind when a process dies.

use crate::error::{Class, Result, fail};
use crate::objects::comm::{Comm, Use};
use crate::process::engine::{Mode, Outgoing, Target};
use crate::process::tasks::{self, Task};
use crate::process::world::World;
use phalanx_core::spmd::{Envelope, Pattern};
use phalanx_net::sync::lock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

/// Tag of questions; answers have the tags that these name.
const QUESTION: i32 = 0;
const WORD: usize = 16;
const TOO_FAR: &str = "the shared file pointer would be beyond the largest offset";

/// What is done with it. The answer is where it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Moves it on by so many etypes.
    Move(i64),
    Set(i64),
    Get,
}

pub struct Pointer {
    world: &'static World,
    comm: Arc<Comm>,
    /// Of the first process.
    at: Arc<Mutex<i64>>,
    answers: AtomicI32,
}

impl Pointer {
    /// At etype `at`. The communicator is the file's own.
    pub fn new(world: &'static World, comm: Arc<Comm>, at: i64) -> Pointer {
        let at = Arc::new(Mutex::new(at));
        if comm.rank == 0 && comm.size() > 1 {
            let (comm, at) = (comm.clone(), at.clone());
            Task::begin(world, async move { serve(world, &comm, &at).await });
        }
        Pointer { world, comm, at, answers: AtomicI32::new(1) }
    }

    /// Whether the answer is there without a message.
    pub fn is_here(&self) -> bool {
        self.comm.rank == 0
    }

    /// Does it, and returns where the pointer was before.
    pub async fn ask(&self, ask: Ask) -> Result<i64> {
        if self.is_here() {
            return apply(&self.at, ask);
        }
        let tag = (self.answers.fetch_add(1, Ordering::Relaxed) & i32::MAX).max(QUESTION + 1);
        let mut answer = [0; WORD];
        let pattern = Pattern { context: context(&self.comm), source: Some(0), tag: Some(tag) };
        let receive = self.world.engine().receive(pattern, Target::Plain(answer.as_mut_ptr(), WORD));
        tell(self.world, &self.comm, 0, QUESTION, question(ask, tag));
        let status = tasks::outcome(self.world, receive).await;
        if let Some(class) = status.error {
            let text =
                if class == Class::Revoked { class.words() } else { "the first process of the file does not answer" };
            return fail(class, text);
        }
        match read(answer) {
            (0, _, at) => Ok(at),
            _ => fail(Class::Arg, TOO_FAR),
        }
    }

    /// Nobody asks any more.
    pub fn end(&self) {
        if self.is_here() && self.comm.size() > 1 {
            tell(self.world, &self.comm, 0, QUESTION, question(Ask::Get, 0));
            self.world.progress();
        }
    }
}

fn apply(at: &Mutex<i64>, ask: Ask) -> Result<i64> {
    let mut at = lock(at);
    let before = *at;
    match ask {
        Ask::Get => {}
        Ask::Set(to) => *at = to,
        Ask::Move(by) => match before.checked_add(by) {
            Some(after) => *at = after,
            None => return fail(Class::Arg, TOO_FAR),
        },
    }
    Ok(before)
}

fn context(comm: &Comm) -> u64 {
    comm.context | Use::Aside as u64
}

fn word(what: i32, tag: i32, number: i64) -> [u8; WORD] {
    let mut word = [0; WORD];
    word[..4].copy_from_slice(&what.to_le_bytes());
    word[4..8].copy_from_slice(&tag.to_le_bytes());
    word[8..].copy_from_slice(&number.to_le_bytes());
    word
}

fn read(word: [u8; WORD]) -> (i32, i32, i64) {
    let all = u128::from_le_bytes(word);
    (all as i32, (all >> 32) as i32, (all >> 64) as i64)
}

fn question(ask: Ask, tag: i32) -> [u8; WORD] {
    match ask {
        Ask::Get => word(0, tag, 0),
        Ask::Set(to) => word(1, tag, to),
        Ask::Move(by) => word(2, tag, by),
    }
}

/// Sends without waiting.
fn tell(world: &World, comm: &Comm, rank: usize, tag: i32, word: [u8; WORD]) {
    let envelope = Envelope { context: context(comm), source: comm.rank as i32, tag };
    let mut engine = world.engine();
    let send = engine.send(comm.group.processes[rank], envelope, Outgoing::Owned(word.to_vec()), Mode::Standard);
    if let Some(send) = send {
        engine.detach(send);
    }
}

/// Answers until it is asked by itself.
async fn serve(world: &'static World, comm: &Comm, at: &Mutex<i64>) -> Result<()> {
    loop {
        let mut word = [0; WORD];
        let pattern = Pattern { context: context(comm), source: None, tag: Some(QUESTION) };
        let receive = world.engine().receive(pattern, Target::Plain(word.as_mut_ptr(), WORD));
        let status = tasks::outcome(world, receive).await;
        if status.error == Some(Class::ProcFailed) {
            world.engine().acknowledge(comm.context); // the others ask on
            continue;
        }
        let Some(rank) = usize::try_from(status.source).ok().filter(|rank| (1..comm.size()).contains(rank)) else {
            return Ok(());
        };
        let (what, tag, number) = read(word);
        let ask = match what {
            0 => Ask::Get,
            1 => Ask::Set(number),
            _ => Ask::Move(number),
        };
        let answer = match apply(at, ask) {
            Ok(before) => self::word(0, tag, before),
            Err(_) => self::word(1, tag, 0),
        };
        tell(world, comm, rank, tag, answer);
    }
}
