//! Access rules: who may do what in which space. The server's owner writes them in a file.

use crate::tables::{self, TablesError};
use phalanx_core::space::Value;
use phalanx_net::identity::Role;
use serde::Deserialize;
use std::collections::HashMap;

/// What one can do with tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Put tuples in, and renew the leases of the user's own tuples.
    Out,
    /// Look at tuples: read, count, and watch for new ones.
    Rd,
    /// Take tuples out.
    In,
    /// Create the space if it does not exist yet.
    Create,
}

impl Verb {
    /// The word that users write and read for this verb.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Out => "out",
            Verb::Rd => "rd",
            Verb::In => "in",
            Verb::Create => "create",
        }
    }
}

/// A peer that a server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// A process of this machine that runs as the server's own user. Nothing could be kept from it.
    Owner,
    /// A member of the grid, by the role and name in its certificate.
    Member {
        /// The role in its certificate.
        role: Role,
        /// The name in its certificate.
        name: String,
    },
}

impl Who {
    /// A member in the role of a user.
    pub fn user(name: impl Into<String>) -> Who {
        Who::Member { role: Role::User, name: name.into() }
    }

    /// A name that is unique among all members. A user is known by the name alone, a member in another role by role and name,
    /// because an executor may have the same name as a user. `None`: a process of the server's user.
    pub fn whole_name(&self) -> Option<String> {
        match self {
            Who::Owner => None,
            Who::Member { role: Role::User, name } => Some(name.to_lowercase()),
            Who::Member { role, name } => Some(format!("{} {}", role.name(), name.to_lowercase())),
        }
    }
}

/// The rules of a file, and the groups that they name. Whatever no rule allows is forbidden.
#[derive(Debug, Clone, Default)]
pub struct Access {
    rules: Vec<Rule>,
    groups: Groups,
}

/// The users of each group.
type Groups = HashMap<String, Vec<String>>;

#[derive(Debug, Clone)]
struct Rule {
    /// A name, or a prefix of names followed by `*`; `None`: every space.
    space: Option<String>,
    whom: Whom,
    may: Vec<Verb>,
    /// Restricts the rule to tuples with this first field (encoded), and to templates that ask for it.
    first: Option<Vec<u8>>,
}

/// The peers that a rule applies to.
#[derive(Debug, Clone)]
enum Whom {
    EveryUser,
    Users(Vec<String>),
    Roles(Vec<Role>),
}

/// What one peer may do in one space.
#[derive(Debug, Clone)]
pub enum Rights {
    /// Every verb, for all tuples.
    Everything,
    /// These verbs, each for tuples with the given first field if there is one.
    Some(Vec<(Verb, Option<Vec<u8>>)>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    group: Vec<Group>,
    #[serde(default)]
    rule: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    members: Vec<String>,
}

/// One name or a list of names.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a name or a list of names")]
enum Names {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    space: Option<String>,
    user: Option<Names>,
    role: Option<Names>,
    group: Option<Names>,
    may: Vec<Verb>,
    first: Option<toml::Value>,
}

impl Access {
    /// Reads TOML: tables `[[group]]` with `name` and `members`, names of users; and tables `[[rule]]` with `space`,
    /// `first`, and one of `user`, `role` and `group`, each optional, and `may`, a list of `out`, `rd`, `in` and `create`.
    pub fn parse(text: &str) -> Result<Access, TablesError> {
        let file: File = tables::parse(text)?;
        let named = tables::each("group", file.group, Group::read)?;
        let mut groups = Groups::new();
        for (number, (name, members)) in (1..).zip(named) {
            if groups.contains_key(&name) {
                let what = format!("another group is named {name}");
                return Err(TablesError::Table { kind: "group", number, what });
            }
            groups.insert(name, members);
        }
        let rules = tables::each("rule", file.rule, |line| line.rule(&groups))?;
        Ok(Access { rules, groups })
    }

    /// Whether a group of this name is listed.
    pub fn has_group(&self, name: &str) -> bool {
        self.groups.contains_key(name)
    }

    /// Whether `who` is a user listed in the group.
    pub fn has_member(&self, group: &str, who: &Who) -> bool {
        let Who::Member { role: Role::User, name } = who else { return false };
        self.groups.get(group).is_some_and(|members| contains(members, name))
    }

    /// Whether there are rules for members of the grid in this role. For users there always are.
    pub fn is_about(&self, role: Role) -> bool {
        let names = |rule: &Rule| matches!(&rule.whom, Whom::Roles(roles) if roles.contains(&role));
        role == Role::User || self.rules.iter().any(names)
    }

    /// What `who` may do in the space of this name.
    pub fn rights(&self, who: &Who, space: &str) -> Rights {
        let Who::Member { role, name } = who else { return Rights::Everything };
        let about = self.rules.iter().filter(|rule| rule.whom.is(*role, name) && rule.is_about(space));
        Rights::Some(about.flat_map(|rule| rule.may.iter().map(|verb| (*verb, rule.first.clone()))).collect())
    }
}

impl Rule {
    fn is_about(&self, space: &str) -> bool {
        match self.space.as_deref() {
            None => true,
            Some(name) => match name.strip_suffix('*') {
                Some(beginning) => space.starts_with(beginning),
                None => space == name,
            },
        }
    }
}

impl Whom {
    fn is(&self, role: Role, name: &str) -> bool {
        match self {
            Whom::EveryUser => role == Role::User,
            Whom::Users(users) => role == Role::User && contains(users, name),
            Whom::Roles(roles) => roles.contains(&role),
        }
    }
}

/// Compares names of certificates. Case does not matter, because they are host names.
fn contains(names: &[String], name: &str) -> bool {
    names.iter().any(|one| one.eq_ignore_ascii_case(name))
}

impl Rights {
    /// Whether `verb` is allowed on tuples whose first field is `first` (encoded), or with templates that ask for it. `None`:
    /// there is no first field, or it may be anything.
    pub fn allow(&self, verb: Verb, first: Option<&[u8]>) -> bool {
        match self {
            Rights::Everything => true,
            Rights::Some(some) => some.iter().any(|(its, only)| {
                *its == verb && only.as_deref().is_none_or(|only| Some(only) == first || verb == Verb::Create)
            }),
        }
    }

    /// Whether `verb` is allowed on at least some tuples.
    pub fn allow_some(&self, verb: Verb) -> bool {
        match self {
            Rights::Everything => true,
            Rights::Some(some) => some.iter().any(|(its, _)| *its == verb),
        }
    }

    /// Whether any verb is allowed.
    pub fn are_any(&self) -> bool {
        !matches!(self, Rights::Some(some) if some.is_empty())
    }

    /// Whether everything is allowed, so that first fields need no check.
    pub fn are_everything(&self) -> bool {
        matches!(self, Rights::Everything)
    }
}

impl Group {
    fn read(self) -> Result<(String, Vec<String>), String> {
        match self.name.is_empty() {
            true => Err("a group needs a name".to_owned()),
            false => Ok((self.name, self.members)),
        }
    }
}

impl Names {
    fn read(self, what: &str) -> Result<Vec<String>, String> {
        match self {
            Names::One(name) => Ok(vec![name]),
            Names::Several(names) if names.is_empty() => Err(format!("{what} names nobody")),
            Names::Several(names) => Ok(names),
        }
    }
}

impl Line {
    fn rule(self, groups: &Groups) -> Result<Rule, String> {
        if self.may.is_empty() {
            return Err("write what they may: out, rd, in, create".to_owned());
        }
        let whom = match (self.user, self.role, self.group) {
            (None, None, None) => Whom::EveryUser,
            (Some(users), None, None) => Whom::Users(users.read("user")?),
            (None, Some(roles), None) => {
                let roles: Result<_, _> = roles.read("role")?.iter().map(|role| role.parse()).collect();
                Whom::Roles(roles?)
            }
            (None, None, Some(names)) => Whom::Users(members_of(&names.read("group")?, groups)?),
            _ => return Err("write one of: user, role, group".to_owned()),
        };
        let first = self.first.map(first_field).transpose()?;
        Ok(Rule { space: self.space, whom, may: self.may, first })
    }
}

fn members_of(names: &[String], groups: &Groups) -> Result<Vec<String>, String> {
    let members = |name: &String| groups.get(name).cloned().ok_or_else(|| format!("no [[group]] is named {name}"));
    Ok(names.iter().map(members).collect::<Result<Vec<_>, _>>()?.concat())
}

fn first_field(value: toml::Value) -> Result<Vec<u8>, String> {
    match value {
        toml::Value::String(text) => Ok(Value::Str(text).to_bytes()),
        toml::Value::Integer(number) => Ok(Value::Int(number).to_bytes()),
        _ => Err("first is a text or an integer".to_owned()),
    }
}
