//! What a hub stores: invitations and members.

use super::{CLOCKS, Day, Loan};
use crate::cage::Kind;
use crate::wire::hub::Facts;
use crate::wire::job_records::JobChange;
use serde::{Deserialize, Serialize};

/// The digest of an invitation's secret. The store has only this digest, so a reader of the store learns no token.
pub type Id = [u8; 32];

/// Most good certificates of one member. A member gets a new one when a third of a certificate's life is left, so two or three are
/// good at a time. The hub remembers all of them, because it revokes all of them when the member is expelled.
const MOST_GOOD: usize = 8;

/// A member's role and name. Both are in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Who {
    /// The name of the role.
    pub role: String,
    /// The name of the member.
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

/// The part of a token that the hub remembers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    /// The name of the role for which the invitation is good, or [`OWNER`](super::OWNER).
    pub role: String,
    /// How many members may still join by this invitation.
    pub uses: u32,
    /// Its end, in seconds since 1970.
    pub until: u64,
    /// The name of the owner who made the invitation.
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

/// Whether a membership goes on, or how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum State {
    /// The membership goes on.
    In,
    /// The member has left, at this time.
    Left { when: u64 },
    /// The member was expelled, at this time, by this owner.
    Expelled { when: u64, by: String },
}

impl State {
    /// Whether the membership goes on.
    pub fn is_in(&self) -> bool {
        *self == State::In
    }
}

/// A member, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The digest of its public key.
    pub key: String,
    /// Its certificates, the newest last. Those that have ended are forgotten. That of a hub's own issuer comes first.
    pub good: Vec<Good>,
    /// Certificates that were revoked and have not ended yet.
    pub revoked: Vec<Good>,
    /// Whether the member may invite and expel others. Owners are users.
    pub is_owner: bool,
    /// Whether the member came with the first hub: it is the hub, the hub's executor, or the first owner.
    pub is_founder: bool,
    /// Whether the membership goes on, or how it ended.
    pub state: State,
    /// When the member joined, in seconds since 1970.
    pub joined: u64,
    /// The owner who has invited the member.
    pub by: String,
    /// The invitation by which the member joined.
    pub invitation: Option<Id>,
    /// When the member was last linked to the hub, in seconds since 1970. The stored value is the time at which the member last
    /// joined or renewed its certificate.
    pub seen: u64,
    /// The addresses at which the member was last reached.
    pub addresses: Vec<String>,
    /// The facts that the member told last.
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

    /// Whether the member may have one more certificate.
    pub(super) fn has_room(&self, now: u64) -> bool {
        self.good.iter().filter(|it| it.until > now).count() < MOST_GOOD
    }

    /// Adds a new certificate.
    pub(super) fn add(&mut self, now: u64, good: Good) {
        self.good.retain(|it| it.until + CLOCKS > now);
        self.good.push(good);
    }
}

/// A change to store. A later change of the same invitation or member replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// An invitation. `None`: the invitation was used up, withdrawn, or is over.
    Invitation(Id, Option<Invitation>),
    /// A member.
    Member(Who, Box<Member>),
    /// The loan to the grid of this name. `None`: the loan has ended.
    Loan(String, Option<Box<Loan>>),
    /// The newest list of revoked certificates, as a hub has signed it. The next hub that leads begins with it.
    List(String),
    /// A job, or a process of one.
    Job(JobChange),
    /// How much the cages of executors must keep apart at least.
    LeastCage(Kind),
    /// The work of an executor on a day. `None`: the day is not kept by itself any more.
    Day(u32, String, Option<Box<Day>>),
}
