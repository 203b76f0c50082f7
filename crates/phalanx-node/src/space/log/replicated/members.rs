//! The members of a space, and how the list of members changes.

use super::{LogError, Replicated, refused, wait_for};
use openraft::{ChangeMembers, RaftMetrics};
use phalanx_core::space::{Keeper, Keepers, Replica};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Timeout for new members to learn the whole state, and for each step of a change.
const PATIENCE: Duration = Duration::from_secs(120);
/// Number of members of a space. Two are no safer than one alone. More than nine make the space slower and hardly safer.
pub const MEMBERS: std::ops::RangeInclusive<usize> = 3..=9;

type Metrics = RaftMetrics<u64, Replica>;

impl Replicated {
    /// The members as far as this one knows them; empty before it was told.
    pub fn members(&self) -> BTreeMap<u64, Replica> {
        members_of(&self.raft.metrics().borrow())
    }

    /// Whether a member has this name in its certificate. `None`: this member does not know the list of members.
    pub fn has_member(&self, name: &str) -> Option<bool> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let mut known = metrics.membership_config.nodes().peekable();
        known.peek()?;
        Some(known.any(|(_, member)| member.name.eq_ignore_ascii_case(name)))
    }

    /// Whether this member was told that the others keep the space without it, or has not been admitted yet.
    pub fn is_dismissed(&self) -> bool {
        let voters: BTreeSet<u64> = self.raft.metrics().borrow().membership_config.voter_ids().collect();
        !voters.is_empty() && !voters.contains(&self.member)
    }

    /// What the leading member knows of all members.
    pub fn keepers(&self) -> Keepers {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let last = metrics.last_log_index.unwrap_or(0);
        let has = |member: u64| match metrics.replication.as_ref().and_then(|all| all.get(&member)) {
            _ if member == metrics.id => Some(last),
            Some(Some(log)) => Some(log.index),
            _ => None,
        };
        let keeper = |(number, member): (u64, Replica)| Keeper {
            name: member.name,
            address: member.address,
            leads: metrics.current_leader == Some(number),
            behind: has(number).map(|has| last.saturating_sub(has)),
        };
        let members = members_of(&metrics).into_iter().map(keeper).collect();
        Keepers { group: self.group.clone(), term: metrics.current_term, entries: last, members }
    }

    /// Adds members under numbers that no member ever had, and removes others by their addresses. Call it at the leading
    /// member. New members first learn the whole state. All members that stay must be reachable, because a member that does not
    /// know of a new one would not vote for it, or together with it.
    pub fn change_members(&self, add: &BTreeMap<u64, Replica>, remove: &[String]) -> Result<(), LogError> {
        let now = self.members();
        let new = self.plan(&now, add, remove)?;
        let changed = wait_for(async {
            for (member, node) in add {
                let added = self.raft.add_learner(*member, node.clone(), true);
                let added = tokio::time::timeout(PATIENCE, added).await;
                added.map_err(|_| late("a new member has not learned everything in time"))?.map_err(refused)?;
            }
            // The library's own wait may end while a new member still has a whole short log to learn.
            let come: Vec<u64> = add.keys().copied().collect();
            self.wait_until_known(&come, PATIENCE).await?;
            let stay: Vec<u64> = new.iter().copied().filter(|member| *member != self.member).collect();
            self.wait_until_known(&stay, self.timing.patience()).await?;
            self.raft.change_membership(new.clone(), true).await.map(drop).map_err(refused)?;
            // The removed members get a chance to learn that they are no longer needed, so that they start no elections.
            let gone: BTreeSet<u64> = self.members().into_keys().filter(|member| !new.contains(member)).collect();
            let _ = self.wait_until_known(&gone.iter().copied().collect::<Vec<_>>(), self.timing.beat * 4).await;
            if gone.is_empty() {
                return Ok(());
            }
            let removed = self.raft.change_membership(ChangeMembers::RemoveNodes(gone), true).await;
            removed.map(drop).map_err(refused)
        })?;
        if changed.is_err() && !add.is_empty() {
            let unwanted = ChangeMembers::RemoveNodes(add.keys().copied().collect());
            let removal = async { tokio::time::timeout(PATIENCE, self.raft.change_membership(unwanted, true)).await };
            let _ = wait_for(removal); // the first error is the one reported
        }
        changed
    }

    /// The same among hubs, of which there may be one or two, and which the leader may remove itself from.
    pub fn change_hubs(&self, add: &BTreeMap<u64, Replica>, remove: &BTreeSet<u64>) -> Result<(), LogError> {
        let now = self.members();
        let new: BTreeSet<u64> = now.keys().chain(add.keys()).copied().filter(|it| !remove.contains(it)).collect();
        let changed = wait_for(async {
            for (member, node) in add {
                let added = tokio::time::timeout(PATIENCE, self.raft.add_learner(*member, node.clone(), true)).await;
                added.map_err(|_| late("the new hub has not learned everything in time"))?.map_err(refused)?;
            }
            let come: Vec<u64> = add.keys().copied().collect();
            self.wait_until_known(&come, PATIENCE).await?;
            let changed = tokio::time::timeout(PATIENCE, self.raft.change_membership(new, false)).await;
            changed.map_err(|_| late("too few hubs have agreed in time"))?.map(drop).map_err(refused)
        })?;
        if changed.is_err() && !add.is_empty() {
            let unwanted = ChangeMembers::RemoveNodes(add.keys().copied().collect());
            let removal = async { tokio::time::timeout(PATIENCE, self.raft.change_membership(unwanted, false)).await };
            let _ = wait_for(removal); // the first error is the one reported
        }
        changed
    }

    /// Records that a member has another address.
    pub fn set_address(&self, number: u64, member: Replica) -> Result<(), LogError> {
        let nodes = ChangeMembers::SetNodes(BTreeMap::from([(number, member)]));
        let changed =
            async { tokio::time::timeout(self.timing.patience(), self.raft.change_membership(nodes, true)).await };
        let changed = wait_for(changed)?.map_err(|_| late("too few hubs have agreed in time"))?;
        changed.map(drop).map_err(refused)
    }

    /// Whether this member votes, as far as it knows.
    pub fn is_voter(&self) -> bool {
        self.votes(self.member)
    }

    /// Whether a member votes, as far as this one knows.
    pub fn votes(&self, member: u64) -> bool {
        self.raft.metrics().borrow().membership_config.voter_ids().any(|it| it == member)
    }

    /// The numbers of the members after the change.
    fn plan(
        &self,
        now: &BTreeMap<u64, Replica>,
        add: &BTreeMap<u64, Replica>,
        remove: &[String],
    ) -> Result<BTreeSet<u64>, LogError> {
        let wrong = |what: String| Err(LogError::Misfit(what));
        let leaves = |member: &Replica| remove.contains(&member.address);
        if let Some(address) = remove.iter().find(|address| !now.values().any(|member| member.address == **address)) {
            return wrong(format!("{address} is no member"));
        }
        if now.get(&self.member).is_some_and(leaves) {
            return wrong("the member that leads cannot be removed: end its server, and another one leads".into());
        }
        let mut new: BTreeMap<u64, &Replica> = BTreeMap::new();
        for (number, member) in now.iter().filter(|(_, member)| !leaves(member)).chain(add) {
            let same = |it: &&&Replica| it.address == member.address || it.name.eq_ignore_ascii_case(&member.name);
            if now.contains_key(number) && add.contains_key(number) || new.values().any(|it| same(&it)) {
                return wrong(format!("{} at {} is a member already", member.name, member.address));
            }
            new.insert(*number, member);
        }
        match MEMBERS.contains(&new.len()) {
            true => Ok(new.into_keys().collect()),
            false => wrong(format!("a space is kept by {} to {} members", MEMBERS.start(), MEMBERS.end())),
        }
    }

    /// Waits until these members have all current entries of the log, those about members included.
    async fn wait_until_known(&self, stay: &[u64], patience: Duration) -> Result<(), LogError> {
        let last = self.raft.metrics().borrow().last_log_index.unwrap_or(0);
        let has = |metrics: &Metrics, member: &u64| {
            let log = metrics.replication.as_ref().and_then(|all| all.get(member)).copied().flatten();
            log.is_some_and(|log| log.index >= last)
        };
        let known = |metrics: &Metrics| stay.iter().all(|member| has(metrics, member));
        let waited = self.raft.wait(Some(patience)).metrics(known, "members know of each other").await;
        let behind = || {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow();
            let behind = stay.iter().filter(|member| !has(&metrics, member));
            let names = behind.filter_map(|member| members_of(&metrics).remove(member)).map(|member| member.address);
            names.collect::<Vec<_>>().join(", ")
        };
        waited.map(drop).map_err(|_| late(&format!("all members that stay must be there, but not {}", behind())))
    }
}

fn members_of(metrics: &Metrics) -> BTreeMap<u64, Replica> {
    metrics.membership_config.nodes().map(|(number, member)| (*number, member.clone())).collect()
}

fn late(why: &str) -> LogError {
    LogError::Misfit(why.to_owned())
}
