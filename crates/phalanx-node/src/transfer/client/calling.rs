//! Calls an executor for a transfer: its control link, what is agreed on over it, and then the transfer itself. By a user's
//! machine, and by an executor that copies to another.

use super::dialling::{Dialling, Reached};
use super::job::CopyError;
use crate::control::{BEAT, tell};
use crate::dial::{call, check_version, printable, unreachable};
use crate::dialler::{Dialler, is_unexpected};
use crate::transfer::endpoint::end::{End, usual_threads};
use crate::transfer::endpoint::greeting::Ear;
use phalanx_core::level::{Level, LevelSet};
use phalanx_core::wire::transfer::{MOST_BODY, Message, Totals};
use phalanx_net::address::Address;
use phalanx_net::dial::{Expected, Introduced, Target};
use phalanx_net::identity::{Client, Member, Role};
use phalanx_net::link::Link;
use phalanx_net::preamble::Preamble;
use phalanx_net::stream::Protection;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// For the executor's next word.
const PATIENCE: Duration = Duration::from_secs(10);

/// An executor that was called and has said which levels it takes.
pub struct Called {
    /// As it was named.
    pub address: Address,
    pub at: SocketAddr,
    /// The name in its certificate.
    pub name: String,
    /// Where the streams go.
    again: Target,
    pub certificate: Vec<u8>,
    pub link: Arc<Link>,
    pub levels: LevelSet,
    /// It is on this machine.
    pub is_here: bool,
    client: Client,
    ear: Ear,
    began: Instant,
    /// As what it was called.
    who: &'static str,
}

/// By whom an executor is called.
#[derive(Debug, Clone, Copy)]
pub enum Caller<'a> {
    /// A user.
    User(&'a Dialler),
    /// An executor, which was told by their user which certificate the other one has.
    Executor(&'a Member, &'a [u8]),
}

/// How the streams of a transfer are to be.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub protection: Protection,
    /// None: as many as are worth it.
    pub streams: Option<u16>,
    /// None: one more than there are cores.
    pub threads: Option<u16>,
}

/// What came of a transfer, beside its failures.
#[derive(Debug, Clone, Copy)]
pub struct Ran {
    pub totals: Totals,
    pub streams: u16,
    pub lost: u32,
    pub altered: u32,
    /// From the call until the first stream could carry bytes.
    pub setup: Duration,
}

impl Caller<'_> {
    /// Opens a control link to the executor that is expected at the address.
    fn call(self, address: &Address) -> Result<(Client, Introduced), CopyError> {
        let member = match self {
            Caller::User(dialler) => dialler.member(),
            Caller::Executor(member, _) => member,
        };
        let client = member.client_at(Role::Executor, &address.to_string());
        let client = client.map_err(|error| CopyError::Identity(error.to_string()))?;
        let called = match self {
            Caller::User(dialler) => call(address, Expected::Judged(&client, &dialler.at(address)), Preamble::Transfer),
            Caller::Executor(_, certificate) => call(address, Expected::Same(&client, certificate), Preamble::Executor),
        };
        match called {
            Ok(called) => Ok((client, called)),
            Err(error) if is_unexpected(&error) => Err(CopyError::Identity(unreachable(address, &error))),
            Err(error) if self.is_refusal(&error) => {
                Err(CopyError::Refused(format!("another executor than the user's answers at {address}")))
            }
            Err(error) => Err(CopyError::Unreachable(unreachable(address, &error))),
        }
    }

    /// Whether the certificate is another one than this executor was told. An error of the system is of another kind.
    fn is_refusal(self, error: &io::Error) -> bool {
        let is_of_system = error.raw_os_error().is_some();
        matches!(self, Caller::Executor(..)) && error.kind() == io::ErrorKind::PermissionDenied && !is_of_system
    }
}

impl Called {
    /// Calls the executor that is named so; `on_link` is told the link before the executor has spoken.
    pub fn new(address: &Address, caller: Caller<'_>, on_link: impl FnOnce(&Arc<Link>)) -> Result<Called, CopyError> {
        let began = Instant::now();
        let away = |error: io::Error| CopyError::Unreachable(unreachable(address, &error));
        let (client, called) = caller.call(address)?;
        let name = called.name().map_err(|error| CopyError::Identity(error.to_string()))?;
        let (at, again) = (called.address().map_err(away)?, called.again.clone());
        let (is_here, certificate) = (called.socket.is_within_machine(), called.certificate());
        let (link, reader) = called.link(MOST_BODY).map_err(away)?;
        on_link(&link);
        let (address, ear, levels) = (address.clone(), Ear::new(reader), LevelSet::from(Level::Private));
        let who = match caller {
            Caller::Executor(..) => "the executor that copies to it",
            Caller::User(_) => "this user",
        };
        let mut called =
            Called { address, at, name, again, certificate, link, levels, is_here, client, ear, began, who };
        match called.hear()? {
            Message::Offer { phalanx, levels } => {
                check_version(&called.address, &phalanx).map_err(CopyError::Refused)?;
                called.levels = levels;
            }
            Message::Refused { reason } => {
                return Err(CopyError::Refused(format!("{}: {}", called.address, printable(&reason))));
            }
            _ => return Err(called.nonsense()),
        }
        Ok(called)
    }

    /// Does something that takes a while, and lets the executor know meanwhile that something is to come.
    pub fn keep_waiting<T>(&self, what: impl FnOnce() -> T) -> T {
        let (done, is_done) = mpsc::channel::<()>();
        let link = &self.link;
        thread::scope(|scope| {
            scope.spawn(move || {
                while is_done.recv_timeout(BEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
                    tell(link, &Message::Beat);
                }
            });
            let result = what();
            drop(done);
            result
        })
    }

    /// Says something, and hears the answer.
    pub fn ask(&mut self, what: &Message) -> Result<Message, CopyError> {
        tell(&self.link, what);
        match self.hear()? {
            Message::Refused { reason } => Err(CopyError::Refused(format!("{}: {}", self.address, printable(&reason)))),
            answer => Ok(answer),
        }
    }

    fn hear(&mut self) -> Result<Message, CopyError> {
        self.ear.hear(PATIENCE).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => self.nonsense(),
            io::ErrorKind::TimedOut => CopyError::Unreachable(format!("{}: no answer in time", self.address)),
            _ => {
                let what = format!("the executor refused {} (its own output says why)", self.who);
                CopyError::Unreachable(format!("{}: {what}", self.address))
            }
        })
    }

    /// It has said what nobody says here.
    pub fn nonsense(&self) -> CopyError {
        CopyError::Refused(format!("{} does not speak as an executor does", self.address))
    }

    /// What reads its further words, and those that were read already.
    pub fn into_ear(self) -> Ear {
        self.ear
    }

    /// Serves the transfer that was begun under the token until it has ended; `on_pause` is called often.
    pub fn run(
        self,
        end: &End,
        token: [u8; 12],
        terms: Terms,
        mut on_pause: impl FnMut(&Link),
    ) -> Result<Ran, CopyError> {
        let Called { client, again: target, certificate, ear, began, .. } = self;
        let reached =
            Reached { client, target, certificate, protection: terms.protection, token, streams: terms.streams };
        let streams = Dialling::new(&reached, end);
        let (threads, (reader, heard)) = (terms.threads.unwrap_or_else(usual_threads), ear.into_parts());
        let served = end.run(reader, heard, threads, |scope, link| {
            streams.open_more(scope);
            on_pause(link);
        });
        served.map_err(|error| CopyError::Refused(error.to_string()))?;
        let (common, name) = (end.common(), self.address);
        let Some(totals) = common.totals() else {
            return Err(match (common.broken(), streams.trouble()) {
                (Some(why), _) => CopyError::Refused(format!("{name}: {why}")),
                (None, Some(trouble)) => CopyError::Refused(format!("{name}: no stream can be opened: {trouble}")),
                (None, None) => CopyError::Cut(format!("{name} is out of reach")),
            });
        };
        let (lost, altered) = (common.lost.load(Ordering::Relaxed), common.altered.load(Ordering::Relaxed));
        Ok(Ran { totals, streams: streams.wanted(), lost, altered, setup: streams.ready(began) })
    }
}
