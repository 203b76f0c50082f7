//! How much an executor keeps apart what it runs for its users, as it tells them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How much is kept apart. Each kind includes those before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Folders, environments and core dumps.
    #[default]
    None,
    /// The kernel also refuses system calls that no task needs, and users' processes gain no rights.
    Limits,
    /// Files outside of the grants cannot be opened, and other programs' processes not traced.
    Files,
    /// Other programs' processes cannot be signalled, and no unix socket outside of the program's folder reached.
    Full,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::None, Kind::Limits, Kind::Files, Kind::Full];

    /// The word that users write and read.
    pub fn name(self) -> &'static str {
        match self {
            Kind::None => "none",
            Kind::Limits => "limits",
            Kind::Files => "files",
            Kind::Full => "full",
        }
    }

    /// Whether users of one executor are kept apart from each other, if they have the same account.
    pub fn parts_users(self) -> bool {
        self >= Kind::Files
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(word: &str) -> Result<Kind, String> {
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == word);
        found.ok_or_else(|| format!("{word:?} is no cage: write 'none', 'limits', 'files' or 'full'"))
    }
}

/// An executor's statement about its cage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How much the cage keeps apart.
    pub kind: Kind,
    /// Whether the processes of each user run under an account of their own.
    pub accounts: bool,
    /// The gaps: each names what the cage does not keep apart, and the reason.
    pub lacks: Vec<String>,
}

impl Report {
    /// Whether users of the executor are kept apart from each other.
    pub fn parts_users(&self) -> bool {
        self.accounts || self.kind.parts_users()
    }
}

/// The fact by which a member tells its cage, as [`Report::fact`] words it.
pub const CAGE: &str = "cage";
/// The fact that says what the cage lacks.
pub const GAPS: &str = "cage lacks";

impl Report {
    /// The cage in a few words, as a fact of a member.
    pub fn fact(&self) -> String {
        format!("{}{}", self.kind.name(), if self.accounts { WITH_ACCOUNTS } else { "" })
    }
}

const WITH_ACCOUNTS: &str = " with accounts";

/// How much a member keeps its users apart, as it has told. Accounts keep files apart as well, beside a filter of system calls. A fact that is missing or damaged is no cage.
pub fn told(fact: Option<&String>) -> Kind {
    let fact = fact.map_or("", String::as_str);
    let (word, accounts) = fact.strip_suffix(WITH_ACCOUNTS).map_or((fact, false), |word| (word, true));
    match word.parse().unwrap_or_default() {
        Kind::Limits if accounts => Kind::Files,
        kind => kind,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fact())?;
        match (self.kind.parts_users(), &self.lacks[..]) {
            (_, []) => Ok(()),
            (false, lacks) => write!(f, ": {}", lacks.join(", ")),
            (true, lacks) => write!(f, ", but {}", lacks.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_ordered_and_have_words() {
        assert!(Kind::ALL.is_sorted());
        assert!(Kind::ALL.into_iter().all(|kind| kind.name().parse() == Ok(kind)));
        assert!("much".parse::<Kind>().is_err_and(|error| error.contains("'limits'")));
        assert_eq!(Kind::ALL.map(Kind::parts_users), [false, false, true, true]);
    }

    #[test]
    fn a_fact_tells_the_kind_and_a_damaged_one_tells_none() {
        for (kind, accounts, expected) in [
            (Kind::None, true, Kind::None),
            (Kind::Limits, false, Kind::Limits),
            (Kind::Limits, true, Kind::Files),
            (Kind::Files, true, Kind::Files),
            (Kind::Full, false, Kind::Full),
        ] {
            let report = Report { kind, accounts, lacks: Vec::new() };
            assert_eq!(told(Some(&report.fact())), expected);
        }
        for wrong in ["", "Full", "full ", "files with accounts with accounts", " with accounts", "\u{1b}[2J"] {
            assert_eq!(told(Some(&wrong.to_owned())), Kind::None, "{wrong:?}");
        }
        assert_eq!(told(None), Kind::None);
    }

    #[test]
    fn a_report_says_what_is_lacking() {
        let says = |kind, lacks: &[&str]| {
            let lacks = lacks.iter().map(|&it| it.to_owned()).collect();
            Report { kind, accounts: false, lacks }
        };
        assert_eq!(says(Kind::Full, &[]).to_string(), "full");
        assert_eq!(says(Kind::Files, &["a", "b"]).to_string(), "files, but a, b");
        assert_eq!(says(Kind::None, &["--cage none"]).to_string(), "none: --cage none");
        let with = |report: Report| Report { accounts: true, ..report };
        assert_eq!(with(says(Kind::None, &["a"])).to_string(), "none with accounts: a");
        assert!(with(says(Kind::None, &[])).parts_users() && !says(Kind::Limits, &[]).parts_users());
    }
}
