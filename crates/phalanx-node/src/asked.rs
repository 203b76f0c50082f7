//! Asks an executor what it offers, or what runs there, and starts nothing.

pub use crate::dial::check_version;

use crate::control::tell;
use crate::dial::{DIAL_PATIENCE, introduce, printable, unreachable};
use crate::dialler::Dialler;
use phalanx_core::cage::Report;
use phalanx_core::error::WireError;
use phalanx_core::level::LevelSet;
use phalanx_core::wire::hub::{Status, is_short};
use phalanx_core::wire::{FromExecutor, MAX_CONTROL_BODY, ToExecutor, decode};
use phalanx_net::address::Address;
use phalanx_net::dial::{Expected, dial};
use phalanx_net::frames::Frame;
use phalanx_net::identity::Role;
use phalanx_net::link::{Link, Reader};
use phalanx_net::preamble::Preamble;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// An executor's offer, as its user reads it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its name, which its certificate proves.
    pub name: String,
    /// The version of phalanx. It works together with this program's.
    pub phalanx: String,
    /// The levels that links of interpreters may have for what is not marked.
    pub levels: LevelSet,
    /// Most interpreters at a time.
    pub capacity: u32,
    /// Python's version, like `3.11`.
    pub python: String,
    /// How far it keeps its users apart. Its texts are safe to print.
    pub cage: Report,
}

/// Asks all executors at once.
///
/// # Errors
///
/// For each of them: it is out of reach, is another member than the one expected, refuses this user, or has another version.
pub fn ask_all(addresses: &[Address], dialler: &Dialler) -> Vec<Result<Asked, String>> {
    at_once(addresses, |address| Ok(ask(address, dialler)?.0))
}

/// Asks all executors at once what runs there. They name no other users than this one.
///
/// # Errors
///
/// As for [`ask_all`].
pub fn ask_statuses(addresses: &[Address], dialler: &Dialler) -> Vec<Result<Status, String>> {
    at_once(addresses, |address| {
        let mut asking = ask(address, dialler)?.1;
        tell(&asking.link, &ToExecutor::Status);
        loop {
            match asking.hear().map_err(|error| unreachable(address, &error))? {
                FromExecutor::Status(status) if is_short(&status) => return Ok(*status),
                FromExecutor::Status(_) => return Err(format!("{address} does not say what runs there")),
                FromExecutor::Away { reason } => return Err(refused(address, &reason)),
                _ => {}
            }
        }
    })
}

fn at_once<T: Send>(
    addresses: &[Address],
    ask: impl Fn(&Address) -> Result<T, String> + Sync,
) -> Vec<Result<T, String>> {
    let ask = &ask;
    thread::scope(|scope| {
        let asking: Vec<_> = addresses.iter().map(|address| scope.spawn(move || ask(address))).collect();
        asking.into_iter().map(|thread| thread.join().expect("asking an executor does not panic")).collect()
    })
}

/// The executor's offer, and the control link to it.
fn ask(address: &Address, dialler: &Dialler) -> Result<(Asked, Asking), String> {
    let away = |error| unreachable(address, &error);
    let mut asking = Asking::begin(address, dialler).map_err(away)?;
    match asking.hear().map_err(away)? {
        FromExecutor::Offer { capacity, python, phalanx, levels, cage, facts: _ } => {
            check_version(address, &phalanx)?;
            let lacks = cage.lacks.iter().map(|lack| printable(lack)).collect();
            let (python, cage) = (printable(&python), Report { lacks, ..cage });
            let name = asking.name.clone();
            Ok((Asked { name, phalanx, levels: levels[0], capacity, python, cage }, asking))
        }
        FromExecutor::Away { reason } => Err(refused(address, &reason)),
        _ => Err(format!("{address} does not say what it offers")),
    }
}

fn refused(address: &Address, reason: &str) -> String {
    format!("{address} refused this user: {}", printable(reason))
}

/// A control link to an executor, and its name.
struct Asking {
    name: String,
    link: Arc<Link>,
    reader: Reader,
    heard: VecDeque<Result<FromExecutor, WireError>>,
    until: Instant,
}

impl Asking {
    fn begin(address: &Address, dialler: &Dialler) -> io::Result<Asking> {
        let client = dialler.member().client_of(Role::Executor).map_err(io::Error::other)?;
        let expected = dialler.at(address);
        let dialled = dial(&address.into(), DIAL_PATIENCE)?;
        let called = introduce(dialled, Expected::Judged(&client, &expected), Preamble::Control)?;
        let name = called.name().map_err(io::Error::other)?;
        let (link, reader) = called.link(MAX_CONTROL_BODY)?;
        Ok(Asking { name, link, reader, heard: VecDeque::new(), until: Instant::now() + DIAL_PATIENCE })
    }

    /// The next message.
    fn hear(&mut self) -> io::Result<FromExecutor> {
        loop {
            if let Some(message) = self.heard.pop_front() {
                return message.map_err(io::Error::other);
            }
            let left = self.until.checked_duration_since(Instant::now()).ok_or(io::ErrorKind::TimedOut)?;
            let heard = &mut self.heard;
            let mut on_frame = |frame: Frame| heard.push_back(decode(&frame.header));
            self.reader.poll(left, &mut on_frame).map_err(io::Error::other)?;
        }
    }
}
