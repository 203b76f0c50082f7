//! The memory of windows.
//!
//! Memory that is shared between processes is an anonymous file (memfd_create): it has no name that could stay behind,
//! whenever a process dies. The first process of the window makes it, and the others open it in that process's table
//! of open files, `/proc/<process>/fd/<file>`, which the system allows to processes of one user; that it is the same file is
//! proved by its number. The file is closed when all have mapped it, and the memory lasts as long as the mappings.

use super::Part;
use crate::collective::{Call, everyone, tell_all};
use crate::error::{Class, Result, fail};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;

const ALIGNMENT: usize = 64;

/// Who has the memory of this process's part.
#[derive(Debug)]
pub(super) enum Memory {
    /// The program.
    Lent,
    /// The window, at this address.
    Allocated(usize),
    Mapped {
        base: usize,
        length: usize,
    },
}

impl Drop for Memory {
    fn drop(&mut self) {
        match *self {
            Memory::Lent => {}
            Memory::Allocated(base) => {
                let _ = crate::memory::free(base);
            }
            // SAFETY: it was mapped so, and the window that lent it out is closed.
            Memory::Mapped { base, length } => unsafe {
                let _ = munmap(std::ptr::with_exposed_provenance_mut(base), length);
            },
        }
    }
}

/// Where a process's file is to be found, and what file it is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Found {
    process: u64,
    file: u64,
    device: u64,
    number: u64,
}

/// Memory for the parts of all, one after the other (`apart`: each at a cache line of its own); their addresses are put
/// into the parts. All fail if one does.
pub(super) async fn share(call: &Call, parts: &mut [Part], apart: bool) -> Result<Memory> {
    let world = call.world;
    if !call.comm.group.processes.iter().all(|process| world.local.contains(&(*process as usize))) {
        return fail(Class::RmaShared, "the processes of comm are not on one machine");
    }
    let mut offsets = Vec::with_capacity(parts.len());
    let mut length = 0usize;
    for part in parts.iter() {
        offsets.push(length);
        let size = if apart { part.size.checked_next_multiple_of(ALIGNMENT) } else { Some(part.size) };
        let Some(sum) = size.and_then(|size| length.checked_add(size)).filter(|sum| isize::try_from(*sum).is_ok())
        else {
            return fail(Class::Size, "the sizes are more than there can be");
        };
        length = sum;
    }
    let length = length.max(1);
    let base = if parts.len() == 1 { own(length) } else { between(call, length).await? };
    let base = match base {
        Ok(base) => base,
        Err(error) => return fail(Class::RmaShared, format!("{length} bytes of shared memory: {error}")),
    };
    parts.iter_mut().zip(offsets).for_each(|(part, offset)| part.base = base + offset);
    Ok(Memory::Mapped { base, length })
}

fn own(length: usize) -> io::Result<usize> {
    // SAFETY: a new mapping, at an address that the system chooses.
    let base = unsafe { mmap_anonymous(std::ptr::null_mut(), length, read_and_write(), MapFlags::SHARED)? };
    Ok(base.expose_provenance())
}

/// The address of memory that all have mapped, or why this process or another has not.
async fn between(call: &Call, length: usize) -> Result<io::Result<usize>> {
    // Whoever fails says so, since the others wait for its word.
    let made = if call.rank() == 0 { Some(make(length)) } else { None };
    let own = made.as_ref().map(|made| made.as_ref().ok().map(|(_, found)| *found));
    let first: Option<Found> = tell_all(call, 0, own.as_ref()).await?;
    let mapped = match &made {
        Some(Ok((file, _))) => map(file, length),
        Some(Err(error)) => Err(io::Error::new(error.kind(), error.to_string())),
        None => first.map_or_else(not_made, open).and_then(|file| map(&file, length)),
    };
    let all = everyone(call, &mapped.is_ok()).await?;
    match (mapped, all.iter().position(|mapped| !mapped)) {
        (Ok(base), Some(rank)) => {
            drop(super::memory::Memory::Mapped { base, length });
            Ok(Err(io::Error::other(format!("rank {rank} could not map it"))))
        }
        (mapped, _) => Ok(mapped),
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
