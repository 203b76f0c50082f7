//! Interpreter processes: how they are started and ended, and what they do first.
//!
//! The parent keeps a *tether* to each interpreter: a unix socket that is the child's standard input, or on Windows a connection whose
//! end the child reads from its standard input. Over it the child is told
//! who it is, and receives its data link. When the tether ends, for whatever reason the parent ended, the child ends too. The
//! key that an interpreter authenticates with is made for it alone. The code that it runs never sees the machine's key.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use system::end_process;
#[cfg(target_os = "linux")]
pub(crate) use unix::{end_group, is_zombie};

use crate::cage::{Bars, Opened};
use crate::delegated::file::{Kept, VARIABLE};
use crate::delegated::{self, Papers};
use crate::ending::{self, Before};
use crate::gpus::Taken;
#[cfg(target_os = "linux")]
use crate::keeper::Keeper;
#[cfg(target_os = "linux")]
use crate::limits::{Own, Watched, Why};
use crate::printing::{self, Printing, open_standard_streams};
use bytes::Bytes;
use phalanx_core::event::Cause;
use phalanx_core::level::Levels;
use phalanx_core::wire::MAX_BODY;
use phalanx_core::wire::machines::Kind;
use phalanx_net::identity::KeyedCertificate;
use phalanx_net::link::{Link, Reader};
use phalanx_net::socket::Socket;
use phalanx_net::tls::offer;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use system::{Passenger, Spawned};
use zeroize::Zeroizing;

/// A handshake takes milliseconds, or seconds where both machines are busy.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(30);
/// Most bytes of the first message. The tether carries only a few paths and certificates.
const MOST_BEGIN: u32 = 1 << 20;

const THREADS: [&str; 4] = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"];

/// The first message to an interpreter.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Begin {
    /// The machine's name, for error messages.
    pub machine: String,
    /// The folders of the user's modules. Set only on the user's own machine.
    pub path: Vec<String>,
    /// What its cage opens. `None`: it has no cage, or one that does not keep files apart.
    pub opened: Option<Opened>,
    /// The account that its user's processes run as, if it is not the executor's.
    pub account: Option<u32>,
    /// How its data link is protected.
    pub levels: Levels,
    /// What the peer said in the clear before the handshake, on which the keys depend: the executor has read it. Empty on
    /// the user's own machine, where nothing is said before.
    pub said: Vec<u8>,
    /// Certificate, key, and the peer's certificate. `None` if the data link has no handshake.
    pub secrets: Option<Secrets>,
    /// With which it can act for its user. `None` on the user's own machine.
    pub papers: Option<Papers>,
}

/// What the interpreter's handshake needs: its own identity, and that of its only peer.
#[derive(Clone, Serialize, Deserialize)]
pub struct Secrets {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
    peer: Vec<u8>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// The secrets of an interpreter that owns `own` and talks to the owner of `peer`.
    pub fn new(own: &KeyedCertificate, peer: &[u8]) -> Secrets {
        let (certificate, key) = own.to_parts();
        Secrets { certificate, key, peer: peer.to_vec() }
    }
}

/// A started interpreter, as its parent sees it. Dropping it ends the interpreter.
#[derive(Debug)]
pub struct Process {
    started: Started,
    tether: Socket,
    before: Before,
    /// How the interpreter ended, once [`Process::end`] was called.
    end: Option<Cause>,
    /// The watch over its memory. `None`: nothing limits it, or its keeper does.
    #[cfg(target_os = "linux")]
    watched: Option<Arc<Watched>>,
    /// The graphics processors that are its own.
    gpus: Option<Taken>,
}

/// Whose child the interpreter is.
#[derive(Debug)]
enum Started {
    /// This process's.
    Here(Spawned),
    /// That of the keeper of its cage.
    #[cfg(target_os = "linux")]
    Kept(Keeper, u32),
}

impl Started {
    /// Starts the command. Without `bars` it is not caged.
    #[cfg(target_os = "linux")]
    fn start(mut command: Command, bars: Option<&Bars>) -> io::Result<Started> {
        let Some(bars) = bars else { return Ok(Started::Here(Spawned::start(command)?)) };
        let (keeper, mut begun) = Keeper::start(bars, std::slice::from_mut(&mut command))?;
        let (process, _) = begun.pop().ok_or(io::ErrorKind::InvalidInput)??;
        Ok(Started::Kept(keeper, process))
    }

    /// Elsewhere there is no cage to enter.
    #[cfg(not(target_os = "linux"))]
    fn start(command: Command, _: Option<&Bars>) -> io::Result<Started> {
        Ok(Started::Here(Spawned::start(command)?))
    }

    /// Gives the interpreter its end of the tether, if it did not inherit it.
    fn take_on(&mut self, passenger: Passenger) -> io::Result<()> {
        match self {
            Started::Here(child) => child.take_on(passenger),
            #[cfg(target_os = "linux")]
            Started::Kept(..) => Ok(()),
        }
    }

    fn process(&self) -> u32 {
        match self {
            Started::Here(child) => child.number(),
            #[cfg(target_os = "linux")]
            Started::Kept(_, process) => *process,
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Started::Here(child) => child.has_ended(),
            #[cfg(target_os = "linux")]
            Started::Kept(keeper, _) => keeper.has_news(),
        }
    }

    fn begin_end(&self) {
        match self {
            Started::Here(child) => child.begin_end(),
            #[cfg(target_os = "linux")]
            Started::Kept(keeper, _) => keeper.begin_end(),
        }
    }

    /// Ends the interpreter and what it has started. Returns how it ended.
    fn end(&mut self, before: Before) -> Cause {
        let how = match self {
            Started::Here(child) => child.end(before),
            #[cfg(target_os = "linux")]
            Started::Kept(keeper, process) => match keeper.end().iter().find(|ended| ended.process == *process) {
                Some(ended) => match keeper.why() {
                    Some(Why::Program(why)) => return Cause::Exceeded { why },
                    Some(Why::Machine(why)) => why,
                    None => ending::tell(ended.status, ended.resident, before),
                },
                None => "its keeper was ended".to_owned(),
            },
        };
        Cause::Died { how }
    }
}

/// Sets the libraries' thread counts, unless the user or the machine's owner did. The interpreters are the parallelism, and threads of
/// libraries would compete with them.
fn set_threads(command: &mut Command) {
    let given: Vec<OsString> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
    let is_set = |name: &&&str| std::env::var_os(name).is_some() || given.iter().any(|given| given == **name);
    command.envs(THREADS.iter().filter(|name| !is_set(name)).map(|name| (name, "1")));
}

impl Process {
    /// Starts an interpreter with `command`: the Python executable and its arguments. Without `bars` it is not caged. `gpus`: graphics
    /// processors that are its own.
    pub fn start(command: &[String], begin: &Begin, bars: Option<&Bars>, gpus: Option<Taken>) -> io::Result<Process> {
        let (tether, child_end) = Socket::pair()?;
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments);
        let passenger = system::tether(&mut command, child_end);
        bars.into_iter().for_each(|bars| bars.furnish(&mut command));
        if let Some(folder) = bars.and_then(Bars::folder) {
            command.env(VARIABLE, folder.join(Kept::name()));
        }
        if let Some(gpus) = &gpus {
            command.envs(gpus.variables());
        }
        set_threads(&mut command);
        let before = Before::now();
        let started = Started::start(command, bars)?;
        // held from here on, so that the child is ended if anything fails
        let mut process = Process {
            started,
            tether,
            before,
            end: None,
            #[cfg(target_os = "linux")]
            watched: None,
            gpus,
        };
        process.started.take_on(passenger)?;
        let bytes = Zeroizing::new(postcard::to_stdvec(begin).map_err(io::Error::other)?);
        (&process.tether).write_all(&(bytes.len() as u32).to_le_bytes())?;
        (&process.tether).write_all(&bytes)?;
        Ok(process)
    }

    /// Passes the interpreter its data link.
    pub fn give(&self, data: &Socket) -> io::Result<()> {
        system::pass(&self.tether, data, self.started.process())
    }

    /// Lets the watch end the interpreter, which is a child of this process, when it uses too much memory.
    #[cfg(target_os = "linux")]
    pub fn watch(&mut self, own: &Own) {
        self.watched = own.watch(self.number());
    }

    /// Whether the interpreter has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.end.is_some() || self.started.has_ended()
    }

    /// Whether the interpreter lives and is not stopped. A process that only waits for the CPU or the disk counts as alive.
    pub fn is_alive(&self) -> bool {
        self.end.is_none() && ending::is_running(self.started.process())
    }

    /// Whether the interpreter is stopped, for example by a debugger.
    pub fn is_stopped(&self) -> bool {
        self.end.is_none() && ending::is_stopped(self.started.process())
    }

    /// The number of the interpreter's process.
    pub fn number(&self) -> u32 {
        self.started.process()
    }

    /// Begins to end the interpreter, and what it has started, and waits for nothing. [`Process::end`] must follow.
    pub fn begin_end(&self) {
        if self.end.is_none() {
            self.started.begin_end();
        }
    }

    /// Ends the interpreter, and what it has started, at once. Returns how it ended, even if it had ended before.
    pub fn end(&mut self) -> Cause {
        if let Some(cause) = &self.end {
            return cause.clone();
        }
        #[cfg(target_os = "linux")]
        let exceeded = self.watched.take().and_then(|watched| watched.leave());
        let cause = self.started.end(self.before);
        self.gpus = None; // free for the next one
        #[cfg(target_os = "linux")]
        let cause = exceeded.map_or(cause, |why| Cause::Exceeded { why });
        self.end.insert(cause).clone()
    }

    /// The output that an ended interpreter printed and did not send. Only the user's own process may read it. An executor must
    /// not, because the output is the user's data.
    pub fn last_words(&self) -> Vec<(Kind, Bytes)> {
        printing::left(&self.tether)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// The child's first steps: receives the parent's message and the data link, and starts to forward what is printed. Waits until
/// the link is there. From then on the process ends when its parent does.
pub fn begin() -> io::Result<(Begin, Arc<Link>, Reader, Arc<Printing>)> {
    open_standard_streams()?;
    let mut tether = system::take_tether()?;
    let mut length = [0; 4];
    tether.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MOST_BEGIN {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this process is started by an executor only"));
    }
    let mut bytes = Zeroizing::new(vec![0; length as usize]);
    tether.read_exact(&mut bytes)?;
    let mut begin: Begin = postcard::from_bytes(&bytes).map_err(io::Error::other)?;
    let mut data = tether.receive_socket()?;
    if let Some(papers) = begin.papers.take() {
        delegated::begin(&begin.machine, papers);
    }
    // Taken out, so that it is not kept longer than the handshake needs it.
    let (link, reader) = match begin.secrets.take() {
        None => Link::sharing(data, MAX_BODY)?, // only over a unix socket; the manager does the same then
        Some(secrets) => {
            let own = KeyedCertificate::from_parts(secrets.certificate, secrets.key);
            let connection = own.server_of(&secrets.peer).map_err(io::Error::other)?;
            let until = Instant::now() + HANDSHAKE_PATIENCE;
            let shaken = offer(connection, begin.levels.exactly(), &begin.said, &mut data.until(until))?;
            Link::new(data, Some(shaken), MAX_BODY)?
        }
    };
    let reads_rest = !begin.path.is_empty(); // the parent is the user's own program
    let printing = Printing::begin(&link, &tether, reads_rest)?;
    std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
        let _ = tether.read(&mut [0]);
        end_process(0);
    })?;
    Ok((begin, link, reader, printing))
}
