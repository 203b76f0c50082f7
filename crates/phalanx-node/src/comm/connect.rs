//! The way out of a process of Dask: turns an address into a comm with another one.

use super::{Bells, Comm, NEXT, Rules};
use crate::delegated;
use crate::dial::{printable, why_unreachable};
use phalanx_core::level::{Agreed, Conflict, LevelSet, Levels};
use phalanx_net::address::Address;
use phalanx_net::dial::{Dialled, Expected, Failure, Introduced, Judge, dial, look_up};
use phalanx_net::identity::{IdentityError, Member, Role};
use phalanx_net::preamble::Preamble;
use phalanx_net::runtime::paths_to;
use phalanx_net::sync::lock;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// Timeout for reaching a process, and for each step of the handshake with it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Stack of a thread that dials, in bytes.
const STACK: usize = 512 << 10;

/// Why there is no comm.
#[derive(Debug, Error)]
pub enum CommError {
    /// Nothing answers, or it hung up. Another attempt may succeed.
    #[error("{0}")]
    Unreachable(String),
    /// This end cannot prove who it is, or another member answers than one of the program.
    #[error("{0}")]
    Identity(String),
    /// The two ends have no level in common.
    #[error(transparent)]
    Level(#[from] Conflict),
}

impl From<IdentityError> for CommError {
    fn from(error: IdentityError) -> CommError {
        CommError::Identity(error.to_string())
    }
}

/// How a process reaches another one of its program.
#[derive(Debug, Clone)]
pub struct Connect {
    /// The identity that it shows. `None`: it reaches processes of its user on this machine only.
    pub member: Option<Member>,
    /// The rules of the comm.
    pub rules: Rules,
}

/// A comm that is being made by a thread of its own. The bells tell when it is there.
#[derive(Debug)]
pub struct Dialling {
    /// The number by which the bells tell of it.
    pub number: u64,
    made: Arc<Mutex<Option<Result<Comm, CommError>>>>,
}

impl Dialling {
    /// Begins to connect to `address`.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn begin(address: Address, connect: Connect, bells: Arc<Bells>) -> io::Result<Dialling> {
        let (number, made) = (NEXT.fetch_add(1, Ordering::Relaxed), Arc::new(Mutex::new(None)));
        let place = Arc::downgrade(&made);
        let work = move || {
            let outcome = reach(&address, &connect, &bells);
            // Without a waiting caller, the comm is dropped, which ends it.
            if let Some(place) = place.upgrade() {
                *lock(&place) = Some(outcome);
                bells.tell(number);
            }
        };
        thread::Builder::new().name("phalanx-dial".into()).stack_size(STACK).spawn(work)?;
        Ok(Dialling { number, made })
    }

    /// The outcome of the attempt. `None`: it goes on.
    pub fn take(&self) -> Option<Result<Comm, CommError>> {
        lock(&self.made).take()
    }
}

fn reach(address: &Address, connect: &Connect, bells: &Arc<Bells>) -> Result<Comm, CommError> {
    let away = |error: io::Error| unreachable(address, &error);
    let target = look_up(address).map_err(away)?;
    let own = if is_a_users() { None } else { dial_own(&target) };
    match own {
        Some(dialled) => local(dialled, address, connect, bells),
        None => prove(dial(&target.into(), PATIENCE).map_err(away)?, address, connect, bells),
    }
}

/// Whether this is a process of a user at an executor. It has the executor's account, and no rights of that account.
fn is_a_users() -> bool {
    #[cfg(target_os = "linux")]
    return delegated::machine().is_some() && crate::cage::is_bound();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Dials a process of this machine that runs as this user.
fn dial_own(target: &SocketAddr) -> Option<Dialled> {
    let paths = paths_to(target);
    let mut dialled = paths.iter().filter_map(|path| dial(&path.as_path().into(), PATIENCE).ok());
    dialled.find(Dialled::is_own_process)
}

/// The system has confirmed that the process there is this user's own. A handshake follows only if the policy asks for it.
fn local(dialled: Dialled, address: &Address, connect: &Connect, bells: &Arc<Bells>) -> Result<Comm, CommError> {
    let there = connect.rules.policy.place(None, Role::Executor.name());
    let agreed = as_data(connect.rules.policy.agree(&there, [LevelSet::EVERY; 3])?);
    if agreed.levels.need_handshake() {
        return prove(dialled, address, connect, bells);
    }
    let introduced = dialled.introduce_in_clear(Preamble::Comm { shakes: false }, PATIENCE);
    let open = |it: Introduced| Comm::open(it.socket, None, &connect.rules, None, Some(agreed), bells);
    introduced.and_then(open).map_err(|error| unreachable(address, &error))
}

/// Both ends prove who they are, and agree on levels.
fn prove(dialled: Dialled, address: &Address, connect: &Connect, bells: &Arc<Bells>) -> Result<Comm, CommError> {
    let member = connect.member.as_ref().ok_or_else(|| CommError::Identity(no_identity(address)))?;
    let client = member.client_at(Role::Executor, &address.to_string())?;
    let awaited = Awaited { member, rules: &connect.rules };
    let expected = match dialled.is_own_process() {
        true => Expected::OwnProcess(&client),
        false => Expected::Judged(&client, &awaited),
    };
    let there = connect.rules.policy.place(dialled.address.map(|address| address.ip()), Role::Executor.name());
    let decide = |theirs| connect.rules.policy.agree(&there, theirs).map(as_data).map(|agreed| (agreed.levels, agreed));
    let open = |it: Introduced, agreed: Agreed| {
        let name = it.name().map_err(io::Error::other)?;
        Comm::open(it.socket, it.shaken, &connect.rules, Some(name), Some(agreed), bells)
    };
    match dialled.agree(Preamble::Comm { shakes: true }, expected, decide, PATIENCE) {
        Ok((introduced, agreed)) => open(introduced, agreed).map_err(|error| unreachable(address, &error)),
        Err(Failure::Disagreed(conflict)) => Err(conflict.into()),
        Err(Failure::Failed(error)) if error.kind() == ErrorKind::PermissionDenied || is_of_another_grid(&error) => {
            Err(CommError::Identity(format!("{address}: {error}")))
        }
        Err(Failure::Failed(error)) => Err(unreachable(address, &error)),
    }
}

/// The same level for all frames, because all that Dask sends counts as data.
fn as_data(mut agreed: Agreed) -> Agreed {
    let data = agreed.levels.data;
    agreed.levels = Levels { base: data, data, code: data };
    agreed
}

/// Whether the handshake failed because the certificate that the peer has shown is none of this grid. The words are rustls'.
fn is_of_another_grid(error: &io::Error) -> bool {
    error.to_string().contains("invalid peer certificate")
}

/// Accepts the members of the program.
#[derive(Debug)]
struct Awaited<'a> {
    member: &'a Member,
    rules: &'a Rules,
}

impl Judge for Awaited<'_> {
    fn judge(&self, name: &str, _: Option<SocketAddr>) -> io::Result<()> {
        let refuse = |why| io::Error::new(ErrorKind::PermissionDenied, format!("{why}: name it in members"));
        self.rules.check(self.member, name).map_err(refuse)
    }
}

fn no_identity(address: &Address) -> String {
    match delegated::machine() {
        Some(machine) => {
            format!("this process runs at {machine} for a user, and has no identity to prove to {address} with")
        }
        None => format!(
            "no identity to prove to the process at {address} with; make one for each machine with: phalanx grid create, \
             phalanx grid issue --role executor NAME"
        ),
    }
}

fn unreachable(address: &Address, error: &io::Error) -> CommError {
    let why = why_unreachable("process of Dask with phalanx://", "dask scheduler --protocol phalanx", error);
    CommError::Unreachable(format!("{address}: {}", printable(&why)))
}
