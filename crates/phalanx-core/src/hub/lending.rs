//! Loans: which executors of this grid are guests of another one, and on which terms.
//!
//! An owner stores a loan: a token of the other grid, how many executors it is to get, and for whom. The engine chooses executors
//! whose own owners allow it, replaces those that are lost, and says which terms each executor is to be told. An executor is lent
//! to one grid at a time. So its owner's bound holds for all loans together.

use super::{Change, Hub, Refusal, Token, Who, are_words};
use crate::wire::hub::{Facts, GuestRow, GuestState, LoanRow, LoanTerms, Terms};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The fact by which an executor tells how many of its places may be lent. An executor without it is not lent.
pub const MAY_LEND: &str = "may lend";
/// The fact by which the hub marks an executor that is a guest of another grid. No member can tell it by itself.
pub const LENT_TO: &str = "lent to";
/// The fact by which a guest tells which grid has lent it.
pub const LENT_BY: &str = "lent by";

/// Most loans of a hub.
pub const MOST_LOANS: usize = 16;
/// Most executors of one loan. The rows of so many fit into one answer.
pub const MOST_LENT: u32 = 100;
/// Most users that a loan names.
pub const MOST_ACCEPTED: usize = 64;
/// Most places of one executor that a loan names.
pub const MOST_PLACES: u32 = 4096;
/// Longest token, in bytes: it travels in the terms.
const LONGEST_TOKEN: usize = 4096;
/// A guest that is away for so many seconds is replaced. Shorter, and a restarted executor would cost a use of the token; longer, and
/// the other grid waits for its machine.
const AWAY: u64 = 30;
/// Pause before a loan tries another executor, after one could not join: every try is a use of the other hub's time.
const PAUSE: u64 = 60;
/// An executor that could not join is not chosen again for so many seconds.
const ASIDE: u64 = 600;
/// The longest name of a member.
const LONGEST_NAME: usize = 63;
const EXECUTOR: &str = "executor";

/// A loan, as it is stored. It has the token, because executors that replace others need it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loan {
    /// The owner who lends.
    pub by: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// The terms.
    pub terms: LoanTerms,
    /// The executors that are lent.
    pub guests: BTreeSet<String>,
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loan({:?} by {}, since {}: {:?})", self.terms, self.by, self.since, self.guests)
    }
}

/// A message that the hub owes an executor: the number of its link, and the terms. `None`: the executor is no guest.
pub type Telling = (u64, Option<Terms>);

/// The loans, and what is known of their guests.
#[derive(Debug, Default)]
pub(super) struct Lending {
    pub(super) loans: BTreeMap<String, Loan>,
    /// When this process first looked at the loans. Before, it knew of no executor that was here.
    began: Option<u64>,
    /// The terms that the hub has told each executor last, and the number of the link.
    told: BTreeMap<String, Telling>,
    /// The state that each executor has told last, and the number of the link.
    said: BTreeMap<String, (u64, GuestState)>,
    /// Until when an executor is not chosen.
    aside: BTreeMap<String, u64>,
    /// Until when a loan chooses no other executor, and why the last one could not join.
    refused: BTreeMap<String, (u64, String)>,
}

impl Lending {
    /// Marks an executor that is in another grid now.
    pub(super) fn mark(&self, who: &Who, facts: &mut Facts) {
        let grid = self.grid_of(&who.name).filter(|_| who.role == EXECUTOR);
        let is_in = self.said.get(&who.name).is_some_and(|(_, state)| state.is_in);
        if let Some(grid) = grid.filter(|_| is_in) {
            facts.insert(LENT_TO.to_owned(), grid.to_owned());
        }
    }

    /// The grid to which an executor is lent.
    fn grid_of(&self, name: &str) -> Option<&str> {
        self.loans.iter().find(|(_, loan)| loan.guests.contains(name)).map(|(grid, _)| grid.as_str())
    }
}

impl Hub {
    /// Begins a loan for an owner, or replaces the terms of one. Returns the name of the other grid, and the changes to store.
    ///
    /// # Errors
    /// The user is no owner, or these are no terms.
    pub fn lend(&mut self, now: u64, by: &str, terms: LoanTerms) -> Result<(String, Vec<Change>), Refusal> {
        self.check_owner(by)?;
        let wrong = |why: &str| Refusal::Loan(why.to_owned());
        let token: Token = match terms.token.len() <= LONGEST_TOKEN {
            true => terms.token.parse().map_err(|error| Refusal::Loan(format!("{error}")))?,
            false => return Err(wrong("the token is too long")),
        };
        if token.role != EXECUTOR {
            return Err(wrong(
                "the token is for users; ask an owner of the other grid for: phalanx invite --role executor",
            ));
        }
        if !is_label(&token.grid) {
            return Err(wrong("the other grid calls itself something that is no name"));
        }
        if !(1..=MOST_LENT).contains(&terms.members) || !(1..=MOST_PLACES).contains(&terms.places) {
            return Err(wrong("a loan is of 1 to 100 members, and of 1 to 4096 places of each"));
        }
        let are_names = terms.accepted.len() <= MOST_ACCEPTED && terms.accepted.iter().all(|name| is_label(name));
        if !are_names || !are_words(&terms.labels) {
            return Err(wrong("these are no names of users or no labels, or too many"));
        }
        let known = self.lending.loans.get(&token.grid);
        match known.and_then(|loan| loan.terms.token.parse::<Token>().ok()) {
            Some(before) if before.root != token.root => {
                return Err(wrong("this hub lends to another grid of the same name: end that loan first"));
            }
            None if self.lending.loans.len() >= MOST_LOANS => return Err(Refusal::Full("16 loans")),
            _ => {}
        }
        let guests = known.map(|loan| loan.guests.clone()).unwrap_or_default();
        let loan = Loan { by: by.to_owned(), since: known.map_or(now, |it| it.since), terms, guests };
        self.lending.loans.insert(token.grid.clone(), loan.clone());
        self.lending.refused.remove(&token.grid);
        self.lending.aside.clear(); // a new token may be good where the one before was not
        Ok((token.grid.clone(), vec![Change::Loan(token.grid, Some(Box::new(loan)))]))
    }

    /// Ends a loan for an owner.
    ///
    /// # Errors
    /// The user is no owner, or there is no loan to this grid.
    pub fn end_loan(&mut self, by: &str, grid: &str) -> Result<Vec<Change>, Refusal> {
        self.check_owner(by)?;
        self.lending.loans.remove(grid).ok_or_else(|| Refusal::NoLoan(grid.to_owned()))?;
        self.lending.refused.remove(grid);
        Ok(vec![Change::Loan(grid.to_owned(), None)])
    }

    /// The loans to the grids after one, for an owner. Tokens are left out.
    ///
    /// # Errors
    /// The user is no owner.
    pub fn loans(&self, by: &str, own: &str, after: Option<&str>) -> Result<Vec<LoanRow>, Refusal> {
        self.check_owner(by)?;
        let guest = |name: &String| {
            let said = self.lending.said.get(name);
            GuestRow {
                name: name.clone(),
                there: name_there(name, own),
                is_in: said.is_some_and(|(_, state)| state.is_in),
                why: said.map_or_else(String::new, |(_, state)| state.why.clone()),
            }
        };
        let row = |(grid, loan): (&String, &Loan)| LoanRow {
            grid: grid.clone(),
            by: loan.by.clone(),
            since: loan.since,
            terms: LoanTerms { token: String::new(), ..loan.terms.clone() },
            guests: loan.guests.iter().map(guest).collect(),
            refused: self.lending.refused.get(grid).map_or_else(String::new, |(_, why)| why.clone()),
        };
        let rest = self.lending.loans.iter().filter(|(grid, _)| after.is_none_or(|after| grid.as_str() > after));
        Ok(rest.map(row).collect())
    }

    /// Records what an executor says of itself as a guest. One that cannot join, or was expelled there, is set aside.
    pub fn guest_says(&mut self, now: u64, link: u64, who: &Who, state: GuestState) -> Vec<Change> {
        if who.role != EXECUTOR || self.present.get(who).is_none_or(|it| it.link != link) {
            return Vec::new();
        }
        let (grid, name, why) = (state.grid.clone(), who.name.clone(), state.why.clone());
        let is_over = state.is_over;
        self.lending.said.insert(name.clone(), (link, state));
        let loan = self.lending.loans.get_mut(&grid).filter(|loan| is_over && loan.guests.contains(&name));
        let Some(loan) = loan else { return Vec::new() };
        loan.guests.remove(&name);
        self.lending.aside.insert(name.clone(), now + ASIDE);
        self.lending.refused.insert(grid.clone(), (now + PAUSE, format!("{name}: {why}")));
        vec![Change::Loan(grid, Some(Box::new(loan.clone())))]
    }

    /// Chooses guests where a loan lacks some, and lets those go that are lost. Returns the changes to store, and what executors are to
    /// be told. `own`: the name of this grid.
    pub fn look_after_loans(&mut self, now: u64, own: &str) -> (Vec<Change>, Vec<Telling>) {
        self.lending.began.get_or_insert(now);
        self.lending.aside.retain(|_, until| *until > now);
        let mut changes = Vec::new();
        for grid in self.lending.loans.keys().cloned().collect::<Vec<_>>() {
            changes.extend(self.choose_guests(now, &grid));
        }
        let tellings = self.tellings(own);
        (changes, tellings)
    }

    fn choose_guests(&mut self, now: u64, grid: &str) -> Option<Change> {
        let loan = &self.lending.loans[grid];
        let kept = loan.guests.iter().filter(|name| self.stays_guest(now, name, &loan.terms));
        let mut guests: BTreeSet<String> = kept.take(loan.terms.members as usize).cloned().collect();
        if self.lending.refused.get(grid).is_none_or(|(until, _)| *until <= now) {
            let lacking = (loan.terms.members as usize).saturating_sub(guests.len());
            let chosen = self.candidates(&loan.terms).into_iter().take(lacking);
            guests.extend(chosen.map(str::to_owned).collect::<Vec<_>>());
        }
        let loan = self.lending.loans.get_mut(grid).filter(|loan| loan.guests != guests)?;
        loan.guests = guests;
        Some(Change::Loan(grid.to_owned(), Some(Box::new(loan.clone()))))
    }

    /// Whether an executor goes on being a guest: it is a member, it fits, and it is here or has gone a moment ago.
    fn stays_guest(&self, now: u64, name: &str, terms: &LoanTerms) -> bool {
        let who = Who::new(EXECUTOR, name);
        let Some(member) = self.members.get(&who).filter(|member| member.state.is_in()) else { return false };
        match self.present.get(&who) {
            Some(presence) => fits(&presence.facts, terms),
            None => member.seen.max(self.lending.began.unwrap_or(now)) + AWAY > now,
        }
    }

    /// The executors that can be lent: those with the fewest places in use first.
    fn candidates(&self, terms: &LoanTerms) -> Vec<&str> {
        let can_be_lent = |who: &Who, facts: &Facts| {
            let is_free = self.lending.grid_of(&who.name).is_none() && !self.lending.aside.contains_key(&who.name);
            who.role == EXECUTOR && is_free && fits(facts, terms)
        };
        let here = self.present.iter().filter(|(who, presence)| can_be_lent(who, &presence.facts));
        let used = |status: &Option<crate::wire::hub::Status>| status.as_ref().map_or(0, |it| it.used);
        let mut here: Vec<(u32, &str)> = here.map(|(who, it)| (used(&it.status), who.name.as_str())).collect();
        here.sort_unstable();
        here.into_iter().map(|(_, name)| name).collect()
    }

    /// What executors are to be told that they have not been told over their link. One that is no guest is told so too, because it may
    /// have been one when it was here last.
    fn tellings(&mut self, own: &str) -> Vec<Telling> {
        let Hub { present, lending, .. } = self;
        let is_here = |name: &String, link: u64| {
            present.get(&Who::new(EXECUTOR, name)).is_some_and(|presence| presence.link == link)
        };
        lending.told.retain(|name, (link, _)| is_here(name, *link));
        lending.said.retain(|name, (link, _)| is_here(name, *link));
        let mut tellings = Vec::new();
        for (who, presence) in present.iter().filter(|(who, it)| who.role == EXECUTOR && may_lend(&it.facts) > 0) {
            let loan = lending.loans.values().find(|loan| loan.guests.contains(&who.name));
            let terms = loan.map(|loan| Terms {
                token: loan.terms.token.clone(),
                name: name_there(&who.name, own),
                accepted: loan.terms.accepted.clone(),
                places: loan.terms.places.min(may_lend(&presence.facts)),
                by: own.to_owned(),
            });
            let telling = (presence.link, terms);
            if lending.told.get(&who.name) != Some(&telling) {
                lending.told.insert(who.name.clone(), telling.clone());
                tellings.push(telling);
            }
        }
        tellings
    }
}

/// How many places the owner of an executor lets this grid lend.
fn may_lend(facts: &Facts) -> u32 {
    facts.get(MAY_LEND).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Whether a grid or a user can have this name.
fn is_label(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_plain)
}

fn fits(facts: &Facts, terms: &LoanTerms) -> bool {
    let has: BTreeSet<&str> = facts.get("labels").into_iter().flat_map(|it| it.split_ascii_whitespace()).collect();
    may_lend(facts) > 0 && terms.labels.iter().all(|label| has.contains(label.as_str()))
}

/// The name of a guest in the other grid: its own, and that of the grid that lends it.
fn name_there(name: &str, own: &str) -> String {
    let own: String = own.chars().take(LONGEST_NAME / 2).collect();
    let own = own.trim_end_matches('-');
    let room = LONGEST_NAME.saturating_sub(own.len() + 1);
    let name: String = name.chars().take(room).collect();
    format!("{}-{own}", name.trim_end_matches('-'))
}

#[cfg(test)]
mod tests;
