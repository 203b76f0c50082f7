//! What the policy makes of a set of machines, without a link being opened.

use phalanx_core::level::{Agreed, Level, LevelSet, Mark, Policy};
use phalanx_net::address::Address;
use phalanx_net::identity::Role;
use phalanx_net::socket::look_up;
use std::net::IpAddr;

const MANAGER: &str = "manager";

/// Two machines, and the level of what has a mark between them.
#[derive(Debug)]
pub struct Pair {
    pub one: String,
    pub other: String,
    pub mark: Mark,
    /// The level, what decided it, and whether it is weaker than by default; or why they cannot talk.
    pub verdict: Result<(Level, String, bool), String>,
}

/// Every pair of the manager's machine and the executors. `takes`: what executors take; they say for certain only when they
/// are asked.
pub fn explain(policy: &Policy, executors: &[Address], takes: LevelSet) -> Vec<Pair> {
    let found: Vec<_> = executors.iter().map(|address| (address.to_string(), ip_of(address))).collect();
    let mut pairs = Vec::new();
    let mut add = |one: &str, other: &str, agreed: Result<Agreed, String>| {
        for mark in Mark::ALL {
            let of_mark = |it: Agreed| (it.levels.of(mark), it.why[mark as usize].clone(), it.weaker[mark as usize]);
            let verdict = agreed.clone().map(of_mark);
            pairs.push(Pair { one: one.to_owned(), other: other.to_owned(), mark, verdict });
        }
    };
    let agree = |address: &Result<IpAddr, String>| address.clone().and_then(|it| agree(policy, it, takes));
    for (name, address) in &found {
        add(MANAGER, name, agree(address));
    }
    for (index, (one, here)) in found.iter().enumerate() {
        for (other, there) in &found[index + 1..] {
            // Both ends decide, each for the other's address: what is stronger holds.
            let both = agree(here).and_then(|ours| agree(there).map(|theirs| stronger(ours, theirs)));
            add(one, other, both);
        }
    }
    pairs
}

/// What both ends of a link agreed on, each for the other's address: what is stronger holds.
pub(crate) fn stronger(mut one: Agreed, other: Agreed) -> Agreed {
    let levels = [
        (&mut one.levels.base, other.levels.base),
        (&mut one.levels.data, other.levels.data),
        (&mut one.levels.code, other.levels.code),
    ];
    for (index, (level, others)) in levels.into_iter().enumerate() {
        if others > *level {
            *level = others;
            one.why[index].clone_from(&other.why[index]);
            one.weaker[index] = other.weaker[index];
        }
    }
    one
}

fn ip_of(address: &Address) -> Result<IpAddr, String> {
    look_up(address).map(|found| found.ip()).map_err(|error| error.to_string())
}

fn agree(policy: &Policy, address: IpAddr, takes: LevelSet) -> Result<Agreed, String> {
    let place = policy.place(Some(address), Role::Executor.name());
    policy.agree(&place, [takes; 3]).map_err(|conflict| conflict.to_string())
}
