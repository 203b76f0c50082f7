//! Weighted max-min fairness: how many places of an executor each of its users may have, and which users are asked to give places
//! back when another user waits.
//!
//! The functions only decide. The executor gives places, asks for them, and keeps the time.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The places that a user holds and asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// How many places the user gets for each place of a user with weight 1. At least 1.
    pub weight: u32,
    /// Places that the user has.
    pub held: u32,
    /// How many of them can be given back. Ranks of message passing programs keep theirs.
    pub movable: u32,
    /// Requests of the user that wait for a place.
    pub waiting: u32,
}

impl Default for Demand {
    fn default() -> Demand {
        Demand { weight: 1, held: 0, movable: 0, waiting: 0 }
    }
}

impl Demand {
    fn all(self) -> u32 {
        self.held.saturating_add(self.waiting)
    }
}

/// The largest weight. [`standing`] tells places of users apart up to it.
pub const MOST_WEIGHT: u32 = 1000;

/// Where a user stands that holds so many places: of two, the user with the smaller number gets the next place. A user without a
/// place comes first, whatever its weight.
pub fn standing(held: u32, weight: u32) -> u64 {
    if held == 0 { 0 } else { ((u64::from(held) + 1) << 24) / u64::from(weight.max(1)) }
}

/// The number of places that each user may have while others want some: as equal as the demands and the weights allow.
///
/// Each user that wants places gets one, while there are enough. The others are divided by the weights, one after the other, to
/// the user that has fewest for its weight (the method of Jefferson and D'Hondt). Places that cannot be divided evenly stay with the
/// users that hold them. So a fair division stays as it is.
pub fn shares(capacity: u32, demands: &[Demand]) -> Vec<u32> {
    let wanting = demands.iter().filter(|it| it.all() > 0).count();
    let first = u64::from(wanting as u64 <= u64::from(capacity));
    let upto =
        |it: &Demand, level: u32| u64::from(it.all()).min((u64::from(level) * u64::from(it.weight)).max(first)) as u32;
    let sum = |level: u32| demands.iter().map(|it| u64::from(upto(it, level))).sum::<u64>();
    let (mut level, mut above) = (0, capacity.saturating_add(1));
    while above - level > 1 {
        let middle = level + (above - level) / 2;
        *(if sum(middle) <= u64::from(capacity) { &mut level } else { &mut above }) = middle;
    }
    let mut shares: Vec<u32> = demands.iter().map(|it| upto(it, level)).collect();
    let next = |user: usize, share: u32| {
        let it = &demands[user];
        let is_held = it.held > share;
        (share < it.all()).then(|| Reverse((standing(share, it.weight), !is_held, Reverse(it.held), user)))
    };
    let mut wants_more: BinaryHeap<_> = (0..demands.len()).filter_map(|user| next(user, shares[user])).collect();
    for _ in sum(level)..u64::from(capacity) {
        let Some(Reverse((.., user))) = wants_more.pop() else { break };
        shares[user] += 1;
        wants_more.extend(next(user, shares[user]));
    }
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
