//! Explains what the policy means for a set of machines, without opening a link.

use phalanx_core::level::{Agreed, Level, LevelSet, Mark, Policy};
use phalanx_net::address::Address;
use phalanx_net::dial::look_up;
use phalanx_net::identity::Role;
use std::net::IpAddr;

const MANAGER: &str = "manager";

/// Two machines, and the level of links between them for data with one mark.
#[derive(Debug)]
pub struct Pair {
    /// The name of one machine.
    pub one: String,
    /// The name of the other machine.
    pub other: String,
    /// What the data is marked as.
    pub mark: Mark,
    /// The level, the rule that decided it, and whether it is weaker than the default. Or why the two cannot communicate.
    pub verdict: Result<(Level, String, bool), String>,
}

/// All pairs of the manager's machine and the executors. `takes` are the levels that the executors are assumed to accept. What
/// they really accept is known only when they are asked.
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
            // Each end decides for the other's address. The stronger level holds.
            let both = agree(here).and_then(|ours| agree(there).map(|theirs| stronger(ours, theirs)));
            add(one, other, both);
        }
    }
    pairs
}

/// The agreement of both ends of a link, each for the other's address. The stronger level holds.
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
