//! The hub's engine: which members the grid has, which keys may become members, and which members are here (linked to the hub).
//!
//! The driver proves the identity of the asking peer, signs certificates, stores changes before it answers, and keeps the time.
//! Times are seconds since 1970, because they outlast the hub's process.

mod history;
mod lending;
mod owners;
mod record;
mod seeking;
mod status;
#[cfg(test)]
mod tests;
mod token;

pub use crate::needs::{HAS, LONGEST_WORD, MOST_WORDS, Needs, answer, are_words, is_word};
pub use history::Day;
pub use lending::{LENT_BY, LENT_TO, Loan, MAY_LEND, MOST_ACCEPTED, MOST_LENT, MOST_LOANS, MOST_PLACES, Telling};
pub use owners::OWNER;
pub use record::{Change, Good, Id, Invitation, Member, State, Who};
pub use seeking::{Found, Question};
pub use token::{Token, TokenError, from_letters, to_letters};

use crate::cage::{self, CAGE, GAPS, Kind};
use crate::wire::hub::{Facts, HubAt, MOST_ROWS, Row, Status};
use history::History;
use lending::Lending;
use seeking::{Answers, Sought};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use thiserror::Error;

/// Most members that a hub knows, including those that have left.
pub const MOST_MEMBERS: usize = 200_000;
/// Most invitations that are open.
pub const MOST_INVITATIONS: usize = 4096;
/// Most members that one invitation admits.
pub const MOST_USES: u32 = 100_000;
/// Longest time for which an invitation is good, in seconds: 30 days.
pub const LONGEST_INVITATION: u64 = 30 * 24 * 3600;

/// Other members' clocks may be behind by so many seconds: to them, a certificate is good for longer.
const CLOCKS: u64 = 24 * 3600;
/// The name of the hub's role.
const HUB: &str = "hub";
/// The fact by which the hub marks its own executor. The engine removes this fact when any other member tells it.
pub const AT_HUB: &str = "at hub";
/// The fact of an executor that tells why it serves no users now.
pub const CLOSED: &str = "closed";
/// The fact of a hub that tells whether it leads.
pub const LEADS: &str = "leads";

/// Why the hub refuses a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No open invitation has this secret. A used secret and an invented one look alike.
    #[error(
        "the token is not good here: it was used, or withdrawn, or is another grid's; ask for a new one: phalanx invite"
    )]
    Token,
    /// The invitation's time is over.
    #[error("the token's time is over; ask for a new one: phalanx invite")]
    Late,
    /// The invitation is for another role.
    #[error("the token is for the role {0}")]
    Role(String),
    /// Another member has this name.
    #[error("{0} is a member already: join with another name (--name), or expel it first: phalanx expel {0}")]
    Taken(String),
    /// The member is not known, or its membership has ended.
    #[error("{0} is no member of this grid, or was expelled; join again with a new token")]
    NoMember(String),
    /// The member is not here.
    #[error("{0} is not here now; phalanx members shows who is")]
    NotHere(String),
    /// No member has this name.
    #[error("no member is called {0}; the names are shown by: phalanx members")]
    NoName(String),
    /// Only owners may do this.
    #[error("{name} may not do this, only owners of the grid may: ask {owners}")]
    NoOwner {
        /// The member that asked.
        name: String,
        /// The owners, for people.
        owners: String,
    },
    /// Only users may do this.
    #[error("{0} may not do this: only users of the grid may")]
    NoUser(String),
    /// The last owner cannot be expelled.
    #[error(
        "{0} is the only owner of the grid, which would have none left; make another one first: phalanx invite --role owner"
    )]
    LastOwner(String),
    /// The member was away for too long.
    #[error("the certificate ended more than 30 days ago; join again with a new token")]
    Away,
    /// The member's certificate is good for long enough.
    #[error("the certificate of {0} is good for more than half of its life")]
    Early(String),
    /// The grid would have no hub left.
    #[error("{0} is the only hub of the grid, which would have none left")]
    LastHub(String),
    /// A limit is reached.
    #[error("the hub has {0} already")]
    Full(&'static str),
    /// There is no loan to this grid.
    #[error("nothing is lent to a grid called {0}; the loans are shown by: phalanx lend --list")]
    NoLoan(String),
    /// The cage of an executor keeps less apart than the grid wants.
    #[error(
        "this grid takes only machines with a cage that is at least {} (phalanx up --least-cage), and that of {name} is {}{gaps}; where the kernel has no Landlock, an executor of root with --accounts FIRST-LAST counts as files",
        .least.name(), .has.name()
    )]
    Cage {
        /// The executor.
        name: String,
        /// The cage of the executor.
        has: Kind,
        /// The least cage that the grid accepts.
        least: Kind,
        /// The gaps of the executor's cage, in its own words, after a colon.
        gaps: String,
    },
    /// These are no terms of a loan.
    #[error("{0}")]
    Loan(String),
    /// An invitation of several owners.
    #[error("an invitation makes one person an owner: invite each of them")]
    OneOwner,
    /// An invitation for no member, for too many, or for too long.
    #[error("an invitation is for 1 to {MOST_USES} members, and for 1 second to 30 days")]
    Bounds,
}

/// A key that asks for membership. The driver has proved that the peer holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    /// The role and name in its request.
    pub who: Who,
    /// The digest of its public key.
    pub key: String,
}

/// A member that is linked to the hub, over one link.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Presence {
    link: u64,
    since: u64,
    addresses: Vec<String>,
    facts: Facts,
    /// The programs that the member was asked for, with its answers.
    answers: Answers,
    /// The newest status that the member has told.
    status: Option<Status>,
}

/// The result of ending memberships: the certificates to revoke, and the changes to store.
pub type Ended = (Vec<(Who, Good)>, Vec<Change>);

/// The engine.
#[derive(Debug, Default)]
pub struct Hub {
    invitations: BTreeMap<Id, Invitation>,
    members: BTreeMap<Who, Member>,
    /// The owners whose membership goes on. A change of one member must not look at all members.
    owners: BTreeSet<Who>,
    /// The members and former members with revoked certificates that may not have ended yet.
    with_revoked: BTreeSet<Who>,
    present: HashMap<Who, Presence>,
    /// The programs that users ask for.
    sought: Sought,
    /// What is lent to other grids.
    lending: Lending,
    /// The hubs that keep the state together, as the driver has told.
    hubs: Vec<HubAt>,
    /// Since when those of them are away that do not answer.
    away: BTreeMap<String, u64>,
    /// How much the cages of executors must keep apart at least.
    least_cage: Kind,
    /// The work of executors, by days.
    history: History,
}

impl Hub {
    /// Applies a stored change when the engine is filled at the start.
    pub fn fill(&mut self, change: Change) {
        match change {
            Change::Invitation(id, Some(invitation)) => drop(self.invitations.insert(id, invitation)),
            Change::Invitation(id, None) => drop(self.invitations.remove(&id)),
            Change::Member(who, member) => {
                self.note(&who, &member);
                self.members.insert(who, *member);
            }
            Change::Loan(grid, Some(loan)) => drop(self.lending.loans.insert(grid, *loan)),
            Change::Loan(grid, None) => drop(self.lending.loans.remove(&grid)),
            Change::List(_) | Change::Job(_) => {} // the driver's
            Change::LeastCage(least) => self.least_cage = least,
            Change::Day(day, executor, found) => self.history.fill(day, executor, found.map(|found| *found)),
        }
    }

    /// From now on, executors that keep less apart do not enter. Those that are here stay until their link ends.
    pub fn require_cage(&mut self, least: Kind) -> Vec<Change> {
        if self.least_cage == least {
            return Vec::new();
        }
        self.least_cage = least;
        vec![Change::LeastCage(least)]
    }

    fn check_cage(&self, who: &Who, facts: &Facts) -> Result<(), Refusal> {
        let (has, least) = (cage::told(facts.get(CAGE)), self.least_cage);
        let gaps = facts.get(GAPS).map_or_else(String::new, |gaps| format!(": {gaps}"));
        match has >= least {
            true => Ok(()),
            false => Err(Refusal::Cage { name: who.name.clone(), has, least, gaps }),
        }
    }

    /// Takes in a founder of the grid. The founder has this certificate already. A user that was expelled or has left stays out while
    /// the grid has an owner.
    pub fn found(&mut self, now: u64, asking: Asking, good: Good, is_owner: bool) -> Vec<Change> {
        let stays_out = self.is_former_user(&asking.who) || self.is_other_user(&asking.who);
        if stays_out && !self.owners.is_empty() {
            return Vec::new();
        }
        let member = Member::new(now, asking.key, good, "the grid's founder".to_owned());
        let member = Member { is_owner, is_founder: true, ..member };
        vec![self.keep(asking.who, member)]
    }

    /// Whether this key is or was a member's.
    pub fn knows(&self, asking: &Asking) -> bool {
        self.members.get(&asking.who).is_some_and(|it| it.key == asking.key)
    }

    /// Makes an invitation for `uses` members. It ends after `seconds`.
    pub fn invite(
        &mut self,
        now: u64,
        by: &str,
        (id, role): (Id, &str),
        uses: u32,
        seconds: u64,
    ) -> Result<Vec<Change>, Refusal> {
        self.check_owner(by)?;
        if !(1..=MOST_USES).contains(&uses) || !(1..=LONGEST_INVITATION).contains(&seconds) {
            return Err(Refusal::Bounds);
        }
        if role == OWNER && uses > 1 {
            return Err(Refusal::OneOwner);
        }
        let mut changes = self.forget_late(now);
        if self.invitations.len() >= MOST_INVITATIONS {
            return Err(Refusal::Full("as many open invitations as it keeps"));
        }
        let (role, by) = (role.to_owned(), by.to_owned());
        let invitation = Invitation { role, uses, until: now + seconds, by };
        self.invitations.insert(id, invitation.clone());
        changes.push(Change::Invitation(id, Some(invitation)));
        Ok(changes)
    }

    /// Whether this key may join by this invitation. Changes nothing. The same key may ask again, because the earlier answer may
    /// have been lost.
    pub fn check_join(&self, now: u64, id: &Id, asking: &Asking) -> Result<(), Refusal> {
        let known = self.members.get(&asking.who);
        let is_back = |member: &&Member| member.key == asking.key && member.invitation == Some(*id);
        if let Some(member) = known.filter(is_back).filter(|member| member.state.is_in()) {
            return check_room(now, member);
        }
        self.check_newcomer(now, id, &asking.who.role, asking)
    }

    /// Whether this invitation is open, and is for this role.
    fn check_invitation(&self, now: u64, id: &Id, role: &str) -> Result<(), Refusal> {
        let invitation = self.invitations.get(id).ok_or(Refusal::Token)?;
        if invitation.until <= now {
            return Err(Refusal::Late);
        }
        match invitation.role == role {
            true => Ok(()),
            false => Err(Refusal::Role(invitation.role.clone())),
        }
    }

    /// Whether a key that is no member's may become one by this invitation for this role.
    fn check_newcomer(&self, now: u64, id: &Id, role: &str, asking: &Asking) -> Result<(), Refusal> {
        self.check_invitation(now, id, role)?;
        // No other member may have a hub's name, in any role, and no hub the name of another member.
        let is_taken = match asking.who.role == HUB {
            true => self.named(&asking.who.name).next().is_some(),
            false => self.hub_in(&asking.who.name),
        };
        if is_taken {
            return Err(Refusal::Taken(asking.who.name.clone()));
        }
        match self.members.get(&asking.who) {
            Some(member) if member.state.is_in() => Err(Refusal::Taken(asking.who.name.clone())),
            None if self.members.len() >= MOST_MEMBERS => Err(Refusal::Full("as many members as it keeps")),
            _ => Ok(()),
        }
    }

    /// Makes the key a member by this invitation, with a certificate that was made for the key.
    pub fn join(&mut self, now: u64, id: Id, asking: Asking, good: Good) -> Result<Vec<Change>, Refusal> {
        self.check_join(now, &id, &asking)?;
        if self.member(&asking).is_ok() {
            return Ok(vec![self.change(&asking, |member| member.add(now, good))]);
        }
        let (by, used) = self.use_invitation(id);
        let member = Member { invitation: Some(id), ..Member::new(now, asking.key, good, by) };
        Ok(vec![used, self.keep(asking.who, member)])
    }

    /// Counts a use of an invitation that was checked. Returns the owner who has made it.
    fn use_invitation(&mut self, id: Id) -> (String, Change) {
        let invitation = self.invitations.get_mut(&id).expect("was checked");
        let by = invitation.by.clone();
        invitation.uses -= 1;
        let left = (invitation.uses > 0).then(|| invitation.clone());
        if left.is_none() {
            self.invitations.remove(&id);
        }
        (by, Change::Invitation(id, left))
    }

    /// Records the issuer that the first hub makes for another hub, before that hub gets it. Whoever expels the hub revokes its issuer.
    pub fn issued(&mut self, asking: &Asking, issuer: Good) -> Result<Vec<Change>, Refusal> {
        let member = self.member(asking)?;
        if member.is_founder || member.good.contains(&issuer) {
            return Ok(Vec::new());
        }
        Ok(vec![self.change(asking, |member| member.good.insert(0, issuer))])
    }

    /// Whether this issuer was made for a hub. Otherwise another hub's issuer would be revoked together with this hub.
    pub fn has_issuer(&self, hub: &str, issuer: &Good) -> Result<bool, Refusal> {
        let member = self.hub(hub).ok_or_else(|| Refusal::NoMember(hub.to_owned()))?;
        Ok(member.is_founder || member.good.contains(issuer))
    }

    /// Whether this is the hub with which the grid has begun.
    pub fn is_first_hub(&self, name: &str) -> bool {
        self.hub(name).is_some_and(|it| it.is_founder)
    }

    /// Takes in a member of a hub's own machine, which has this certificate already: the hub has made it. The hub may replace it later.
    pub fn bring(&mut self, now: u64, hub: &str, asking: Asking, good: Good) -> Result<Vec<Change>, Refusal> {
        let by = format!("the hub {hub}");
        let is_first = self.hub(hub).ok_or_else(|| Refusal::NoMember(hub.to_owned()))?.is_founder;
        match self.members.get(&asking.who) {
            Some(known) if known.key == asking.key => return Ok(Vec::new()), // an expelled one stays expelled
            Some(_) if self.is_former_user(&asking.who) => return Ok(Vec::new()),
            Some(known) if known.state.is_in() && known.by != by && !(is_first && known.is_founder) => {
                return Err(Refusal::Taken(asking.who.name));
            }
            None if asking.who.name != hub && self.hub_in(&asking.who.name) => {
                return Err(Refusal::Taken(asking.who.name));
            }
            _ => {}
        }
        if asking.who.role == HUB {
            return Err(Refusal::Role("executor".to_owned()));
        }
        let is_founder = self.members.get(&asking.who).is_some_and(|it| it.is_founder);
        let is_owner = self.members.get(&asking.who).is_some_and(|it| it.is_owner && it.state.is_in());
        let mut member = Member::new(now, asking.key, good, by);
        if is_founder {
            member = Member { is_founder, is_owner, by: "the grid's founder".to_owned(), ..member };
        }
        Ok(vec![self.keep(asking.who, member)])
    }

    /// Whether a hub of this name is in the grid.
    pub fn hub_in(&self, name: &str) -> bool {
        self.hub(name).is_some()
    }

    fn hub(&self, name: &str) -> Option<&Member> {
        self.members.get(&Who::new(HUB, name)).filter(|it| it.state.is_in())
    }

    /// The member with this key.
    fn member(&self, asking: &Asking) -> Result<&Member, Refusal> {
        let member = self.members.get(&asking.who).filter(|it| it.key == asking.key && it.state.is_in());
        member.ok_or_else(|| Refusal::NoMember(asking.who.name.clone()))
    }

    /// Changes a member that was found, and whose standing does not change by it.
    fn change(&mut self, asking: &Asking, change: impl FnOnce(&mut Member)) -> Change {
        let member = self.members.get_mut(&asking.who).expect("was checked");
        change(member);
        Change::Member(asking.who.clone(), Box::new(member.clone()))
    }

    /// Tells which hubs keep the state together, and since when those are away that do not answer. Nothing of it is stored here.
    pub fn tell_hubs(&mut self, hubs: Vec<HubAt>, away: BTreeMap<String, u64>) {
        (self.hubs, self.away) = (hubs, away);
    }

    /// Checks that a member may have a new certificate because an issuer of its old one was revoked.
    pub fn check_replace(&self, now: u64, asking: &Asking) -> Result<(), Refusal> {
        check_room(now, self.member(asking)?)
    }

    /// Records such a certificate.
    pub fn replace(&mut self, now: u64, asking: &Asking, good: Good) -> Result<Vec<Change>, Refusal> {
        self.check_replace(now, asking)?;
        Ok(vec![self.change(asking, |member| member.add(now, good))])
    }

    /// Whether this is the key of a member.
    pub fn check_member(&self, asking: &Asking) -> Result<(), Refusal> {
        self.member(asking).map(drop)
    }

    /// Whether this key may have a new certificate, which is good for `lasts` seconds. The certificate that it shows ends at `shown`. A
    /// newer one does not count: the answer that brought it may have been lost.
    pub fn check_renew(&self, now: u64, asking: &Asking, shown: u64, lasts: u64) -> Result<(), Refusal> {
        let member = self.member(asking)?;
        match shown > now + lasts / 2 {
            true => Err(Refusal::Early(asking.who.name.clone())),
            false => check_room(now, member),
        }
    }

    /// Records a new certificate of a member that shows one which ends at `shown`.
    pub fn renew(&mut self, now: u64, asking: &Asking, shown: u64, good: Good) -> Result<Vec<Change>, Refusal> {
        self.check_renew(now, asking, shown, good.until.saturating_sub(now))?;
        Ok(vec![self.change(asking, |member| member.add(now, good))])
    }

    /// Expels all members of a name, except the only hub, for an owner. Withdraws the invitations by which they have joined, and those that
    /// they have made. Returns the expelled members with the certificates to revoke.
    pub fn expel(&mut self, now: u64, by: &str, name: &str) -> Result<Ended, Refusal> {
        self.check_owner(by)?;
        let has_others = self.has_hub_beside(name);
        let named: Vec<Who> = self.named(name).filter(|who| who.role != HUB || has_others).collect();
        if named.is_empty() {
            return Err(Refusal::NoName(name.to_owned()));
        }
        if self.owners.iter().all(|owner| named.contains(owner)) {
            return Err(Refusal::LastOwner(name.to_owned()));
        }
        let (mut revoked, mut changes) = (Vec::new(), Vec::new());
        for who in named {
            let invitation = self.members[&who].invitation;
            if let Some(id) = invitation.filter(|id| self.invitations.remove(id).is_some()) {
                changes.push(Change::Invitation(id, None));
            }
            changes.extend(self.withdraw_invitations_of(&who));
            let (good, change) = self.end(now, &who, State::Expelled { when: now, by: by.to_owned() });
            revoked.extend(good.into_iter().map(|it| (who.clone(), it)));
            changes.push(change);
        }
        Ok((revoked, changes))
    }

    /// Ends the membership of a member that leaves for good. Withdraws the invitations that it has made. Returns the certificates to
    /// revoke.
    pub fn leave(&mut self, now: u64, who: &Who) -> Result<Ended, Refusal> {
        let member = self.members.get(who).filter(|it| it.state.is_in());
        let member = member.ok_or_else(|| Refusal::NoMember(who.name.clone()))?;
        if member.is_owner && self.owners.iter().all(|owner| owner == who) {
            return Err(Refusal::LastOwner(who.name.clone()));
        }
        if who.role == HUB && !self.has_hub_beside(&who.name) {
            return Err(Refusal::LastHub(who.name.clone()));
        }
        let mut changes = self.withdraw_invitations_of(who);
        let (good, change) = self.end(now, who, State::Left { when: now });
        changes.push(change);
        Ok((good.into_iter().map(|it| (who.clone(), it)).collect(), changes))
    }

    fn has_hub_beside(&self, name: &str) -> bool {
        let hubs = self.members.range(Who::new(HUB, "")..).take_while(|(who, _)| who.role == HUB);
        hubs.into_iter().any(|(who, it)| who.name != name && it.state.is_in())
    }

    /// All revoked certificates of members and former members that have not ended yet. A list of revoked certificates that lacks
    /// some of them is incomplete: the hub's process ended before it had signed a list, or another list has come.
    pub fn to_revoke(&mut self, now: u64) -> Vec<(Who, Good)> {
        let Hub { members, with_revoked, .. } = self;
        let mut all = Vec::new();
        with_revoked.retain(|who| {
            let before = all.len();
            let revoked = members[who].revoked.iter().filter(|it| it.until + CLOCKS > now);
            all.extend(revoked.map(|it| (who.clone(), it.clone())));
            all.len() > before
        });
        all
    }

    /// Records that a member is here, over this link. This link replaces an earlier one of the same member.
    pub fn enter(
        &mut self,
        now: u64,
        link: u64,
        who: &Who,
        addresses: Vec<String>,
        mut facts: Facts,
    ) -> Result<(), Refusal> {
        if who.role != HUB {
            self.check_cage(who, &facts)?;
        }
        let member = self.members.get_mut(who).filter(|it| it.state.is_in());
        let member = member.ok_or_else(|| Refusal::NoMember(who.name.clone()))?;
        facts.retain(|name, _| ![AT_HUB, CLOSED, LENT_TO, OWNER].contains(&name.as_str()) && !name.starts_with(HAS));
        if member.is_founder {
            facts.insert(AT_HUB.to_owned(), "yes".to_owned());
        }
        (member.addresses, member.facts, member.seen) = (addresses.clone(), facts.clone(), now);
        self.present.insert(
            who.clone(),
            Presence { link, since: now, addresses, facts, answers: Answers::default(), status: None },
        );
        Ok(())
    }

    /// Records that the link of a member has ended.
    pub fn go(&mut self, now: u64, link: u64, who: &Who) {
        if self.present.get(who).is_some_and(|it| it.link == link) {
            self.present.remove(who);
            self.members.get_mut(who).into_iter().for_each(|member| member.seen = now);
        }
    }

    /// The link of a member that is here.
    pub fn link_of(&self, who: &Who) -> Result<u64, Refusal> {
        let known = self.members.get(who).filter(|it| it.state.is_in());
        known.ok_or_else(|| Refusal::NoName(who.name.clone()))?;
        self.present.get(who).map(|it| it.link).ok_or_else(|| Refusal::NotHere(who.name.clone()))
    }

    /// The row of one member.
    pub fn row_of(&self, who: &Who) -> Result<Row, Refusal> {
        let member = self.members.get(who).filter(|it| it.state.is_in());
        member.map(|member| self.row(who, member)).ok_or_else(|| Refusal::NoName(who.name.clone()))
    }

    /// The next rows after a member, and whether there are more.
    pub fn rows(&self, after: Option<&Who>) -> (Vec<Row>, bool) {
        let from = after.map_or(Bound::Unbounded, |it| Bound::Excluded(it.clone()));
        let mut members = self.members.range((from, Bound::Unbounded)).filter(|(_, it)| it.state.is_in());
        let rows: Vec<Row> = members.by_ref().take(MOST_ROWS).map(|(who, member)| self.row(who, member)).collect();
        (rows, members.next().is_some())
    }

    fn row(&self, who: &Who, member: &Member) -> Row {
        let present = self.present.get(who);
        let mut until = member.good.iter().map(|it| it.until);
        let until = if who.role == HUB { until.next_back() } else { until.max() }.unwrap_or_default();
        let Who { role, name } = who.clone();
        if let Some(hub) = self.hubs.iter().find(|it| role == HUB && it.name == name) {
            let facts = Facts::from([(LEADS.to_owned(), if hub.leads { "yes" } else { "no" }.to_owned())]);
            let away = self.away.get(&hub.name).copied();
            let (addresses, since) = (hub.addresses.clone(), present.map_or(member.joined, |it| it.since));
            return Row { role, name, addresses, is_here: away.is_none(), since: away.unwrap_or(since), until, facts };
        }
        let (addresses, mut facts) = match present {
            Some(it) => (it.addresses.clone(), it.facts.clone()),
            None => (member.addresses.clone(), member.facts.clone()),
        };
        self.lending.mark(who, &mut facts);
        self.mark_owner(who, &mut facts);
        let closed = present.and_then(|it| it.status.as_ref()).map(|status| status.closed.clone());
        closed.filter(|why| !why.is_empty()).map(|why| facts.insert(CLOSED.to_owned(), why));
        let since = present.map_or(member.seen, |it| it.since);
        Row { role, name, addresses, is_here: present.is_some(), since, until, facts }
    }

    /// Stores a new member. A former member with the same role and name may have certificates that are still to be revoked.
    fn keep(&mut self, who: Who, mut member: Member) -> Change {
        if let Some(before) = self.members.get(&who) {
            member.revoked.extend_from_slice(&before.revoked);
        }
        self.store(who, member)
    }

    /// Stores a member in place of the earlier record.
    fn store(&mut self, who: Who, member: Member) -> Change {
        self.note(&who, &member);
        self.members.insert(who.clone(), member.clone());
        Change::Member(who, Box::new(member))
    }

    /// Notes whether a member that is stored is an owner, and whether it has revoked certificates.
    fn note(&mut self, who: &Who, member: &Member) {
        for (noted, is_one) in [
            (&mut self.owners, member.is_owner && member.state.is_in()),
            (&mut self.with_revoked, !member.revoked.is_empty()),
        ] {
            if is_one {
                noted.insert(who.clone());
            } else {
                noted.remove(who);
            }
        }
    }

    /// The roles that members have. Members are sorted by their roles, so this looks at one member for each.
    fn roles(&self) -> impl Iterator<Item = &str> {
        let next =
            |from: Bound<Who>| self.members.range((from, Bound::Unbounded)).next().map(|(who, _)| who.role.as_str());
        let after = move |role: &&str| next(Bound::Included(Who { role: format!("{role}\0"), name: String::new() }));
        std::iter::successors(next(Bound::Unbounded), after)
    }

    /// The members of this name, of all roles.
    fn named(&self, name: &str) -> impl Iterator<Item = Who> {
        let is_in = |who: &Who| self.members.get(who).is_some_and(|it| it.state.is_in());
        self.roles().map(move |role| Who::new(role, name)).filter(is_in)
    }

    /// Ends a membership. Returns the certificates that were good until now.
    fn end(&mut self, now: u64, who: &Who, state: State) -> (Vec<Good>, Change) {
        self.present.remove(who);
        let member = self.members.get_mut(who).expect("was found");
        member.state = state;
        let good: Vec<Good> = member.good.drain(..).filter(|it| it.until + CLOCKS > now).collect();
        member.revoked.retain(|it| it.until + CLOCKS > now);
        member.revoked.extend_from_slice(&good);
        let member = member.clone();
        self.note(who, &member);
        (good, Change::Member(who.clone(), Box::new(member)))
    }

    /// Forgets invitations whose time is over.
    fn forget_late(&mut self, now: u64) -> Vec<Change> {
        let late: Vec<Id> = self.invitations.iter().filter(|(_, it)| it.until <= now).map(|(id, _)| *id).collect();
        self.invitations.retain(|_, it| it.until > now);
        late.into_iter().map(|id| Change::Invitation(id, None)).collect()
    }
}

fn check_room(now: u64, member: &Member) -> Result<(), Refusal> {
    if member.has_room(now) { Ok(()) } else { Err(Refusal::Full("several certificates of this member that are good")) }
}
