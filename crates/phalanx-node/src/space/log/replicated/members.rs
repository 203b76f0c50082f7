//! Who the members are, and how one takes the place of another.

use super::{LogError, Replicated, refused, wait_for};
use openraft::{ChangeMembers, RaftMetrics};
use phalanx_core::space::{Keeper, Keepers, Replica};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// For new members to learn all that there is, and for each step of a change.
const PATIENCE: Duration = Duration::from_secs(120);
/// Members of a space: fewer give no more than one alone, more make it slower and hardly safer.
pub const MEMBERS: std::ops::RangeInclusive<usize> = 3..=9;

type Metrics = RaftMetrics<u64, Replica>;

impl Replicated {
    /// The members, as far as they are known here; none, before this one was told.
    pub fn members(&self) -> BTreeMap<u64, Replica> {
        members_of(&self.raft.metrics().borrow())
    }

    /// Whether a member has this name in its certificate; none: it is not known here who the members are.
    pub fn has_member(&self, name: &str) -> Option<bool> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let mut known = metrics.membership_config.nodes().peekable();
        known.peek()?;
        Some(known.any(|(_, member)| member.name.eq_ignore_ascii_case(name)))
    }

    /// Whether this member was told that others keep the space without it, or has not come to keep it yet.
    pub fn is_dismissed(&self) -> bool {
        let voters: BTreeSet<u64> = self.raft.metrics().borrow().membership_config.voter_ids().collect();
        !voters.is_empty() && !voters.contains(&self.member)
    }

    /// What this member knows of all of them, where it leads.
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

    /// Members come, under numbers that nobody ever had, and others go, by their addresses; to be called at the one that
    /// leads. New ones learn first what there is. All that stay must be there: who does not know of a new member would not
    /// vote for it, and with it.
    pub fn change_members(&self, add: &BTreeMap<u64, Replica>, remove: &[String]) -> Result<(), LogError> {
        let now = self.members();
        let new = self.plan(&now, add, remove)?;
        let changed = wait_for(async {
            for (member, node) in add {
                let added = self.raft.add_learner(*member, node.clone(), true);
                let added = tokio::time::timeout(PATIENCE, added).await;
                added.map_err(|_| late("a new member has not learned everything in time"))?.map_err(refused)?;
            }
            // The library's own waiting ends while a whole short log is to be learned yet.
            let come: Vec<u64> = add.keys().copied().collect();
            self.wait_until_known(&come, PATIENCE).await?;
            let stay: Vec<u64> = new.iter().copied().filter(|member| *member != self.member).collect();
            self.wait_until_known(&stay, self.timing.patience()).await?;
            self.raft.change_membership(new.clone(), true).await.map(drop).map_err(refused)?;
            // They may still learn that they are not needed any more, and ask nobody to vote for them.
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
            let _ = wait_for(removal); // the first error is what is said
        }
        changed
    }

    /// The numbers of those that keep the space then.
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

    /// Until these members have all entries that there are now, those about members too.
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
