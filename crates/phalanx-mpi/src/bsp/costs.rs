//! What supersteps cost (the BSP cost model: w + g h + l; paper 001, 2).

use std::time::Instant;

/// Supersteps that are noted at most; later ones are not.
const MOST: usize = 1 << 20;

/// A superstep at one process.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Superstep {
    /// Seconds between two syncs.
    pub work: f64,
    /// Seconds in the sync at its end.
    pub sync: f64,
    /// Bytes of data to and from other processes.
    pub sent: u64,
    /// Bytes of data from other processes.
    pub received: u64,
}

#[derive(Default)]
pub(super) struct Costs {
    /// When the superstep began, if costs are wanted.
    since: Option<Instant>,
    noted: Vec<Superstep>,
}

impl Costs {
    pub fn note(&mut self, wanted: bool) {
        self.since = wanted.then(Instant::now);
    }

    pub fn noted(&self) -> &[Superstep] {
        &self.noted
    }

    /// A clock for the sync that begins.
    pub fn begin(&self) -> Option<Instant> {
        self.since.map(|_| Instant::now())
    }

    /// The sync that began then has ended.
    pub fn end(&mut self, begun: Option<Instant>, sent: u64, received: u64) {
        let (Some(since), Some(begun)) = (self.since, begun) else { return };
        let now = Instant::now();
        self.since = Some(now);
        if self.noted.len() < MOST {
            let (work, sync) = ((begun - since).as_secs_f64(), (now - begun).as_secs_f64());
            self.noted.push(Superstep { work, sync, sent, received });
        }
    }
}
