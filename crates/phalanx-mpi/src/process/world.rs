//! This process among those of its program.

use crate::error::{Class, Result, fail};
use crate::process::control::Control;
use crate::process::cores::Cores;
use crate::process::elsewhere::{Early, Elsewhere};
use crate::process::encounters::Encounters;
use crate::process::engine::{Engine, Path};
use crate::process::here::Here;
use crate::process::losses::Losses;
use crate::process::service::Services;
use crate::process::slices;
use crate::process::transport::{Bell, Segment, Sleepers, agree};
use crate::process::turn::Turn;
use crate::process::wait::Manners;
use phalanx_core::wire::ranks::{FromRank, RANK, Seat};
use phalanx_net::forks::call_in_forks;
use phalanx_net::sync::lock;
use std::net::IpAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock};

static WORLD: OnceLock<World> = OnceLock::new();
/// The same while this process has a part in the program: a fork of it has none.
static PART: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());
/// This process was forked off one that had a part in a program.
static FORKED: AtomicBool = AtomicBool::new(false);

const NOT_INITIALIZED: &str = "MPI is not initialized: call MPI_Init first";
/// What a fork is told that wants a part in the program.
const NO_PART: &str = "this process is a fork of a process of the program, and has no part in it: message passing belongs \
                       to the process that called MPI_Init or bsp_begin";

/// The process, from MPI_Init on.
pub struct World {
    /// The process's number in the universe, which has all processes that its launcher ever starts.
    pub rank: usize,
    /// The number of the first process of this world (MPI_COMM_WORLD).
    pub first: usize,
    /// The number of processes of this world.
    pub size: usize,
    /// The processes of this world on this machine.
    pub local: std::ops::Range<usize>,
    /// The machine of each process, the same numbers everywhere, known before anything is sent to another machine; none when
    /// all are on this one.
    pub machines: Vec<u32>,
    /// Their addresses, likewise.
    pub addresses: Vec<IpAddr>,
    /// Where processes of other machines reach this one; none where there are none.
    pub address: Option<IpAddr>,
    pub(super) engine: Turn<Engine>,
    pub(super) manners: Manners,
    pub(super) cores: Cores,
    /// It sees to the order of what others have accessed before it sleeps.
    pub(super) orders: bool,
    pub(super) segment: Option<Arc<Segment>>,
    pub(super) bell: Option<Arc<Bell>>,
    /// The link to the launcher; none without one.
    pub control: Option<Control>,
    /// Which of the programs in the launcher's command line this is (MPI_APPNUM).
    pub app: Option<u32>,
    pub(super) sleepers: Sleepers,
    /// What answers the requests of other processes.
    pub services: Services,
    pub(crate) losses: Losses,
    /// Connections that are to come.
    pub(crate) encounters: Encounters,
    /// The launcher wants a checkpoint of a BSP program.
    pub(crate) checkpoint_wanted: AtomicBool,
    pub(super) early: Mutex<Early>,
    /// What attends to the launcher and to losses; progress calls it. None in a process that has not joined a program.
    pub(super) attendant: OnceLock<Attendant>,
}

/// See [`World::attend`].
pub(crate) type Attendant = fn(&World);

/// The world, once [`World::join`] was called. Fails in a fork, which would send with the keys of the process that it was
/// forked off, and take that process's messages out of shared memory.
#[inline]
pub fn world() -> Result<&'static World> {
    // SAFETY: it is nothing, or the world, which stays for ever.
    match unsafe { PART.load(Ordering::Acquire).as_ref() } {
        Some(world) => Ok(world),
        None => no_part(),
    }
}

#[cold]
fn no_part() -> Result<&'static World> {
    check_part()?;
    fail(Class::Other, NOT_INITIALIZED)
}

/// The same for what a process knows of itself and others, which a fork may know too.
#[inline]
pub fn known() -> Result<&'static World> {
    match WORLD.get() {
        Some(world) => Ok(world),
        None => fail(Class::Other, NOT_INITIALIZED),
    }
}

/// Whether this process is a fork of a process of a program.
#[inline]
pub fn is_fork() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Fails in a fork.
#[inline]
pub fn check_part() -> Result<()> {
    if is_fork() { fail(Class::Other, NO_PART) } else { Ok(()) }
}

/// Runs in every fork before anything else does. Another thread may have had the engine when the process was forked: who
/// comes to it nevertheless does not wait for ever.
unsafe extern "C" fn lose_part() {
    FORKED.store(true, Ordering::Relaxed);
    PART.store(std::ptr::null_mut(), Ordering::Relaxed);
    if let Some(world) = WORLD.get() {
        world.engine.close();
    }
}

impl World {
    /// The process as it was started; without a launcher it is a program of its own. Progress calls the attendant from time to
    /// time.
    pub(crate) fn join(attendant: Attendant) -> Result<&'static World> {
        static WATCHED: Once = Once::new();
        check_part()?;
        let world = match std::env::var(RANK) {
            Err(_) => World::alone(),
            Ok(text) => {
                // A process that this one starts is not the same rank.
                // SAFETY: MPI_Init is called before the program has threads that read the environment.
                unsafe { std::env::remove_var(RANK) };
                text.parse().and_then(World::of).or_else(|text| fail(Class::Other, text))?
            }
        };
        slices::ask_for_short();
        let world = WORLD.get_or_init(|| world);
        let _ = world.attendant.set(attendant);
        // SAFETY: the function only stores words.
        WATCHED.call_once(|| unsafe { call_in_forks(lose_part) });
        PART.store(std::ptr::from_ref(world).cast_mut(), Ordering::Release);
        Ok(world)
    }

    /// What the launcher has said already; nothing when it is taken again.
    pub(crate) fn take_early(&self) -> Early {
        std::mem::take(&mut *lock(&self.early))
    }

    /// Whether the launcher wants a checkpoint; it is told so once.
    pub(crate) fn take_checkpoint_wanted(&self) -> bool {
        self.checkpoint_wanted.swap(false, Ordering::Relaxed)
    }

    /// Whether anybody of this world was lost.
    pub fn has_losses(&self) -> bool {
        self.losses.has(|process| self.is_of_world(process))
    }

    /// How many processes there are cores for, or are already (MPI_UNIVERSE_SIZE).
    pub fn room(&self) -> usize {
        let may_grow = self.control.is_some() && self.machines.is_empty();
        if may_grow { self.size.max(cores()) } else { self.size }
    }

    /// This process's rank in MPI_COMM_WORLD.
    pub fn place(&self) -> usize {
        self.rank - self.first
    }

    /// Whether a process is one of MPI_COMM_WORLD.
    pub fn is_of_world(&self, process: u32) -> bool {
        (self.first..self.first + self.size).contains(&(process as usize))
    }

    /// A process, for people.
    pub(crate) fn name_of(&self, process: u32) -> String {
        match self.is_of_world(process) {
            true => format!("rank {}", process as usize - self.first),
            false => "a process of another world".to_owned(),
        }
    }

    pub(super) fn alone() -> World {
        World {
            rank: 0,
            first: 0,
            size: 1,
            local: 0..1,
            machines: Vec::new(),
            addresses: Vec::new(),
            address: None,
            engine: Turn::new(Engine::new(0, vec![Path::Own], None)),
            manners: Manners::default(),
            cores: Cores::default(),
            orders: false,
            segment: None,
            bell: None,
            control: None,
            app: None,
            sleepers: Sleepers::default(),
            services: Services::default(),
            losses: Losses::default(),
            encounters: Encounters::default(),
            checkpoint_wanted: AtomicBool::new(false),
            early: Mutex::default(),
            attendant: OnceLock::new(),
        }
    }

    fn of(seat: Seat) -> std::result::Result<World, String> {
        let (first, size) = (seat.base as usize, seat.size as usize);
        let (rank, start) = (first + seat.rank as usize, first + seat.first as usize);
        // SAFETY: the launcher made these files for this process, which has not used them yet.
        let own = |file: i32| unsafe { OwnedFd::from_raw_fd(file) };
        let (control, segment) = (Control::new(own(seat.control)), own(seat.segment));
        let bells = seat.bells.iter().map(|file| own(*file)).collect();
        let here = Here::meet(start..start + seat.local as usize, rank, segment, bells)?;
        let mut elsewhere = Elsewhere::meet(&control, &seat)?;
        let path = |peer| path(peer, rank, first, &here, &mut elsewhere);
        let mut engine = Engine::new(rank as u32, (0..first + size).map(path).collect(), Some(here.segment.clone()));
        let Here { local, me, segment, bells } = here;
        engine.set_bell(bells[me].clone());
        let crowded = local.len().max(elsewhere.beside) > cores();
        // Who sleeps after each message would only interrupt the others.
        let orders = !crowded && local.len() > 1 && agree();
        if orders {
            engine.agree();
            segment.desk(me).orders.store(1, Ordering::Relaxed);
        }
        let manners = Manners::new(crowded, local.len() == 1);
        Ok(World {
            rank,
            first,
            size,
            app: Some(seat.app),
            machines: elsewhere.machines,
            addresses: elsewhere.addresses,
            address: seat.address,
            engine: Turn::new(engine),
            manners,
            orders,
            bell: Some(bells[me].clone()),
            segment: Some(segment),
            control: Some(control),
            local,
            early: Mutex::new(elsewhere.early),
            ..World::alone()
        })
    }

    /// Processes of one program, all in this one, as if they were on these machines (on one if there are none).
    #[cfg(test)]
    pub(crate) fn together(size: usize, machines: &[u32]) -> Vec<&'static World> {
        let worlds = crate::process::engine::tests::engines(size).into_iter().enumerate().map(|(rank, engine)| World {
            rank,
            size,
            local: neighbours(rank, size, machines),
            machines: machines.to_vec(),
            engine: Turn::new(engine),
            ..World::alone()
        });
        worlds.map(|world| &*Box::leak(Box::new(world))).collect()
    }

    /// Lets the launcher end the program. A fork ends alone.
    pub fn tell_abort(&self, code: i32, text: &str) {
        if let Some(control) = self.control.as_ref().filter(|_| !is_fork()) {
            let _ = control.tell(&FromRank::Abort { code, text: text.to_string() });
        }
    }
}

/// How many cores this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How frames of a process get to another one, by their numbers.
fn path(peer: usize, rank: usize, first: usize, here: &Here, elsewhere: &mut Elsewhere) -> Path {
    match peer {
        _ if peer == rank => Path::Own,
        _ if here.local.contains(&peer) => here.path(peer),
        _ if peer < first => Path::Unmet,
        _ => elsewhere.links.remove(&(peer - first)).map_or(Path::Gone, |link| Path::Socket(Box::new(link))),
    }
}

/// The processes beside one, without another machine's in between.
#[cfg(test)]
fn neighbours(rank: usize, size: usize, machines: &[u32]) -> std::ops::Range<usize> {
    let is_beside = |other: &usize| machines.get(*other) == machines.get(rank);
    let before = (0..rank).rev().take_while(is_beside).count();
    rank - before..rank + (rank..size).take_while(is_beside).count()
}
