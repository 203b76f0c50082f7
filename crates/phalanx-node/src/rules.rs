//! The user's rules file: which level a link gets where the defaults do not fit.

use crate::tables::{self, TablesError};
use ipnet::IpNet;
use phalanx_core::level::{Bound, Level, Mark, Network, Rule};
use phalanx_net::identity::Role;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    network: Option<String>,
    role: Option<String>,
    mark: Option<Mark>,
    required: Option<Level>,
    preferred: Option<Level>,
    never: Option<Level>,
}

/// Reads TOML: tables `[[rule]]` with `network`, `role` and `mark`, each optional, and one of `required`, `preferred` and
/// `never`.
pub fn parse(text: &str) -> Result<Vec<Rule>, TablesError> {
    let file: File = tables::parse(text)?;
    tables::each("rule", file.rule, Line::rule)
}

/// Parses a network as users write it: `10.1.0.0/16`, or a single address.
pub fn parse_network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse().map(|address: std::net::IpAddr| IpNet::from(address));
    text.parse().or_else(|_| address()).map_err(|_| format!("{text:?} is no network: write one like 10.1.0.0/16"))
}

impl Line {
    fn rule(self) -> Result<Rule, String> {
        let network = match self.network.as_deref() {
            None | Some("any") => Network::Any,
            Some("same machine") => Network::SameMachine,
            Some("trusted") => Network::Trusted,
            Some(range) => Network::Range(parse_network(range)?),
        };
        self.role.as_deref().map_or(Ok(()), |role| role.parse::<Role>().map(drop))?;
        let bound = match (self.required, self.preferred, self.never) {
            (Some(level), None, None) => Bound::Required(level),
            (None, Some(level), None) => Bound::Preferred(level),
            (None, None, Some(level)) => Bound::Never(level),
            _ => return Err("write one of: required, preferred, never".to_owned()),
        };
        Ok(Rule { network, role: self.role, mark: self.mark, bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_in_order() {
        let text =
            "[[rule]]\nnetwork = \"10.1.0.0/16\"\nmark = \"data\"\nrequired = \"private\"\n[[rule]]\nnever = \"clear\"";
        let rules = parse(text).expect("is a table of rules");
        assert_eq!(rules[0].bound, Bound::Required(Level::Private));
        assert_eq!(rules[0].mark, Some(Mark::Data));
        assert_eq!(rules[0].network, Network::Range("10.1.0.0/16".parse().expect("is a network")));
        assert_eq!(rules[1], Rule { network: Network::Any, role: None, mark: None, bound: Bound::Never(Level::Clear) });
    }

    #[test]
    fn what_is_wrong_is_named_with_its_rule() {
        for (text, what) in [
            ("[[rule]]\nnetwork = \"10.1\"\nnever = \"clear\"", "rule 1: \"10.1\" is no network"),
            ("[[rule]]\nnever = \"clear\"\n[[rule]]\nmark = \"data\"", "rule 2: write one of"),
            ("[[rule]]\nnever = \"clear\"\nrequired = \"safe\"", "write one of"),
            ("[[rule]]\nrole = \"boss\"\nnever = \"clear\"", "\"boss\" is no role"),
            ("[[rule]]\nnever = \"none\"", "unknown variant `none`"),
            ("[[rule]]\nnetworks = \"any\"\nnever = \"clear\"", "unknown field `networks`"),
            ("rule = 3", "invalid type"),
        ] {
            let error = parse(text).expect_err("is wrong").to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
