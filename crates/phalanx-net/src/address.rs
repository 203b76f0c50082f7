//! The address of a machine: `host:port`.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The port used if none is given.
pub const DEFAULT_PORT: u16 = 7400;

/// The address of a machine's executor, as users write it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name, or the digits of an address without brackets.
    pub host: String,
    /// The port, or [`DEFAULT_PORT`] if the text named none.
    pub port: u16,
}

/// The text is no address.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is no address; write host:port, like lab.example.org:7400 or [::1]:7400")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let error = || AddressError(text.to_owned());
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or_else(error)?)),
            None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(DEFAULT_PORT), str::parse).map_err(|_| error())?;
        let named = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
        let ambiguous = host.contains(':') && !text.starts_with('[');
        if named && !ambiguous { Ok(Address { host: host.to_owned(), port }) } else { Err(error()) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_they_are_written() {
        for text in ["lab:7401", "10.0.0.1:80", "[::1]:7400", "lab.example.org:7400"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("lab".parse::<Address>().unwrap().to_string(), "lab:7400");
        assert_eq!("[::1]".parse::<Address>().unwrap().to_string(), "[::1]:7400");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", ":7400", "lab:port", "lab:99999", "a b:1", "::1", "/tmp/x:1", "[::1]7400"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
