//! All processes that this one's launcher ever starts: what is asked of the launcher, and connections with processes of
//! other worlds (MPI 5.0, chapter 11).

use crate::error::{Class, Error, Result, fail};
use crate::objects::comm::{COMM_NULL, Comm, Remote};
use crate::objects::group::Group;
use crate::operations::comm_create::own_context;
use crate::process::transport::Link;
use crate::process::world::World;
use crate::universe::meeting::Meetings;
use phalanx_core::wire::ranks::{FromRank, MOST_FROM_RANK, MOST_RANKS, ToRank, UNIVERSE, frame};
use phalanx_core::wire::universe::{Answer, Question, Refusal, Side};
use phalanx_net::sync::lock;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// What this process knows of it.
#[derive(Default)]
pub struct Universe {
    /// The number of the next question.
    next: AtomicU32,
    answers: Mutex<HashMap<u32, Answer>>,
    /// Processes that it has asked to be connected with, until it is or cannot be; and how many these are.
    asked: Mutex<HashSet<u32>>,
    awaited: AtomicUsize,
    meetings: Meetings,
    /// Who has started this world, until the communicator with them is made.
    parents: Mutex<Option<Side>>,
    /// Its handle.
    parent: AtomicU32,
    /// The launcher wants a checkpoint of a BSP program.
    wants_checkpoint: AtomicBool,
}

impl Universe {
    /// Of a process with these parents.
    pub fn of(parents: Option<Side>) -> Universe {
        Universe { parents: Mutex::new(parents), ..Universe::default() }
    }

    /// How many processes there can be: as the launcher has found on executors, or as this machine has cores for
    /// (MPI_UNIVERSE_SIZE; MPI 5.0, 11.10.1). Those that have started this world are among them.
    pub fn size(&self, world: &World) -> usize {
        let told = world.control.as_ref().and_then(|_| std::env::var(UNIVERSE).ok()?.parse::<u32>().ok());
        let room = told.map_or_else(|| world.room(), |told| told.min(MOST_RANKS) as usize);
        let parents = Comm::of(self.parent()).map_or(0, |comm| comm.peers().size());
        room.max(world.size + parents)
    }

    /// Makes the communicator with those who have started this world.
    pub(crate) fn find_parents(&self, world: &'static World) -> Result<()> {
        let Some(parents) = lock(&self.parents).take() else { return Ok(()) };
        let comm = join(world, Arc::new(world.everybody()), &parents)?;
        comm.set_name("MPI_COMM_PARENT");
        self.parent.store(comm.put()?, Ordering::Relaxed);
        Ok(())
    }

    /// The handle of that (MPI_Comm_get_parent).
    pub fn parent(&self) -> u32 {
        match self.parent.load(Ordering::Relaxed) {
            0 => COMM_NULL,
            handle => handle,
        }
    }

    /// The handle was freed.
    pub(crate) fn forget_parents(&self, handle: u32) {
        let _ = self.parent.compare_exchange(handle, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Asks the launcher, and waits for the answer; one that is a refusal is an error.
    pub async fn ask(&self, world: &World, question: Question) -> Result<Answer> {
        let Some(control) = &world.control else {
            return fail(Class::Spawn, "this process has no launcher: start it with phalanx mpirun");
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let question = FromRank::Ask { number, question };
        if frame(&question).len() > MOST_FROM_RANK {
            return fail(Class::Spawn, "the commands, or the groups, are too long");
        }
        let gone = |error: io::Error| Error::new(Class::Other, format!("the launcher is gone: {error}"));
        control.tell(&question).map_err(gone)?;
        let answer = std::future::poll_fn(|_| match lock(&self.answers).remove(&number) {
            Some(answer) => Poll::Ready(Ok(answer)),
            None if control.is_closed() => Poll::Ready(Err(gone(io::ErrorKind::UnexpectedEof.into()))),
            None => Poll::Pending,
        });
        match answer.await? {
            Answer::Refused { why, text } => fail(class(why), text),
            answer => Ok(answer),
        }
    }

    /// A word of the launcher.
    pub(crate) fn take(&self, world: &World, message: ToRank) {
        match message {
            ToRank::Answer { number, answer } => drop(lock(&self.answers).insert(number, answer)),
            ToRank::Met { process } => self.on_met(world, process),
            ToRank::Listen { process } if process < MOST_RANKS => {
                world.engine().know(process);
                self.is_new(process);
                self.listen(world, process);
            }
            ToRank::Connect { process, entries } => self.connect(world, process, entries),
            ToRank::Save => self.wants_checkpoint.store(true, Ordering::Relaxed),
            ToRank::Left { process } if process < MOST_RANKS => {
                self.take_made(world);
                // Who is connected hears of it from the other end, after what that has sent.
                if self.await_no_more(process) {
                    self.meetings().forget(process);
                    let mut engine = world.engine();
                    engine.know(process);
                    engine.part(process);
                }
            }
            _ => {}
        }
        world.note_completion();
    }

    /// Whether the launcher wants a checkpoint; it is told so once.
    pub(crate) fn take_wish(&self) -> bool {
        self.wants_checkpoint.swap(false, Ordering::Relaxed)
    }

    fn on_met(&self, world: &World, process: u32) {
        let file = world.control.as_ref().and_then(|control| control.take_met(process));
        let Some(file) = file.filter(|_| process < MOST_RANKS) else {
            let why = "too many open files: raise the limit with ulimit -n";
            return world.lose(process, format!("{} cannot be reached: {why}", world.name_of(process)));
        };
        self.meet_by(world, process, prepare(file).map_err(|error| error.to_string()));
    }

    /// There is a connection with a process, or why there is none.
    pub(crate) fn meet_by(&self, world: &World, process: u32, made: std::result::Result<Link, String>) {
        match made {
            Ok(link) => {
                self.await_no_more(process);
                world.engine().meet(process, link);
            }
            Err(error) => world.lose(process, format!("{} cannot be reached: {error}", world.name_of(process))),
        }
    }

    pub(crate) fn meetings(&self) -> &Meetings {
        &self.meetings
    }

    /// Lets this process be connected with those of a communicator that it has not met.
    pub(crate) fn meet(&self, world: &World, comm: &Comm) {
        let all = comm.group.processes.iter().chain(&comm.peers().processes);
        for process in all.copied().filter(|process| !world.is_of_world(*process) && *process < MOST_RANKS) {
            if world.engine().know(process) && self.is_new(process) {
                let told = world.control.as_ref().map(|control| control.tell(&FromRank::Meet { process }));
                drop(told); // a launcher that is gone is noticed elsewhere
            }
        }
    }

    fn is_new(&self, process: u32) -> bool {
        let mut asked = lock(&self.asked);
        let is_new = asked.insert(process);
        self.awaited.store(asked.len(), Ordering::Relaxed);
        is_new
    }

    /// The process was met, or will not be; whether it was awaited.
    pub(crate) fn await_no_more(&self, process: u32) -> bool {
        let mut asked = lock(&self.asked);
        let was_awaited = asked.remove(&process);
        self.awaited.store(asked.len(), Ordering::Relaxed);
        was_awaited
    }

    /// Whether a connection with the process is to come.
    pub(crate) fn awaits_process(&self, process: u32) -> bool {
        lock(&self.asked).contains(&process)
    }

    /// Whether connections are to come, which the launcher will tell of.
    #[inline]
    pub(crate) fn awaits(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0
    }
}

fn prepare(file: OwnedFd) -> io::Result<Link> {
    rustix::io::ioctl_fionbio(&file, true)?;
    Ok(Link::clear(file))
}

/// The intercommunicator of this process's group with another side, which has its context.
pub fn join(world: &World, group: Arc<Group>, other: &Side) -> Result<Arc<Comm>> {
    let Some(rank) = group.rank_of(world.rank as u32) else {
        return fail(Class::Intern, "this process is not in its own group");
    };
    let local = Comm::new(own_context(other.context), group.clone(), rank, None);
    let remote = Remote { group: Arc::new(Group::new(other.processes.clone())), local };
    Ok(Comm::new(other.context, group, rank, Some(remote)))
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
