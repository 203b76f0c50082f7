//! The lines of the file.

use super::member::KnownMember;
use std::collections::HashSet;

/// A line that is none.
#[derive(Debug, PartialEq, Eq)]
pub struct Damage {
    /// The number of the line.
    pub line: usize,
    /// What is wrong.
    pub what: &'static str,
}

/// The members that the lines name, each with the number of its line. Empty lines and comments name none.
///
/// # Errors
/// A line is not UTF-8 or names no member, or an earlier line has its address already.
pub fn parse(bytes: &[u8]) -> Result<Vec<(usize, KnownMember)>, Damage> {
    let (mut lines, mut seen) = (Vec::new(), HashSet::new());
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let damaged = |what| Damage { line: number, what };
        let line = std::str::from_utf8(line).map_err(|_| damaged("this is not UTF-8"))?.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let member = line.parse::<KnownMember>().map_err(damaged)?;
        if !seen.insert((member.grid.clone(), member.address.clone())) {
            return Err(damaged("the address is on an earlier line already"));
        }
        lines.push((number, member));
    }
    Ok(lines)
}
