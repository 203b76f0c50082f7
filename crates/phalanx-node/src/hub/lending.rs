//! What owners ask about loans, and what executors are told: to be guests of another grid, or to be none.

use super::serving::{Linked, shortened};
use super::{Hub, HubError};
use crate::control::tell;
use crate::log::Severity;
use phalanx_core::hub::{Refusal, Telling, Token, Who};
use phalanx_core::wire::encode_body;
use phalanx_core::wire::hub::{FromHub, GuestState, LONGEST_FACT, LoanRow, LoanTerms};
use phalanx_net::identity::{Role, sha256};
use phalanx_net::sync::lock;

impl Hub {
    /// Begins a loan for an owner, or replaces the terms of one. Returns the name of the other grid.
    pub(super) fn lend(&self, by: &str, terms: LoanTerms) -> Result<String, HubError> {
        let is_own = |token: Token| token.root == sha256(self.member.authority());
        if terms.token.parse().is_ok_and(is_own) {
            let why = "the token is of this grid: ask an owner of the other one for: phalanx invite --role executor";
            return Err(HubError::Refused(Refusal::Loan(why.to_owned())));
        }
        let what = format!("{by} lends {terms:?}");
        let grid = self.change_with(|engine, now| Ok(engine.lend(now, by, terms)?))?;
        self.log.info(format!("{what}, to the grid {grid}"));
        self.look_after_loans();
        Ok(grid)
    }

    /// Ends a loan for an owner. Its guests leave the other grid.
    pub(super) fn end_loan(&self, by: &str, grid: &str) -> Result<(), HubError> {
        self.change(|engine, _| Ok(engine.end_loan(by, grid)?))?;
        self.log.info(format!("{by} ends the loan to the grid {grid}"));
        self.look_after_loans();
        Ok(())
    }

    /// A page of loans, for an owner, as the body of an answer. Whether there are more.
    pub(super) fn loans(&self, by: &str, after: Option<&str>) -> Result<(Vec<u8>, bool), HubError> {
        let mut rows = self.engine().loans(by, &self.grid, after)?;
        Ok(shortened(rows.len(), false, |count| {
            rows.truncate(count);
            encode_body::<Vec<LoanRow>>(&rows)
        }))
    }

    /// Takes what an executor says of itself as a guest.
    pub(super) fn guest_says(&self, linked: &Linked, state: GuestState) -> Result<(), HubError> {
        let is_short = |text: &String| text.len() <= LONGEST_FACT;
        if !(is_short(&state.grid) && is_short(&state.why)) {
            return Err(HubError::Other("a guest tells little of itself".to_owned()));
        }
        let Who { role, name } = linked.who();
        if role == Role::Executor.name() && state.is_over {
            let what = format!("{name} is no guest of the grid {}: {}", state.grid, state.why);
            self.log.limited(Severity::Warning, &what, &what);
        }
        self.change(|engine, now| Ok(engine.guest_says(now, linked.number(), linked.who(), state)))
    }

    /// Chooses guests where a loan lacks some, and tells executors what they are to be. A change is stored before it is told.
    pub(super) fn look_after_loans(&self) {
        let _in_order = lock(&self.lending); // an executor hears the newest terms last
        let look = |engine: &mut phalanx_core::hub::Hub, now| {
            let (changes, tellings) = engine.look_after_loans(now, &self.grid);
            Ok((tellings, changes))
        };
        let tellings: Vec<Telling> = self.change_with(look).unwrap_or_default(); // an error is in the log already
        if tellings.is_empty() || self.confirm().is_err() {
            return; // another hub leads by now, and knows better
        }
        for (number, terms) in tellings {
            let linked = lock(&self.linked).get(&number).cloned();
            linked.iter().for_each(|linked| tell(linked.link(), &FromHub::BeGuest { terms: terms.clone() }));
        }
    }
}
