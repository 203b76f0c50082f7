//! The segments that the peer of a link fills.

use super::segment::{Mapping, PAGE, SEALS};
use crate::forks;
use bytes::Bytes;
use phalanx_core::error::WireError;
use phalanx_core::wire::{Place, SLOTS};
use rustix::fs::{fcntl_get_seals, fstat};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A segment, seen from its reader.
#[derive(Debug)]
struct Known {
    memory: Mapping,
    head: Mapping,
    capacity: usize,
    /// Whether a body in it is still in use. The word in the segment is also writable by the peer, so it proves
    /// nothing.
    is_lent: AtomicBool,
    /// Whether it will never be filled again.
    is_abandoned: AtomicBool,
}

impl Known {
    /// Maps a file that a peer has passed, if it is a segment with room for `length` bytes.
    fn map(file: &OwnedFd, length: u64) -> Result<Known, WireError> {
        let no_segment = |_| WireError::Memory("it is no segment");
        let seals = fcntl_get_seals(file).map_err(no_segment)?;
        if !seals.contains(SEALS) {
            return Err(WireError::Memory("its length is not sealed"));
        }
        let size = fstat(file).map_err(no_segment)?.st_size as u64;
        let capacity = size.checked_sub(PAGE as u64).filter(|it| it % PAGE as u64 == 0 && *it >= length);
        let capacity = capacity.ok_or(WireError::Memory("it is shorter than the body"))? as usize;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let map = || -> io::Result<Known> {
            // A private mapping, so that the user may write to the body. The system copies a page at the first write.
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let memory = Mapping::new(file.as_fd(), 0, capacity, rights, flags)?;
            let head = Mapping::new(file.as_fd(), capacity, PAGE, rights, MapFlags::SHARED)?;
            let (is_lent, is_abandoned) = Default::default();
            Ok(Known { memory, head, capacity, is_lent, is_abandoned })
        };
        map().map_err(|_| WireError::Memory("it cannot be mapped"))
    }
}

/// A body in a segment. Dropping it returns the segment to the sender.
struct Lent {
    known: Arc<Known>,
    length: usize,
    /// The fork count when it was lent. A process that was forked off this one since may still use the body.
    forks: u64,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: within the mapping, whose file cannot get shorter. The sender changes nothing until it is given back; one
        // that does harms its own bytes.
        unsafe { std::slice::from_raw_parts(self.known.memory.base(), self.length) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if forks::so_far() != self.forks {
            self.known.is_abandoned.store(true, Ordering::Release);
            return self.known.head.word(0).set_abandoned();
        }
        self.known.memory.drop_pages(self.length, Advice::LinuxDontNeed); // pages that were written here
        self.known.is_lent.store(false, Ordering::Release);
        self.known.head.word(0).set_free();
    }
}

/// The segments of one direction of a link that this end has mapped.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: [Option<(u16, Arc<Known>)>; SLOTS as usize],
}

impl Table {
    pub fn new() -> Table {
        Table::default()
    }

    /// Takes the body of `length` bytes at a place that the peer has named. `file`: the file that the peer has passed,
    /// if any.
    pub fn take(&mut self, place: Place, length: u64, file: Option<OwnedFd>) -> Result<Bytes, WireError> {
        if length == 0 {
            return Err(WireError::Memory("it has no body"));
        }
        let is_abandoned = |known: &Known| known.is_abandoned.load(Ordering::Acquire);
        self.slots.iter_mut().for_each(|slot| drop(slot.take_if(|(_, known)| is_abandoned(known))));
        let known = match file {
            Some(file) if place.fresh => self.learn(place, Known::map(&file, length)?),
            None if !place.fresh => self.find(place)?,
            Some(_) => return Err(WireError::Memory("a file that no frame names")),
            None => return Err(WireError::Memory("its file did not arrive")),
        };
        if length > known.capacity as u64 {
            return Err(WireError::Memory("it is shorter than the body"));
        }
        if known.is_lent.swap(true, Ordering::Acquire) {
            return Err(WireError::Memory("it was filled while it was in use"));
        }
        Ok(Bytes::from_owner(Lent { known, length: length as usize, forks: forks::so_far() }))
    }

    /// Keeps a fresh segment, unless the sender has already given its slot to a newer one.
    fn learn(&mut self, place: Place, known: Known) -> Arc<Known> {
        let known = Arc::new(known);
        let slot = &mut self.slots[usize::from(place.slot)];
        let is_newer = |(generation, _): &(u16, _)| place.generation.wrapping_sub(*generation) as i16 > 0;
        if slot.as_ref().is_none_or(is_newer) {
            *slot = Some((place.generation, known.clone()));
        }
        known
    }

    fn find(&self, place: Place) -> Result<Arc<Known>, WireError> {
        let slot = self.slots[usize::from(place.slot)].as_ref();
        let known = slot.filter(|(generation, _)| *generation == place.generation);
        known.map(|(_, known)| known.clone()).ok_or(WireError::Memory("no such segment was passed on"))
    }
}
