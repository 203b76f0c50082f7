//! The datatypes of this process by their handles.

use super::contents::{Combiner, Contents};
use super::kind::KINDS;
use super::map::Map;
use super::{Datatype, Kind};
use crate::error::{Class, Result, fail};
use crate::objects::handle::{FIRST, Table};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

/// Handles' kind; see [`crate::objects::handle`].
const KIND: u32 = 2;
static MADE: Table<Datatype> = Table::new(KIND);

/// By handle less `LOWEST`, so that finding one takes no lock.
static PREDEFINED: LazyLock<Vec<Option<Arc<Datatype>>>> = LazyLock::new(|| {
    let datatype = |handle| Kind::of(handle).map(|kind| Arc::new(Datatype::predefined_of(kind)));
    (LOWEST..=KINDS[KINDS.len() - 1].handle).map(datatype).collect()
});
const LOWEST: u32 = 0x200;

impl Datatype {
    /// The datatype with this handle.
    pub fn of(handle: u32) -> Result<Arc<Datatype>> {
        let found = match handle {
            FIRST.. => MADE.get(handle),
            _ => handle.checked_sub(LOWEST).and_then(|index| PREDEFINED.get(index as usize)?.clone()),
        };
        match found {
            Some(datatype) => Ok(datatype),
            None if handle == LOWEST => fail(Class::Type, "datatype is MPI_DATATYPE_NULL"),
            None => fail(Class::Type, format!("datatype {handle:#x} does not exist, or was freed")),
        }
    }

    /// The predefined datatype with this handle.
    #[inline]
    pub fn predefined_at(handle: u32) -> Option<&'static Datatype> {
        PREDEFINED.get(handle.checked_sub(LOWEST)? as usize)?.as_deref()
    }

    /// A handle for it: its own if it is predefined, else a new one.
    pub fn put(self: &Arc<Datatype>) -> Result<u32> {
        let handle = self.handle.load(Ordering::Relaxed);
        if handle != 0 && self.contents.combiner.is_predefined() {
            return Ok(handle);
        }
        match MADE.put(self.clone()) {
            Some(handle) => {
                self.handle.store(handle, Ordering::Relaxed);
                Ok(handle)
            }
            None => fail(Class::NoMem, "too many datatypes"),
        }
    }

    /// That the handle may be freed.
    pub fn check_free(handle: u32) -> Result<()> {
        match Datatype::of(handle)?.contents.combiner.is_predefined() {
            true => fail(Class::Type, "datatype is predefined and cannot be freed"),
            false => Ok(()),
        }
    }

    /// Frees the handle; whoever uses the datatype goes on using it.
    pub fn free(handle: u32) -> Result<()> {
        Datatype::check_free(handle)?;
        if let Some(datatype) = MADE.take(handle) {
            let _ = datatype.handle.compare_exchange(handle, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Calls with a handle of it, one that lasts as long as the call if it has none (any more): for user functions.
    pub fn with_handle<R>(self: &Arc<Datatype>, call: impl FnOnce(u32) -> R) -> Result<R> {
        match self.handle.load(Ordering::Relaxed) {
            0 => {
                let handle = self.put()?;
                let result = call(handle);
                Datatype::free(handle)?;
                Ok(result)
            }
            handle => Ok(call(handle)),
        }
    }

    fn predefined_of(kind: &'static Kind) -> Datatype {
        let datatype = Datatype::made(Map::of(kind), Contents::new(Combiner::Named, &[]));
        datatype.commit();
        datatype.handle.store(kind.handle, Ordering::Relaxed);
        datatype
    }
}
