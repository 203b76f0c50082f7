//! Prepared transactions whose owner may be gone: their coordinator, another space of the same transaction, is asked how it
//! ended there.

use super::Space;
use super::change::Change;
use crate::error::SpaceError;
use crate::ids::{SessionId, TransactionId};
use crate::wire::space::{Coordinator, Decision};
use std::time::Duration;

/// After this time somebody should have ended what is prepared.
const FIRST: Duration = Duration::from_secs(2);
/// Between two questions: twice as long each time.
const SHORTEST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);
/// What a question takes on its way, at most.
const ON_THE_WAY: Duration = Duration::from_secs(5);
/// Places of one coordinator, and bytes of each and of its name.
const MOST_PLACES: usize = 16;
const MOST_WORD: usize = 512;

/// Who decides on a prepared transaction, and when it is asked next.
#[derive(Debug)]
pub(super) struct Doubt {
    coordinator: Coordinator,
    ask: Duration,
    pause: Duration,
}

/// A question for the coordinator of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InDoubt {
    pub transaction: TransactionId,
    pub coordinator: Coordinator,
    /// Since when it is prepared here: it was not decided before.
    pub age: Duration,
}

impl Doubt {
    /// When the coordinator is asked next.
    pub fn ask(&self) -> Duration {
        self.ask
    }
}

impl Coordinator {
    pub(super) fn check(&self) -> Result<(), SpaceError> {
        let words = || self.places.iter().chain([&self.space]);
        match (1..=MOST_PLACES).contains(&self.places.len()) && words().all(|word| word.len() <= MOST_WORD) {
            true => Ok(()),
            false => Err(SpaceError::Options("a coordinator has 1 to 16 addresses, of up to 512 bytes".into())),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.places.iter().chain([&self.space]).map(|word| word.len() + 2).sum()
    }
}

impl Space {
    /// Another space decides on a prepared transaction.
    pub(super) fn leave_to(&mut self, now: Duration, transaction: TransactionId, coordinator: Coordinator) {
        self.note(|_| Change::LeftTo { transaction, coordinator: coordinator.clone() });
        self.ask_at(now.saturating_add(FIRST), transaction, coordinator);
    }

    /// A log kept this; its owner is not there any more.
    pub(super) fn fill_coordinator(
        &mut self,
        transaction: TransactionId,
        coordinator: Coordinator,
    ) -> Result<(), SpaceError> {
        match self.transactions.get(&transaction).is_some_and(|own| own.prepared) {
            true => {
                self.ask_at(Duration::ZERO, transaction, coordinator);
                Ok(())
            }
            false => Err(SpaceError::NotKept("a coordinator of a transaction that is not prepared was kept".into())),
        }
    }

    fn ask_at(&mut self, ask: Duration, transaction: TransactionId, coordinator: Coordinator) {
        let Some(own) = self.transactions.get_mut(&transaction) else { return };
        own.doubt = Some(Box::new(Doubt { coordinator, ask, pause: SHORTEST }));
        self.doubts.insert((ask, transaction));
    }

    /// A session has ended: what it has prepared is asked for now.
    pub(super) fn doubt(&mut self, now: Duration, session: SessionId) {
        for (id, own) in &mut self.transactions {
            if let Some(doubt) = own.doubt.as_mut().filter(|_| own.owner == session) {
                self.doubts.remove(&(doubt.ask, *id));
                doubt.ask = now;
                self.doubts.insert((doubt.ask, *id));
            }
        }
    }

    /// What is to be asked now; [`Space::commit`] or [`Space::abort`] is to follow where there is a decision.
    pub fn in_doubt(&mut self, now: Duration) -> Vec<InDoubt> {
        let mut found = Vec::new();
        while let Some((ask, transaction)) = self.doubts.first().copied().filter(|(ask, _)| *ask <= now) {
            self.doubts.remove(&(ask, transaction));
            let Some(own) = self.transactions.get_mut(&transaction) else { continue };
            let prepared = own.deadline.saturating_sub(self.options.longest_transaction);
            let Some(doubt) = &mut own.doubt else { continue };
            let (coordinator, age) = (doubt.coordinator.clone(), now.saturating_sub(prepared));
            found.push(InDoubt { transaction, coordinator, age });
            doubt.ask = now.saturating_add(doubt.pause);
            doubt.pause = (doubt.pause * 2).min(LONGEST);
            self.doubts.insert((doubt.ask, transaction));
        }
        found
    }

    /// How a transaction has ended of which this space is the coordinator, and another one has it prepared since `age`.
    pub fn decision(&mut self, now: Duration, transaction: TransactionId, age: Duration) -> Decision {
        self.on_tick(now);
        if self.transactions.contains_key(&transaction) {
            return Decision::Open;
        }
        match self.ended.committed(transaction) {
            Some(true) => Decision::Committed,
            Some(false) => Decision::Aborted,
            // It would have been committed since it was prepared there, and be remembered.
            None if self.ended.remembers_since(now.saturating_sub(age.saturating_add(ON_THE_WAY))) => Decision::Aborted,
            None => Decision::Forgotten,
        }
    }
}
