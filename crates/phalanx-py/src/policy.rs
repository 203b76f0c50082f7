//! The policy for `phalanx/security.py`: reads it and explains it.

use crate::errors::raise;
use phalanx_core::level::{LevelSet, Policy, Usual};
use phalanx_net::address::Address;
use phalanx_node::explain::{Pair, explain as explain_pairs};
use phalanx_node::rules::{parse, parse_network};
use pyo3::prelude::*;

/// A policy as Python passes it: the name of the default, the trusted networks, and the text of a rules file.
#[derive(FromPyObject)]
pub struct Words(String, Vec<String>, Option<String>);

impl Words {
    pub fn read(self) -> PyResult<Policy> {
        let wrong = |what: String| raise("PolicyError", what);
        let Words(usual, trusted, rules) = self;
        let usual = [Usual::Links, Usual::Marked, Usual::All].into_iter().find(|it| it.name() == usual);
        let usual = usual.ok_or_else(|| wrong("a policy is 'links', 'marked', 'all' or px.Rules(path)".to_owned()))?;
        let trusted: Result<_, _> = trusted.iter().map(|text| parse_network(text)).collect();
        let rules = rules.map(|text| parse(&text)).transpose().map_err(|error| wrong(error.to_string()))?;
        Ok(Policy { usual, trusted: trusted.map_err(wrong)?, rules: rules.unwrap_or_default() })
    }
}

type Row = (String, String, &'static str, Option<&'static str>, String, bool);

/// Why the policy may give a link a weaker level than the default; empty if it does not.
#[pyfunction]
pub fn weaker(policy: Words) -> PyResult<Vec<String>> {
    Ok(policy.read()?.weaker())
}

/// For each pair of machines, including the manager's, and each mark: `(one, other, mark, level, why, weaker)`. The level is
/// None if the two cannot communicate. Each `address` is resolved. `takes`: the lowest level that executors accept.
#[pyfunction]
pub fn explain(py: Python<'_>, policy: Words, addresses: Vec<String>, takes: &str) -> PyResult<Vec<Row>> {
    let policy = policy.read()?;
    let addresses: Result<Vec<Address>, _> = addresses.iter().map(|text| text.parse()).collect();
    let addresses = addresses.map_err(|error| raise("RecruitError", error))?;
    let takes = LevelSet::from(takes.parse().map_err(|error: String| raise("PolicyError", error))?);
    let pairs = py.detach(|| explain_pairs(&policy, &addresses, takes));
    let row = |Pair { one, other, mark, verdict }: Pair| match verdict {
        Ok((level, why, weaker)) => (one, other, mark.name(), Some(level.name()), why, weaker),
        Err(why) => (one, other, mark.name(), None, why, false),
    };
    Ok(pairs.into_iter().map(row).collect())
}
