//! The ranks of this machine, which share memory.

use crate::process::engine::Path;
use crate::process::transport::{Bell, Segment};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// See the module.
pub struct Here {
    /// Their numbers.
    pub local: Range<usize>,
    /// This process's place among them.
    pub me: usize,
    pub segment: Arc<Segment>,
    pub bells: Vec<Arc<Bell>>,
}

impl Here {
    /// Maps the memory that the launcher has made for them.
    pub fn meet(local: Range<usize>, rank: usize, segment: OwnedFd, bells: Vec<OwnedFd>) -> Result<Here, String> {
        let segment = Segment::map(segment.as_fd(), local.len());
        let segment = Arc::new(segment.map_err(|error| format!("the memory of this machine's ranks: {error}"))?);
        let me = rank - local.start;
        segment.desk(me).process.store(std::process::id(), Ordering::Relaxed);
        let bells = bells.into_iter().map(|file| Arc::new(Bell::new(file))).collect();
        Ok(Here { local, me, segment, bells })
    }

    /// How frames get to another one of them.
    pub fn path(&self, process: usize) -> Path {
        let peer = process - self.local.start;
        let (sender, receiver) = (self.segment.sender(self.me, peer), self.segment.receiver(peer, self.me));
        Path::Shared { local: peer, sender, receiver, bell: self.bells[peer].clone() }
    }
}
