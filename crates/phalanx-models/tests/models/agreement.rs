//! The agreement on levels, as policies decide it: every pair of small policies.
//!
//! What the two ends of a link agree on is offered by the server, is what the client's rules allow, and protects marked
//! frames no less than others. No rule of either end is broken. The handshake that carries the agreement is in
//! [`crate::handshake`].

use phalanx_core::level::{Bound, Level, LevelSet, Levels, Mark, Network, Place, Policy, Reach, Rule, Usual};
use std::collections::BTreeSet;

const USUAL: [Usual; 3] = [Usual::Links, Usual::Marked, Usual::All];
const REACHES: [Reach; 3] = [Reach::SameMachine, Reach::Trusted, Reach::Untrusted];

/// Every rule about a mark, or about all of them.
fn rules() -> Vec<Rule> {
    let bounds =
        Level::ALL.into_iter().flat_map(|level| [Bound::Required(level), Bound::Preferred(level), Bound::Never(level)]);
    let marks: Vec<Option<Mark>> = std::iter::once(None).chain(Mark::ALL.map(Some)).collect();
    let rule = |bound, mark| Rule { network: Network::Any, role: None, mark, bound };
    bounds.flat_map(|bound| marks.iter().map(move |mark| rule(bound, *mark))).collect()
}

/// Every policy of up to two rules.
fn policies() -> Vec<Policy> {
    let rules = rules();
    let one = rules.iter().map(|rule| vec![rule.clone()]);
    let two = rules.iter().flat_map(|one| rules.iter().map(|two| vec![one.clone(), two.clone()]));
    let all: Vec<Vec<Rule>> = std::iter::once(Vec::new()).chain(one).chain(two).collect();
    let of = |usual| all.iter().map(move |rules| Policy { usual, trusted: Vec::new(), rules: rules.clone() });
    USUAL.into_iter().flat_map(of).collect()
}

fn place(reach: Reach, role: &'static str) -> Place<'static> {
    let address = (reach != Reach::SameMachine).then(|| [10, 1, 2, 3].into());
    Place { reach, address, role }
}

/// Whether a level breaks a rule of the policy.
fn breaks(policy: &Policy, mark: Mark, level: Level) -> bool {
    let about = policy.rules.iter().filter(|rule| rule.mark.is_none_or(|its| its == mark));
    about.map(|rule| rule.bound).any(|bound| match bound {
        Bound::Required(least) => level < least,
        Bound::Never(never) => level == never,
        Bound::Preferred(_) => false,
    })
}

/// All offers that servers can make, each with a policy that makes it.
fn offers(policies: &[Policy], reach: Reach) -> Vec<([LevelSet; 3], &Policy)> {
    let mut known = BTreeSet::new();
    let offer = |policy: &Policy| Mark::ALL.map(|mark| policy.offered(&place(reach, "user"), mark));
    let all = policies.iter().map(|policy| (offer(policy), policy));
    all.filter(|(offer, _)| known.insert(offer.map(|set| set.to_string()))).collect()
}

#[test]
fn no_pair_of_policies_agrees_on_less_than_either_demands() {
    let policies = policies();
    let (mut agreed, mut refused, mut weaker) = (0, 0, 0);
    for reach in REACHES {
        for (offer, server) in offers(&policies, reach) {
            for client in &policies {
                let Ok(result) = client.agree(&place(reach, "executor"), offer) else {
                    refused += 1;
                    continue;
                };
                check(client, server, offer, result.levels);
                weaker += usize::from(result.weaker.contains(&true));
                agreed += 1;
            }
        }
    }
    println!("policies: {agreed} agreements, {weaker} of them weaker than the defaults, {refused} refusals");
    assert!(agreed > 0 && refused > 0 && weaker > 0);
}

fn check(client: &Policy, server: &Policy, offer: [LevelSet; 3], levels: Levels) {
    for mark in Mark::ALL {
        let level = levels.of(mark);
        let pair = || format!("{mark:?} frames get {level}: {client:?} with {server:?}");
        assert!(level >= levels.base, "{}", pair());
        // Marked frames that are raised to the level of others may be at one that was not asked for. The handshake
        // refuses it if the server does not offer it.
        if level == levels.base && mark != Mark::None {
            continue;
        }
        assert!(offer[mark as usize].contains(level), "{}", pair());
        assert!(!breaks(client, mark, level) && !breaks(server, mark, level), "{}", pair());
        let about = client.rules.iter().filter(|rule| rule.mark.is_none_or(|its| its == mark));
        if let [Bound::Preferred(wished)] = about.map(|rule| rule.bound).collect::<Vec<_>>()[..] {
            assert!(level >= wished, "{}", pair());
        }
    }
}
