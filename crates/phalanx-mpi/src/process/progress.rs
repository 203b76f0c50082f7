//! Progress: messages move, and whatever else a process attends to, while it is in a call of the library.

use crate::process::engine::{Engine, Found, Status};
use crate::process::hold::Hold;
use crate::process::tasks;
use crate::process::transport::{Woken, order_all, order_own};
use crate::process::wait::{Next, Wait};
use crate::process::world::World;
use phalanx_core::spmd::Pattern;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Sleeps end after this time at the latest: a wake-up may be missed where memory has no order that says otherwise.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);
/// While frames wait for room at a peer.
const BLOCKED_SLEEP: Duration = Duration::from_micros(500);
impl World {
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
        if tasks::are_there() || !engine.may_receive_short(pattern) {
            return None;
        }
        for _ in 0..self.manners.tries() {
            // SAFETY: the caller promises it.
            match unsafe { engine.receive_short(from, pattern, to, capacity) } {
                Found::Message(status) => return Some(status),
                Found::Other => break,
                Found::Nothing if self.engine.is_awaited() => break,
                Found::Nothing if self.manners.looks_often() => {}
                Found::Nothing => {
                    drop(engine);
                    let is_calm = self.manners.yield_once();
                    engine = self.engine();
                    if is_calm || tasks::are_there() || !engine.may_receive_short(pattern) {
                        break;
                    }
                }
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
        if rare || self.encounters.are_expected() {
            self.attend();
        }
        if asides {
            self.serve();
        }
    }

    /// Lets the attendant do what is due; from time to time, and when the launcher has said something.
    #[cold]
    pub fn attend(&self) {
        self.losses.note_attended();
        if let Some(attendant) = self.attendant.get() {
            attendant(self);
        }
    }

    /// Whether it is time to look for connections with other machines that are cut.
    pub(crate) fn may_be_cut(&self) -> bool {
        (!self.machines.is_empty() || self.address.is_some()) && self.losses.is_look_due()
    }

    /// Gives services what has arrived for them.
    #[cold]
    pub(crate) fn serve(&self) {
        let next = |used| {
            let mut engine = self.engine();
            engine.give_back(used);
            engine.next_aside()
        };
        if self.services.serve(next) {
            self.note_completion();
        }
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
