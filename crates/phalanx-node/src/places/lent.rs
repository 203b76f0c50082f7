//! The places of users of other grids, to which the machine is lent. All users of one such grid together have no more places than
//! were lent, and divide them fairly among themselves. Beside that, each is a user like any other.

use super::{Holder, Model, Places, State};
use phalanx_core::fairness::{self, Demand};
use phalanx_net::sync::lock;
use std::collections::BTreeMap;

/// Stands between the name of a user and that of another grid. No name of a user or of a grid has it.
const AT: char = '@';

/// The name of a user in everything that users of several grids share. `grid`: the grid to which the machine is lent, if the user is
/// one of that. So bob of another grid is another user than bob of this one.
pub fn known_as(user: &str, grid: Option<&str>) -> String {
    grid.map_or_else(|| user.to_owned(), |grid| format!("{user}{AT}{grid}"))
}

/// The other grid of a user. `None`: the user is one of the machine's own grid.
fn grid_of(user: &str) -> Option<&str> {
    user.split_once(AT).map(|(_, grid)| grid)
}

/// The demands of users of a grid, in their order.
fn of_grid(demands: &BTreeMap<&str, Demand>, grid: &str) -> Vec<Demand> {
    demands.iter().filter(|(user, _)| grid_of(user) == Some(grid)).map(|(_, demand)| *demand).collect()
}

impl Places {
    /// From now on, users of this grid have at most so many places. `None`: the machine is not lent to it.
    pub fn lend(&self, grid: &str, most: Option<u32>) {
        let mut state = lock(&self.state);
        match most {
            Some(most) => drop(state.lent.insert(grid.to_owned(), most)),
            None => drop(state.lent.remove(grid)),
        }
        self.given_back.notify_all();
    }

    /// How many places users of this grid use.
    pub fn in_use_by(&self, grid: &str) -> u32 {
        lock(&self.state).used_by(grid)
    }
}

impl State {
    fn used_by(&self, grid: &str) -> u32 {
        let of_grid = self.used.iter().filter(|(holder, _)| grid_of(&holder.user) == Some(grid));
        of_grid.map(|(_, used)| used.iter().max().copied().unwrap_or_default()).sum()
    }

    /// The grid of a user, and its bound. A grid to which the machine is not lent any more has none.
    fn lent<'a>(&self, user: &'a str) -> Option<(&'a str, u32)> {
        let grid = grid_of(user)?;
        Some((grid, self.lent.get(grid).copied().unwrap_or_default()))
    }

    /// How many more places the grid of this holder has for this model of its program. Without a bound: all.
    pub(super) fn lent_free(&self, holder: &Holder, model: Model) -> u32 {
        let Some((grid, most)) = self.lent(&holder.user) else { return u32::MAX };
        let own = self.used.get(holder).copied().unwrap_or_default();
        let taken = self.used_by(grid) - own.iter().max().copied().unwrap_or_default() + own[model as usize];
        most.saturating_sub(taken)
    }

    /// The same, without those that other users of the grid wait for.
    pub(super) fn lent_room(&self, capacity: u32, holder: &Holder, model: Model) -> u32 {
        let free = self.lent_free(holder, model);
        let Some(grid) = grid_of(&holder.user).filter(|_| !self.desk.is_quiet()) else { return free };
        let claims = self.claims(capacity);
        let others = claims.iter().filter(|(user, _)| **user != holder.user && grid_of(user) == Some(grid));
        free.saturating_sub(others.map(|(_, claim)| claim).sum())
    }

    /// How many places ranks of a program can have, if other users of its grid give back what is above their shares.
    pub(super) fn lent_fair(&self, holder: &Holder) -> u32 {
        let Some((grid, most)) = self.lent(&holder.user) else { return u32::MAX };
        let mut demands = self.demands();
        demands.entry(&holder.user).or_default().weight = self.weight(&holder.user);
        demands.retain(|user, _| grid_of(user) == Some(grid));
        let Some(user) = demands.keys().position(|user| *user == holder.user) else { return 0 };
        let all: Vec<Demand> = demands.into_values().collect();
        self.movable(holder).saturating_add(fairness::reach(most, &all, user, most))
    }

    /// Cuts what users of other grids wait for to their shares of what is lent. Nobody is asked for a place that they cannot have.
    pub(super) fn cut_to_lent(&self, demands: &mut BTreeMap<&str, Demand>) {
        for (grid, most) in &self.lent {
            let shares = fairness::shares(*most, &of_grid(demands, grid));
            let users = demands.iter_mut().filter(|(user, _)| grid_of(user) == Some(grid));
            for ((_, demand), share) in users.zip(shares) {
                demand.waiting = demand.waiting.min(share.saturating_sub(demand.held));
            }
        }
    }

    /// Raises what users are asked for, in the order of the demands, to what other users of their grid claim. These may be asked although
    /// the machine has free places.
    pub(super) fn ask_within_lent(&self, demands: &BTreeMap<&str, Demand>, counts: &mut [u32]) {
        for (grid, most) in &self.lent {
            let asked = fairness::asked(*most, &of_grid(demands, grid));
            let users = demands.keys().zip(counts.iter_mut()).filter(|(user, _)| grid_of(user) == Some(grid));
            for ((_, count), asked) in users.zip(asked) {
                *count = (*count).max(asked);
            }
        }
    }
}
