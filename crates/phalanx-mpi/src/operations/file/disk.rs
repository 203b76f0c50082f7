//! A file as the operating system has it: the only place of this chapter that knows unix.

use super::mode::{Create, Mode};
use crate::error::{Class, Error, Result, fail};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The name of a file as C has it.
pub fn path(name: Vec<u8>) -> PathBuf {
    OsString::from_vec(name).into()
}

/// An open file.
pub struct Disk(fs::File);

impl Disk {
    pub fn open(path: &Path, mode: Mode, create: Create) -> Result<Disk> {
        // Opening a pipe would wait for who has its other end.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(mode.reads())
            .write(mode.writes())
            .create(create == Create::IfMissing)
            .create_new(create == Create::New)
            .custom_flags(flags.bits() as i32)
            .open(path)
            .map_err(|error| failure(&format!("opening {path:?}"), &error))?;
        let kind = file.metadata().map_err(|error| failure("looking at the file", &error))?.file_type();
        match kind.is_dir() || kind.is_fifo() {
            true => fail(Class::BadFile, format!("{path:?} is a folder or a pipe")),
            false => Ok(Disk(file)),
        }
    }

    pub fn delete(path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|error| failure(&format!("deleting {path:?}"), &error))
    }

    /// Bytes of the file.
    pub fn size(&self) -> Result<u64> {
        self.0.metadata().map(|about| about.len()).map_err(|error| failure("asking for the size", &error))
    }

    pub fn set_size(&self, size: u64) -> Result<()> {
        self.0.set_len(size).map_err(|error| failure("setting the size", &error))
    }

    /// Sees to it that there is room for so many bytes; a file that has more stays as long as it is.
    pub fn allocate(&self, size: u64) -> Result<()> {
        #[cfg(target_os = "linux")]
        match rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, size) {
            _ if size == 0 => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {} // not every file system can
            outcome => return outcome.map_err(|error| failure("allocating", &error.into())),
        }
        let zeros = vec![0; 1 << 20];
        let mut end = self.size()?;
        while end < size {
            let length = (size - end).min(zeros.len() as u64);
            self.write(end, &zeros[..length as usize])?;
            end += length;
        }
        Ok(())
    }

    /// Reads from a position on; how much there was up to the end of the file.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match self.0.read_at(&mut into[done..], at + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failure("reading", &error)),
            }
        }
        Ok(done)
    }

    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_all_at(bytes, at).map_err(|error| failure("writing", &error))
    }

    /// Returns when the device has everything.
    pub fn sync(&self) -> Result<()> {
        self.0.sync_data().map_err(|error| failure("synchronizing", &error))
    }

    /// Keeps other processes out that lock the file as well: readers together, or a writer alone. Ends with the process
    /// at the latest.
    pub fn lock(&self, alone: bool) -> Result<Locked<'_>> {
        let operation = if alone { FlockOperation::LockExclusive } else { FlockOperation::LockShared };
        loop {
            match flock(&self.0, operation) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(failure("locking", &error.into())),
                Ok(()) => return Ok(Locked(self)),
            }
        }
    }
}

/// While this lasts, the file is locked.
pub struct Locked<'a>(&'a Disk);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _ = flock(&self.0.0, FlockOperation::Unlock); // there is nothing that can fail
    }
}

/// What the operating system said, as MPI says it (MPI 5.0, 14.7).
fn failure(doing: &str, error: &io::Error) -> Error {
    let class = match Errno::from_io_error(error) {
        Some(Errno::NOENT) => Class::NoSuchFile,
        Some(Errno::EXIST) => Class::FileExists,
        Some(Errno::ACCESS | Errno::PERM) => Class::Access,
        Some(Errno::ROFS) => Class::ReadOnly,
        Some(Errno::NOSPC | Errno::FBIG) => Class::NoSpace,
        Some(Errno::DQUOT) => Class::Quota,
        Some(Errno::ISDIR | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::NXIO) => Class::BadFile,
        Some(Errno::BUSY | Errno::TXTBSY) => Class::FileInUse,
        Some(Errno::FAULT) => Class::Buffer,
        Some(Errno::NOMEM) => Class::NoMem,
        _ if error.kind() == io::ErrorKind::InvalidInput => Class::BadFile, // a name with a zero
        _ if error.kind() == io::ErrorKind::WriteZero => Class::NoSpace,
        _ => Class::Io,
    };
    Error::new(class, format!("{doing}: {error}"))
}
