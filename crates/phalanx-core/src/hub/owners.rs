//! Owners: the users who may invite, expel and lend.
//!
//! An owner is a user whose record says so. A grid begins with one. An owner invites a further one with an invitation of the role
//! [`OWNER`]. The certificate of an owner has the role of a user. The invitation makes one person an owner: a new member, or a user of
//! the grid.

use super::{Asking, Change, Good, Hub, Id, Member, Refusal, Who, check_room};
use crate::wire::hub::Facts;

/// The role of an invitation that makes a user an owner as well. Also the fact by which the hub marks owners in its rows.
pub const OWNER: &str = "owner";
/// The role in an owner's certificate.
const USER: &str = "user";
/// Most owners that an error names.
const MOST_TOLD: usize = 5;

impl Hub {
    /// Checks that a user is an owner.
    pub fn check_owner(&self, name: &str) -> Result<(), Refusal> {
        let owner = self.members.get(&Who::user(name)).filter(|it| it.is_owner && it.state.is_in());
        owner.map(drop).ok_or_else(|| Refusal::NoOwner { name: name.to_owned(), owners: self.owners() })
    }

    /// Whether this is the name of a user whose membership goes on.
    pub fn check_user(&self, name: &str) -> Result<(), Refusal> {
        let user = self.members.get(&Who::user(name)).filter(|it| it.state.is_in());
        user.map(drop).ok_or_else(|| Refusal::NoMember(name.to_owned()))
    }

    /// The names of the owners, for people. All members may know them.
    fn owners(&self) -> String {
        let names: Vec<&str> = self.owners.iter().map(|who| who.name.as_str()).collect();
        match names.len() {
            0 => "whoever keeps the hub, because the grid has no owner".to_owned(),
            1..=MOST_TOLD => names.join(" or "),
            more => format!("{}, or one of {} more", names[..MOST_TOLD].join(", "), more - MOST_TOLD),
        }
    }

    /// Whether this key may become an owner by this invitation. Changes nothing. An owner may ask again, because the earlier answer
    /// may have been lost.
    pub fn check_join_as_owner(&self, now: u64, id: &Id, asking: &Asking) -> Result<(), Refusal> {
        if asking.who.role != USER {
            return Err(Refusal::Role(OWNER.to_owned()));
        }
        match self.member(asking) {
            Ok(member) if member.is_owner => check_room(now, member),
            Ok(member) => self.check_invitation(now, id, OWNER).and_then(|()| check_room(now, member)),
            Err(_) => self.check_newcomer(now, id, OWNER, asking),
        }
    }

    /// Makes the key an owner by this invitation, with a certificate that was made for the key. A user keeps the membership. An owner
    /// that asks again gets the certificate, and does not use the invitation.
    pub fn join_as_owner(&mut self, now: u64, id: Id, asking: Asking, good: Good) -> Result<Vec<Change>, Refusal> {
        self.check_join_as_owner(now, &id, &asking)?;
        let known = self.member(&asking).ok().cloned();
        if known.as_ref().is_some_and(|member| member.is_owner) {
            return Ok(vec![self.change(&asking, |member| member.add(now, good))]);
        }
        let (by, used) = self.use_invitation(id);
        let kept = match known {
            Some(mut member) => {
                member.is_owner = true;
                member.add(now, good);
                self.store(asking.who, member)
            }
            None => {
                let member = Member::new(now, asking.key, good, by);
                self.keep(asking.who, Member { is_owner: true, invitation: Some(id), ..member })
            }
        };
        Ok(vec![used, kept])
    }

    /// Withdraws the open invitations of an owner whose membership ends. Otherwise an owner that is expelled could come back by them.
    pub(super) fn withdraw_invitations_of(&mut self, who: &Who) -> Vec<Change> {
        if !self.owners.contains(who) {
            return Vec::new();
        }
        let own: Vec<Id> = self
            .invitations
            .iter()
            .filter(|(_, it)| it.by.eq_ignore_ascii_case(&who.name))
            .map(|(id, _)| *id)
            .collect();
        own.iter().for_each(|id| drop(self.invitations.remove(id)));
        own.into_iter().map(|id| Change::Invitation(id, None)).collect()
    }

    /// Marks owners in their rows. No member can tell it by itself.
    pub(super) fn mark_owner(&self, who: &Who, facts: &mut Facts) {
        if self.owners.contains(who) {
            facts.insert(OWNER.to_owned(), "yes".to_owned());
        }
    }

    /// Whether a user was a member, and is none now. The machine of a hub makes a new key for such a user once the certificate has ended:
    /// with that, an owner that was expelled would come back.
    pub(super) fn is_former_user(&self, who: &Who) -> bool {
        who.role == USER && self.members.get(who).is_some_and(|it| !it.state.is_in())
    }

    /// Whether a user has this name who did not begin the grid.
    pub(super) fn is_other_user(&self, who: &Who) -> bool {
        who.role == USER && self.members.get(who).is_some_and(|it| it.state.is_in() && !it.is_founder)
    }
}

#[cfg(test)]
mod tests;
