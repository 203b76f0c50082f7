//! Files (MPI 5.0, chapter 14).
//!
//! Every process reads and writes the file itself, so that all of them must reach it by its name. Collective operations
//! are independent ones too, with what they need of each other: the order of ranks for the ordered ones. What does not
//! block is done at once, but for what must ask for the shared file pointer.
//!
//! The atomic mode locks the whole file for each operation, against processes that have the mode as well. Data are in
//! files what they are in memory, but for "external32" ([`representation`], [`converting`]).

mod access;
mod converting;
mod disk;
mod mode;
mod moving;
mod open;
mod pointer;
pub mod representation;
mod seek;
#[cfg(test)]
mod tests;
mod together;
mod view;

pub use access::{Place, Split, Way};
pub use disk::path;
pub use open::{close, delete, open};
pub use seek::From;
pub use view::View;

use crate::error::{Class, Error, Result, fail};
use crate::objects::comm::Comm;
use crate::objects::handle::Table;
use crate::objects::info::Info;
use crate::operations::collective::Call;
use crate::process::blocking::block_on;
use crate::process::world::World;
use disk::Disk;
use mode::Mode;
use phalanx_net::sync::lock;
use pointer::{Ask, Pointer};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// An open file, at this process.
pub struct File {
    world: &'static World,
    /// Of the processes that opened it together; its own.
    comm: Arc<Comm>,
    disk: Disk,
    path: PathBuf,
    mode: Mode,
    view: Mutex<Arc<View>>,
    /// The individual file pointer, in etypes.
    own: Mutex<i64>,
    pointer: Pointer,
    atomic: AtomicBool,
    /// Held by an operation in atomic mode: the system's locks are for other processes.
    turn: Mutex<()>,
    /// The split collective operation that was begun and not ended.
    split: Mutex<Option<access::Begun>>,
    hints: Mutex<Vec<(String, String)>>,
}

/// Handles' kind; see [`crate::objects::handle`].
const KIND: u32 = 12;
static FILES: Table<File> = Table::new(KIND);

impl File {
    /// The file of a handle.
    pub fn of(handle: u32) -> Result<Arc<File>> {
        let found = FILES.get(handle);
        found.ok_or_else(|| Error::new(Class::File, format!("file {handle:#x} is no file, or was closed")))
    }

    /// A handle for it.
    pub fn put(self: Arc<File>) -> Result<u32> {
        FILES.put(self).ok_or_else(|| Error::new(Class::NoMem, "too many files"))
    }

    /// Ends a handle.
    pub fn take(handle: u32) -> Result<Arc<File>> {
        let file = File::of(handle)?;
        if lock(&file.split).is_some() {
            return fail(Class::Other, "a split collective operation was begun and not ended");
        }
        FILES.take(handle);
        Ok(file)
    }

    /// The file's communicator.
    pub fn comm(&self) -> &Arc<Comm> {
        &self.comm
    }

    /// The access mode that it was opened with.
    pub fn amode(&self) -> i32 {
        self.mode.number()
    }

    /// What the process sees now.
    pub fn view(&self) -> Arc<View> {
        lock(&self.view).clone()
    }

    /// What the program said of its use.
    pub fn hints(&self) -> Info {
        Info::of(lock(&self.hints).clone())
    }

    /// Adds to what the program said of its use.
    pub fn add_hints(&self, hints: &Info) -> Result<()> {
        self.comm.heed(self.world, hints)?;
        let mut all = lock(&self.hints);
        for (key, value) in hints.pairs() {
            all.retain(|pair| pair.0 != key);
            all.push((key, value));
        }
        Ok(())
    }

    fn call(&self) -> Call {
        Call::new(self.world, self.comm.clone())
    }

    /// Collective: all call it with the same arguments, and the first one does it.
    fn first_does(&self, arguments: Result<Vec<u8>>, work: impl FnOnce() -> Result<()>) -> Result<()> {
        block_on(self.world, together::first_does(&self.call(), arguments, work))
    }

    /// Where an etype of the view begins in the file.
    pub fn byte_offset(&self, offset: i64) -> Result<i64> {
        self.mode.check_random()?;
        self.view().byte_offset(offset)
    }

    /// Bytes of the file.
    pub fn size(&self) -> Result<u64> {
        self.disk.size()
    }

    /// Collective.
    pub fn set_size(&self, size: i64) -> Result<()> {
        self.first_does(self.checked_size(size), || self.disk.set_size(size as u64))
    }

    /// Collective.
    pub fn preallocate(&self, size: i64) -> Result<()> {
        self.first_does(self.checked_size(size), || self.disk.allocate(size as u64))
    }

    fn checked_size(&self, size: i64) -> Result<Vec<u8>> {
        self.mode.check_writes()?;
        if size < 0 { fail(Class::Arg, format!("size is {size}")) } else { Ok(size.to_le_bytes().to_vec()) }
    }

    /// Collective: what everybody has written is on the device, and is seen by everybody.
    pub fn sync(&self) -> Result<()> {
        let written = if self.mode.writes() { self.disk.sync() } else { Ok(()) };
        block_on(self.world, together::agree(&self.call(), written.map(|()| Vec::new())))
    }

    /// Whether the atomic mode is set.
    pub fn is_atomic(&self) -> bool {
        self.atomic.load(Ordering::Relaxed)
    }

    /// Collective.
    pub fn set_atomic(&self, atomic: bool) -> Result<()> {
        block_on(self.world, together::agree(&self.call(), Ok(vec![u8::from(atomic)])))?;
        self.atomic.store(atomic, Ordering::Relaxed);
        Ok(())
    }

    /// Collective; both pointers are at the view's beginning then. A displacement of None is where the shared pointer is.
    pub fn set_view(&self, displacement: Option<i64>, view: impl FnOnce(i64, bool) -> Result<View>) -> Result<()> {
        if lock(&self.split).is_some() {
            return fail(Class::Other, "a split collective operation was begun and not ended");
        }
        let view = self.displacement(displacement).and_then(|at| view(at, self.mode.writes()));
        let same = |view: &View| [&view.etype.size().to_le_bytes(), view.representation.as_bytes()].concat();
        let arguments = view.as_ref().map(same).map_err(Clone::clone);
        self.first_does(arguments, || block_on(self.world, self.pointer.ask(Ask::Set(0))).map(drop))?;
        *lock(&self.view) = Arc::new(view?);
        *lock(&self.own) = 0;
        Ok(())
    }

    fn displacement(&self, given: Option<i64>) -> Result<i64> {
        match (given, self.mode.check_random()) {
            (Some(given), Ok(())) => Ok(given),
            (None, Err(_)) => self.view().byte_offset(self.shared_position()?),
            (Some(_), Err(_)) => {
                fail(Class::UnsupportedOperation, "disp must be MPI_DISPLACEMENT_CURRENT with MPI_MODE_SEQUENTIAL")
            }
            (None, Ok(())) => fail(Class::Arg, "disp is MPI_DISPLACEMENT_CURRENT without MPI_MODE_SEQUENTIAL"),
        }
    }
}
