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
/// Timeout for work that fails although the hub is there: the hub refuses it, or a disk is full. Afterwards the run has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The reason why an attempt has failed.
enum Miss {
    /// The hub is away.
    Away,
    /// The work itself.
    Work(io::Error),
}

impl Shared {
    /// Does work over a link for contents. Retries without limit while the hub is away, and for [`PATIENCE`] when the work itself fails.
    pub(super) fn bring<T>(
        &self,
        running: &Running,
        mut work: impl FnMut(&mut Contents) -> io::Result<T>,
    ) -> Result<T, Failure> {
        let mut failing: Option<Instant> = None;
        loop {
            if running.is_stopped() || self.is_closed() {
                return Err(Failure::Machine("the run was stopped".to_owned()));
            }
            match self.try_to_bring(&mut work) {
                Ok(done) => return Ok(done),
                Err(Miss::Away) => failing = None,
                Err(Miss::Work(error)) => {
                    if failing.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                        return Err(match error.kind() {
                            // The hub refuses it to other machines, too: its disk is full, for example.
                            io::ErrorKind::PermissionDenied => Failure::User(format!("the hub: {error}")),
                            _ => Failure::Machine(error.to_string()),
                        });
                    }
                }
            }
            thread::sleep(AGAIN);
        }
    }

    fn try_to_bring<T>(&self, work: &mut impl FnMut(&mut Contents) -> io::Result<T>) -> Result<T, Miss> {
        let hub = lock(&self.state).hub.clone().map(|(_, hub)| hub).ok_or(Miss::Away)?;
        let resting = lock(&self.links).pop().filter(|(at, link)| *at == hub && !link.has_ended());
        let mut contents = match resting {
            Some((_, contents)) => contents,
            None => Contents::open(&self.settings.member, &hub).map_err(|_| Miss::Away)?,
        };
        let done = work(&mut contents).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Miss::Work(error), // the hub may end the link after a refusal
            _ if contents.has_ended() => Miss::Away,
            _ => Miss::Work(error),
        })?;
        lock(&self.links).push((hub, contents));
        Ok(done)
    }
}
