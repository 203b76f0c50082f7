//! How a process and those of other machines find each other: one connection between each two of them, made when all have
//! joined. Who listens does so until then and no longer.
//!
//! A connection begins with the rank of who made it, in the clear, and goes on with a handshake in which each end proves to
//! own the certificate that the launcher's table has for it. Whoever cannot is let go; a few may try at a time, and when
//! there are more, who has not even said a rank is let go first. Who listens welcomes the caller, who confirms that it has
//! heard this in time; both use the connection from then on.

use super::Link;
use phalanx_core::wire::ranks::{Entry, Listens};
use phalanx_net::dial::{Dialled, Expected, Introduced, dial};
use phalanx_net::identity::KeyedCertificate;
use phalanx_net::preamble::Preamble;
use phalanx_net::socket::{Listener, Socket, Timed};
use phalanx_net::sync::lock;
use phalanx_net::tls::{Shaken, offer};
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

/// For all connections, from the table on.
const PATIENCE: Duration = Duration::from_secs(30);
/// For one of them.
const SHAKING: Duration = Duration::from_secs(5);
/// Until a machine answers at all; who calls calls again.
const DIALLING: Duration = Duration::from_secs(1);
/// A connection of which nothing is heard is asked after so long, every so long, and ended after so many questions.
const SILENCE: Duration = Duration::from_secs(5);
const QUESTIONS: u32 = 5;
const BETWEEN_QUESTIONS: Duration = Duration::from_secs(1);
/// Between two looks at what the launcher says, and two tries.
const PAUSE: Duration = Duration::from_millis(50);
/// Connections whose other end has not proved yet who it is; as many as twice the ranks that call, where those are more.
const MOST_STRANGERS: usize = 64;
/// Threads that make connections.
const CALLERS: usize = 4;

/// What who listens says when it has accepted.
const WELCOME: u8 = 1;
/// What the caller says when it has heard that.
const CONFIRMED: u8 = 2;

/// A process that waits for those of other machines.
pub struct Listening {
    listener: Listener,
    own: KeyedCertificate,
}

/// Tells which ranks will never come; an error when the program ends.
pub type Lost<'a> = &'a mut dyn FnMut() -> Result<Vec<usize>, String>;

impl Listening {
    /// Listens, at an address of this machine if it has that.
    pub fn open(address: Option<IpAddr>) -> io::Result<Listening> {
        let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let listener = match address.map(|ip| Listener::bind(&std::net::SocketAddr::new(ip, 0).to_string())) {
            Some(Ok(listener)) => listener,
            // Others reach it by an address that is another machine's, which passes connections on.
            _ => Listener::bind(&std::net::SocketAddr::new(any, 0).to_string())?,
        };
        Ok(Listening { listener, own: KeyedCertificate::ephemeral().map_err(io::Error::other)? })
    }

    /// What the launcher is to put into the table.
    pub fn listens(&self) -> io::Result<Listens> {
        Ok(Listens { address: self.listener.address()?, certificate: self.own.certificate.to_vec() })
    }

    /// Connects with the processes of other machines: those below this one are called, those above call.
    pub fn connect(self, me: usize, table: &[Entry], lost: Lost<'_>) -> Result<Vec<(usize, Link)>, String> {
        let elsewhere = (0..table.len()).filter(|rank| table[*rank].machine != table[me].machine);
        let elsewhere: Vec<usize> = elsewhere.collect();
        self.connect_with(elsewhere, me, table, Some(PATIENCE), lost)
    }

    /// Connects two processes wherever they are; this is one of them, by its place in the table. It waits for the other one
    /// until that is lost: it may be computing.
    pub fn connect_pair(self, me: usize, table: &[Entry], lost: Lost<'_>) -> Result<Link, String> {
        let links = self.connect_with(vec![1 - me], me, table, None, lost)?;
        links.into_iter().next().map(|(_, link)| link).ok_or_else(|| "it is lost".to_owned())
    }

    fn connect_with(
        self,
        elsewhere: Vec<usize>,
        me: usize,
        table: &[Entry],
        patience: Option<Duration>,
        lost: Lost<'_>,
    ) -> Result<Vec<(usize, Link)>, String> {
        let (below, above): (Vec<usize>, Vec<usize>) = elsewhere.iter().partition(|rank| **rank < me);
        let (done, came) = channel();
        let (callers, is_called) = (CALLERS.min(below.len()), !above.is_empty());
        // From this one downwards: so not all call the first one at once.
        let to_call = Mutex::new(below.into_iter().rev().collect());
        let (strangers, calls, ends) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        let meeting = Meeting { own: &self.own, me, table, done, above, to_call, strangers, calls, ends };
        thread::scope(|scope| {
            if is_called {
                scope.spawn(|| meeting.accept(scope, &self.listener));
            }
            for _ in 0..callers {
                scope.spawn(|| meeting.call());
            }
            let links = gather(&came, &elsewhere, patience, lost);
            meeting.end();
            self.listener.close(SHAKING);
            links
        })
    }
}

/// The connections as they come, until there is one for each rank that is not lost.
fn gather(
    came: &Receiver<(usize, Link)>,
    expected: &[usize],
    patience: Option<Duration>,
    lost: Lost<'_>,
) -> Result<Vec<(usize, Link)>, String> {
    let deadline = patience.map(|patience| Instant::now() + patience);
    let mut links = HashMap::new();
    loop {
        let lost = lost()?;
        let missing = expected.iter().find(|rank| !links.contains_key(*rank) && !lost.contains(rank));
        let Some(missing) = missing else { return Ok(links.into_iter().collect()) };
        match came.recv_timeout(PAUSE) {
            Ok((rank, link)) => drop(links.insert(rank, link)),
            Err(RecvTimeoutError::Timeout) if deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
            Err(_) => return Err(format!("no connection between this rank and rank {missing}, on another machine")),
        }
    }
}

/// What the threads have in common.
struct Meeting<'a> {
    own: &'a KeyedCertificate,
    me: usize,
    table: &'a [Entry],
    /// Ranks that call.
    above: Vec<usize>,
    to_call: Mutex<VecDeque<usize>>,
    done: Sender<(usize, Link)>,
    /// Those who have called and are not connected yet, in their order.
    strangers: Mutex<Vec<Stranger>>,
    /// Those who are called, by rank.
    calls: Mutex<HashMap<usize, Socket>>,
    ends: AtomicBool,
}

struct Stranger {
    number: u64,
    socket: Socket,
    came: Came,
}

/// How far a stranger has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    Connected,
    /// It has said that it is a rank that is to call.
    SaidRank,
    /// It has proved it, and must not be let go: it may use the connection already.
    Proved,
}

/// Who is let go for the next one to come in.
fn least_welcome(strangers: &[Stranger]) -> Option<usize> {
    let first = |came| strangers.iter().position(|it| it.came == came);
    first(Came::Connected).or_else(|| first(Came::SaidRank))
}

impl Meeting<'_> {
    /// Lets everybody go who is not connected yet.
    fn end(&self) {
        self.ends.store(true, Ordering::Release);
        lock(&self.strangers).iter().for_each(|it| it.socket.shut_down());
        lock(&self.calls).values().for_each(Socket::shut_down);
    }

    fn accept<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, listener: &Listener) {
        let mut number = 0;
        loop {
            let accepted = listener.accept();
            if self.ends.load(Ordering::Acquire) {
                return;
            }
            let Ok((socket, _)) = accepted else {
                thread::sleep(PAUSE); // too many open files, perhaps
                continue;
            };
            number += 1;
            let Ok(handle) = socket.try_clone() else { continue };
            let mut strangers = lock(&self.strangers);
            if self.ends.load(Ordering::Acquire) {
                return; // nobody would let this one go
            }
            if strangers.len() >= MOST_STRANGERS.max(2 * self.above.len()) {
                let place = least_welcome(&strangers);
                place.iter().for_each(|place| strangers.remove(*place).socket.shut_down());
            }
            strangers.push(Stranger { number, socket: handle, came: Came::Connected });
            drop(strangers);
            let meet = move || {
                let _ = self.meet(socket, number);
                let _ = self.forget(number);
            };
            let _ = thread::Builder::new().spawn_scoped(scope, meet);
        }
    }

    /// The caller has come so far; an error if it was let go meanwhile.
    fn note(&self, number: u64, came: Came) -> io::Result<()> {
        let mut strangers = lock(&self.strangers);
        let it = strangers.iter_mut().find(|it| it.number == number);
        it.map(|it| it.came = came).ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
    }

    /// The caller is none of the strangers from now on; an error if it was let go.
    fn forget(&self, number: u64) -> io::Result<()> {
        let mut strangers = lock(&self.strangers);
        let place = strangers.iter().position(|it| it.number == number);
        place.map(|place| drop(strangers.remove(place))).ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
    }

    /// Hears who calls, and lets it prove it.
    fn meet(&self, mut socket: Socket, number: u64) -> io::Result<()> {
        let mut timed = socket.until(Instant::now() + SHAKING);
        let preamble = Preamble::read(&mut timed)?;
        let Preamble::Rank { rank } = preamble else { return Err(io::ErrorKind::InvalidData.into()) };
        let rank = rank as usize;
        if !self.above.contains(&rank) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.note(number, Came::SaidRank)?;
        let entry = &self.table[rank];
        let connection = self.own.server_of(&entry.listens.certificate).map_err(io::Error::other)?;
        let shaken = offer(connection, entry.levels.exactly(), &preamble.bound(), &mut timed)?;
        self.note(number, Came::Proved)?;
        timed.write_all(&[WELCOME])?;
        // The caller may have given up just before; it calls again then.
        hear(CONFIRMED, &mut socket.until(Instant::now() + SHAKING))?;
        self.forget(number)?;
        self.keep(rank, socket, shaken)
    }

    /// Calls one after the other, who does not answer again later.
    fn call(&self) {
        while !self.ends.load(Ordering::Acquire) {
            let next = lock(&self.to_call).pop_front();
            let Some(rank) = next else { return };
            if self.call_once(rank).is_err() {
                lock(&self.to_call).push_back(rank);
                thread::sleep(PAUSE);
            }
        }
    }

    fn call_once(&self, rank: usize) -> io::Result<()> {
        let dialled = dial(&self.table[rank].listens.address.into(), DIALLING)?;
        let handle = dialled.socket.try_clone()?;
        let mut calls = lock(&self.calls);
        if self.ends.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        calls.insert(rank, handle);
        drop(calls);
        let proved = self.prove(rank, dialled);
        lock(&self.calls).remove(&rank);
        let (socket, shaken) = proved?;
        self.keep(rank, socket, shaken)
    }

    /// Says and proves which rank this is, until the other one has heard it.
    fn prove(&self, rank: usize, dialled: Dialled) -> io::Result<(Socket, Shaken)> {
        let Entry { listens, levels, .. } = &self.table[rank];
        let preamble = Preamble::Rank { rank: self.me as u32 };
        let expected = Expected::Holder(self.own, &listens.certificate);
        let until = Instant::now() + SHAKING;
        let Introduced { mut socket, shaken, .. } = dialled.introduce_and_wait(preamble, expected, *levels, SHAKING)?;
        let mut timed = socket.until(until);
        hear(WELCOME, &mut timed)?;
        timed.write_all(&[CONFIRMED])?;
        Ok((socket, shaken.ok_or(io::ErrorKind::InvalidData)?))
    }

    fn keep(&self, rank: usize, socket: Socket, shaken: Shaken) -> io::Result<()> {
        socket.set_patience(None)?;
        socket.set_blocking(false)?;
        let socket = OwnedFd::from(socket);
        end_if_cut(&socket)?;
        let link = Link::new(socket, self.table[rank].levels, shaken.into_contexts());
        let _ = self.done.send((rank, link));
        Ok(())
    }
}

fn hear(expected: u8, timed: &mut Timed<'_>) -> io::Result<()> {
    let mut word = [0];
    timed.read_exact(&mut word)?;
    if word == [expected] { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Two machines may not reach each other any more while both reach the launcher: who waits hears of it after ten seconds. A
/// limit for what is sent would end a connection with who merely computes, too.
fn end_if_cut(socket: &OwnedFd) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_tcp_keepidle(socket, SILENCE)?;
    sockopt::set_tcp_keepintvl(socket, BETWEEN_QUESTIONS)?;
    Ok(sockopt::set_tcp_keepcnt(socket, QUESTIONS)?)
}

#[cfg(test)]
mod tests;
