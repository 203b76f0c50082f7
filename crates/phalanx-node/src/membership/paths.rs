//! The ways to the members of a grid: directly, where that works, and through a hub where it does not.

use super::AskError;
use super::asking::{AtHub, other};
use crate::control::LEVELS as PROVING;
use crate::dial::DIAL_PATIENCE;
use phalanx_core::wire::decode;
use phalanx_core::wire::hub::{FromHub, Row, ToHub};
use phalanx_net::address::Address;
use phalanx_net::dial::{Dialled, Expected, Guide, RELAYED, Target, Watcher, dial, guide, host_of};
use phalanx_net::identity::{Member, Role};
use phalanx_net::preamble::Preamble;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a direct path may take. Beyond that the hub carries the link.
const DIRECT_PATIENCE: Duration = Duration::from_millis(700);
/// A member without a direct path is tried directly again after this time, because its network may have changed.
const AGAIN: Duration = Duration::from_secs(30);

/// The ways to the members of one grid.
pub struct Paths {
    grid: String,
    member: Member,
    hubs: Vec<String>,
    /// Where each member was last, for when no hub answers.
    last: HashMap<String, String>,
    /// The way to each member that was reached.
    known: Mutex<HashMap<String, Path>>,
}

/// How a member is reached.
#[derive(Debug, Clone, Copy)]
enum Path {
    /// At this address, where the member has proved who it is.
    Direct(SocketAddr),
    /// Through a hub, because it did not answer directly at this time.
    Relayed(Instant),
}

impl fmt::Debug for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Paths({})", self.grid)
    }
}

impl Paths {
    /// From now on, this process reaches the members of the grid by name, as this member. `last`: where they were last.
    pub fn register(grid: &str, member: Member, hubs: Vec<String>, last: HashMap<String, String>) {
        guide(grid, Arc::new(Paths { grid: grid.to_owned(), member, hubs, last, known: Mutex::default() }));
    }

    fn addresses(&self, at_hub: &mut AtHub, member: &str) -> Result<Vec<String>, AskError> {
        let (answer, body) = at_hub.ask(&ToHub::Find { name: member.to_owned() })?;
        let FromHub::Members { .. } = answer else { return Err(other()) };
        let rows: Vec<Row> = decode(&body).map_err(io::Error::other)?;
        let row = rows.into_iter().next().ok_or_else(other)?;
        match row.is_here {
            true => Ok(row.addresses),
            false => Err(AskError::Refused(format!("{member} is not here now: its executor does not run"))),
        }
    }

    /// Connects to the first of these addresses at which the member itself answers. In another private network, another machine may
    /// have the same address.
    fn directly(&self, member: &str, addresses: &[String], patience: Duration) -> Option<Dialled> {
        let client = self.member.newest().client_of(Role::Executor).ok()?;
        let prove = |address: &String| {
            let target = Target::Host(address.parse::<Address>().ok()?);
            let dialled = dial(&target, patience).ok()?;
            let again = dialled.again.clone();
            let expected = Expected::Named(&client, member);
            dialled.introduce_and_wait(Preamble::News, expected, PROVING, patience).ok()?;
            dial(&again, patience).ok()
        };
        addresses.iter().find_map(prove)
    }

    fn through_hub(&self, at_hub: &mut AtHub, member: &str, patience: Duration) -> Result<Dialled, AskError> {
        let FromHub::Reached { token } = at_hub.ask(&ToHub::Reach { name: member.to_owned() })?.0 else {
            return Err(other());
        };
        let socket = dial(&at_hub.address().into(), DIAL_PATIENCE)?.through(token, patience)?;
        let again = Target::Host(Address { host: host_of(member, &self.grid), port: 0 });
        Ok(Dialled { socket, address: Some(SocketAddr::new(RELAYED, 0)), again })
    }

    fn find(&self, member: &str, patience: Duration) -> Result<Dialled, AskError> {
        let known = lock(&self.known).get(member).copied();
        if let Some(Path::Direct(address)) = known {
            if let Ok(dialled) = dial(&address.into(), patience) {
                return Ok(dialled);
            }
        }
        let direct = patience.min(DIRECT_PATIENCE);
        let mut at_hub = match AtHub::open(&self.member, &self.hubs) {
            Ok(at_hub) => at_hub,
            Err(error @ AskError::Unreachable(_)) => {
                let last = self.last.get(member).map(|it| self.directly(member, std::slice::from_ref(it), direct));
                return last.flatten().map_or(Err(error), |dialled| Ok(self.remember(member, dialled)));
            }
            Err(error) => return Err(error),
        };
        let relayed = match known {
            Some(Path::Relayed(since)) if since.elapsed() < AGAIN => Some(since),
            _ => None,
        };
        if relayed.is_none() {
            let addresses = self.addresses(&mut at_hub, member)?;
            if let Some(dialled) = self.directly(member, &addresses, direct) {
                return Ok(self.remember(member, dialled));
            }
        }
        let dialled = self.through_hub(&mut at_hub, member, patience)?;
        lock(&self.known).insert(member.to_owned(), Path::Relayed(relayed.unwrap_or_else(Instant::now)));
        Ok(dialled)
    }

    /// Remembers a direct path.
    fn remember(&self, member: &str, dialled: Dialled) -> Dialled {
        if let Some(address) = dialled.address {
            lock(&self.known).insert(member.to_owned(), Path::Direct(address));
        }
        dialled
    }
}

impl Guide for Paths {
    fn dial(&self, member: &str, patience: Duration) -> io::Result<Dialled> {
        self.find(member, patience).map_err(|error| match error {
            AskError::Ended(error) => error,
            error => io::Error::new(io::ErrorKind::NotConnected, error.to_string()),
        })
    }

    fn watch(&self) -> Watcher {
        let (member, hubs, mut open) = (self.member.clone(), self.hubs.clone(), None);
        Box::new(move || {
            let mut at_hub = match open.take().filter(|it: &AtHub| !it.has_ended()) {
                Some(at_hub) => at_hub,
                None => AtHub::open(&member, &hubs).map_err(io::Error::other)?,
            };
            let (rows, _) = at_hub.members().map_err(io::Error::other)?;
            open = Some(at_hub);
            let here = rows.into_iter().filter(|row| row.is_here && row.role == Role::Executor.name());
            Ok(here.map(|row| row.name).collect())
        })
    }
}
