//! Sessions: MPI without a world that exists of itself (MPI 5.0, 11.3).

use crate::constants::MPI_SESSION_NULL;
use crate::error::{Class, Error, Result, fail};
use crate::group::Group;
use crate::handle::Table;
use crate::info::Info;
use crate::world::{World, world};
use crate::{errhandler, life};
use std::sync::Arc;

/// Handles' kind; see [`crate::handle`].
const KIND: u32 = 10;
static OPEN: Table<Session> = Table::new(KIND);

/// The names of the process sets that there are.
pub const SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// See the module.
pub struct Session {
    /// The hints with which it was made.
    pub info: Arc<Info>,
}

/// Begins a session; its handle.
pub fn begin(info: Arc<Info>) -> Result<u32> {
    World::join()?;
    let handle = OPEN.put(Arc::new(Session { info }));
    let handle = handle.ok_or_else(|| Error::new(Class::NoMem, "too many sessions"))?;
    life::begin_session();
    Ok(handle)
}

/// The session with this handle.
pub fn find(handle: u32) -> Result<Arc<Session>> {
    match OPEN.get(handle) {
        Some(session) => Ok(session),
        None if handle == MPI_SESSION_NULL => fail(Class::Session, "session is MPI_SESSION_NULL"),
        None => fail(Class::Session, format!("session {handle:#x} does not exist, or was finalized")),
    }
}

/// Ends a session.
pub fn end(handle: u32) -> Result<()> {
    find(handle)?;
    OPEN.take(handle);
    errhandler::forget(handle);
    life::end_session();
    Ok(())
}

/// The processes of a set.
pub fn set(name: &str) -> Result<Group> {
    let world = world()?;
    match SETS.iter().position(|known| known.eq_ignore_ascii_case(name)) {
        Some(0) => Ok(Group { processes: (0..world.size as u32).collect() }),
        Some(_) => Ok(Group { processes: vec![world.rank as u32] }),
        None => fail(Class::Arg, format!("there is no process set {name:?}, only {}", SETS.join(" and "))),
    }
}
