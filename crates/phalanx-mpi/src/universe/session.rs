//! Sessions: MPI without a world that exists of itself (MPI 5.0, 11.3).

use crate::constants::MPI_SESSION_NULL;
use crate::error::{Class, Error, Result, fail};
use crate::objects::attached::Attached;
use crate::objects::errhandler;
use crate::objects::group::Group;
use crate::objects::handle::Table;
use crate::objects::info::Info;
use crate::process::life;
use crate::process::world::{is_fork, known, world};
use crate::universe::{joining, leaving};
use std::sync::{Arc, Once};

/// Handles' kind; see [`crate::objects::handle`].
const KIND: u32 = 10;
static OPEN: Table<Session> = Table::new(KIND);
static EXIT: Once = Once::new();

/// The names of the process sets that there are.
pub const SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// See the module.
pub struct Session {
    /// The hints with which it was made.
    pub info: Arc<Info>,
    /// Memory for buffered sends in the communicators that are made in it.
    pub attached: Arc<Attached>,
}

/// Begins a session; its handle.
pub fn begin(info: Arc<Info>) -> Result<u32> {
    joining::join()?;
    let handle = OPEN.put(Arc::new(Session { info, attached: Arc::default() }));
    let handle = handle.ok_or_else(|| Error::new(Class::NoMem, "too many sessions"))?;
    life::begin_session();
    EXIT.call_once(|| {
        // SAFETY: the function lives as long as the library. Where there is no room for it, it is only not called.
        unsafe { libc::atexit(at_exit) };
    });
    Ok(handle)
}

/// After the last session another one may begin: only the process's end says that it was the last.
extern "C" fn at_exit() {
    if is_fork() {
        return;
    }
    if let (true, Ok(world)) = (life::had_sessions_only(), world()) {
        leaving::leave_at_exit(world);
    }
}

/// The session with this handle.
pub fn find(handle: u32) -> Result<Arc<Session>> {
    match OPEN.get(handle) {
        Some(session) => Ok(session),
        None if handle == MPI_SESSION_NULL => fail(Class::Session, "session is MPI_SESSION_NULL"),
        None => fail(Class::Session, format!("session {handle:#x} does not exist, or was finalized")),
    }
}

/// Ends a session, when all that it has buffered was sent.
pub fn end(handle: u32) -> Result<()> {
    let session = find(handle)?;
    if !is_fork() {
        session.attached.flush(world()?);
    }
    OPEN.take(handle);
    errhandler::forget(handle);
    life::end_session();
    Ok(())
}

impl Session {
    /// The processes of a set.
    pub fn set(&self, name: &str) -> Result<Group> {
        let world = known()?;
        let group = match SETS.iter().position(|known| known.eq_ignore_ascii_case(name)) {
            Some(0) => Group::of_world(world),
            Some(_) => Group::new([world.rank as u32]),
            None => return fail(Class::Arg, format!("there is no process set {name:?}, only {}", SETS.join(" and "))),
        };
        Ok(Group { attached: Some(self.attached.clone()), ..group })
    }
}
