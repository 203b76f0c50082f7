//! The contents of jobs at a hub.

use super::super::Hub;
use super::super::serving::LEVELS;
use super::HubError;
use crate::contents::{Allowed, Store, name_of, owner, serve};
use crate::door::{Peer, refused};
use phalanx_core::jobs::JobRefusal;
use phalanx_core::wire::jobs::{Content, Outcome, PIECE, Run, Spec};
use phalanx_net::identity::Role;
use phalanx_net::link::Link;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Most bytes of the contents of all users at a hub, and of one user.
const MOST: (u64, u64) = (2_000_000_000_000, 200_000_000_000);
/// Grace time for a content to which no job refers, because its job may be about to be submitted, or its result about to arrive.
const GRACE: Duration = Duration::from_secs(3600);

/// The store of contents in the folder of a hub.
pub fn contents_of(folder: &Path) -> Store {
    Store::open(folder.with_file_name("jobs").join("content"), MOST)
}

impl Hub {
    /// Serves a member that sends or fetches contents.
    pub(crate) fn serve_contents(&self, mut peer: Peer) -> io::Result<()> {
        let (shaken, role, name) = peer.offer(&self.member.newest(), LEVELS.exactly())?;
        let asking = self.admitted(shaken.peer_certificate()).map_err(io::Error::other)?;
        let _entered = self.carrying.enter(&format!("{} {name}", role.name()))?;
        peer.proved();
        let (link, reader) = Link::new(peer.socket, Some(shaken), PIECE as u64)?;
        let name = asking.who.name.clone();
        let is_owner = role == Role::User && self.engine().check_owner(&name).is_ok();
        let allowed = |user: &str| match role {
            Role::User => Allowed { reads: user == name || is_owner, writes: user == name },
            Role::Executor => {
                let serves = self.jobs().serves(&name, user);
                Allowed { reads: serves, writes: serves }
            }
            Role::Hub => Allowed::default(),
        };
        let is_member = || self.leads() && self.engine().check_member(&asking).is_ok();
        if !is_member() {
            return Err(refused("this hub does not lead, or does not know the member"));
        }
        serve(&link, reader, &self.contents, allowed, || self.is_closed() || !is_member());
        Ok(())
    }

    /// Checks that the hub has the inputs of a job.
    pub(super) fn check_contents(&self, user: &str, spec: &Spec) -> Result<(), HubError> {
        let lacking = |content: &Content| match content {
            Content::Kept { digest, bytes } => {
                self.contents.bytes(user, digest) != Some(*bytes) || !self.contents.uses(user, digest)
            }
            Content::Here(_) => false,
        };
        match spec.inputs.iter().find(|it| lacking(&it.content)) {
            None => Ok(()),
            Some(file) => Err(JobRefusal::Wrong(format!(
                "the hub does not have the content of {:?}: submit the job again",
                file.name.chars().take(80).collect::<String>()
            ))
            .into()),
        }
    }

    /// Whether the hub has the contents of a result, or the result does not count because its job is unknown.
    pub(super) fn has_contents(&self, run: &Run, outcome: &Outcome) -> bool {
        let user = self.jobs().job(run.job).map(|(user, _)| user.to_owned());
        let Some(user) = user else { return true };
        outcome.contents().all(|content| match content {
            Content::Kept { digest, bytes } => {
                self.contents.bytes(&user, digest) == Some(*bytes) && self.contents.uses(&user, digest)
            }
            Content::Here(_) => true,
        })
    }

    /// Removes contents to which no job refers.
    pub(super) fn collect_contents(&self) {
        let kept: HashSet<(String, String)> = {
            let jobs = self.jobs();
            jobs.contents().into_iter().map(|(user, digest)| (owner(user), name_of(&digest))).collect()
        };
        // Contents that arrived after the lock was released are new, so that the grace time protects them.
        let is_kept = |owner: &str, digest: &str| kept.contains(&(owner.to_owned(), digest.to_owned()));
        let bytes = self.contents.collect(is_kept, GRACE);
        if bytes > 0 {
            self.log.info(format!("removed {bytes} bytes of contents that no job refers to"));
        }
    }
}
