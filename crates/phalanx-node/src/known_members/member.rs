//! A known member, and the line that names it.

use phalanx_net::address::Address;
use std::fmt;
use std::str::FromStr;

/// Longest address, in bytes: a path of Linux and its prefix.
const MOST_ADDRESS: usize = 4101;
/// Longest name of a member.
const MOST_NAME: usize = 63;
/// Hexadecimal digits of a fingerprint: 128 bits, so that nobody can make an authority with the same one.
pub(super) const DIGITS: usize = 32;

/// A member that answered at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownMember {
    /// The name in its certificate.
    pub name: String,
    /// The fingerprint of the authority that issued the certificate.
    pub grid: String,
    /// `host:port` or `unix:path`.
    pub address: String,
}

impl FromStr for KnownMember {
    type Err = &'static str;

    fn from_str(line: &str) -> Result<KnownMember, &'static str> {
        let mut words = line.splitn(3, [' ', '\t']);
        let mut next = || words.next().map(str::trim).filter(|word| !word.is_empty());
        let (Some(name), Some(grid), Some(address)) = (next(), next(), next()) else {
            return Err("this is not NAME GRID ADDRESS");
        };
        if name.len() > MOST_NAME || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err("the first word is no name of a member");
        }
        if grid.len() != DIGITS || !grid.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err("the second word is no fingerprint of a grid");
        }
        let address = normal(address).ok_or("the rest is no address")?;
        Ok(KnownMember { name: name.to_ascii_lowercase(), grid: grid.to_ascii_lowercase(), address })
    }
}

impl fmt::Display for KnownMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KnownMember { name, grid, address } = self;
        write!(f, "{name} {grid} {address}")
    }
}

/// An address as it is compared: names of hosts are the same in capitals.
pub fn normal(address: &str) -> Option<String> {
    if address.len() > MOST_ADDRESS || address.chars().any(char::is_control) {
        return None;
    }
    match address.strip_prefix("unix:") {
        Some(path) => Some(address.to_owned()).filter(|_| !path.is_empty()),
        None => address.parse().ok().map(|address: Address| address.to_string().to_lowercase()),
    }
}
