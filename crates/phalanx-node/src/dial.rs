//! What the way out of a member needs beside [`phalanx_net::dial`]: the user's policy, and the words for people.
//!
//! Each service calls with its own preamble and rights. What all of them share stands here: how long a call may take,
//! the control link to an executor, the level that the policy gives, and the texts about servers that cannot be reached
//! or that run another version.

use crate::control;
use phalanx_core::level::{Bound, Level, LevelSet, Mark, Network, Policy, Rule};
use phalanx_core::text::escaped;
use phalanx_core::wire::{Neighbour, VERSION};
use phalanx_net::address::Address;
use phalanx_net::dial::{Dialled, Expected, Introduced, called, dial};
use phalanx_net::identity::Role;
use phalanx_net::preamble::Preamble;
use phalanx_net::tls::is_no_tls;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::time::Duration;

/// Timeout for reaching a machine, and for each step of a handshake with it.
pub(crate) const DIAL_PATIENCE: Duration = Duration::from_secs(5);
/// Longest text of a peer that is shown, in characters.
const MOST_SHOWN: usize = 300;

/// Calls an executor for a control link.
pub(crate) fn call(address: &Address, expected: Expected<'_>, preamble: Preamble) -> io::Result<Introduced> {
    introduce(dial(&address.into(), DIAL_PATIENCE)?, expected, preamble)
}

/// Introduces this end to an executor, on a connection that will be a control link.
pub(crate) fn introduce(dialled: Dialled, expected: Expected<'_>, preamble: Preamble) -> io::Result<Introduced> {
    dialled.introduce(preamble, expected, control::LEVELS, DIAL_PATIENCE)
}

/// The level of a link to an executor at `address`, which takes `theirs`: as the policy says or, where a level was asked
/// for, that one. Also returns what decided it, for people.
pub(crate) fn agree(
    policy: &Policy,
    asked: Option<Level>,
    address: IpAddr,
    theirs: LevelSet,
) -> Result<(Level, String), String> {
    let mut policy = policy.clone();
    if let Some(level) = asked {
        policy.rules.insert(0, Rule { network: Network::Any, role: None, mark: None, bound: Bound::Preferred(level) });
    }
    let place = policy.place(Some(address), Role::Executor.name());
    let verdict = policy.decide(&place, Mark::None, theirs).map_err(|conflict| conflict.to_string())?;
    match asked {
        Some(asked) if asked == verdict.level => Ok((asked, "as asked".to_owned())),
        Some(asked) => {
            let both = format!("{asked} streams were asked for, but {}", verdict.why);
            Err(format!("{both} (the other end takes {theirs})"))
        }
        None => Ok((verdict.level, verdict.why)),
    }
}

/// Checks that the server at `address`, which runs the version `theirs` of phalanx, works together with this program.
///
/// # Errors
/// The message for users about another version, which is the same for every service. It says which end is to be
/// upgraded.
pub fn check_version(address: &impl Display, theirs: &str) -> Result<(), String> {
    let mend = match Neighbour::of(theirs, VERSION) {
        Neighbour::Fits => return Ok(()),
        Neighbour::Older => format!("upgrade phalanx at {address}"),
        Neighbour::Newer => "upgrade phalanx here".to_owned(),
        Neighbour::Unknown => "install the same version at both ends".to_owned(),
    };
    let theirs = printable(theirs);
    Err(format!("{address} runs phalanx {theirs}, this program phalanx {VERSION}; {mend}"))
}

/// The message for users about an executor that cannot be reached.
pub(crate) fn unreachable(address: &Address, error: &io::Error) -> String {
    let (called, why) = (called(address), why_unreachable("executor", "phalanx executor", error));
    // A hub's answer about a member begins with the member's name.
    if why.starts_with(&format!("{called} ")) { why } else { format!("{called}: {why}") }
}

/// The text for users about why a server, which `command` starts, cannot be reached.
pub(crate) fn why_unreachable(server: &str, command: &str, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => format!("no {server} listens there (start one with: {command})"),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "no answer in time".to_owned(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            format!("what listens there hung up: no {server}, or one that refused (its own output says why) ({error})")
        }
        _ if is_no_tls(error) => {
            format!("what listens there is no {server}: it does not speak as one does ({error})")
        }
        _ => error.to_string(),
    }
}

/// Makes a peer's text safe for a terminal: escapes what would steer it, and shortens the text.
pub(crate) fn printable(words: &str) -> String {
    escaped(words).chars().take(MOST_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_that_is_to_be_upgraded_is_named() {
        let patch = VERSION.rsplit_once('.').map(|(minor, _)| format!("{minor}.4711"));
        assert_eq!(check_version(&"lab:7400", &patch.expect("a version has dots")), Ok(()));
        let mend = |theirs| check_version(&"lab:7400", theirs).expect_err("another version");
        assert!(mend("0.0.9").ends_with("; upgrade phalanx at lab:7400"), "{}", mend("0.0.9"));
        assert!(mend("99.0.0").ends_with("; upgrade phalanx here"), "{}", mend("99.0.0"));
    }

    #[test]
    fn another_version_is_named_with_its_control_characters_escaped() {
        assert_eq!(check_version(&"lab:7400", VERSION), Ok(()));
        let error = check_version(&"lab:7400", "9.9\x1b[31m").unwrap_err();
        assert_eq!(
            error,
            format!(
                "lab:7400 runs phalanx 9.9\\x1b[31m, this program phalanx {VERSION}; install the same version at both ends"
            )
        );
    }
}
