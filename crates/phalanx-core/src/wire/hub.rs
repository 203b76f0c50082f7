//! The messages between a hub and those that reach it: machines and users that join, members that stay, and users that ask.
//!
//! A joining peer shows a request for a certificate in the handshake, and says the secret of its invitation. A member shows its
//! certificate. An executor's link stays open while the executor runs. Bodies have PEM, or a page of rows.

use super::News;
use super::jobs::{FromHubJobs, ToHubJobs};
use crate::level::Level;
pub use crate::needs::Facts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The level of links to a hub, whatever the policy says: they carry secrets and the names of members.
pub const LEVEL: Level = Level::Private;
/// Most rows in one page.
pub const MOST_ROWS: usize = 200;
/// Most facts that a member tells.
pub const MOST_FACTS: usize = 32;
/// Longest name of a fact, and longest fact, in bytes.
pub const LONGEST_FACT: usize = 200;
/// Most entries of what an executor runs. What it runs beside these is counted only.
pub const MOST_RUNNING: usize = 64;
/// Most entries of what an executor has worked. Beyond it, those with the least are not told.
pub const MOST_USES: usize = 200;
/// Most relayed links that a hub lists.
pub const MOST_RELAYED: usize = 100;
/// Most addresses of a member or of a hub.
pub const MOST_ADDRESSES: usize = 8;

/// Most hubs of a grid.
pub const MOST_HUBS: usize = 7;

/// Where a hub is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubAt {
    /// The hub's name.
    pub name: String,
    /// Where it is reached.
    pub addresses: Vec<String>,
    /// Whether it leads, as far as the hub that tells it knows.
    pub leads: bool,
}

/// The addresses of hubs, at most [`MOST_ADDRESSES`]: those of the hub that leads come first, and each hub has one before another has two.
pub fn addresses_of(hubs: &[HubAt]) -> Vec<String> {
    let (leading, others): (Vec<&HubAt>, Vec<&HubAt>) = hubs.iter().partition(|hub| hub.leads);
    let ordered: Vec<&HubAt> = leading.into_iter().chain(others).collect();
    let mut all: Vec<String> = Vec::new();
    for rank in 0..MOST_ADDRESSES {
        for address in ordered.iter().filter_map(|hub| hub.addresses.get(rank)) {
            if !all.contains(address) {
                all.push(address.clone());
            }
        }
    }
    all.truncate(MOST_ADDRESSES);
    all
}

/// The body of [`ToHub::Attend`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attending {
    /// The certificate of the hub's issuer, in DER.
    pub issuer: Vec<u8>,
    /// Certificates of members of the hub's own machine, as PEM, which it has made.
    pub members: Vec<String>,
}

/// Whether facts have an acceptable number and length.
pub fn are_short(facts: &Facts) -> bool {
    let is_short = |text: &String| text.len() <= LONGEST_FACT;
    facts.len() <= MOST_FACTS && facts.iter().all(|(name, fact)| is_short(name) && is_short(fact))
}

/// Whether what an executor tells of itself has an acceptable length.
pub fn is_short(status: &Status) -> bool {
    let are_short = status.running.iter().all(|it| it.user.len() <= LONGEST_FACT);
    let words = [&status.last_loss, &status.closed];
    status.running.len() <= MOST_RUNNING && are_short && words.iter().all(|it| it.len() <= LONGEST_FACT)
}

/// Whether what an executor has worked has an acceptable length.
pub fn is_short_work(worked: &Worked) -> bool {
    worked.uses.len() <= MOST_USES && worked.uses.iter().all(|it| it.user.len() <= LONGEST_FACT)
}

/// Whether these can be the addresses of a member.
pub fn are_addresses(addresses: &[String]) -> bool {
    addresses.len() <= MOST_ADDRESSES && addresses.iter().all(|it| !it.is_empty() && it.len() <= LONGEST_FACT)
}

/// A message to a hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum ToHub {
    /// Over a joining link: the peer asks for a certificate with the secret of an invitation.
    Join { secret: [u8; 16], phalanx: String },
    /// Over a joining link: a member whose certificate has ended asks for a new one.
    Return { phalanx: String },
    /// Over a joining link: a member whose link the hub has ended asks why.
    Why { phalanx: String },
    /// An executor is here. Others reach it at its `port` where the hub sees it, unless that is 0, and at its `addresses`.
    Enter { addresses: Vec<String>, port: u16, facts: Facts, phalanx: String },
    /// The sender is still here.
    Beat,
    /// The member asks for a new certificate with the same key.
    Renew,
    /// A user asks for the members after the one of this role and name.
    Members { after: Option<(String, String)> },
    /// The member asks for the executor of this name. It gets a page with one row.
    Find { name: String },
    /// The member asks for a way to the executor of this name, through the hub.
    Reach { name: String },
    /// An owner asks for an invitation for so many members in this role, for so many seconds. The role `owner` is that of users who are
    /// owners too.
    Invite { role: String, uses: u32, seconds: u64 },
    /// An owner expels the members of this name.
    Expel { name: String },
    /// The member leaves the grid for good.
    Leave,
    /// News of the grid.
    News(News),
    /// A user asks as with `Members`, and which of the executors that are here find these programs. The rows tell what the executors have
    /// answered; the others are asked.
    Seek { after: Option<(String, String)>, programs: Vec<String> },
    /// An executor answers which of the programs are found.
    Has { programs: BTreeMap<String, bool> },
    /// An executor tells what it runs now, because that has changed.
    Status(Status),
    /// A user asks what the executors after the one of this name run, and what the hub relays.
    Statuses { after: Option<String> },
    /// An owner lends executors to another grid, on these terms.
    Lend(LoanTerms),
    /// An owner ends the loan to the grid of this name.
    EndLoan { grid: String },
    /// An owner asks for the loans to the grids after the one of this name.
    Loans { after: Option<String> },
    /// An executor that may be lent says how it is as a guest, because that has changed.
    Guest(GuestState),
    /// A new hub asks a hub that may make issuers for one of its own. The body is the request for its certificate, in DER.
    Issue,
    /// A hub is here, as the member of this number among the hubs that keep the state. The body is an encoded [`Attending`].
    Attend { number: u64, addresses: Vec<String>, phalanx: String },
    /// A member wants to be told which hub leads, also by a hub that does not.
    Watch,
    /// The first hub has made an issuer with this fingerprint for the hub of this name and key, and hands it out when this is answered.
    HasIssued { hub: String, key: String, fingerprint: String },
    /// Over a joining link: the peer asks to be an owner, with the secret of an invitation. A user shows its certificate, and keeps its
    /// key.
    JoinAsOwner { secret: [u8; 16], phalanx: String },
    /// About jobs.
    Jobs(ToHubJobs),
    /// An executor tells what it has worked since its start, because that has grown.
    Worked(Worked),
    /// A user asks what executors have worked since this day, in days since 1970, or after the row of this day and executor.
    History { since: u32, after: Option<(u32, String)> },
}

/// A message from a hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum FromHub {
    /// The peer is a member of this grid. The body has its certificates. `hubs`: where hubs are reached.
    Welcome { grid: String, hubs: Vec<String> },
    /// The member is in, and is reached at these addresses.
    Entered { addresses: Vec<String>, hubs: Vec<String> },
    /// The sender is still here.
    Beat,
    /// The body has a new certificate.
    Renewed,
    /// The body has these rows, an encoded list of [`Row`]. `goes_on`: there are more after the last one.
    Members { goes_on: bool, hubs: Vec<String> },
    /// The member dials the hub with this token, which leads to the executor.
    Reached { token: [u8; 16] },
    /// To an executor: another member waits behind this token. The executor dials the hub with it, and serves what comes.
    Come { token: [u8; 16] },
    /// An invitation, as the token that is typed.
    Invited { token: String },
    /// So many certificates were revoked.
    Expelled { certificates: u32 },
    /// The member has left.
    Left,
    /// The request is refused.
    Refused { reason: String },
    /// Whoever asks is no member, or no more. Asking again does not help.
    NoMember { reason: String },
    /// Whoever asks is a member.
    Member,
    /// News of the grid.
    News(News),
    /// To an executor: which of these programs does it find for its users?
    Look { programs: Vec<String> },
    /// The body has a page of what executors run, an encoded [`Statuses`]. `goes_on`: there are more after the last one.
    Statuses { goes_on: bool },
    /// The loan to the grid of this name begins or ends, as was asked.
    Lent { grid: String },
    /// The body has loans, an encoded list of [`LoanRow`]. `goes_on`: there are more after the last one.
    Loans { goes_on: bool },
    /// To an executor that may be lent: be a guest of another grid on these terms. `None`: be none.
    BeGuest { terms: Option<Terms> },
    /// This hub does not lead, and has done nothing. The one that leads is reached at the first of these addresses, if this hub knows it.
    Elsewhere { hubs: Vec<String>, is_known: bool },
    /// The hubs of the grid, to those that watch, and to executors when that changes.
    Hubs { hubs: Vec<HubAt> },
    /// The body has the certificates of the new hub's issuer, as PEM.
    Issued,
    /// The hub is one of these hubs.
    Attended { hubs: Vec<HubAt> },
    /// About jobs.
    Jobs(FromHubJobs),
    /// The body has days, an encoded list of [`DayRow`]. `goes_on`: there are more after the last one.
    History { goes_on: bool },
}

/// What an owner lends to another grid, and to whom there.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoanTerms {
    /// A token of the other grid, for executors. It is a secret.
    pub token: String,
    /// How many executors are lent.
    pub members: u32,
    /// The labels that they have.
    pub labels: Vec<String>,
    /// The users of the other grid that they serve. Empty: all.
    pub accepted: Vec<String>,
    /// Most places of each executor.
    pub places: u32,
}

impl fmt::Debug for LoanTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoanTerms { token: _, members, labels, accepted, places } = self; // the token stays out of logs
        write!(f, "{members} members, labels {labels:?}, users {accepted:?}, {places} places each")
    }
}

/// The terms on which an executor is a guest of another grid.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The token with which it joins that grid. It is a secret.
    pub token: String,
    /// The name with which it joins.
    pub name: String,
    /// The users of that grid that it serves. Empty: all.
    pub accepted: Vec<String>,
    /// Most places that they may have, all together.
    pub places: u32,
    /// The name of the grid that lends it.
    pub by: String,
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Terms { token: _, name, accepted, places, by } = self; // the token stays out of logs
        write!(f, "{name} by {by}, users {accepted:?}, {places} places")
    }
}

/// How an executor is as a guest, as it tells the hub that lends it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestState {
    /// The grid of which it is a guest, as its token says.
    pub grid: String,
    /// Whether a hub of that grid knows it.
    pub is_in: bool,
    /// Whether it is no guest any more, and does not try again: it was refused, or expelled there.
    pub is_over: bool,
    /// How it is, in words.
    pub why: String,
}

/// A guest, as the hub that lends it lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestRow {
    /// Its name here.
    pub name: String,
    /// Its name in the other grid.
    pub there: String,
    /// Whether the other grid knows it.
    pub is_in: bool,
    /// How it is, in words. Empty: it has not said.
    pub why: String,
}

/// A loan, as a hub lists it for owners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoanRow {
    /// The other grid.
    pub grid: String,
    /// The owner who lends.
    pub by: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// The terms, without the token.
    pub terms: LoanTerms,
    /// The executors that are lent.
    pub guests: Vec<GuestRow>,
    /// Why the last executor that was to be a guest is none. Empty: there was none.
    pub refused: String,
}

/// A member, as a hub lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The word of its role.
    pub role: String,
    /// Its name.
    pub name: String,
    /// Where it is or was reached last.
    pub addresses: Vec<String>,
    /// Whether it is here now. Users come and go, and are never here.
    pub is_here: bool,
    /// Since when it is here, or was here last, or, if it never was, has joined: seconds since 1970.
    pub since: u64,
    /// When its newest certificate ends, in seconds since 1970.
    pub until: u64,
    /// What it has told about its machine.
    pub facts: Facts,
}

/// Sums of used resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// Time of places, in milliseconds: two places for a second are two seconds.
    pub places: u64,
    /// Processor time, in milliseconds.
    pub processor: u64,
    /// Energy, in millijoules: the part of the processors' energy that belongs to this part of their time. 0: the system does not tell.
    pub energy: u64,
    /// How many processes were started.
    pub started: u64,
}

/// The resources of an executor that a user has used, by one kind of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedBy {
    /// The user.
    pub user: String,
    /// The kind of work.
    pub what: What,
    /// The sums.
    pub sums: Sums,
}

/// The work of an executor since its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worked {
    /// A random number of the executor's start.
    pub run: u64,
    /// Time of places that users could have, in milliseconds.
    pub offered: u64,
    /// The resources that users have used.
    pub uses: Vec<UsedBy>,
}

/// The work of an executor on one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayRow {
    /// The day, in days since 1970 (UTC); 0: all days that are not kept one by one any more.
    pub day: u32,
    /// The executor.
    pub executor: String,
    /// As in [`Worked`].
    pub offered: u64,
    /// As in [`Worked`].
    pub uses: Vec<UsedBy>,
}

/// What a user's program has at an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum What {
    /// Interpreters of a manager.
    Interpreters,
    /// Processes of a message passing program.
    Ranks,
    /// Copies from or to the machine.
    Copies,
    /// Links to tuple spaces.
    Spaces,
    /// Processes of jobs.
    Jobs,
}

impl What {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            What::Interpreters => "interpreters",
            What::Ranks => "ranks",
            What::Copies => "copies",
            What::Spaces => "spaces",
            What::Jobs => "jobs",
        }
    }
}

/// The name of all users whom a member does not name. No user can be called so, because of the space.
pub const OTHER_USERS: &str = "other users";

/// So many of what one user has at an executor, with links of the same kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The user.
    pub user: String,
    /// What it is.
    pub what: What,
    /// The level of the links. `None`: the links are the processes' own.
    pub level: Option<Level>,
    /// Whether the links are relayed.
    pub is_relayed: bool,
    /// How many there are.
    pub count: u32,
    /// Bytes a second over these links in the last second or longer, with two digits. The links of interpreters and ranks are their own.
    pub rate: u64,
}

/// What an executor runs, as it tells its hub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// How many places it has.
    pub capacity: u32,
    /// How many are in use.
    pub used: u32,
    /// What it runs, for whom.
    pub running: Vec<Running>,
    /// How many entries were left out.
    pub more: u32,
    /// How many interpreters and ranks were lost since the executor started: interpreters by a signal or an exit status, ranks by a signal.
    pub lost: u64,
    /// How the last one ended. Empty: none was lost.
    pub last_loss: String,
    /// The reason for which it serves no users now. Empty: it is open.
    pub closed: String,
}

/// An executor, and what it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusRow {
    /// The executor's name.
    pub name: String,
    /// Whether it is here now.
    pub is_here: bool,
    /// Since when it is here, or was here last: seconds since 1970.
    pub since: u64,
    /// What it has told. `None`: nothing yet, or it is not here.
    pub status: Option<Status>,
}

/// A link that a hub relays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayedRow {
    /// The role and name of the member that has asked for the link, and of the one that it leads to.
    pub ends: [(String, String); 2],
    /// How many bytes were relayed, both ways.
    pub bytes: u64,
    /// For how many seconds it is open.
    pub seconds: u64,
}

/// A page of what executors run. The first page has what the hub relays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statuses {
    /// The executors.
    pub executors: Vec<StatusRow>,
    /// The relayed links with the most bytes.
    pub relayed: Vec<RelayedRow>,
    /// How many links are relayed now.
    pub relays: u32,
    /// How many bytes were relayed since the hub started.
    pub bytes: u64,
}
