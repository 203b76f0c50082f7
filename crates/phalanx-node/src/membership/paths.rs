//! The ways to the members of a grid: directly, where that works, and through a hub where it does not.

use super::AskError;
use super::asking::{AtHub, other};
use crate::control::LEVELS as PROVING;
use crate::dial::DIAL_PATIENCE;
use phalanx_core::wire::decode;
use phalanx_core::wire::hub::{FromHub, Row, ToHub};
use phalanx_net::address::Address;
use phalanx_net::dial::{Dialled, Expected, Guide, RELAYED, Target, dial, guide, host_of};
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
/// A link to the hub that was not used for this long is opened anew.
const IDLE: Duration = Duration::from_secs(30);

/// The ways to the members of one grid.
pub struct Paths {
    grid: String,
    member: Member,
    hubs: Vec<String>,
    /// The way to each member that was reached.
    known: Mutex<HashMap<String, Path>>,
    at_hub: Mutex<Option<(AtHub, Instant)>>,
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
    /// From now on, this process reaches the members of the grid by name, as this member.
    pub fn register(grid: &str, member: Member, hubs: Vec<String>) {
        let (known, at_hub) = (Mutex::default(), Mutex::default());
        guide(grid, Arc::new(Paths { grid: grid.to_owned(), member, hubs, known, at_hub }));
    }

    /// Asks a hub.
    fn ask(&self, request: &ToHub) -> Result<(FromHub, Vec<u8>, Address), AskError> {
        self.use_hub(|hub| hub.ask(request)).map(|((message, body), address)| (message, body, address))
    }

    /// Uses the link to a hub that is open, or another one. Also returns where the hub is.
    fn use_hub<T>(&self, work: impl Fn(&mut AtHub) -> Result<T, AskError>) -> Result<(T, Address), AskError> {
        let mut at_hub = lock(&self.at_hub);
        let open = at_hub.take().filter(|(link, used)| used.elapsed() < IDLE && !link.has_ended());
        let was_open = open.is_some();
        let mut link = match open {
            Some((link, _)) => link,
            None => AtHub::open(&self.member, &self.hubs)?,
        };
        let mut done = work(&mut link);
        if was_open && matches!(done, Err(AskError::Ended(_))) {
            link = AtHub::open(&self.member, &self.hubs)?; // the hub has ended since
            done = work(&mut link);
        }
        let address = link.address().clone();
        *at_hub = Some((link, Instant::now()));
        done.map(|done| (done, address))
    }

    fn addresses(&self, member: &str) -> Result<Vec<String>, AskError> {
        let (answer, body, _) = self.ask(&ToHub::Find { name: member.to_owned() })?;
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

    fn through_hub(&self, member: &str, patience: Duration) -> Result<Dialled, AskError> {
        let (answer, _, hub) = self.ask(&ToHub::Reach { name: member.to_owned() })?;
        let FromHub::Reached { token } = answer else { return Err(other()) };
        let socket = dial(&(&hub).into(), DIAL_PATIENCE)?.through(token, patience)?;
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
        if !matches!(known, Some(Path::Relayed(since)) if since.elapsed() < AGAIN) {
            let direct = self.directly(member, &self.addresses(member)?, patience.min(DIRECT_PATIENCE));
            if let Some(dialled) = direct {
                if let Some(address) = dialled.address {
                    lock(&self.known).insert(member.to_owned(), Path::Direct(address));
                }
                return Ok(dialled);
            }
        }
        let dialled = self.through_hub(member, patience)?;
        let since = match known {
            Some(Path::Relayed(since)) if since.elapsed() < AGAIN => since,
            _ => Instant::now(),
        };
        lock(&self.known).insert(member.to_owned(), Path::Relayed(since));
        Ok(dialled)
    }
}

impl Guide for Paths {
    fn dial(&self, member: &str, patience: Duration) -> io::Result<Dialled> {
        self.find(member, patience).map_err(|error| match error {
            AskError::Ended(error) => error,
            error => io::Error::new(io::ErrorKind::NotConnected, error.to_string()),
        })
    }

    fn executors(&self) -> io::Result<Vec<String>> {
        let rows = self.use_hub(AtHub::members).map_err(io::Error::other)?.0.0;
        let here = rows.into_iter().filter(|row| row.is_here && row.role == Role::Executor.name());
        Ok(here.map(|row| row.name).collect())
    }
}
