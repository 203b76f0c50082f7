//! The memory of windows.
//!
//! Memory that is shared between processes is an anonymous file (memfd_create): it has no name that could stay behind,
//! whenever a process dies. On each machine the first process of the window makes it, and the others open it in that process's table
//! of open files, `/proc/<process>/fd/<file>`, which the system allows to processes of one user; that it is the same file is
//! proved by its number. The file is closed when all have mapped it, and the memory lasts as long as the mappings.
//!
//! ```text
//! | a desk for each of the machine's ranks | the part of each of them |
//! ```

use super::Part;
use super::desk::Desk;
use crate::error::Result;
use crate::operations::collective::{Call, everyone};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the parts begin, and each part of a window whose parts need not be neighbours: on a page of its own.
const PAGE: usize = 4096;
/// Each part of shared memory that is asked for so (`alloc_shared_noncontig`).
const LINE: usize = 64;

/// Who has the memory of this process's part.
#[derive(Debug)]
pub(super) enum Memory {
    /// The program.
    Lent,
    /// The window, at this address.
    Allocated(usize),
    Mapped(Mapping),
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Memory::Allocated(base) = *self {
            let _ = crate::objects::memory::free(base);
        }
    }
}

/// Memory that ranks of this machine have mapped.
#[derive(Debug)]
pub(super) struct Mapping {
    base: usize,
    length: usize,
    /// By rank of the window: the number of its desk; none for ranks of other machines.
    numbers: Vec<Option<u32>>,
    members: usize,
    /// A bit for each of the first 64 desks whose process was lost.
    lost: AtomicU64,
}

impl Mapping {
    fn new(base: usize, length: usize, size: usize, members: &[usize]) -> Mapping {
        let mut numbers = vec![None; size];
        members.iter().enumerate().for_each(|(number, rank)| numbers[*rank] = Some(number as u32));
        Mapping { base, length, numbers, members: members.len(), lost: AtomicU64::new(0) }
    }

    /// Whether all ranks of the window have mapped it.
    pub fn has_all(&self) -> bool {
        self.members == self.numbers.len()
    }

    /// The number of a rank's desk; None for one that has not mapped it, or that there is not.
    #[inline]
    pub fn number(&self, rank: usize) -> Option<u32> {
        *self.numbers.get(rank)?
    }

    /// A rank's desk, likewise.
    #[inline]
    pub fn desk(&self, rank: usize) -> Option<&Desk> {
        let number = self.number(rank)?;
        // SAFETY: the mapping begins with the desks, which were made before anybody mapped it.
        Some(unsafe { &*std::ptr::with_exposed_provenance::<Desk>(self.base).add(number as usize) })
    }

    /// A rank was lost. Others' ranks are none of it.
    pub fn lose(&self, rank: usize) {
        if let Some(number) = self.numbers[rank].filter(|number| *number < u64::BITS) {
            self.lost.fetch_or(1 << number, Ordering::SeqCst);
        }
    }

    /// Those with the first 64 desks that were lost.
    pub fn first_lost(&self) -> u64 {
        self.lost.load(Ordering::SeqCst)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and nobody has the window any more that lent it out.
        let _ = unsafe { munmap(std::ptr::with_exposed_provenance_mut(self.base), self.length) };
    }
}

/// How the parts lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spacing {
    /// Each behind the one before.
    None,
    Line,
    Page,
}

/// Where a process's file is to be found, and what file it is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Found {
    process: u64,
    file: u64,
    device: u64,
    number: u64,
}

/// Memory for the parts of all of this machine, one after the other; their addresses are put into the parts. Where one of the machine
/// has none, the others have none either, and say why.
pub(super) async fn share(call: &Call, parts: &mut [Part], spacing: Spacing) -> Result<io::Result<Mapping>> {
    let own = |rank: &usize| call.world.local.contains(&(call.comm.group.processes[*rank] as usize));
    let members: Vec<usize> = (0..parts.len()).filter(own).collect();
    let (is_first, first) = (members.first() == Some(&call.rank()), members.first().copied().unwrap_or(call.rank()));
    let places = place(parts, &members, spacing);
    let length = places.as_ref().map_or(0, |places| places.length);
    // Whoever fails says so, since the others wait for its word.
    let mut file = None;
    let made = match (&places, is_first) {
        (None, _) => Err(io::Error::other("the sizes are more than there can be")),
        (Some(_), false) => Ok(None),
        (Some(_), true) if members.len() == 1 => own_memory(length).map(|base| Some((base, None))),
        (Some(_), true) => make(length).and_then(|(made, found)| {
            let base = map(&made, length)?;
            file = Some(made); // open until all have opened it
            Ok(Some((base, Some(found))))
        }),
    };
    let made = made.map(|made| {
        made.map(|(base, found)| {
            let mapping = Mapping::new(base, length, parts.len(), &members);
            // SAFETY: room for the desks, which nobody uses yet.
            (0..members.len()).for_each(|number| unsafe {
                Desk::make(std::ptr::with_exposed_provenance_mut::<Desk>(base).add(number));
            });
            (mapping, found)
        })
    });
    let found = everyone(call, &made.as_ref().ok().and_then(|made| made.as_ref()?.1)).await?[first];
    let mapped = match made {
        Err(error) => Err(error),
        Ok(Some((mapping, _))) => Ok(mapping),
        Ok(None) => found
            .map_or_else(not_made, open)
            .and_then(|file| map(&file, length))
            .map(|base| Mapping::new(base, length, parts.len(), &members)),
    };
    let all = everyone(call, &mapped.is_ok()).await?;
    drop(file);
    let failed = members.iter().find(|rank| !all[**rank]);
    let mapped = match (mapped, failed) {
        (Ok(_), Some(rank)) => Err(io::Error::other(format!("rank {rank} could not map it"))),
        (mapped, _) => mapped,
    };
    if let (Ok(mapping), Some(places)) = (&mapped, places) {
        members.iter().zip(places.offsets).for_each(|(rank, offset)| parts[*rank].base = mapping.base + offset);
    }
    Ok(mapped)
}

struct Places {
    /// Of the members' parts.
    offsets: Vec<usize>,
    length: usize,
}

/// Where the members' parts lie; None when there cannot be so much.
fn place(parts: &[Part], members: &[usize], spacing: Spacing) -> Option<Places> {
    let mut length = size_of::<Desk>().checked_mul(members.len())?.checked_next_multiple_of(PAGE)?;
    let mut offsets = Vec::with_capacity(members.len());
    for rank in members {
        offsets.push(length);
        let size = match spacing {
            Spacing::None => Some(parts[*rank].size),
            Spacing::Line => parts[*rank].size.checked_next_multiple_of(LINE),
            Spacing::Page => parts[*rank].size.checked_next_multiple_of(PAGE),
        };
        length = length.checked_add(size?)?;
    }
    isize::try_from(length).is_ok().then_some(Places { offsets, length })
}

fn own_memory(length: usize) -> io::Result<usize> {
    check_room(length)?;
    // SAFETY: a new mapping, at an address that the system chooses.
    let base = unsafe { mmap_anonymous(std::ptr::null_mut(), length, read_and_write(), MapFlags::SHARED)? };
    Ok(base.expose_provenance())
}

/// Fails where there cannot be so much memory: a file in memory may be of any length, and a program would hear of that when it
/// writes there, by its end.
fn check_room(length: usize) -> io::Result<()> {
    // SAFETY: a new mapping, at an address that the system chooses, which nobody else hears of.
    unsafe {
        let base = mmap_anonymous(std::ptr::null_mut(), length, read_and_write(), MapFlags::PRIVATE)?;
        Ok(munmap(base, length)?)
    }
}

fn map(file: &OwnedFd, length: usize) -> io::Result<usize> {
    // SAFETY: a new mapping, at an address that the system chooses.
    let base = unsafe { mmap(std::ptr::null_mut(), length, read_and_write(), MapFlags::SHARED, file, 0)? };
    Ok(base.expose_provenance())
}

fn read_and_write() -> ProtFlags {
    ProtFlags::READ | ProtFlags::WRITE
}

#[cfg(target_os = "linux")]
fn make(length: usize) -> io::Result<(OwnedFd, Found)> {
    use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
    use std::os::fd::AsRawFd;
    check_room(length)?;
    let file = memfd_create("phalanx-window", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, length as u64)?;
    let stat = fstat(&file)?;
    let (process, number) = (u64::from(std::process::id()), file.as_raw_fd() as u64);
    let found = Found { process, file: number, device: stat.st_dev, number: stat.st_ino };
    Ok((file, found))
}

#[cfg(target_os = "linux")]
fn open(found: Found) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags, fstat, open};
    let path = format!("/proc/{}/fd/{}", found.process, found.file);
    let file = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&file)?;
    match (stat.st_dev, stat.st_ino) == (found.device, found.number) {
        true => Ok(file),
        false => Err(io::Error::other("the first process's file is another one")),
    }
}

#[cfg(not(target_os = "linux"))]
fn make(_length: usize) -> io::Result<(OwnedFd, Found)> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no anonymous files that others could open"))
}

#[cfg(not(target_os = "linux"))]
fn open(_found: Found) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

fn not_made() -> io::Result<OwnedFd> {
    Err(io::Error::other("the first process could not make it"))
}
