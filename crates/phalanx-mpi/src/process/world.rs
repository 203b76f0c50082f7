//! This process among those of its program.

use crate::error::{Class, Result, fail};
use crate::objects::comm::{COMM_WORLD, Comm};
use crate::objects::group::Group;
use crate::operations::collective::{Call, barrier};
use crate::process::control::Control;
use crate::process::cores::Cores;
use crate::process::elsewhere::Elsewhere;
use crate::process::engine::{Engine, Found, Path, Status};
use crate::process::service::Services;
use crate::process::slices;
use crate::process::tasks;
use crate::process::transport::{Bell, Segment, Sleepers, Woken, agree, order_all, order_own, part};
use crate::process::turn::{Taken, Turn};
use crate::process::wait::{Manners, Next, Wait};
use crate::universe::launcher::Universe;
use crate::universe::losses::Losses;
use phalanx_core::spmd::Pattern;
use phalanx_core::wire::ranks::{FromRank, RANK, Seat};
use std::future::Future;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Sleeps end after this time at the latest: a wake-up may be missed where memory has no order that says otherwise.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);
/// Looks at a channel for a short message before anything else is looked at: some microseconds.
const SOON: u32 = 1000;
/// While frames wait for room at a peer.
const BLOCKED_SLEEP: Duration = Duration::from_micros(500);
/// How long others may take to hear the farewell of a process that does not wait for them.
const PARTING: Duration = Duration::from_secs(2);

static WORLD: OnceLock<World> = OnceLock::new();

/// The process, from MPI_Init on.
pub struct World {
    /// The process's number in the universe, which has all processes that its launcher ever starts.
    pub rank: usize,
    /// The number of the first process of this world (MPI_COMM_WORLD), and how many it has.
    pub first: usize,
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
    engine: Turn<Engine>,
    manners: Manners,
    cores: Cores,
    /// It sees to the order of what others have accessed before it sleeps.
    orders: bool,
    segment: Option<Arc<Segment>>,
    bell: Option<Arc<Bell>>,
    pub control: Option<Control>,
    /// Which of the programs in the launcher's command line this is (MPI_APPNUM).
    pub app: Option<u32>,
    sleepers: Sleepers,
    pub services: Services,
    pub(crate) losses: Losses,
    pub universe: Universe,
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
        slices::ask_for_short();
        let world = WORLD.get_or_init(|| world);
        world.universe.find_parents(world)?;
        world.attend(); // what was read together with what was waited for
        Ok(world)
    }

    /// How many processes there are cores for, or are already (MPI_UNIVERSE_SIZE).
    pub fn room(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let may_grow = self.control.is_some() && self.machines.is_empty();
        if may_grow { self.size.max(cores) } else { self.size }
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

    /// All processes of MPI_COMM_WORLD.
    pub fn everybody(&self) -> Group {
        Group::new((self.first as u32..(self.first + self.size) as u32).collect::<Vec<_>>())
    }

    fn alone() -> World {
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
            universe: Universe::default(),
        }
    }

    fn of(seat: Seat) -> std::result::Result<World, String> {
        let (first, size) = (seat.base as usize, seat.size as usize);
        let (rank, here) = (first + seat.rank as usize, first + seat.first as usize);
        let local = here..here + seat.local as usize;
        // SAFETY: the launcher made these files for this process, which has not used them yet.
        let own = |file: i32| unsafe { OwnedFd::from_raw_fd(file) };
        let (control, segment) = (Control::new(own(seat.control)), own(seat.segment));
        let bells = seat.bells.iter().map(|file| own(*file));
        let segment = Segment::map(segment.as_fd(), local.len());
        let segment = Arc::new(segment.map_err(|error| format!("the memory of this machine's ranks: {error}"))?);
        segment.desk(rank - local.start).process.store(std::process::id(), Ordering::Relaxed);
        let bells: Vec<_> = bells.map(|file| Arc::new(Bell::new(file))).collect();
        let me = rank - local.start;
        let mut elsewhere = match local.len() < size {
            true => Elsewhere::meet(&control, seat.address, first, rank - first, size)?,
            false => {
                let told = control.tell(&FromRank::Joined { listens: None });
                told.map_err(|error| format!("the launcher is gone: {error}"))?;
                Elsewhere::default()
            }
        };
        let mut parents = elsewhere.parents.take();
        if first > 0 && parents.is_none() {
            parents = Some(control.await_parents(&mut elsewhere.lost)?);
        }
        let path = |peer: usize| match peer {
            _ if peer == rank => Path::Own,
            _ if local.contains(&peer) => {
                let peer = peer - local.start;
                let (sender, receiver) = (segment.sender(me, peer), segment.receiver(peer, me));
                Path::Shared { local: peer, sender, receiver, bell: bells[peer].clone() }
            }
            _ if peer < first => Path::Unmet,
            _ => elsewhere.links.remove(&(peer - first)).map_or(Path::Gone, |link| Path::Socket(Box::new(link))),
        };
        let mut engine = Engine::new(rank as u32, (0..first + size).map(path).collect(), Some(segment.clone()));
        engine.set_bell(bells[me].clone());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let crowded = local.len().max(elsewhere.beside) > cores;
        // Who sleeps after each message would only interrupt the others.
        let orders = !crowded && local.len() > 1 && agree();
        if orders {
            engine.agree();
            segment.desk(me).orders.store(1, Ordering::Relaxed);
        }
        let manners = Manners::new(crowded, local.len() == 1);
        let world = World {
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
            universe: Universe::of(parents),
            ..World::alone()
        };
        elsewhere.lost.into_iter().for_each(|(rank, text)| world.lose(rank, text));
        Ok(world)
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

    /// Ends the part in the program (MPI_Finalize): after all others have come here too, so that nobody's messages are
    /// lost. Where somebody was lost, or MPI_COMM_WORLD was revoked, the others are not waited for.
    pub fn leave(&'static self) -> Result<()> {
        let everybody = Comm::of(COMM_WORLD)?;
        let call = Call::new(self, everybody.clone());
        let is_revoked = || everybody.is_revoked();
        let mut all = pin!(barrier(&call));
        let met = std::future::poll_fn(|context| {
            let others_go = self.has_losses() || is_revoked();
            if others_go { Poll::Ready(Ok(())) } else { all.as_mut().poll(context) }
        });
        let met = tasks::block_on(self, met);
        let others_go = self.has_losses() || is_revoked();
        if !others_go {
            met?;
        }
        self.engine().bid_farewell();
        while self.engine().is_blocked() {
            self.wait(|engine| (!engine.is_blocked()).then_some(()));
        }
        if others_go {
            let connections = self.engine().connections();
            part(&connections, PARTING); // others may be busy and send to this process still
        }
        if let Some(control) = &self.control {
            let _ = control.tell(&FromRank::Finalized); // who is gone needs no farewell
        }
        Ok(())
    }

    /// Ends the part in the program of a process that had sessions only, when it ends itself: there is no operation of all
    /// before that. Runs so late that nothing may be used that a thread has for itself.
    pub(crate) fn leave_at_exit(&self) {
        let deadline = Instant::now() + PARTING;
        self.engine().bid_farewell();
        while self.engine().is_blocked() && Instant::now() < deadline {
            if !self.engine().progress() {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        part(&self.engine().connections(), deadline.saturating_duration_since(Instant::now()));
        if let Some(control) = &self.control {
            let _ = control.tell(&FromRank::Finalized);
        }
    }

    /// Lets the launcher end the program.
    pub fn tell_abort(&self, code: i32, text: &str) {
        if let Some(control) = &self.control {
            let _ = control.tell(&FromRank::Abort { code, text: text.to_string() });
        }
    }

    /// The engine, for a moment.
    #[inline]
    pub fn engine(&self) -> Hold<'_> {
        let engine = self.engine.take();
        Hold { before: engine.completions, engine, world: self }
    }

    /// Moves what can be moved, once.
    pub fn progress(&self) {
        let mut engine = self.engine();
        engine.progress();
        self.see_to_rest(engine);
        if self.losses.is_due() {
            self.attend();
        }
        tasks::poll(self);
    }

    /// Receives a message from another process of this machine, if it is the next one and comes soon. None tells nothing.
    ///
    /// # Safety
    /// `to` may be written for `capacity` bytes.
    #[inline]
    pub unsafe fn receive_short(&self, from: u32, pattern: &Pattern, to: *mut u8, capacity: usize) -> Option<Status> {
        let mut engine = self.engine();
        if tasks::are_there() || !engine.may_receive_short(pattern.context) {
            return None;
        }
        for _ in 0..if self.manners.looks_often() && !self.manners.was_calm() { SOON } else { 1 } {
            // SAFETY: the caller promises it.
            match unsafe { engine.receive_short(from, pattern, to, capacity) } {
                Found::Message(status) => return Some(status),
                Found::Other => break,
                Found::Nothing if self.engine.is_awaited() => break,
                Found::Nothing => {}
            }
        }
        None
    }

    /// Works until `ready` has something.
    #[inline]
    pub fn wait<T>(&self, ready: impl FnMut(&mut Engine) -> Option<T>) -> T {
        self.wait_so(Wait::default(), ready)
    }

    /// The same, in a certain way.
    #[inline]
    pub fn wait_so<T>(&self, wait: Wait, ready: impl FnMut(&mut Engine) -> Option<T>) -> T {
        self.wait_on(self.engine(), wait, ready)
    }

    /// The same, for who has begun something and has the engine still.
    #[inline]
    pub fn wait_on<'a, T>(
        &'a self,
        mut engine: Hold<'a>,
        mut wait: Wait,
        mut ready: impl FnMut(&mut Engine) -> Option<T>,
    ) -> T {
        let mut seen = u64::MAX;
        loop {
            let moved = self.look(&mut engine, &mut wait, seen);
            let (now, blocked, result) = (engine.completions, engine.is_blocked(), ready(&mut engine));
            self.see_to_rest(engine);
            if let Some(result) = result {
                if moved {
                    self.tell_sleepers(0); // more may have come than this round took
                }
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
            engine = self.engine();
        }
    }

    /// Moves what can be moved; when there was nothing, and nothing was completed since, several times, as long as nobody else
    /// wants the engine. Whether anything was moved.
    #[inline]
    fn look(&self, engine: &mut Engine, wait: &mut Wait, seen: u64) -> bool {
        let before = engine.completions;
        let mut moved = engine.progress_to(wait.most());
        while !moved && engine.completions == seen && wait.looks_again(&self.manners) {
            if self.engine.is_awaited() || engine.is_rare_round() {
                break;
            }
            std::hint::spin_loop();
            moved = engine.progress_to(wait.most());
        }
        wait.completed(engine.completions - before);
        moved
    }

    /// What a round of progress calls for beside messages.
    #[inline]
    fn see_to_rest(&self, engine: Hold<'_>) {
        let (asides, rare) = (engine.has_asides(), engine.is_rare_round());
        drop(engine);
        if rare || self.universe.awaits() {
            self.attend();
        }
        if asides {
            self.serve();
        }
    }

    /// Gives services what has arrived for them.
    #[cold]
    pub(crate) fn serve(&self) {
        if self.services.serve(self) {
            self.note_completion();
        }
    }

    /// Something has come that a thread of this process may sleep for.
    pub(crate) fn wake(&self) {
        self.note_completion();
        self.bell.iter().for_each(|bell| bell.ring());
    }

    /// Something other than a send or a receive was completed.
    pub fn note_completion(&self) {
        self.engine().completions += 1;
    }

    #[inline]
    fn pause(&self, wait: &mut Wait, blocked: bool, seen: u64) {
        match wait.next(&self.manners) {
            Next::Look => std::hint::spin_loop(),
            Next::Yield => {
                if let (Some(segment), true) = (&self.segment, wait.has_spun(&self.manners)) {
                    self.cores.wait_in_vain(segment, self.rank - self.local.start, self.local.len());
                }
                std::thread::yield_now();
            }
            Next::Sleep => self.sleep(blocked, seen),
        }
    }

    /// Other threads of this process may wait for what this one has done; so many sleepers are not other ones.
    #[inline]
    fn tell_sleepers(&self, own: u32) {
        if self.sleepers.count() > own {
            self.bell.as_ref().inspect(|bell| bell.ring());
        }
    }

    /// Sleeps until the bell rings or a socket is ready, unless something has come since it was looked last.
    #[cold]
    fn sleep(&self, blocked: bool, seen: u64) {
        let (Some(segment), Some(bell)) = (&self.segment, &self.bell) else {
            return std::thread::sleep(Duration::from_micros(50)); // another thread of this process is to do something
        };
        let sleeps = &segment.desk(self.rank - self.local.start).sleeps;
        if !self.sleepers.enter(sleeps) {
            return std::thread::yield_now();
        }
        if !self.orders {
            order_own(false);
        }
        let ordered = !self.orders || order_all();
        if !ordered {
            segment.desk(self.rank - self.local.start).orders.store(0, Ordering::SeqCst);
        }
        let mut engine = self.engine.take();
        let before = engine.completions;
        let moved = engine.progress();
        let now = engine.completions;
        let sockets: Vec<_> = engine.sockets().map(|(socket, blocked)| (socket.clone(), blocked)).collect();
        let unsure = !engine.ended().is_empty();
        drop(engine);
        if now != before {
            self.tell_sleepers(1);
        }
        let mut woken = Woken::default();
        let nothing = !moved && now == seen;
        if nothing {
            let control = self.control.as_ref().filter(|control| !control.is_closed()).map(AsFd::as_fd);
            let most = if blocked || !ordered { BLOCKED_SLEEP } else { LONGEST_SLEEP };
            let begun = Instant::now();
            woken = bell.sleep(control, &sockets, most);
            self.manners.has_slept(begun.elapsed(), woken);
        }
        self.sleepers.leave(woken.bell, bell, sleeps);
        if woken.socket {
            self.engine().look_at_sockets();
        }
        let may_be_cut = self.may_be_cut();
        if woken.control || nothing && (unsure || may_be_cut) {
            self.attend();
        }
    }
}

/// The engine in use. Other threads may sleep until something is done that is done here: they hear of it at the end.
pub struct Hold<'a> {
    engine: Taken<'a, Engine>,
    before: u64,
    world: &'a World,
}

impl Deref for Hold<'_> {
    type Target = Engine;

    #[inline]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for Hold<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

impl Drop for Hold<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.engine.completions != self.before {
            self.world.tell_sleepers(0);
        }
    }
}

/// The processes beside one, without another machine's in between.
#[cfg(test)]
fn neighbours(rank: usize, size: usize, machines: &[u32]) -> std::ops::Range<usize> {
    let is_beside = |other: &usize| machines.get(*other) == machines.get(rank);
    let before = (0..rank).rev().take_while(is_beside).count();
    rank - before..rank + (rank..size).take_while(is_beside).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::engine::{Mode, Outgoing, Target};
    use phalanx_core::spmd::{Envelope, Pattern};
    use rustix::event::{EventfdFlags, eventfd};
    use std::sync::atomic::AtomicU32;

    /// A thread may sleep until its receive is done by another thread's send.
    #[test]
    fn what_one_thread_does_wakes_the_others() {
        let bell = Arc::new(Bell::new(eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd")));
        let world = World { bell: Some(bell.clone()), ..World::alone() };
        let (sleeps, mut got) = (AtomicU32::new(0), [0; 3]);
        let rings = || bell.sleep(None, &[], Duration::ZERO).bell;
        let pattern = Pattern { context: 4, source: None, tag: None };
        let receive = world.engine().receive(pattern, Target::Plain(got.as_mut_ptr(), got.len()));
        assert!(world.sleepers.enter(&sleeps) && !rings());
        let envelope = Envelope { context: 4, source: 0, tag: 3 };
        assert!(world.engine().send(0, envelope, Outgoing::Owned(vec![1, 2, 3]), Mode::Standard).is_none());
        assert!(rings() && world.engine().outcome(receive).is_some());
        assert_eq!(got, [1, 2, 3]);
    }
}
