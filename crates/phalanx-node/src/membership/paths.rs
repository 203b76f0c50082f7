//! The ways to the members of a grid: directly where that works, and through a hub (relayed) elsewhere.

use super::AskError;
use super::asking::{AtHub, other};
use super::joining::open_again;
use crate::control::LEVELS as PROVING;
use crate::dial::{DIAL_PATIENCE, printable};
use phalanx_core::hub::Needs;
use phalanx_core::wire::decode;
use phalanx_core::wire::hub::{Facts, FromHub, Row, ToHub};
use phalanx_net::address::Address;
use phalanx_net::dial::{Dialled, Expected, Guide, RELAYED, Target, Watcher, dial, guide, host_of};
use phalanx_net::forks::lock_soon;
use phalanx_net::identity::{Member, Role};
use phalanx_net::preamble::Preamble;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long a direct path may take.
const DIRECT_PATIENCE: Duration = Duration::from_millis(700);
/// Time for the direct paths alone; after it, the hub is asked to relay the link. The time is enough for a connection, a handshake
/// and another connection over a line with a round trip of 60 ms. Over a longer line, the first link is relayed, and the next one
/// is direct.
const HEAD_START: Duration = Duration::from_millis(250);
/// Most addresses of one member that are tried.
const MOST_PATHS: usize = 4;
/// A known path is used for this long, and then looked for again. Networks change: when a laptop moves, another machine may get its
/// address.
const AGAIN: Duration = Duration::from_secs(30);

/// The ways to the members of one grid.
pub struct Paths(Arc<Shared>);

struct Shared {
    grid: String,
    member: Member,
    hubs: Vec<String>,
    /// The address at which each member was last reached, for times when no hub answers.
    last: HashMap<String, String>,
    /// The way to each member that was reached.
    known: Mutex<HashMap<String, Path>>,
}

/// How a member is reached, and when this was found.
#[derive(Debug, Clone, Copy)]
enum Path {
    /// At this address, where the member has proved its name.
    Direct(SocketAddr, Instant),
    /// Through a hub, because the member did not answer directly.
    Relayed(Instant),
}

impl fmt::Debug for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Paths({})", self.0.grid)
    }
}

impl Paths {
    /// From now on, this process reaches the members of the grid by name, as `member`. `last` has the address at which each member
    /// was last reached, for times when no hub answers.
    pub fn register(grid: &str, member: Member, hubs: Vec<String>, last: HashMap<String, String>) {
        let shared = Shared { grid: grid.to_owned(), member, hubs, last, known: Mutex::default() };
        guide(grid, Arc::new(Paths(Arc::new(shared))));
    }
}

impl Shared {
    /// The way to a member, if it is known. In a fork the lock may stay taken; then the way counts as unknown.
    fn known(&self, member: &str) -> Option<Path> {
        lock_soon(&self.known)?.get(member).copied()
    }

    fn remember(&self, member: &str, path: Path) {
        if let Some(mut known) = lock_soon(&self.known) {
            known.insert(member.to_owned(), path);
        }
    }

    /// Asks the hub for the addresses of a member.
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

    /// Connects to the first of these addresses at which the member proves its name. The proof is needed because another machine
    /// may have the same address in another private network. An address that answers after the head start is for the next link.
    fn directly(self: &Arc<Shared>, member: &str, addresses: Vec<String>, patience: Duration) -> Option<Dialled> {
        let (found, first) = channel();
        for address in addresses.into_iter().take(MOST_PATHS) {
            let (shared, member, found) = (self.clone(), member.to_owned(), found.clone());
            let look = move || {
                let Some((target, at)) = shared.prove(&member, &address, patience) else { return };
                shared.remember(&member, Path::Direct(at, Instant::now()));
                let _ = found.send(target);
            };
            thread::Builder::new().name("phalanx-path".into()).spawn(look).ok()?;
        }
        drop(found);
        dial(&first.recv_timeout(HEAD_START).ok()?, patience).ok()
    }

    /// Lets the member prove its name at an address.
    fn prove(&self, member: &str, address: &str, patience: Duration) -> Option<(Target, SocketAddr)> {
        let client = self.member.newest().client_of(Role::Executor).ok()?;
        let dialled = dial(&Target::Host(address.parse::<Address>().ok()?), patience).ok()?;
        let (again, at) = (dialled.again.clone(), dialled.address?);
        let expected = Expected::Named(&client, member);
        dialled.introduce_and_wait(Preamble::News, expected, PROVING, patience).ok()?;
        Some((again, at))
    }

    fn through_hub(&self, at_hub: &mut AtHub, member: &str, patience: Duration) -> Result<Dialled, AskError> {
        let FromHub::Reached { token } = at_hub.ask(&ToHub::Reach { name: member.to_owned() })?.0 else {
            return Err(other());
        };
        let socket = dial(&Target::Hub(at_hub.address().clone()), DIAL_PATIENCE)?.through(token, patience)?;
        let again = Target::Host(Address { host: host_of(member, &self.grid), port: 0 });
        Ok(Dialled { socket, address: Some(SocketAddr::new(RELAYED, 0)), again })
    }

    fn find(self: &Arc<Shared>, member: &str, patience: Duration) -> Result<Dialled, AskError> {
        let (known, began) = (self.known(member), Instant::now());
        let short = patience.min(DIRECT_PATIENCE);
        let before = match known {
            Some(Path::Direct(address, since)) => {
                if since.elapsed() < AGAIN {
                    if let Ok(dialled) = dial(&address.into(), short) {
                        return Ok(dialled);
                    }
                }
                Some(address.to_string())
            }
            _ => None,
        };
        let mut at_hub = match open_again(&self.member, &self.hubs) {
            Ok(at_hub) => at_hub,
            Err(error @ (AskError::Unreachable(_) | AskError::Ended(_))) => {
                // No hub answers. The member may still be at its last address.
                let before = before.or_else(|| self.last.get(member).cloned());
                return before.and_then(|before| self.directly(member, vec![before], short)).ok_or(error);
            }
            Err(error) => return Err(error),
        };
        if !matches!(known, Some(Path::Relayed(since)) if since.elapsed() < AGAIN) {
            let addresses = self.addresses(&mut at_hub, member)?;
            if let Some(dialled) = self.directly(member, addresses, short) {
                return Ok(dialled);
            }
            if !matches!(self.known(member), Some(Path::Direct(_, since)) if since > began) {
                self.remember(member, Path::Relayed(began));
            }
        }
        self.through_hub(&mut at_hub, member, patience)
    }
}

impl Guide for Paths {
    fn dial(&self, member: &str, patience: Duration) -> io::Result<Dialled> {
        self.0.find(member, patience).map_err(|error| match error {
            AskError::Ended(error) => error,
            error => io::Error::new(io::ErrorKind::NotConnected, error.to_string()),
        })
    }

    fn watch(&self, needs: &Needs) -> Watcher {
        let (member, hubs, mut open) = (self.0.member.clone(), self.0.hubs.clone(), None);
        let (grid, needs) = (self.0.grid.clone(), needs.clone());
        Box::new(move || {
            let mut at_hub = match open.take().filter(|it: &AtHub| !it.has_ended()) {
                Some(at_hub) => at_hub,
                None => AtHub::open(&member, &hubs).map_err(io::Error::other)?,
            };
            let rows = at_hub.seek(&needs.software).map_err(io::Error::other)?;
            open = Some(at_hub);
            let here = rows.iter().filter(|row| row.is_here && row.role == Role::Executor.name());
            let here: Vec<(&str, &Facts)> = here.map(|row| (row.name.as_str(), &row.facts)).collect();
            let meeting = here.iter().filter(|(_, facts)| needs.are_met(facts));
            let meeting: Vec<String> = meeting.map(|(name, _)| (*name).to_owned()).collect();
            match meeting.is_empty() && !needs.is_empty() {
                true => Err(io::Error::new(io::ErrorKind::NotFound, printable(&needs.unmet(&grid, &here)))),
                false => Ok(meeting),
            }
        })
    }
}
