//! Machines that are kept free for jobs whose processes take several places.
//!
//! Without that, jobs of one place would starve such a job: each place that becomes free is taken again before enough others are free. So a
//! job that is passed over for [`BLOCKED_FOR`] gets a machine kept. Other jobs get no place there any more, unless they have a higher
//! priority or are older ones of the same user. The runs there end one after the other, until the job has its places, there or at another
//! machine. Each user has one kept machine at most, so that a user cannot stop a grid with jobs of many widths.

use super::{Job, Jobs};
use std::cmp::Ordering;

/// A job is passed over for so many milliseconds before a machine is kept free for it. A longer time lets wide jobs wait, a shorter one
/// leaves places idle although they may become free at another machine.
pub const BLOCKED_FOR: u64 = 30_000;

impl Jobs {
    /// Ends the keeping for jobs that do not wait any more, and of machines that cannot hold a process of them any more.
    pub(super) fn release(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        for (user, (executor, id)) in kept {
            let waits = self.jobs.get(&id).is_some_and(|job| job.lane.is_some() && job.blocked.is_some());
            if waits && self.can_hold(&executor, id) {
                self.kept.insert(user, (executor, id));
            }
        }
    }

    /// It was the turn of a job, and no machine had enough free places. If that goes on, a machine is kept free.
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

    /// The machines on which this job does not begin, because they are kept free for another one.
    pub(super) fn kept_from(&self, id: u64) -> Vec<String> {
        let kept = self.kept.values().filter(|(_, other)| !self.may_pass(id, *other));
        kept.map(|(executor, _)| executor.clone()).collect()
    }

    /// Whether a job begins on the machine that is kept for another one: if its priority is higher, or if it is an older one of the same
    /// user. How many places users have does not count: while the machine drains, its users have ever fewer, and would be next again.
    fn may_pass(&self, id: u64, other: u64) -> bool {
        let (Some(own), Some(kept)) = (self.jobs.get(&id), self.jobs.get(&other)) else { return true };
        let (own, kept) = (&own.record, &kept.record);
        match own.spec.priority.cmp(&kept.spec.priority) {
            Ordering::Greater => true,
            Ordering::Equal => own.user == kept.user && id <= other,
            Ordering::Less => false,
        }
    }

    /// Whether a machine that is here would run a process of this job if it had no runs.
    fn can_hold(&mut self, name: &str, id: u64) -> bool {
        let (Some(executor), Some(job)) = (self.executors.get_mut(name), self.jobs.get(&id)) else { return false };
        let Job { class, record, .. } = job;
        executor.away.is_none()
            && executor.room >= record.spec.places_each()
            && !executor.refuses.contains(&record.user)
            && executor.meets(*class, &record.spec.needs)
    }
}
