//! Reservations: machines that are kept free for jobs whose processes take several places.
//!
//! Jobs of one place would starve such a wide job, because they take each free place before enough others are free. So a job that is passed
//! over for [`BLOCKED_FOR`] gets a machine reserved. Other jobs begin there only if they have a higher priority or are older jobs of the
//! same user. The machine drains run by run, until the job finds its places there or at another machine. Each user has one reserved machine
//! at most, so that a user cannot stop a grid with jobs of many widths.

use super::{Job, Jobs};
use std::cmp::Ordering;

/// Milliseconds for which a job is passed over before a machine is kept free for it. A longer time lets wide jobs wait. A shorter time
/// leaves places idle, although another machine may soon have enough of them.
pub const BLOCKED_FOR: u64 = 30_000;

impl Jobs {
    /// Ends the reservations of jobs that no longer wait, and of machines that can no longer hold a process of their job.
    pub(super) fn release(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        for (user, (executor, id)) in kept {
            let waits = self.jobs.get(&id).is_some_and(|job| job.lane.is_some() && job.blocked.is_some());
            if waits && self.can_hold(&executor, id) {
                self.kept.insert(user, (executor, id));
            }
        }
    }

    /// No machine had enough free places for the job whose turn it was. After `BLOCKED_FOR`, a machine is kept free for a job of several
    /// places.
    pub(super) fn note_blocked(&mut self, id: u64) {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.record.spec.places_each() > 1) else { return };
        let since = *job.blocked.get_or_insert(now);
        let user = job.record.user.clone();
        if now.saturating_sub(since) < BLOCKED_FOR || self.kept.contains_key(&user) {
            return;
        }
        let is_kept = |name: &String| self.kept.values().any(|(kept, _)| kept == name);
        let mut able: Vec<String> = self.executors.keys().filter(|name| !is_kept(name)).cloned().collect();
        able.retain(|name| self.can_hold(name, id));
        // The machine that lacks the fewest places is likely to have them first.
        if let Some(name) = able.into_iter().max_by_key(|name| self.executors[name].free()) {
            self.kept.insert(user, (name, id));
        }
    }

    /// The machines on which this job does not begin, because they are kept free for another job.
    pub(super) fn kept_from(&self, id: u64) -> Vec<String> {
        let kept = self.kept.values().filter(|(_, other)| !self.may_pass(id, *other));
        kept.map(|(executor, _)| executor.clone()).collect()
    }

    /// Whether a job may begin on the machine that is kept for another job. Its priority must be higher, or it must be an older job of the
    /// same user. The number of places of each user does not count. Users of the draining machine have ever fewer places, so fairness would
    /// put them first again.
    fn may_pass(&self, id: u64, other: u64) -> bool {
        let (Some(own), Some(kept)) = (self.jobs.get(&id), self.jobs.get(&other)) else { return true };
        let (own, kept) = (&own.record, &kept.record);
        match own.spec.priority.cmp(&kept.spec.priority) {
            Ordering::Greater => true,
            Ordering::Equal => own.user == kept.user && id <= other,
            Ordering::Less => false,
        }
    }

    /// Whether a connected machine would run a process of this job if the machine had no runs.
    fn can_hold(&mut self, name: &str, id: u64) -> bool {
        let (Some(executor), Some(job)) = (self.executors.get_mut(name), self.jobs.get(&id)) else { return false };
        let Job { class, record, .. } = job;
        executor.away.is_none()
            && executor.room >= record.spec.places_each()
            && !executor.refuses.contains(&record.user)
            && executor.meets(*class, &record.spec.needs)
    }
}
