//! Max-min fairness: how many places of an executor each of its users may have, and which users are asked to give places
//! back when another user waits.
//!
//! The functions only decide. The executor gives places, asks for them, and keeps the time.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The places that a user holds and asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demand {
    /// Places that the user has.
    pub held: u32,
    /// How many of them can be given back. Ranks of message passing programs keep theirs.
    pub movable: u32,
    /// Requests of the user that wait for a place.
    pub waiting: u32,
}

impl Demand {
    fn all(self) -> u32 {
        self.held.saturating_add(self.waiting)
    }
}

/// The number of places that each user may have while others want some: as equal as the demands allow.
///
/// Places that cannot be divided evenly stay with the users that hold most. So a fair division stays as it is.
pub fn shares(capacity: u32, demands: &[Demand]) -> Vec<u32> {
    let sum = |level: u32| demands.iter().map(|it| u64::from(it.all().min(level))).sum::<u64>();
    let (mut level, mut above) = (0, capacity.saturating_add(1));
    while above - level > 1 {
        let middle = level + (above - level) / 2;
        *(if sum(middle) <= u64::from(capacity) { &mut level } else { &mut above }) = middle;
    }
    let mut shares: Vec<u32> = demands.iter().map(|it| it.all().min(level)).collect();
    let mut wants_more: Vec<usize> = (0..demands.len()).filter(|user| demands[*user].all() > level).collect();
    wants_more.sort_by_key(|user| Reverse(demands[*user].held));
    let left = u64::from(capacity) - sum(level);
    wants_more.iter().take(left as usize).for_each(|user| shares[*user] += 1);
    shares
}

/// For each user, how many of the requests that wait are within the user's share.
pub fn claims(capacity: u32, demands: &[Demand]) -> Vec<u32> {
    claims_within(&shares(capacity, demands), demands)
}

fn claims_within(shares: &[u32], demands: &[Demand]) -> Vec<u32> {
    demands.iter().zip(shares).map(|(it, share)| share.saturating_sub(it.held).min(it.waiting)).collect()
}

fn sum(counts: &[u32]) -> u32 {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

/// How many places each user is asked to give back: no more than others claim, and only of what is above the user's share.
pub fn asked(capacity: u32, demands: &[Demand]) -> Vec<u32> {
    let (shares, held) = (shares(capacity, demands), demands.iter().map(|it| it.held).collect::<Vec<u32>>());
    let missing = sum(&claims_within(&shares, demands)).saturating_sub(capacity.saturating_sub(sum(&held)));
    let above = |(it, share): (&Demand, &u32)| it.held.saturating_sub(*share).min(it.movable);
    let above: Vec<u32> = demands.iter().zip(&shares).map(above).collect();
    from_largest(missing, &held, &above)
}

/// How many more places a user can have if the user asks for `wanted`: free places, and places that other users are asked for.
pub fn reach(capacity: u32, demands: &[Demand], user: usize, wanted: u32) -> u32 {
    let mut demands = demands.to_vec();
    demands[user].waiting = wanted;
    let claims = claims(capacity, &demands);
    let held: Vec<u32> = demands.iter().map(|it| it.held).collect();
    let free = capacity.saturating_sub(sum(&held));
    let available = free.saturating_add(sum(&asked(capacity, &demands)));
    claims[user].min(available.saturating_sub(sum(&claims) - claims[user]))
}

/// Takes `count` things, one after the other, always from the owner that has most left. An owner gives at most its `limit`.
pub fn from_largest(count: u32, owned: &[u32], limits: &[u32]) -> Vec<u32> {
    let mut given = vec![0; owned.len()];
    let first = owned.iter().enumerate().map(|(owner, owned)| (*owned, Reverse(owner)));
    let mut owners: BinaryHeap<_> = first.filter(|(_, Reverse(owner))| limits[*owner] > 0).collect();
    for _ in 0..count {
        let Some((left, Reverse(owner))) = owners.pop() else { break };
        given[owner] += 1;
        if given[owner] < limits[owner] {
            owners.push((left.saturating_sub(1), Reverse(owner)));
        }
    }
    given
}
