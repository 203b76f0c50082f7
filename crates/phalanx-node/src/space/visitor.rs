//! The peer of a session: its identity, its rights, and its share of the server.

use super::{Access, Rights, Who};
use phalanx_core::error::SpaceError;
use phalanx_net::identity::Role;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A peer that has authenticated.
pub struct Visitor<'a> {
    who: Who,
    /// `None`: every peer may do everything, and there are no groups.
    access: Option<&'a Access>,
    user: Option<Arc<str>>,
    /// Another server. It may ask for the outcome of transactions, and nothing else.
    only_asks: bool,
    /// For a process that acts for the user: the spaces that it may use. `None`: whatever the user may.
    only: Option<BTreeSet<String>>,
}

impl<'a> Visitor<'a> {
    pub fn new(who: Who, access: Option<&'a Access>) -> Visitor<'a> {
        let user = who.whole_name().map(Arc::from);
        Visitor { who, access, user, only_asks: false, only: None }
    }

    /// A server of spaces that is no accepted user here.
    pub fn server(name: String) -> Visitor<'a> {
        Visitor { only_asks: true, ..Visitor::new(Who::Member { role: Role::Executor, name }, None) }
    }

    /// The same visitor, who may use these spaces only. `None`: no other limit than before.
    pub fn limited_to(self, only: Option<BTreeSet<String>>) -> Visitor<'a> {
        Visitor { only, ..self }
    }

    /// Why the visitor may do nothing in a space, for messages.
    pub fn nothing_in(&self, space: &str) -> String {
        match self.is_kept_from(space) {
            true => format!("nothing in the space {space}: {} delegated other spaces to this process", self.name()),
            false => format!("nothing in the space {space}"),
        }
    }

    /// Whether the user has not delegated the space to this visitor.
    fn is_kept_from(&self, space: &str) -> bool {
        self.only.as_ref().is_some_and(|only| !only.contains(space))
    }

    /// The server itself, or a process of its user.
    pub fn owner() -> Visitor<'static> {
        Visitor::new(Who::Owner, None)
    }

    /// The user whose share this visitor is limited to. `None`: a process of the server's user, which has no limit.
    pub fn user(&self) -> Option<&Arc<str>> {
        self.user.as_ref()
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        self.user.as_deref().unwrap_or("a process of this machine")
    }

    /// The rights in a space of this name.
    pub fn rights(&self, space: &str) -> Rights {
        match (self.only_asks || self.is_kept_from(space), self.access) {
            (true, _) => Rights::Some(Vec::new()),
            (false, access) => access.map_or(Rights::Everything, |access| access.rights(&self.who, space)),
        }
    }

    /// Checks that the visitor may open or create a space of this group. Members of the group may, and the server's own user,
    /// because nothing can be kept from that user.
    pub fn check_member(&self, space: &str, group: &str) -> Result<(), SpaceError> {
        let is_member = self.access.is_some_and(|access| access.has_member(group, &self.who));
        match is_member || self.who == Who::Owner {
            true => Ok(()),
            false => {
                let what = format!("the space {space} is a group's, of which {} is no member", self.name());
                Err(SpaceError::Forbidden(what))
            }
        }
    }

    /// Checks that the server knows the group. Otherwise only the server's own user could ever open the space.
    pub fn check_making(&self, space: &str, group: &str) -> Result<(), SpaceError> {
        self.check_member(space, group)?;
        match self.access.is_none_or(|access| access.has_group(group)) {
            true => Ok(()),
            false => Err(SpaceError::Forbidden(format!("this server's access rules list no group {group}"))),
        }
    }
}

/// The part of `most` that one user may have: `percent` of it, and at least one. It leaves room for other users.
pub fn share(most: u64, percent: u8) -> u64 {
    let part = (u128::from(most) * u128::from(percent)).div_ceil(100);
    u64::try_from(part).unwrap_or(most).clamp(1, most.max(1))
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_share_is_some_and_not_more_than_all() {
        assert_eq!([share(4096, 25), share(10, 25), share(1, 1), share(7, 100)], [1024, 3, 1, 7]);
        assert_eq!(share(u64::MAX, 100), u64::MAX);
    }
}
