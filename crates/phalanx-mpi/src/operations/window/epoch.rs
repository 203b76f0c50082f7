//! When operations may begin, and when they are done (MPI 5.0, 12.5).

use super::desk::{Lock, MOST_LOCKERS};
use super::memory::Mapping;
use super::state::Epochs;
use super::word::Word;
use super::{Window, lock};
use crate::constants::MPI_MODE_NOSUCCEED;
use crate::error::{Class, Result, fail};
use crate::objects::group::Group;
use crate::operations::collective::{Call, barrier, meet_now};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::task::Poll;

impl Window {
    /// MPI_Win_fence: all operations of all are done, and others may begin.
    pub async fn fence(&self, assert: i32) -> Result<()> {
        self.comm.check_revoked()?;
        let call = Call::new(self.world, self.comm.clone());
        if lock(&self.state).epochs.is_inside() {
            return fail(Class::RmaSync, "a fence inside an epoch of MPI_Win_lock, MPI_Win_start or MPI_Win_post");
        }
        let settled = self.settle(None).await;
        let met = barrier(&call).await;
        self.set_fenced(&mut lock(&self.state).epochs, assert & MPI_MODE_NOSUCCEED == 0);
        settled.and(met)
    }

    /// The same, on mapped memory only, where nothing is under way. None when nothing was done.
    pub(super) fn fence_now(&self, assert: i32) -> Option<Result<()>> {
        {
            let state = lock(&self.state);
            if state.epochs.is_inside() || !state.has_nothing_pending() {
                return None;
            }
        }
        self.mapping()?;
        let met = meet_now(self.world, &self.comm)?;
        self.set_fenced(&mut lock(&self.state).epochs, assert & MPI_MODE_NOSUCCEED == 0);
        Some(met)
    }

    fn set_fenced(&self, epochs: &mut Epochs, fenced: bool) {
        epochs.fenced = fenced;
        self.open.fenced.store(fenced, Ordering::Relaxed);
    }

    /// MPI_Win_post: the processes of the group may begin.
    pub fn post(&self, group: &Group) -> Result<()> {
        self.comm.check_revoked()?;
        let ranks = self.ranks_of(group)?;
        {
            let mut state = lock(&self.state);
            if state.epochs.exposed.is_some() {
                return fail(Class::RmaSync, "MPI_Win_post was called before, without MPI_Win_wait");
            }
            state.epochs.exposed = Some(ranks.clone());
        }
        let mut told = Ok(());
        for rank in ranks {
            told = told.and(self.tell(rank, &Word::Post, &[]));
        }
        told
    }

    /// MPI_Win_wait: all who might begin are done.
    pub async fn wait(&self) -> Result<()> {
        poll_fn(|_| match self.test() {
            Ok(false) => Poll::Pending,
            Ok(true) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error)),
        })
        .await
    }

    /// MPI_Win_test: the same, if it is so now.
    pub fn test(&self) -> Result<bool> {
        let mut state = lock(&self.state);
        let Some(origins) = &state.epochs.exposed else {
            return fail(Class::RmaSync, "MPI_Win_post was not called");
        };
        let missing: Vec<usize> = origins.iter().copied().filter(|rank| state.completes[*rank] == 0).collect();
        let lost = missing.iter().try_for_each(|rank| self.check_lives(*rank));
        let all_lost = missing.iter().all(|rank| self.check_lives(*rank).is_err());
        if !missing.is_empty() && !all_lost {
            return Ok(false); // the others still use this memory
        }
        for rank in state.epochs.exposed.take().unwrap_or_default() {
            state.completes[rank] = state.completes[rank].saturating_sub(1);
        }
        lost.map(|()| true)
    }

    /// MPI_Win_start. Does not wait: operations do, until their target has posted.
    pub fn start(&self, group: &Group) -> Result<()> {
        self.comm.check_revoked()?;
        let ranks = self.ranks_of(group)?;
        let epochs = &mut lock(&self.state).epochs;
        if epochs.is_locking() || epochs.started.is_some() {
            return fail(Class::RmaSync, "MPI_Win_start inside an epoch of MPI_Win_lock or MPI_Win_start");
        }
        self.set_fenced(epochs, false);
        epochs.started = Some(ranks.into_iter().map(|rank| (rank, false)).collect::<BTreeMap<_, _>>());
        Ok(())
    }

    /// MPI_Win_complete: this process's operations are done, and the targets told.
    pub async fn complete(&self) -> Result<()> {
        let targets = match &lock(&self.state).epochs.started {
            Some(started) => started.keys().copied().collect::<Vec<_>>(),
            None => return fail(Class::RmaSync, "MPI_Win_start was not called"),
        };
        let mut met = Ok(());
        for target in &targets {
            met = met.and(self.hear_post(*target).await);
        }
        let settled = self.settle(None).await;
        let mut told = Ok(());
        for target in &targets {
            told = told.and(self.tell(*target, &Word::Complete, &[]));
        }
        lock(&self.state).epochs.started = None;
        met.and(settled).and(told)
    }

    /// Waits until a target of MPI_Win_start has posted.
    async fn hear_post(&self, target: usize) -> Result<()> {
        poll_fn(|_| {
            let lives = self.check_lives(target);
            let state = &mut *lock(&self.state);
            match state.epochs.started.as_mut().and_then(|started| started.get_mut(&target)) {
                Some(posted @ false) if state.posts[target] > 0 => {
                    state.posts[target] -= 1;
                    *posted = true;
                    Poll::Ready(Ok(()))
                }
                Some(false) if lives.is_ok() => Poll::Pending,
                Some(false) => Poll::Ready(lives),
                _ => Poll::Ready(Ok(())),
            }
        })
        .await
    }

    /// Waits until an operation on this target may begin.
    pub(super) async fn enter_epoch(&self, target: usize, has_request: bool) -> Result<()> {
        let waits = {
            let epochs = &lock(&self.state).epochs;
            let posted = epochs.started.as_ref().and_then(|started| started.get(&target).copied());
            match posted {
                _ if epochs.is_passive(target) => false,
                _ if has_request => {
                    return fail(Class::RmaSync, format!("rank {target} is not locked, as requests need it"));
                }
                Some(posted) => !posted,
                None if epochs.fenced => false,
                None => return fail(Class::RmaSync, format!("there is no epoch for accesses to rank {target}")),
            }
        };
        if waits {
            self.hear_post(target).await?;
        }
        Ok(())
    }

    /// MPI_Win_lock.
    pub async fn lock(&self, exclusive: bool, rank: i32) -> Result<()> {
        let Some(target) = self.rank(rank)? else { return Ok(()) };
        {
            let epochs = &mut lock(&self.state).epochs;
            if epochs.is_passive(target) || epochs.started.is_some() {
                return fail(Class::RmaSync, format!("rank {target} is locked, or MPI_Win_start was called"));
            }
            self.set_fenced(epochs, false);
            epochs.set_locked(target, true);
        }
        let granted = match self.shared_lock(target) {
            Some(its) => self.take_shared(target, its, exclusive).await,
            None => match self.tell(target, &Word::Lock { exclusive }, &[]) {
                Ok(()) => self.hear_grant(target).await,
                told => told,
            },
        };
        if granted.is_err() {
            lock(&self.state).epochs.set_locked(target, false);
        }
        self.open.set_locked(target, granted.is_ok());
        granted
    }

    async fn hear_grant(&self, target: usize) -> Result<()> {
        poll_fn(|_| {
            let lives = self.check_lives(target);
            match lock(&self.state).granted.remove(&target) {
                true => Poll::Ready(Ok(())),
                false if lives.is_err() => Poll::Ready(lives),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// The lock of a target in shared memory; None where it is asked for by message: where ranks of several machines may want it, or
    /// more ranks than it has bits for.
    pub(super) fn shared_lock(&self, target: usize) -> Option<&Lock> {
        let mapping = self.mapping().filter(|mapping| mapping.has_all() && self.comm.size() <= MOST_LOCKERS)?;
        Some(&mapping.desk(target)?.lock)
    }

    /// Waits for a lock in shared memory. Numbers of desks are ranks, because all have one.
    async fn take_shared(&self, target: usize, its: &Lock, exclusive: bool) -> Result<()> {
        let own = self.comm.rank as u32;
        let taken = poll_fn(|_| {
            let lives = self.comm.check_revoked().and_then(|()| self.reaches(target));
            let lost = self.mapping().map_or(0, Mapping::first_lost);
            match lives {
                Err(error) => Poll::Ready(Err(error)),
                Ok(_) if its.try_take(own, exclusive, lost) => Poll::Ready(Ok(())),
                Ok(_) => Poll::Pending,
            }
        })
        .await;
        if taken.is_err() {
            its.give_up(own);
        }
        if taken.is_err() || !exclusive {
            self.wake_next(its); // who can share it, or had waited for this one's turn
        }
        self.note_direct();
        taken
    }

    /// Gives a target's lock back; fails when the target was lost.
    fn give_back(&self, target: usize) -> Result<()> {
        let Some(its) = self.shared_lock(target) else { return self.tell(target, &Word::Unlock, &[]) };
        its.leave(self.comm.rank as u32);
        self.wake_next(its);
        self.reaches(target).map(drop)
    }

    /// Wakes the rank whose turn it is to take a lock in shared memory.
    #[inline]
    pub(super) fn wake_next(&self, its: &Lock) {
        if let Some(next) = its.next(self.mapping().map_or(0, Mapping::first_lost), 0) {
            let _ = self.tell(next as usize, &Word::Look, &[]); // who is gone wants it no more
        }
    }

    /// MPI_Win_unlock.
    pub async fn unlock(&self, rank: i32) -> Result<()> {
        let Some(target) = self.rank(rank)? else { return Ok(()) };
        if !lock(&self.state).epochs.has_locked(target) {
            return fail(Class::RmaSync, format!("rank {target} was not locked by MPI_Win_lock"));
        }
        self.open.set_locked(target, false);
        let settled = self.settle(Some(target)).await;
        lock(&self.state).epochs.set_locked(target, false);
        settled.and(self.give_back(target))
    }

    /// MPI_Win_lock of a target whose lock is in shared memory and free. False when nothing was done, but that this process may
    /// wait in the lock's queue, as [`Window::lock`] does next.
    #[inline]
    pub(super) fn lock_now(&self, exclusive: bool, target: usize) -> bool {
        let Some(its) = self.shared_lock(target) else { return false };
        let lost = self.mapping().map_or(0, Mapping::first_lost);
        let mut state = lock(&self.state);
        let epochs = &mut state.epochs;
        let may = !epochs.is_passive(target) && epochs.started.is_none() && !self.comm.is_revoked();
        if !may || !its.try_take(self.comm.rank as u32, exclusive, lost) {
            return false;
        }
        self.set_fenced(epochs, false);
        epochs.set_locked(target, true);
        self.open.set_locked(target, true);
        drop(state);
        if !exclusive {
            self.wake_next(its); // who can share it
        }
        true
    }

    /// MPI_Win_unlock of such a target, on which nothing is under way. False when nothing was done.
    #[inline]
    pub(super) fn unlock_now(&self, target: usize) -> bool {
        let Some(its) = self.shared_lock(target) else { return false };
        let mut state = lock(&self.state);
        if !state.epochs.has_locked(target) || !state.is_settled(target) || self.comm.is_revoked() {
            return false;
        }
        self.open.set_locked(target, false);
        state.epochs.set_locked(target, false);
        drop(state);
        its.leave(self.comm.rank as u32);
        self.wake_next(its);
        true
    }

    /// MPI_Win_lock_all.
    pub async fn lock_all(&self) -> Result<()> {
        {
            let epochs = &mut lock(&self.state).epochs;
            if epochs.is_locking() || epochs.started.is_some() {
                return fail(Class::RmaSync, "MPI_Win_lock_all inside an epoch of MPI_Win_lock or MPI_Win_start");
            }
            self.set_fenced(epochs, false);
            epochs.locked_all = true;
        }
        let (mut granted, size) = (Ok(()), self.comm.size());
        for target in (0..size).filter(|target| self.shared_lock(*target).is_none()) {
            granted = granted.and(self.tell(target, &Word::Lock { exclusive: false }, &[]));
        }
        for target in 0..size {
            granted = granted.and(match self.shared_lock(target) {
                Some(its) => self.take_shared(target, its, false).await,
                None => self.hear_grant(target).await,
            });
        }
        self.open.all.store(true, Ordering::Relaxed);
        granted // the others are locked, and MPI_Win_unlock_all ends that
    }

    /// MPI_Win_unlock_all.
    pub async fn unlock_all(&self) -> Result<()> {
        if !lock(&self.state).epochs.locked_all {
            return fail(Class::RmaSync, "MPI_Win_lock_all was not called");
        }
        self.open.all.store(false, Ordering::Relaxed);
        let settled = self.settle(None).await;
        lock(&self.state).epochs.locked_all = false;
        let mut told = Ok(());
        for target in 0..self.comm.size() {
            told = told.and(self.give_back(target));
        }
        settled.and(told)
    }

    /// MPI_Win_flush, and MPI_Win_flush_local, which may be the same: this process's operations on the target are done.
    pub async fn flush(&self, rank: i32) -> Result<()> {
        let Some(target) = self.rank(rank)? else { return Ok(()) };
        self.order_direct();
        let settled = {
            let mut state = lock(&self.state);
            if !state.epochs.is_passive(target) {
                return fail(Class::RmaSync, format!("rank {target} is not locked"));
            }
            state.settle(Some(target))
        };
        match settled {
            Poll::Ready(settled) => settled,
            Poll::Pending => self.settle(Some(target)).await,
        }
    }

    /// MPI_Win_flush_all.
    pub async fn flush_all(&self) -> Result<()> {
        if !lock(&self.state).epochs.is_locking() {
            return fail(Class::RmaSync, "nobody is locked");
        }
        self.order_direct();
        self.settle(None).await
    }

    /// MPI_Win_sync: what this process stored is seen by others, and the other way round.
    pub fn sync(&self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.world.progress();
    }

    fn ranks_of(&self, group: &Group) -> Result<BTreeSet<usize>> {
        let rank = |process: &u32| match self.comm.group.rank_of(*process) {
            Some(rank) => Ok(rank),
            None => fail(Class::Group, format!("process {process} of the group does not belong to the window")),
        };
        group.processes.iter().map(rank).collect()
    }
}
