//! Leaving a slow machine: process 0 tells the launcher which one is, or any process asks for it; the launcher wants a
//! checkpoint then, ends all processes and starts them elsewhere.
//!
//! How long each worked goes with the barrier at the end of a superstep; that costs nothing more.

use super::Bsp;
use super::checkpoint::machines_of;
use crate::error::{Class, Result, fail};
use phalanx_core::spmd::{Limit, Pace, Slow};
use phalanx_core::wire::ranks::{FromRank, Why};
use std::time::Instant;

/// Microseconds that fit into a barrier's word: nine years.
const MOST_WORK: u128 = (1 << 48) - 1;

/// What a process knows of it.
#[derive(Default)]
pub(super) struct Moving {
    /// When it began to work, where that is measured.
    since: Option<Instant>,
    /// At process 0, where slow machines are to be left.
    pace: Option<Pace>,
    /// Whether this process wants a checkpoint at the end of this superstep, and whether one did at the last.
    pub asks: bool,
    pub saves: bool,
}

impl Moving {
    /// In a program of processes on these machines slow ones are to be left.
    pub fn new(limit: Limit, pid: usize, machines: Vec<u32>) -> Moving {
        let pace = (pid == 0).then(|| Pace::new(limit, machines));
        Moving { since: Some(Instant::now()), pace, asks: false, saves: false }
    }

    /// Microseconds since it began to work.
    pub fn work(&self) -> u64 {
        self.since.map_or(0, |since| since.elapsed().as_micros().min(MOST_WORK) as u64)
    }

    /// A superstep has begun.
    pub fn begin_work(&mut self) {
        self.since = self.since.map(|_| Instant::now());
    }

    /// All have worked so long, in seconds.
    pub fn note(&mut self, work: impl Iterator<Item = f64>) {
        if let Some(pace) = &mut self.pace {
            pace.add(work);
        }
    }

    /// A place for checkpoints was reached: the machine that is too slow, at process 0.
    pub fn slow(&mut self) -> Option<Slow> {
        self.pace.as_mut().and_then(Pace::step)
    }
}

impl Bsp {
    /// Asks for a place on another machine for this process, and for those that are with it: at the next checkpoint, for
    /// which it need not be time.
    pub fn leave_machine(&self) -> Result<()> {
        if self.saving.is_none() {
            return fail(Class::Other, "the program makes no checkpoints at which a process could be moved");
        }
        let machines = machines_of(&self.world.machines, self.nprocs());
        if machines.iter().all(|machine| *machine == machines[0]) {
            return fail(Class::Other, "all processes are on one machine: nobody else would have its checkpoint");
        }
        self.tell_launcher(self.pid() as u32, Why::Asked);
        Ok(())
    }

    /// At process 0, at a place for checkpoints: tells the launcher of a slow machine.
    pub(super) fn look_for_slow(&mut self) {
        if let Some(Slow { process, steps, times }) = self.moving.slow() {
            self.tell_launcher(process, Why::Slow { steps, tenths: (times * 10.0).round() as u32 });
        }
    }

    fn tell_launcher(&self, process: u32, why: Why) {
        let told = self.world.control.as_ref().map(|control| control.tell(&FromRank::Leave { process, why }));
        drop(told); // a launcher that is gone moves nobody
    }
}
