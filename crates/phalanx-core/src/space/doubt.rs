//! Prepared transactions whose owner may be gone. Their coordinator, another space that takes part in the transaction,
//! is asked how it ended there.

use super::Space;
use super::change::Change;
use crate::error::SpaceError;
use crate::ids::{SessionId, TransactionId};
use crate::wire::space::{Coordinator, Decision};
use std::time::Duration;

/// Delay before the first question, because the owner normally ends a prepared transaction within this time.
const FIRST: Duration = Duration::from_secs(2);
/// Backoff between two questions: the pause doubles from `SHORTEST` to `LONGEST`.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);
/// Minimum time that a promise is kept while its coordinator cannot be asked, if the coordinator is durable (it logs
/// its decisions).
const KEPT: Duration = Duration::from_secs(3600);
/// The longest time that a question may travel to the coordinator.
const ON_THE_WAY: Duration = Duration::from_secs(5);
/// Limits on the addresses of one coordinator, and on the bytes of each address and of the space's name.
const MOST_PLACES: usize = 8;
const MOST_WORD: usize = 512;

/// The coordinator of a prepared transaction, and the schedule of questions to it.
#[derive(Debug)]
pub(super) struct Doubt {
    coordinator: Coordinator,
    /// When to ask the coordinator next, and the pause after that.
    pub(super) ask: Duration,
    pause: Duration,
    /// When the transaction was prepared. If it came from a log, `prepared` is zero, and `before` is the age of the
    /// promise at time zero.
    prepared: Duration,
    before: Duration,
}

/// A question for the coordinator of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InDoubt {
    /// The transaction.
    pub transaction: TransactionId,
    /// The space that decides on it.
    pub coordinator: Coordinator,
    /// How long ago the transaction was prepared here. It was not decided before that.
    pub age: Duration,
}

impl Coordinator {
    pub(super) fn check(&self) -> Result<(), SpaceError> {
        let words = || self.places.iter().chain([&self.space]);
        match (1..=MOST_PLACES).contains(&self.places.len()) && words().all(|word| word.len() <= MOST_WORD) {
            true => Ok(()),
            false => Err(SpaceError::Options("a coordinator has 1 to 8 addresses, of up to 512 bytes".into())),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.places.iter().chain([&self.space]).map(|word| word.len() + 2).sum()
    }
}

impl Space {
    /// Leaves the decision on a prepared transaction to its coordinator.
    pub(super) fn leave_to(&mut self, now: Duration, transaction: TransactionId, coordinator: Coordinator) {
        let left = coordinator.clone();
        self.note(|kept| Change::LeftTo { transaction, coordinator: left, since: kept.since_epoch(now) });
        let (ask, pause, before) = (now.saturating_add(FIRST), SHORTEST, Duration::ZERO);
        self.doubt_it(transaction, Doubt { coordinator, ask, pause, prepared: now, before });
    }

    /// Restores the coordinator of a transaction from a log. The owner of the transaction is gone.
    pub(super) fn fill_coordinator(
        &mut self,
        transaction: TransactionId,
        coordinator: Coordinator,
        since: u64,
    ) -> Result<(), SpaceError> {
        match self.transactions.get(&transaction).is_some_and(|own| own.prepared) {
            true => {
                let before = self.kept.as_ref().map_or(Duration::ZERO, |kept| kept.age_at_zero(since));
                let (ask, pause, prepared) = (Duration::ZERO, SHORTEST, Duration::ZERO);
                self.doubt_it(transaction, Doubt { coordinator, ask, pause, prepared, before });
                Ok(())
            }
            false => Err(SpaceError::NotKept("a coordinator of a transaction that is not prepared was kept".into())),
        }
    }

    /// Schedules the first question. If the coordinator is durable, the promise is kept longer than usual.
    fn doubt_it(&mut self, transaction: TransactionId, doubt: Doubt) {
        let Some(own) = self.transactions.get_mut(&transaction) else { return };
        let longest = self.options.longest_transaction;
        let kept = if doubt.coordinator.durable { longest.max(KEPT) } else { longest };
        self.transaction_deadlines.remove(&(own.deadline, transaction));
        own.deadline = own.deadline.max(doubt.prepared.saturating_add(kept));
        self.transaction_deadlines.insert((own.deadline, transaction));
        self.doubts.insert((doubt.ask, transaction));
        own.doubt = Some(Box::new(doubt));
    }

    /// A session has ended, so the coordinators of the transactions that it prepared are asked at once.
    pub(super) fn doubt(&mut self, now: Duration, session: SessionId) {
        for (id, own) in &mut self.transactions {
            if let Some(doubt) = own.doubt.as_mut().filter(|_| own.owner == session) {
                self.doubts.remove(&(doubt.ask, *id));
                doubt.ask = now;
                self.doubts.insert((doubt.ask, *id));
            }
        }
    }

    /// The questions that are due. If a coordinator has decided, the driver must call [`Space::commit`] or
    /// [`Space::abort`].
    pub fn in_doubt(&mut self, now: Duration) -> Vec<InDoubt> {
        let mut found = Vec::new();
        while let Some((ask, transaction)) = self.doubts.first().copied().filter(|(ask, _)| *ask <= now) {
            self.doubts.remove(&(ask, transaction));
            let Some(own) = self.transactions.get_mut(&transaction) else { continue };
            let Some(doubt) = &mut own.doubt else { continue };
            let age = now.saturating_sub(doubt.prepared).saturating_add(doubt.before);
            let coordinator = doubt.coordinator.clone();
            found.push(InDoubt { transaction, coordinator, age });
            doubt.ask = now.saturating_add(doubt.pause);
            doubt.pause = (doubt.pause * 2).min(LONGEST);
            self.doubts.insert((doubt.ask, transaction));
        }
        found
    }

    /// Answers another space's question. This space is the coordinator of the transaction; the other one prepared it
    /// `age` ago.
    pub fn decision(&mut self, now: Duration, transaction: TransactionId, age: Duration) -> Decision {
        self.on_tick(now);
        if self.transactions.contains_key(&transaction) {
            return Decision::Open;
        }
        match self.ended.committed(transaction) {
            Some(true) => Decision::Committed,
            Some(false) => Decision::Aborted,
            // A commit would have come after the promise, so it would still be remembered. The transaction was
            // therefore aborted.
            None if self.ended.remembers_since(now.saturating_sub(age.saturating_add(ON_THE_WAY))) => Decision::Aborted,
            None => Decision::Forgotten,
        }
    }
}
