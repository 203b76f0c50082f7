//! The way to a hub: through an HTTP proxy if the environment names one for it, and directly elsewhere.
//!
//! The proxy carries bytes. The handshake with the hub is inside, so that a proxy learns where the hub is, and nothing else.

use super::named::RELAYED;
use super::tcp::dial_any;
use super::{Dialled, Target, Transport};
use crate::address::Address;
use phalanx_core::proxy::{Answer, Proxy, is_exempt};
use std::env;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(super) struct Hub;

impl Transport for Hub {
    fn dial(&self, target: &Target, patience: Duration) -> Option<io::Result<Dialled>> {
        let Target::Hub(address) = target else { return None };
        Some(match proxy_for(&address.host) {
            Ok(None) => dial_any(address, patience),
            Ok(Some(proxy)) => through(&proxy, address, patience),
            Err(error) => Err(error),
        })
    }
}

/// What the environment says: the variable that names a proxy, its text, and which hosts need none. It is read once, because other
/// threads of a Python program may change the environment.
fn environment() -> &'static (Option<(&'static str, String)>, String) {
    static ENVIRONMENT: OnceLock<(Option<(&'static str, String)>, String)> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let first = |names: [&'static str; 2]| {
            let texts = names.into_iter().filter_map(|name| Some((name, env::var(name).ok()?)));
            texts.into_iter().find(|(_, text)| !text.trim().is_empty())
        };
        (first(["https_proxy", "HTTPS_PROXY"]), first(["no_proxy", "NO_PROXY"]).map_or_else(String::new, |it| it.1))
    })
}

fn proxy_for(host: &str) -> io::Result<Option<Proxy>> {
    let (named, no_proxy) = environment();
    match named {
        Some((variable, text)) if !is_exempt(no_proxy, host) => Proxy::parse(text).map_err(|error| {
            let why = format!("the variable {variable} names no proxy that can be used: {error}");
            io::Error::new(io::ErrorKind::InvalidInput, why)
        }),
        _ => Ok(None),
    }
}

/// Lets a proxy connect to the hub.
fn through(proxy: &Proxy, hub: &Address, patience: Duration) -> io::Result<Dialled> {
    let named = |why: &dyn Display| io::Error::other(format!("the proxy {proxy} of HTTPS_PROXY: {why}"));
    let place = Address { host: proxy.host.clone(), port: proxy.port };
    let Dialled { mut socket, .. } = dial_any(&place, patience).map_err(|error| named(&why_silent(&error)))?;
    let mut timed = socket.until(Instant::now() + patience);
    let mut asked = || {
        timed.write_all(&proxy.request(&hub.host, hub.port))?;
        let mut answer = Vec::new();
        loop {
            // One byte after the other, because what follows the answer is the hub's.
            let mut byte = [0];
            timed.read_exact(&mut byte)?;
            answer.push(byte[0]);
            match proxy.judge(&answer) {
                Answer::Part => {}
                done => return Ok(done),
            }
        }
    };
    match asked().map_err(|error: io::Error| named(&why_silent(&error)))? {
        Answer::Open => {}
        Answer::Refused(why) => return Err(named(&why)),
        Answer::Part | Answer::Other => return Err(named(&"what listens there is no HTTP proxy")),
    }
    socket.set_patience(None)?;
    Ok(Dialled { socket, address: Some(SocketAddr::new(RELAYED, 0)), again: Target::Hub(hub.clone()) })
}

fn why_silent(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "no answer in time".to_owned(),
        io::ErrorKind::ConnectionRefused => "nothing listens there".to_owned(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => "it hung up without an answer".to_owned(),
        _ => error.to_string(),
    }
}
