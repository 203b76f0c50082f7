//! The address of a space: `HOST:PORT/NAME`, or `unix:PATH/NAME`.

use phalanx_net::address::Address;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// Longest name of a space, in bytes.
const MOST_NAME: usize = 100;
const UNIX: &str = "unix:";

/// Where a server of spaces listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A port of a machine. If that is this machine, the server's unix path is tried first.
    Network(Address),
    /// A unix path on this machine.
    Path(PathBuf),
}

/// The address of a space at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceAddress {
    /// The server.
    pub place: Place,
    /// The name of the space at the server.
    pub name: String,
}

/// Why a text is no address of a space.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SpaceAddressError {
    /// The text has another form.
    #[error(
        "{0:?} is no address of a space; write HOST:PORT/NAME, like lab:7400/passwords, unix:PATH/NAME, or in a grid that you have joined GRID/NAME or GRID/MACHINE/NAME"
    )]
    Form(String),
    /// The part before the name is no address of a server.
    #[error("{0:?} is no address of a server; write HOST:PORT, like lab:7400, or unix:PATH")]
    Server(String),
    /// A space cannot have this name.
    #[error("{0:?} is no name of a space; use letters, digits and -_.:+@ , at most {MOST_NAME}")]
    Name(String),
}

/// Checks the name of a space, because a peer may have sent it.
pub fn check_name(name: &str) -> Result<(), SpaceAddressError> {
    let plain = |c: char| c.is_alphanumeric() || "-_.:+@".contains(c);
    match !name.is_empty() && name.len() <= MOST_NAME && name.chars().all(plain) {
        true => Ok(()),
        false => Err(SpaceAddressError::Name(name.chars().take(MOST_NAME).collect())),
    }
}

impl FromStr for Place {
    type Err = SpaceAddressError;

    fn from_str(text: &str) -> Result<Place, SpaceAddressError> {
        let error = |_| SpaceAddressError::Server(text.to_owned());
        match text.strip_prefix(UNIX) {
            Some("") => Err(error(())),
            Some(path) => Ok(Place::Path(path.into())),
            None => text.parse().map(Place::Network).map_err(|_| error(())),
        }
    }
}

impl FromStr for SpaceAddress {
    type Err = SpaceAddressError;

    fn from_str(text: &str) -> Result<SpaceAddress, SpaceAddressError> {
        let error = || SpaceAddressError::Form(text.to_owned());
        let (place, name) = text.rsplit_once('/').ok_or_else(error)?;
        let place = place.parse().map_err(|_| error())?;
        check_name(name)?;
        Ok(SpaceAddress { place, name: name.to_owned() })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Network(address) => address.fmt(f),
            Place::Path(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl fmt::Display for SpaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.place, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_they_are_written() {
        for text in ["lab:7401/passwords", "[::1]:7400/a.b-c", "unix:/run/a b/spaces/todo", "unix:socket/todo"] {
            assert_eq!(text.parse::<SpaceAddress>().unwrap().to_string(), text);
        }
        assert_eq!("lab/x".parse::<SpaceAddress>().unwrap().to_string(), "lab:7400/x");
        assert_eq!("unix:/run/s".parse::<Place>().unwrap(), Place::Path("/run/s".into()));
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_form_that_is() {
        for text in ["", "lab", "lab:x/y", "/todo", "unix:/todo", "a/b/c"] {
            let error = text.parse::<SpaceAddress>().unwrap_err().to_string();
            assert!(error.contains("HOST:PORT/NAME"), "{error}");
        }
        for text in ["lab:1/", "lab:1/a b", "lab:1/a\n", &format!("lab:1/{}", "a".repeat(101))] {
            assert!(matches!(text.parse::<SpaceAddress>(), Err(SpaceAddressError::Name(_))), "{text:?}");
        }
        for text in ["", "unix:", "a b", "lab:x"] {
            assert!(matches!(text.parse::<Place>(), Err(SpaceAddressError::Server(_))), "{text:?}");
        }
    }
}
