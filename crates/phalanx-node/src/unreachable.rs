//! Error texts for servers that cannot be reached.

use phalanx_net::tls::is_no_tls;
use std::io::{self, ErrorKind};

/// The text for users about why a server, which `command` starts, cannot be reached.
pub fn why_unreachable(server: &str, command: &str, error: &io::Error) -> String {
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
