//! Asks an executor what it offers, and starts nothing there.

pub use crate::dial::check_version;

use crate::dial::{DIAL_PATIENCE, introduce, printable, unreachable};
use crate::dialler::Dialler;
use phalanx_core::cage::Report;
use phalanx_core::level::LevelSet;
use phalanx_core::wire::{FromExecutor, MAX_CONTROL_BODY, decode};
use phalanx_net::address::Address;
use phalanx_net::dial::{Expected, dial};
use phalanx_net::frames::Frame;
use phalanx_net::identity::Role;
use phalanx_net::preamble::Preamble;
use std::io;
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
    thread::scope(|scope| {
        let asking: Vec<_> = addresses.iter().map(|address| scope.spawn(move || ask(address, dialler))).collect();
        asking.into_iter().map(|thread| thread.join().expect("asking an executor does not panic")).collect()
    })
}

fn ask(address: &Address, dialler: &Dialler) -> Result<Asked, String> {
    let (name, first) = first_message(address, dialler).map_err(|error| unreachable(address, &error))?;
    match first {
        FromExecutor::Offer { capacity, python, phalanx, levels, cage } => {
            check_version(address, &phalanx)?;
            let lacks = cage.lacks.iter().map(|lack| printable(lack)).collect();
            let (python, cage) = (printable(&python), Report { lacks, ..cage });
            Ok(Asked { name, phalanx, levels: levels[0], capacity, python, cage })
        }
        FromExecutor::Away { reason } => Err(format!("{address} refused this user: {}", printable(&reason))),
        _ => Err(format!("{address} does not say what it offers")),
    }
}

/// The executor's name, and the first message on a control link to it.
fn first_message(address: &Address, dialler: &Dialler) -> io::Result<(String, FromExecutor)> {
    let client = dialler.member().client_of(Role::Executor).map_err(io::Error::other)?;
    let expected = dialler.at(address);
    let dialled = dial(&address.into(), DIAL_PATIENCE)?;
    let called = introduce(dialled, Expected::Judged(&client, &expected), Preamble::Control)?;
    let name = called.name().map_err(io::Error::other)?;
    let (_link, mut reader) = called.link(MAX_CONTROL_BODY)?;
    let (mut first, until) = (None, Instant::now() + DIAL_PATIENCE);
    loop {
        let left = until.checked_duration_since(Instant::now()).ok_or(io::ErrorKind::TimedOut)?;
        let mut on_frame = |frame: Frame| first = first.take().or_else(|| Some(decode(&frame.header)));
        reader.poll(left, &mut on_frame).map_err(io::Error::other)?;
        if let Some(message) = first.take() {
            return message.map(|message| (name, message)).map_err(io::Error::other);
        }
    }
}
