//! Links to the hub for contents, with retries while there is no hub.

use super::Shared;
use super::running::{Failure, Running};
use crate::contents::Contents;
use phalanx_net::sync::lock;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two attempts.
const AGAIN: Duration = Duration::from_millis(200);
/// Timeout for refusals of the hub, for example because its disk is full. Afterwards the run has failed.
const PATIENCE: Duration = Duration::from_secs(30);

impl Shared {
    /// Does work over a link for contents. Retries without limit while the hub is away, and for [`PATIENCE`] when the hub refuses.
    pub(super) fn bring<T>(
        &self,
        running: &Running,
        mut work: impl FnMut(&mut Contents) -> io::Result<T>,
    ) -> Result<T, Failure> {
        let mut refused: Option<Instant> = None;
        loop {
            if running.is_stopped() || self.is_closed() {
                return Err(Failure::Machine("the run was stopped".to_owned()));
            }
            match self.try_to_bring(&mut work) {
                Ok(done) => return Ok(done),
                Err(error) => {
                    let is_refused = error.kind() == io::ErrorKind::PermissionDenied;
                    let since = *refused.get_or_insert_with(Instant::now);
                    if is_refused && since.elapsed() >= PATIENCE {
                        return Err(Failure::Machine(format!("the hub: {error}")));
                    }
                    if !is_refused {
                        refused = None;
                    }
                    thread::sleep(AGAIN);
                }
            }
        }
    }

    fn try_to_bring<T>(&self, work: &mut impl FnMut(&mut Contents) -> io::Result<T>) -> io::Result<T> {
        let hub = lock(&self.state).hub.clone().map(|(_, hub)| hub);
        let hub = hub.ok_or(io::ErrorKind::NotConnected)?;
        let resting = lock(&self.links).pop().filter(|(at, link)| *at == hub && !link.has_ended());
        let mut contents = match resting {
            Some((_, contents)) => contents,
            None => Contents::open(&self.settings.member, &hub)?,
        };
        let done = work(&mut contents)?;
        lock(&self.links).push((hub, contents));
        Ok(done)
    }
}
