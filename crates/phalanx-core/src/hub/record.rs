//! What a hub stores: invitations and members.

use super::CLOCKS;
use crate::wire::hub::Facts;
use serde::{Deserialize, Serialize};

/// The digest of an invitation's secret. Whoever reads the hub's store learns no token from it.
pub type Id = [u8; 32];

/// Most good certificates of one member. It gets a new one when a third of a life is left, so that two or three are good at a time.
/// All are remembered, because all are revoked when the member is expelled.
const MOST_GOOD: usize = 8;

/// A member's role and name. Both are in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Who {
    /// The word of the role.
    pub role: String,
    /// The name.
    pub name: String,
}

impl Who {
    /// The member with this role and name.
    pub fn new(role: &str, name: &str) -> Who {
        Who { role: role.to_owned(), name: name.to_ascii_lowercase() }
    }

    /// The user of this name.
    pub fn user(name: &str) -> Who {
        Who::new("user", name)
    }
}

/// What is remembered of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    /// The word of the role for which it is good.
    pub role: String,
    /// How many members may still join by it.
    pub uses: u32,
    /// Its end, in seconds since 1970.
    pub until: u64,
    /// The owner who has invited.
    pub by: String,
}

/// A certificate that was made for a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Good {
    /// The certificate's digest.
    pub fingerprint: String,
    /// Its end, in seconds since 1970.
    pub until: u64,
}

/// Whether a member is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum State {
    /// It is.
    In,
    /// It has left, at this time.
    Left { when: u64 },
    /// It was expelled, at this time, by this owner.
    Expelled { when: u64, by: String },
}

impl State {
    /// Whether the member is one.
    pub fn is_in(&self) -> bool {
        *self == State::In
    }
}

/// A member, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The digest of its public key.
    pub key: String,
    /// Its certificates, the newest last. Those that have ended are forgotten.
    pub good: Vec<Good>,
    /// Certificates that are good no more, although they have not ended.
    pub revoked: Vec<Good>,
    /// Whether it may invite and expel.
    pub is_owner: bool,
    /// Whether it came with the hub: it is the hub, its executor, or its owner.
    pub is_founder: bool,
    /// Whether it is a member.
    pub state: State,
    /// When it has joined, in seconds since 1970.
    pub joined: u64,
    /// The owner who has invited it.
    pub by: String,
    /// The invitation by which it has joined.
    pub invitation: Option<Id>,
    /// When it was here last, in seconds since 1970; as it is stored, when it has joined or renewed its certificate.
    pub seen: u64,
    /// Where it was reached last.
    pub addresses: Vec<String>,
    /// What it told last.
    pub facts: Facts,
}

impl Member {
    pub(super) fn new(now: u64, key: String, good: Good, by: String) -> Member {
        let (state, addresses, facts) = (State::In, Vec::new(), Facts::new());
        let (good, revoked, invitation) = (vec![good], Vec::new(), None);
        let (is_owner, is_founder) = (false, false);
        Member {
            key,
            good,
            revoked,
            is_owner,
            is_founder,
            state,
            joined: now,
            by,
            invitation,
            seen: now,
            addresses,
            facts,
        }
    }

    /// Whether it may have one more certificate.
    pub(super) fn has_room(&self, now: u64) -> bool {
        self.good.iter().filter(|it| it.until > now).count() < MOST_GOOD
    }

    /// Adds a new certificate.
    pub(super) fn add(&mut self, now: u64, good: Good) {
        self.good.retain(|it| it.until + CLOCKS > now);
        self.good.push(good);
    }
}

/// What is to be stored. A later one for the same invitation or member replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// An invitation. `None`: it is open no more.
    Invitation(Id, Option<Invitation>),
    /// A member.
    Member(Who, Box<Member>),
}
