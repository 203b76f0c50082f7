//! The way into a process of Dask.

use super::{Bells, Comm, NEXT, Rules, is_fit};
use crate::door::{Door, Peer, Wanted, refused};
use crate::log::Log;
use crate::space::listen_at_path;
use phalanx_core::level::{Level, Mark};
use phalanx_net::identity::{Member, Role};
use phalanx_net::runtime::Place as Path;
use phalanx_net::socket::Listener;
use phalanx_net::sync::lock;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Limit on the comms that the event loop has not taken yet. More are refused: the loop hangs.
const MOST_WAITING: usize = 1024;

/// Accepts comms. It also listens at the unix path that belongs to its address, for processes of this user on this machine.
pub struct CommListener {
    /// The number by which the bells tell of it.
    pub number: u64,
    /// Where it listens.
    pub address: SocketAddr,
    door: Arc<Door>,
    accepted: Arc<Accepted>,
    path: Mutex<Option<Path>>,
}

/// The comms that wait to be taken. `None`: the listener is closed.
struct Accepted {
    number: u64,
    member: Option<Member>,
    rules: Rules,
    bells: Arc<Bells>,
    waiting: Mutex<Option<VecDeque<Comm>>>,
}

impl CommListener {
    /// Listens at `address` (`host:port`; port 0: any free one). Without an identity it serves processes of this user on this machine
    /// only.
    ///
    /// # Errors
    /// The system does not let it listen there.
    pub fn start(
        address: &str,
        member: Option<Member>,
        rules: Rules,
        bells: Arc<Bells>,
        log: Log,
    ) -> io::Result<CommListener> {
        let listener = Listener::bind(address)?;
        let address = listener.address()?;
        let mut listeners = vec![listener];
        let path = Mutex::new(listen_at_path(&address, &mut listeners, &log));
        let (number, waiting) = (NEXT.fetch_add(1, Ordering::Relaxed), Mutex::new(Some(VecDeque::new())));
        let accepted = Arc::new(Accepted { number, member: member.clone(), rules, bells, waiting });
        let serving = accepted.clone();
        let serve = move |peer, wanted| match wanted {
            Wanted::Comm { shakes } => serving.accept(peer, shakes),
            _ => Err(refused("this is a process of Dask, and no other service")),
        };
        let door = Door::open(listeners, member, Box::new(serve), log)?;
        Ok(CommListener { number, address, door, accepted, path })
    }

    /// The comms since the last call. The bells tell of the next one.
    pub fn take(&self) -> Vec<Comm> {
        lock(&self.accepted.waiting).as_mut().map(std::mem::take).unwrap_or_default().into()
    }

    /// Stops listening. Comms that were not taken end.
    pub fn close(&self) {
        self.door.close();
        drop(lock(&self.accepted.waiting).take());
        lock(&self.path).take();
    }
}

impl Drop for CommListener {
    fn drop(&mut self) {
        self.close();
    }
}

impl Accepted {
    fn accept(&self, mut peer: Peer, shakes: bool) -> io::Result<()> {
        let policy = &self.rules.policy;
        let from = peer.from;
        let place = policy.place(from, Role::User.name());
        let offers = |place: &_| match from {
            Some(_) => policy.offered(place, Mark::Data),
            None => policy.allowed(place, Mark::Data),
        };
        let offered = [offers(&place); 3]; // all that Dask sends counts as data
        let (shaken, name) = match (shakes, &self.member) {
            (false, _) => {
                check_own(&peer)?;
                if !offered[Mark::None as usize].contains(Level::Clear) {
                    return Err(refused("a clear link, which the policy here does not allow on this machine"));
                }
                (None, None)
            }
            (true, Some(member)) => {
                let (shaken, role, name) = peer.offer(member, offered)?;
                if !is_fit(role) {
                    return Err(refused(format!("{name} has the role {}", role.name())));
                }
                self.rules.check(member, &name).map_err(refused)?;
                // Rules may ask for more of the role that the peer has proved.
                let level = shaken.levels.of(Mark::Data);
                if !offers(&policy.place(from, role.name())).contains(level) {
                    return Err(refused(format!(
                        "a link at the level {level}, which the policy does not allow for {name}"
                    )));
                }
                (Some(shaken), Some(name))
            }
            (true, None) => {
                return Err(refused("this process of Dask has no identity: it serves this machine's processes only"));
            }
        };
        peer.proved();
        let Peer { socket, .. } = peer;
        let comm = Comm::open(socket, shaken, &self.rules, name, None, &self.bells)?;
        self.hand_over(comm)
    }

    fn hand_over(&self, comm: Comm) -> io::Result<()> {
        let mut waiting = lock(&self.waiting);
        let Some(waiting) = &mut *waiting else { return Err(refused("this process of Dask does not listen any more")) };
        if waiting.len() >= MOST_WAITING {
            return Err(refused(format!("{MOST_WAITING} comms wait already until this process looks at them")));
        }
        waiting.push_back(comm);
        if waiting.len() == 1 {
            self.bells.tell(self.number);
        }
        Ok(())
    }
}

/// A client without a handshake must be a process of this user on this machine, and of no cage.
fn check_own(peer: &Peer) -> io::Result<()> {
    if peer.from.is_some() || !peer.socket.peer_is_same_user()? {
        return Err(refused("a process that does not prove who it is"));
    }
    #[cfg(target_os = "linux")]
    if crate::cage::is_caged(peer.socket.peer_process()?) {
        return Err(refused("a process that an executor runs for a user"));
    }
    Ok(())
}
