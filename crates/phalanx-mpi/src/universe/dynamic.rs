//! Processes that a program starts itself, and groups of processes that find each other at ports (MPI 5.0, 11.8 to 11.10).
//!
//! The root asks the launcher and tells the others what came of it.

pub use phalanx_core::wire::universe::Wanted;

use super::questions::ask;
use crate::error::{Class, Error, Result, fail};
use crate::objects::comm::Comm;
use crate::operations::collective::{Call, tell_all};
use crate::operations::comm_create::{choose_context, with_side};
use crate::process::world::World;

use phalanx_core::wire::universe::{Answer, MOST_PORT_NAME, Question, Side};
use phalanx_net::identity::random_token;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, c_int};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// What came of a spawn: the communicator with the children, or why there is none.
pub struct Spawned {
    /// The communicator with the children.
    pub made: Result<Arc<Comm>>,
    /// The error of each process that was asked for.
    pub codes: Codes,
}

/// For each process that was asked for its error, of which there may be very many.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Codes {
    count: usize,
    /// These could not be started, by their places.
    failed: Vec<u32>,
    /// The others' error: they were ended for these, or none was started.
    others: Option<Class>,
}

impl Codes {
    /// The number of processes that were asked for.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The error of a process, by its place in the request; `None`: it was started.
    pub fn of(&self, place: usize) -> Option<Class> {
        let failed = self.failed.iter().any(|failed| *failed as usize == place);
        if failed { Some(Class::Spawn) } else { self.others }
    }
}

/// Starts programs (MPI_Comm_spawn_multiple); what the root says counts.
pub async fn spawn(call: Call, root: usize, programs: Result<Vec<Wanted>>) -> Result<Spawned> {
    let (world, is_root) = (call.world, call.rank() == root);
    let own = match programs {
        Ok(programs) if is_root => Some(ask_for(world, &call.comm, programs).await),
        Err(error) if is_root => Some((Err(error), Codes::default())),
        _ => None,
    };
    let (learnt, codes) = tell_all(&call, root, own.as_ref()).await?;
    Ok(Spawned { made: make(&call, learnt), codes })
}

/// The new communicator's context and the other side, or why there is none; and for each process its error.
async fn ask_for(world: &'static World, comm: &Comm, programs: Vec<Wanted>) -> (Result<Side>, Codes) {
    let context = choose_context(world, comm.is_secured());
    let parents = Side { context, processes: comm.group.processes.clone() };
    let count = programs.iter().map(|program| program.processes as usize).sum();
    let codes = |failed, others| Codes { count, failed, others };
    match ask(world, Question::Spawn { parents, programs }).await {
        Ok(Answer::Side(children)) => (Ok(Side { context, processes: children.processes }), codes(Vec::new(), None)),
        Ok(Answer::NotSpawned { text, failed }) => (fail(Class::Spawn, text), codes(failed, Some(Class::Other))),
        Ok(_) => (Err(nonsense()), codes(Vec::new(), Some(Class::Intern))),
        Err(error) => (Err(error.clone()), codes(Vec::new(), Some(error.class))),
    }
}

/// Whether a group waits at a port or comes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The side that accepts.
    Accepts,
    /// The side that connects.
    Connects,
}

/// MPI_Comm_accept and MPI_Comm_connect; what the root says counts.
pub async fn meet(call: Call, root: usize, end: End, port: String) -> Result<Arc<Comm>> {
    let mut own = None;
    if call.rank() == root {
        let context = choose_context(call.world, call.comm.is_secured());
        let side = Side { context, processes: call.comm.group.processes.clone() };
        own = Some(ask_for_other(call.world, end, port, side).await);
    }
    make(&call, tell_all(&call, root, own.as_ref()).await?)
}

async fn ask_for_other(world: &'static World, end: End, port: String, side: Side) -> Result<Side> {
    let own = side.context;
    let question = match end {
        End::Accepts => Question::Accept { port, side },
        End::Connects => Question::Connect { port, side },
    };
    let Answer::Side(other) = ask(world, question).await? else { return Err(nonsense()) };
    let context = if end == End::Accepts { own } else { other.context };
    Ok(Side { context, ..other })
}

/// The communicator of what the root has learnt.
fn make(call: &Call, learnt: Result<Side>) -> Result<Arc<Comm>> {
    let other = learnt?;
    with_side(call.world, call.comm.group.clone(), other.context, &other.processes)
}

/// A new port's name (MPI_Open_port). Who does not hear it cannot guess it.
pub async fn open_port(world: &World) -> Result<String> {
    let digits: String = random_token().iter().map(|byte| format!("{byte:02x}")).collect();
    let port = format!("phalanx-port-{digits}");
    ask(world, Question::OpenPort { port: port.clone() }).await?;
    Ok(port)
}

/// MPI_Close_port.
pub async fn close_port(world: &World, port: String) -> Result<()> {
    ask(world, Question::ClosePort { port }).await.map(drop)
}

/// MPI_Publish_name.
pub async fn publish(world: &World, service: String, port: String) -> Result<()> {
    check_name(&service)?;
    ask(world, Question::Publish { service, port }).await.map(drop)
}

/// MPI_Unpublish_name.
pub async fn unpublish(world: &World, service: String) -> Result<()> {
    ask(world, Question::Unpublish { service }).await.map(drop)
}

/// MPI_Lookup_name.
pub async fn look_up(world: &World, service: String) -> Result<String> {
    match ask(world, Question::Lookup { service }).await {
        Ok(Answer::Port(port)) => Ok(port),
        Ok(_) => Err(nonsense()),
        // A name that is not published has one class here, and the other where it is taken back (MPI 5.0, 9.4).
        Err(error) if error.class == Class::Service => fail(Class::Name, error.text),
        Err(error) => Err(error),
    }
}

/// The intercommunicator with a process at the other end of a socket (MPI_Comm_join); None where that is no process of this
/// program. Each end tells the other a port of its own, which is a service too, so that both see whether they can meet.
pub async fn join_over(call: Call, socket: c_int) -> Result<Option<Arc<Comm>>> {
    let world = call.world;
    let own = open_port(world).await?;
    publish(world, own.clone(), own.clone()).await?;
    let met = async {
        let other = swap_names(socket, &own)?;
        if other == own || look_up(world, other.clone()).await.is_err() {
            return Ok(None);
        }
        let (end, port) = if own < other { (End::Accepts, own.clone()) } else { (End::Connects, other) };
        meet(call, 0, end, port).await.map(Some)
    };
    let met = met.await;
    close_port(world, own.clone()).await?;
    unpublish(world, own).await?;
    met
}

/// Says a port's name and hears the other's; all names are equally long.
fn swap_names(socket: c_int, own: &str) -> Result<String> {
    // SAFETY: the caller's, who does not close it meanwhile.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    let failed = |error: io::Error| Error::new(Class::Arg, format!("fd: {error}"));
    let (mut other, mut sent, mut got) = (vec![0; own.len()], 0, 0);
    while sent < own.len() {
        sent += retry(|| rustix::io::write(socket, &own.as_bytes()[sent..])).map_err(failed)?;
    }
    while got < other.len() {
        match retry(|| rustix::io::read(socket, &mut other[got..])).map_err(failed)? {
            0 => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
            count => got += count,
        }
    }
    String::from_utf8(other).map_err(|_| Error::new(Class::Arg, "fd: the other end does not call MPI_Comm_join"))
}

fn retry(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return outcome.map_err(io::Error::from),
        }
    }
}

/// A program in one of the folders of a hint `path`, if it is there.
pub fn find_program(command: Vec<u8>, path: Option<&str>) -> Vec<u8> {
    let name = Path::new(OsStr::from_bytes(&command));
    let folders = path.into_iter().flat_map(|path| path.split(':')).filter(|_| name.components().count() == 1);
    let found = folders.map(|folder| Path::new(folder).join(name)).find(|program| program.is_file());
    found.map_or(command.clone(), |program| program.into_os_string().into_encoded_bytes())
}

fn check_name(service: &str) -> Result<()> {
    match service.len() <= MOST_PORT_NAME {
        true => Ok(()),
        false => fail(Class::Name, format!("the name of the service has more than {MOST_PORT_NAME} bytes")),
    }
}

fn nonsense() -> Error {
    Error::new(Class::Intern, "the launcher's answer is none to what was asked")
}
