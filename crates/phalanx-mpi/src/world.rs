//! This process among those of its program.

use crate::collective::{Call, barrier};
use crate::comm::{COMM_WORLD, Comm};
use crate::control::Control;
use crate::engine::{Engine, Path};
use crate::error::{Class, Result, fail};
use crate::service::Services;
use crate::tasks;
use crate::transport::{Bell, Segment};
use crate::wait::{Manners, Next, Wait};
use phalanx_core::wire::ranks::{FromRank, RANK, Seat};
use phalanx_net::sync::lock;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// Sleeps end after this time at the latest: a wake-up may be missed where memory has no order that says otherwise.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);
/// While frames wait for room at a peer.
const BLOCKED_SLEEP: Duration = Duration::from_micros(500);

static WORLD: OnceLock<World> = OnceLock::new();

/// The process, from MPI_Init on.
pub struct World {
    pub rank: usize,
    pub size: usize,
    /// The ranks of this machine.
    pub local: std::ops::Range<usize>,
    /// The machine of each process, the same numbers everywhere, known before anything is sent to another machine; none when
    /// all are on this one.
    pub machines: Vec<u32>,
    engine: Mutex<Engine>,
    manners: Mutex<Manners>,
    segment: Option<Arc<Segment>>,
    bell: Option<Arc<Bell>>,
    pub control: Option<Control>,
    /// Which of the programs in the launcher's command line this is (MPI_APPNUM).
    pub app: Option<u32>,
    /// Threads of this process that sleep.
    sleepers: AtomicU32,
    pub services: Services,
}

/// The world, once [`World::join`] was called.
#[inline]
pub fn world() -> Result<&'static World> {
    match WORLD.get() {
        Some(world) => Ok(world),
        None => fail(Class::Other, "MPI is not initialized: call MPI_Init first"),
    }
}

impl World {
    /// Joins the program that this process was started for; without a launcher it is a program of its own.
    pub fn join() -> Result<&'static World> {
        let world = match std::env::var(RANK) {
            Err(_) => World::alone(),
            Ok(text) => {
                // A process that this one starts is not the same rank.
                // SAFETY: MPI_Init is called before the program has threads that read the environment.
                unsafe { std::env::remove_var(RANK) };
                text.parse().and_then(World::of).or_else(|text| fail(Class::Other, text))?
            }
        };
        Ok(WORLD.get_or_init(|| world))
    }

    fn alone() -> World {
        World {
            rank: 0,
            size: 1,
            local: 0..1,
            machines: Vec::new(),
            engine: Mutex::new(Engine::new(0, vec![Path::Own], None)),
            manners: Mutex::default(),
            segment: None,
            bell: None,
            control: None,
            app: None,
            sleepers: AtomicU32::new(0),
            services: Services::default(),
        }
    }

    fn of(seat: Seat) -> std::result::Result<World, String> {
        let (rank, size) = (seat.rank as usize, seat.size as usize);
        let local = seat.first as usize..(seat.first + seat.local) as usize;
        if local.len() < size {
            return Err("messages between machines are not passed yet: start all ranks on one machine".to_string());
        }
        // SAFETY: the launcher made these files for this process, which has not used them yet.
        let own = |file: i32| unsafe { OwnedFd::from_raw_fd(file) };
        let (control, segment) = (Control::new(own(seat.control)), own(seat.segment));
        let bells = seat.bells.iter().map(|file| own(*file));
        let segment = Segment::map(segment.as_fd(), local.len());
        let segment = Arc::new(segment.map_err(|error| format!("the memory of this machine's ranks: {error}"))?);
        segment.desk(seat.rank as usize - local.start).process.store(std::process::id(), Ordering::Relaxed);
        let bells: Vec<_> = bells.map(|file| Arc::new(Bell::new(file))).collect();
        let me = rank - local.start;
        let path = |peer: usize| match peer {
            _ if peer == rank => Path::Own,
            _ if local.contains(&peer) => {
                let peer = peer - local.start;
                let (sender, receiver) = (segment.sender(me, peer), segment.receiver(peer, me));
                Path::Shared { local: peer, sender, receiver, bell: bells[peer].clone() }
            }
            _ => Path::Gone,
        };
        let engine = Engine::new(rank as u32, (0..size).map(path).collect(), Some(segment.clone()));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let manners = Manners::new(local.len() > cores);
        control.tell(&FromRank::Joined { listens: None }).map_err(|error| format!("the launcher is gone: {error}"))?;
        Ok(World {
            rank,
            size,
            app: Some(seat.app),
            machines: Vec::new(),
            engine: Mutex::new(engine),
            manners: Mutex::new(manners),
            bell: Some(bells[me].clone()),
            segment: Some(segment),
            control: Some(control),
            local,
            sleepers: AtomicU32::new(0),
            services: Services::default(),
        })
    }

    /// Processes of one program, all in this one, as if they were on these machines (on one if there are none).
    #[cfg(test)]
    pub(crate) fn together(size: usize, machines: &[u32]) -> Vec<&'static World> {
        let worlds = crate::engine::tests::engines(size).into_iter().enumerate().map(|(rank, engine)| World {
            rank,
            size,
            local: 0..size,
            machines: machines.to_vec(),
            engine: Mutex::new(engine),
            ..World::alone()
        });
        worlds.map(|world| &*Box::leak(Box::new(world))).collect()
    }

    /// Ends the part in the program (MPI_Finalize): after all others have come here too, so that nobody's messages are lost.
    pub fn leave(&'static self) -> Result<()> {
        let everybody = Comm::of(COMM_WORLD)?;
        tasks::block_on(self, barrier(&Call::new(self, everybody)))?;
        while self.engine().is_blocked() {
            self.progress();
        }
        if let Some(control) = &self.control {
            let _ = control.tell(&FromRank::Finalized); // who is gone needs no farewell
        }
        Ok(())
    }

    /// Lets the launcher end the program.
    pub fn tell_abort(&self, code: i32, text: &str) {
        if let Some(control) = &self.control {
            let _ = control.tell(&FromRank::Abort { code, text: text.to_string() });
        }
    }

    /// The engine, for a moment.
    #[inline]
    pub fn engine(&self) -> MutexGuard<'_, Engine> {
        lock(&self.engine)
    }

    /// Moves what can be moved, once.
    pub fn progress(&self) {
        let mut engine = self.engine();
        let before = engine.completions;
        engine.progress();
        let (completed, asides) = (engine.completions != before, engine.has_asides());
        drop(engine);
        if completed {
            self.tell_sleepers();
        }
        if asides {
            self.serve();
        }
        tasks::poll(self);
    }

    /// Works until `ready` has something.
    #[inline]
    pub fn wait<T>(&self, mut ready: impl FnMut(&mut Engine) -> Option<T>) -> T {
        let (mut wait, mut seen) = (Wait::new(), u64::MAX);
        loop {
            let mut engine = self.engine();
            let before = engine.completions;
            let moved = engine.progress();
            let (now, blocked, result) = (engine.completions, engine.is_blocked(), ready(&mut engine));
            let asides = engine.has_asides();
            drop(engine);
            if now != before {
                self.tell_sleepers();
            }
            if asides {
                self.serve();
            }
            if let Some(result) = result {
                return result;
            }
            if now != seen {
                seen = now;
                tasks::poll(self);
            } else if moved {
                wait.found();
            } else {
                self.pause(&mut wait, blocked, seen);
            }
        }
    }

    /// Gives services what has arrived for them.
    #[cold]
    pub(crate) fn serve(&self) {
        if self.services.serve(self) {
            self.note_completion();
        }
    }

    /// Something other than a send or a receive was completed.
    pub fn note_completion(&self) {
        self.engine().completions += 1;
        self.tell_sleepers();
    }

    #[inline]
    fn pause(&self, wait: &mut Wait, blocked: bool, seen: u64) {
        let next = wait.next(&mut lock(&self.manners));
        match next {
            Next::Look => std::hint::spin_loop(),
            Next::Yield => std::thread::yield_now(),
            Next::Sleep => self.sleep(blocked, seen),
        }
    }

    /// Other threads of this process may wait for what this one's progress has done.
    #[inline]
    fn tell_sleepers(&self) {
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.bell.as_ref().inspect(|bell| bell.ring());
        }
    }

    /// Sleeps until the bell rings, unless something has come since it was looked last.
    #[cold]
    fn sleep(&self, blocked: bool, seen: u64) {
        let (Some(segment), Some(bell)) = (&self.segment, &self.bell) else {
            return std::thread::sleep(Duration::from_micros(50)); // another thread of this process is to do something
        };
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let desk = segment.desk(self.rank - self.local.start);
        desk.sleeps.store(1, Ordering::SeqCst);
        let mut engine = self.engine();
        let nothing = !engine.progress() && engine.completions == seen;
        drop(engine);
        if nothing {
            let others: Vec<_> = self.control.iter().map(AsFd::as_fd).collect();
            bell.sleep(&others, if blocked { BLOCKED_SLEEP } else { LONGEST_SLEEP });
        }
        desk.sleeps.store(0, Ordering::Relaxed);
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}
