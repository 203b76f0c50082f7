//! Who may do what in which space, as a file of rules that the server's owner writes.

use phalanx_core::space::Value;
use serde::Deserialize;
use thiserror::Error;

/// Rules beyond this are a mistake; whoever opens a space looks at all of them.
const MOST_RULES: usize = 1000;

/// What is wrong with a file of rules.
#[derive(Debug, Error)]
pub enum AccessError {
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    #[error("rule {number}: {what}")]
    Rule { number: usize, what: String },
    #[error("more than {MOST_RULES} rules")]
    TooMany,
}

/// What one can do with tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Put tuples in, and renew the leases of one's own.
    Out,
    /// Look at tuples: read, count, be told of new ones.
    Rd,
    /// Take tuples out.
    In,
    /// Make the space, where it is not there yet.
    Create,
}

impl Verb {
    /// The word users read and type.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Out => "out",
            Verb::Rd => "rd",
            Verb::In => "in",
            Verb::Create => "create",
        }
    }
}

/// Whom a server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// A process of this machine that runs as the server's user does. Nothing could keep anything from it.
    Owner,
    /// A member of the grid in the role of a user, by its name.
    User(String),
}

/// A file of rules. Nothing is allowed that no rule allows.
#[derive(Debug, Clone, Default)]
pub struct Access {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    /// A name, or the beginning of names and `*`; none: every space.
    space: Option<String>,
    /// Empty: every user.
    users: Vec<String>,
    may: Vec<Verb>,
    /// Only tuples with this first field, and templates that ask for it; encoded.
    first: Option<Vec<u8>>,
}

/// What one peer may do in one space.
#[derive(Debug, Clone)]
pub enum Rights {
    Everything,
    /// Each of these verbs, on tuples with this first field where one is named.
    Some(Vec<(Verb, Option<Vec<u8>>)>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    space: Option<String>,
    user: Option<String>,
    users: Option<Vec<String>>,
    may: Vec<Verb>,
    first: Option<toml::Value>,
}

impl Access {
    /// Reads TOML: tables `[[rule]]` with `space`, `user` or `users`, and `first`, each optional, and `may`, a list of
    /// `out`, `rd`, `in` and `create`.
    pub fn parse(text: &str) -> Result<Access, AccessError> {
        let file: File = toml::from_str(text)?;
        if file.rule.len() > MOST_RULES {
            return Err(AccessError::TooMany);
        }
        let rule = |(line, number): (Line, usize)| line.rule().map_err(|what| AccessError::Rule { number, what });
        Ok(Access { rules: file.rule.into_iter().zip(1..).map(rule).collect::<Result<_, _>>()? })
    }

    /// What `who` may do in the space of this name.
    pub fn rights(&self, who: &Who, space: &str) -> Rights {
        let Who::User(user) = who else { return Rights::Everything };
        let about = self.rules.iter().filter(|rule| rule.is_about(user, space));
        Rights::Some(about.flat_map(|rule| rule.may.iter().map(|verb| (*verb, rule.first.clone()))).collect())
    }
}

impl Rule {
    fn is_about(&self, user: &str, space: &str) -> bool {
        let its_space = match self.space.as_deref() {
            None => true,
            Some(name) => match name.strip_suffix('*') {
                Some(beginning) => space.starts_with(beginning),
                None => space == name,
            },
        };
        its_space && (self.users.is_empty() || self.users.iter().any(|name| name.eq_ignore_ascii_case(user)))
    }
}

impl Rights {
    /// Whether this is allowed with a tuple whose first field is `first` (encoded), or a template that asks for it; none:
    /// there is no first field, or it may be anything.
    pub fn allow(&self, verb: Verb, first: Option<&[u8]>) -> bool {
        match self {
            Rights::Everything => true,
            Rights::Some(some) => some.iter().any(|(its, only)| {
                *its == verb && only.as_deref().is_none_or(|only| Some(only) == first || verb == Verb::Create)
            }),
        }
    }

    /// Whether this is allowed with some tuples.
    pub fn allow_some(&self, verb: Verb) -> bool {
        match self {
            Rights::Everything => true,
            Rights::Some(some) => some.iter().any(|(its, _)| *its == verb),
        }
    }

    /// Whether anything is.
    pub fn are_any(&self) -> bool {
        !matches!(self, Rights::Some(some) if some.is_empty())
    }

    /// Whether it depends on first fields.
    pub fn are_everything(&self) -> bool {
        matches!(self, Rights::Everything)
    }
}

impl Line {
    fn rule(self) -> Result<Rule, String> {
        if self.user.is_some() && self.users.is_some() {
            return Err("write user or users, not both".to_owned());
        }
        if self.users.as_ref().is_some_and(Vec::is_empty) {
            return Err("users names nobody".to_owned());
        }
        if self.may.is_empty() {
            return Err("write what they may: out, rd, in, create".to_owned());
        }
        let users = self.users.unwrap_or_else(|| self.user.into_iter().collect());
        let first = self.first.map(first_field).transpose()?;
        Ok(Rule { space: self.space, users, may: self.may, first })
    }
}

fn first_field(value: toml::Value) -> Result<Vec<u8>, String> {
    match value {
        toml::Value::String(text) => Ok(Value::Str(text).to_bytes()),
        toml::Value::Integer(number) => Ok(Value::Int(number).to_bytes()),
        _ => Err("first is a text or an integer".to_owned()),
    }
}
