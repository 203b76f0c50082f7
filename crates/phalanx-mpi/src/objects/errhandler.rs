//! Error handlers: what happens when a call fails (MPI 5.0, 9.3).
//!
//! They are kept beside the communicators, windows, files and sessions that have them, by handle: an object that has
//! none of its own has its kind's.

use crate::constants::*;
use crate::error::{Class, Result, fail};
use crate::objects::handle::{FIRST, Table};
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Handles' kind; see [`crate::objects::handle`].
const KIND: u32 = 6;
static MADE: Table<Errhandler> = Table::new(KIND);
/// By the handles of the objects that have them.
static OF: Mutex<BTreeMap<u32, Arc<Errhandler>>> = Mutex::new(BTreeMap::new());

/// What may have an error handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A communicator.
    Comm,
    /// A window.
    Win,
    /// A file.
    File,
    /// A session.
    Session,
}

/// Whose error handler is called.
#[derive(Clone)]
pub struct Owner {
    /// The handle of the object.
    pub object: u32,
    /// What the object is.
    pub kind: Kind,
    /// The handler itself, where the object was freed and something of it is still under way.
    pub kept: Option<Arc<Errhandler>>,
}

impl Owner {
    /// An object of this kind.
    pub const fn new(object: u32, kind: Kind) -> Owner {
        Owner { object, kind, kept: None }
    }

    /// A communicator.
    pub fn comm(object: u32) -> Owner {
        Owner::new(object, Kind::Comm)
    }

    /// The handler to be called.
    pub fn handler(&self) -> Arc<Errhandler> {
        self.kept.clone().unwrap_or_else(|| of(self.object, self.kind))
    }
}

/// What a program's handler is called with: the handle of the object, and the error's code. It returns the code that the
/// failed call returns, which it may have changed.
pub type Call = Box<dyn Fn(u32, i32) -> i32 + Send + Sync>;

/// What happens on an error (MPI 5.0, 9.3).
pub enum Errhandler {
    /// Ends the program.
    Fatal,
    /// Ends the processes of the communicator.
    Abort,
    /// Leaves it to the caller.
    Return,
    /// A program's own.
    Own(Kind, Call),
}

/// A new handler of a program.
pub fn create(kind: Kind, call: Call) -> Result<u32> {
    let handle = MADE.put(Arc::new(Errhandler::Own(kind, call)));
    handle.map_or_else(|| fail(Class::NoMem, "too many error handlers"), Ok)
}

/// The handler with this handle.
pub fn find(handle: u32) -> Result<Arc<Errhandler>> {
    match handle {
        MPI_ERRORS_ARE_FATAL => Ok(Arc::new(Errhandler::Fatal)),
        MPI_ERRORS_ABORT => Ok(Arc::new(Errhandler::Abort)),
        MPI_ERRORS_RETURN => Ok(Arc::new(Errhandler::Return)),
        MPI_ERRHANDLER_NULL => fail(Class::Errhandler, "errhandler is MPI_ERRHANDLER_NULL"),
        _ => match MADE.get(handle) {
            Some(handler) => Ok(handler),
            None => fail(Class::Errhandler, format!("errhandler {handle:#x} does not exist, or was freed")),
        },
    }
}

/// Frees the handle; objects that have the handler keep it.
pub fn free(handle: u32) -> Result<()> {
    find(handle)?;
    MADE.take(handle); // predefined ones stay
    Ok(())
}

/// Gives an object a handler.
pub fn set(object: u32, kind: Kind, handle: u32) -> Result<()> {
    let handler = find(handle)?;
    match &*handler {
        Errhandler::Own(own, _) if *own != kind => {
            fail(Class::Errhandler, format!("errhandler is one of a {own:?}, not of a {kind:?}"))
        }
        _ => {
            lock(&OF).insert(object, handler);
            Ok(())
        }
    }
}

/// The handler of an object.
pub fn of(object: u32, kind: Kind) -> Arc<Errhandler> {
    let of = lock(&OF);
    let default = || match kind {
        // A new file has that of MPI_FILE_NULL.
        Kind::File => of.get(&MPI_FILE_NULL).cloned().unwrap_or(Arc::new(Errhandler::Return)),
        _ => Arc::new(Errhandler::Fatal),
    };
    of.get(&object).cloned().unwrap_or_else(default)
}

/// Whether an object was given a handler.
pub fn is_set(object: u32) -> bool {
    lock(&OF).contains_key(&object)
}

/// A handle for the handler of an object, to be freed by who asked for it.
pub fn handle_of(object: u32, kind: Kind) -> Result<u32> {
    let handler = of(object, kind);
    match &*handler {
        Errhandler::Fatal => Ok(MPI_ERRORS_ARE_FATAL),
        Errhandler::Abort => Ok(MPI_ERRORS_ABORT),
        Errhandler::Return => Ok(MPI_ERRORS_RETURN),
        Errhandler::Own(..) => MADE.put(handler).map_or_else(|| fail(Class::NoMem, "too many error handlers"), Ok),
    }
}

/// A new object has the handler of another, as a communicator that of the one it was made from.
pub fn inherit(from: u32, to: u32) {
    let mut of = lock(&OF);
    if let Some(handler) = of.get(&from).cloned() {
        of.insert(to, handler);
    }
}

/// The object is freed.
pub fn forget(object: u32) {
    if object >= FIRST {
        lock(&OF).remove(&object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI32, Ordering};

    const COMM: u32 = FIRST + 1;

    #[test]
    fn a_handler_is_used_by_its_objects_after_it_was_freed() {
        let seen = Arc::new(AtomicI32::new(0));
        let call = {
            let seen = seen.clone();
            Box::new(move |_, code| {
                seen.store(code, Ordering::Relaxed);
                0
            })
        };
        let handle = create(Kind::Comm, call).expect("there is room");
        set(COMM, Kind::Comm, handle).expect("kinds fit");
        inherit(COMM, COMM + 16);
        free(handle).expect("it is there");
        assert!(find(handle).is_err());
        forget(COMM);
        assert!(matches!(&*of(COMM, Kind::Comm), Errhandler::Fatal));
        match &*of(COMM + 16, Kind::Comm) {
            Errhandler::Own(_, call) => assert_eq!(call(COMM + 16, 7), 0),
            _ => panic!("it was inherited"),
        }
        assert_eq!(seen.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn a_handler_of_files_is_none_of_communicators() {
        let handle = create(Kind::File, Box::new(|_, code| code)).expect("there is room");
        let error = set(COMM, Kind::Comm, handle).expect_err("kinds differ");
        assert_eq!(error.class, Class::Errhandler);
        assert!(set(COMM, Kind::Comm, 0x9999).is_err());
    }

    #[test]
    fn objects_without_a_handler_have_their_kinds() {
        assert_eq!(handle_of(FIRST + 9, Kind::File), Ok(MPI_ERRORS_RETURN));
        assert_eq!(handle_of(FIRST + 8, Kind::Win), Ok(MPI_ERRORS_ARE_FATAL));
    }
}
