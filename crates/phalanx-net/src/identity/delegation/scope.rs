//! What a process may use in its user's name: services, each everywhere or only what is named.

use super::super::IdentityError;
use super::wrong;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Most things that a delegation names for a service.
const MOST_NAMED: usize = 64;
/// Longest name of a thing, in bytes.
const LONGEST_NAME: usize = 100;
/// Stands for everything.
const ALL: &str = "*";

/// A service that can be used in a user's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Tuple spaces.
    Spaces,
    /// The files that executors export: copies, and questions about them.
    Copies,
}

impl Service {
    /// Every service that can be delegated.
    const EVERY: [Service; 2] = [Service::Spaces, Service::Copies];

    /// The word that stands for the service in a delegation.
    pub fn name(self) -> &'static str {
        match self {
            Service::Spaces => "spaces",
            Service::Copies => "copies",
        }
    }

    /// The service at the member with this name, for people.
    pub fn at(self, member: &str) -> String {
        match self {
            Service::Spaces => format!("the spaces of {member}"),
            Service::Copies => format!("copies at {member}"),
        }
    }
}

impl FromStr for Service {
    type Err = String;

    fn from_str(word: &str) -> Result<Service, String> {
        let known = Service::EVERY.into_iter().find(|service| service.name() == word);
        known.ok_or_else(|| format!("{word:?} is no service that can be delegated: write spaces or copies"))
    }
}

/// What of a service may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// The things with these names, each with the name in the certificate of the member that has it: `ws7/jobs`.
    Named(BTreeSet<String>),
    /// Everything at every member of the grid.
    All,
}

/// The services that a process may use in its user's name. By default none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope(BTreeMap<Service, Extent>);

impl Scope {
    /// Whether it allows nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Allows more of a service. Returns whether that is new.
    ///
    /// # Errors
    /// A name is none, or there are too many of them; or the service is one that is delegated as a whole.
    pub fn add(&mut self, service: Service, extent: Extent) -> Result<bool, IdentityError> {
        if service == Service::Copies && extent != Extent::All {
            return Err(wrong("copies are delegated as a whole"));
        }
        let sum = match (self.0.get(&service), extent) {
            (Some(Extent::All), _) | (_, Extent::All) => Extent::All,
            (Some(Extent::Named(known)), Extent::Named(more)) => Extent::Named(known | &normal(more)?),
            (None, Extent::Named(more)) => Extent::Named(normal(more)?),
        };
        match &sum {
            Extent::Named(names) if names.is_empty() => return Ok(false),
            Extent::Named(names) if names.len() > MOST_NAMED => return Err(wrong("it would name more than 64 things")),
            _ => {}
        }
        let is_new = self.0.get(&service) != Some(&sum);
        self.0.insert(service, sum);
        Ok(is_new)
    }

    /// Whether it allows anything of the service.
    pub fn knows(&self, service: Service) -> bool {
        self.0.contains_key(&service)
    }

    /// What it allows of the service at the member with this name: the names of things. `None`: everything.
    pub fn at(&self, service: Service, member: &str) -> Option<BTreeSet<String>> {
        match self.0.get(&service) {
            Some(Extent::All) => None,
            Some(Extent::Named(names)) => {
                let parts = names.iter().filter_map(|name| name.split_once('/'));
                Some(
                    parts
                        .filter(|(at, _)| at.eq_ignore_ascii_case(member))
                        .map(|(_, thing)| thing.to_owned())
                        .collect(),
                )
            }
            None => Some(BTreeSet::new()),
        }
    }

    /// Whether it allows anything of the service at the member with this name.
    pub fn allows(&self, service: Service, member: &str) -> bool {
        self.at(service, member).is_none_or(|things| !things.is_empty())
    }

    /// Reads a line of the text of a scope. `None`: it is none.
    pub(super) fn read(&mut self, line: &str) -> Option<()> {
        let (service, extent) = line.split_once(" at ")?;
        let extent = match extent {
            ALL => Extent::All,
            names => Extent::Named(names.split(' ').map(str::to_owned).collect()),
        };
        self.add(service.parse().ok()?, extent).ok().filter(|is_new| *is_new).map(drop)
    }
}

/// A line for each service.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (service, extent) in &self.0 {
            let names = match extent {
                Extent::All => ALL.to_owned(),
                Extent::Named(names) => names.iter().map(String::as_str).collect::<Vec<_>>().join(" "),
            };
            writeln!(f, "{} at {names}", service.name())?;
        }
        Ok(())
    }
}

/// Checks the names, and writes those of members in lower case, as certificates have them.
fn normal(names: BTreeSet<String>) -> Result<BTreeSet<String>, IdentityError> {
    let is_member = |name: &str| {
        (1..=63).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_thing = |name: &str| {
        let is_part = |c: char| c.is_alphanumeric() || "-_.:+@".contains(c);
        (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_part)
    };
    let checked = |name: &String| match name.split_once('/') {
        Some((member, thing)) if is_member(member) && is_thing(thing) => {
            Ok(format!("{}/{thing}", member.to_ascii_lowercase()))
        }
        _ => Err(IdentityError::Name(name.clone())),
    };
    names.iter().map(checked).collect()
}
