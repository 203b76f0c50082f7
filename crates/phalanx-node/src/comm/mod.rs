//! Comms: links between the processes of a program of Dask, whose event loops are Python's.
//!
//! An event loop asks a comm for messages and hands it some, and is never kept. Threads of [`Readers`] read, write and protect. They
//! tell the loop by a [`Bells`] when there is something to take.

mod bells;
mod connect;
mod inbox;
mod listen;

pub use bells::Bells;
pub use connect::{CommError, Connect, Dialling};
pub use listen::CommListener;

use bytes::Bytes;
use inbox::Inbox;
use phalanx_core::error::WireError;
use phalanx_core::level::{Agreed, Level, Mark, Policy};
use phalanx_core::wire::comm::{MOST_BEFORE, Message, encode_message};
use phalanx_net::forks::OfProcess;
use phalanx_net::identity::{Member, Role};
use phalanx_net::link::{Attended, Link, Reader, Readers};
use phalanx_net::socket::Socket;
use phalanx_net::tls::Shaken;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Messages of at least this many bytes are protected and written by another thread than the caller's, and so are those behind them. To
/// write a short one is cheaper than to wake a thread. The bound was not tuned.
const LONG: usize = 32 << 10;

/// The threads of this process that read comms.
static READERS: LazyLock<OfProcess<Option<Arc<Readers>>>> = LazyLock::new(OfProcess::default);
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The rules of both ends of a comm.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The levels that links may have.
    pub policy: Policy,
    /// The names in the certificates of the members that belong to the program, in addition to this member's own. `*`: every member.
    pub members: Vec<String>,
    /// Limit on the bytes of a message that arrives.
    pub most: u64,
    /// A peer whose system does not answer for this long is gone.
    pub silence: Duration,
}

impl Rules {
    /// Checks that the peer belongs to the program.
    fn check(&self, own: &Member, name: &str) -> Result<(), String> {
        let names = self.members.iter().map(String::as_str).chain([own.name.as_str()]);
        match names.into_iter().any(|member| member == "*" || member.eq_ignore_ascii_case(name)) {
            true => Ok(()),
            false => Err(format!("{name} is not among the members of this Dask cluster")),
        }
    }
}

/// One link of a program of Dask. Dropping it ends the link.
#[derive(Debug)]
pub struct Comm {
    attended: Arc<Attended>,
    inbox: Arc<Inbox>,
    /// Where the last message ends, among the bytes of the link.
    end: AtomicU64,
    /// The number by which [`Bells`] tell of it.
    pub number: u64,
    /// The name in the peer's certificate. `None`: the system has confirmed that it is a process of this user on this machine.
    pub peer: Option<String>,
    /// The levels, and what decided them. `None`: this end is the server, and the client has decided.
    pub agreed: Option<Agreed>,
    /// The names of the two ends: the address of this end, if the link is over a network, and the process at the other end
    /// otherwise.
    pub ends: Ends,
}

/// The ends of a comm, as far as the system tells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// The addresses of this end and of the other one.
    Network(SocketAddr, SocketAddr),
    /// Both on this machine: the numbers of this process and of the other one.
    Machine(u32, u32),
}

impl Ends {
    fn of(socket: &Socket) -> io::Result<Ends> {
        match (socket.here(), socket.peer()) {
            (Ok(here), Ok(there)) => Ok(Ends::Network(here, there)),
            _ => Ok(Ends::Machine(std::process::id(), process_at(socket)?)),
        }
    }
}

#[cfg(target_os = "linux")]
fn process_at(socket: &Socket) -> io::Result<u32> {
    socket.peer_process()
}

#[cfg(not(target_os = "linux"))]
fn process_at(_: &Socket) -> io::Result<u32> {
    Ok(0)
}

impl Comm {
    fn open(
        socket: Socket,
        shaken: Option<Shaken>,
        rules: &Rules,
        peer: Option<String>,
        agreed: Option<Agreed>,
        bells: &Arc<Bells>,
    ) -> io::Result<Comm> {
        let ends = Ends::of(&socket)?;
        socket.end_when_silent(rules.silence)?;
        let (link, mut reader): (Arc<Link>, Reader) =
            Link::direct(socket, shaken, rules.most.saturating_add(MOST_BEFORE))?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let inbox = Arc::new(Inbox::new(rules.most, number, bells.clone()));
        reader.set_gate(inbox.gate());
        let attended = readers()?.attend(link, reader, inbox.clone())?;
        Ok(Comm { attended, inbox, end: AtomicU64::new(0), number, peer, agreed, ends })
    }

    /// The level of messages.
    pub fn level(&self) -> Level {
        self.attended.link.levels().of(Mark::Data)
    }

    /// The next message. `None`: there is none, and the bells will tell of one, or of the end.
    ///
    /// # Errors
    /// The link has ended, and all messages are taken.
    pub fn take(&self) -> Result<Option<Message>, String> {
        let (taken, reads_on) = self.inbox.take();
        if reads_on {
            self.attended.read_on();
        }
        taken
    }

    /// Sends a message. See [`encode_message`] for its pieces. The caller keeps to [`Comm::has_room`].
    ///
    /// # Errors
    /// There are too many pieces.
    pub fn send(&self, pieces: Vec<Bytes>, counts: &[usize], aligned: Option<usize>) -> Result<(), WireError> {
        let (mut bytes, is_idle) = (0, self.is_written());
        for (start, body) in encode_message(pieces, counts, aligned)? {
            bytes += start.len() + body.iter().map(Bytes::len).sum::<usize>();
            let end = self.attended.link.queue(Mark::Data, start, body);
            self.end.store(end, Ordering::Release);
        }
        match bytes < LONG && is_idle {
            true => self.attended.write_here(),
            false => self.attended.write(),
        }
        Ok(())
    }

    /// Whether at most `most` bytes wait to be written. If not, the bells will tell when there are fewer.
    pub fn has_room(&self, most: usize) -> bool {
        let link = &self.attended.link;
        let has_room = || if most == 0 { self.is_written() } else { link.waiting_bytes() <= most };
        let has_room = || has_room() || link.is_closed();
        has_room() || {
            self.inbox.wait_for_room();
            has_room() // what was written before the inbox knew
        }
    }

    /// Whether the socket has taken all messages.
    fn is_written(&self) -> bool {
        self.attended.link.is_written(self.end.load(Ordering::Acquire))
    }

    /// The bytes that were written to the network so far.
    pub fn written(&self) -> u64 {
        self.attended.link.counters().sent.load(Ordering::Relaxed)
    }

    /// Why the link has ended, if it has, and nothing is left to take.
    pub fn ended(&self) -> Option<String> {
        self.inbox.ended()
    }

    /// Ends the link. Bytes that wait to be written are lost.
    pub fn close(&self) {
        self.attended.link.close();
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        self.close();
    }
}

/// The threads of this process. The first comm starts them.
fn readers() -> io::Result<Arc<Readers>> {
    let start = |readers: &mut Option<Arc<Readers>>| match readers {
        Some(readers) => Ok(readers.clone()),
        None => Ok(readers.insert(Arc::new(Readers::start()?)).clone()),
    };
    READERS.with(start).unwrap_or_else(|| Err(io::Error::other("this process was forked while a comm was opened")))
}

/// The roles that members of a program of Dask have, best first.
const fn is_fit(role: Role) -> bool {
    matches!(role, Role::User | Role::Executor)
}
