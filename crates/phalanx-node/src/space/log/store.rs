//! A file of tables that change atomically, by `redb`. It is opened defensively, because the file may be damaged.

use super::LogError;
use redb::WriteTransaction;
use redb::{Builder, Database, DatabaseError, Durability, ReadTransaction, ReadableTable, TableDefinition};
use std::fs::{File, OpenOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// Version of the tables' contents. Increase it when they change, or when `Change` does.
const FORMAT: u8 = 4;
const ABOUT: TableDefinition<&str, &[u8]> = TableDefinition::new("about");
const FORMAT_KEY: &str = "format";
/// Most bytes of the file that are cached in memory.
const CACHE: usize = 64 << 20;

/// An open store. Only one process can have a file open.
pub struct Store {
    /// `None` once the store was closed.
    database: RwLock<Option<Database>>,
    path: String,
    /// Whether a write has failed because the disk was full.
    is_full: AtomicBool,
}

/// When a commit becomes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// The commit is on the disk when the call returns.
    Now,
    /// The commit becomes durable together with the next `Now` commit. A crash before that undoes both.
    Later,
}

impl Store {
    /// Opens a store, or creates one in an existing folder. Only this user can read the file.
    pub fn open(path: &Path) -> Result<Store, LogError> {
        let name = path.display().to_string();
        let disk = |error: io::Error| LogError::Disk { path: name.clone(), why: error.to_string() };
        let (file, is_new) = private(path).map_err(disk)?;
        if !is_new && file.metadata().map_err(disk)?.len() == 0 {
            return Err(damaged(&name, "it is empty")); // a store is never empty, so its contents are lost
        }
        let mut opened = Store::checked(&name, || builder().create_file(file));
        if is_new {
            opened = opened.and_then(|store| sync_folder(path).map_err(disk).map(|()| store));
            if opened.is_err() {
                let _ = std::fs::remove_file(path); // half of a new store would be taken for a damaged one
            }
        }
        opened
    }

    /// A store in memory, or one that fails where a test wants it to fail.
    #[cfg(test)]
    pub fn on(backend: impl redb::StorageBackend) -> Result<Store, LogError> {
        Store::checked("in memory", || builder().create_with_backend(backend))
    }

    fn checked(path: &str, open: impl FnOnce() -> Result<Database, DatabaseError>) -> Result<Store, LogError> {
        let whole = caught(path, || {
            let mut database = open().map_err(|error| told(path, error))?;
            match database.check_integrity().map_err(|error| told(path, error))? {
                true => Ok(database),
                false => Err(damaged(path, "its checksums do not match")),
            }
        });
        let (database, path) = (RwLock::new(Some(whole?)), path.to_owned());
        let store = Store { database, path, is_full: AtomicBool::new(false) };
        store.check_format()?;
        Ok(store)
    }

    fn check_format(&self) -> Result<(), LogError> {
        self.write(Lasting::Now, |writing| {
            let mut about = writing.open_table(ABOUT).map_err(|error| self.told(error))?;
            let is = about.get(FORMAT_KEY).map_err(|error| self.told(error))?.map(|is| is.value().to_vec());
            match is.as_deref() {
                Some([FORMAT]) => Ok(()),
                None => about.insert(FORMAT_KEY, &[FORMAT][..]).map(drop).map_err(|error| self.told(error)),
                Some(is) => Err(LogError::Version { path: self.path.clone(), is: format!("{is:?}"), reads: FORMAT }),
            }
        })
    }

    /// Closes the file, even if others still hold the store. From then on, nothing reads or writes.
    pub fn close(&self) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether a write has failed because the disk was full.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Reads from a consistent snapshot of the store.
    pub fn read<T>(&self, work: impl FnOnce(&ReadTransaction) -> Result<T, LogError>) -> Result<T, LogError> {
        caught(&self.path, || work(&self.begin_read()?))
    }

    /// Opens a snapshot of the store. It stays unchanged for as long as it is held.
    pub fn begin_read(&self) -> Result<ReadTransaction, LogError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let open = database.as_ref().ok_or(LogError::Closed)?;
        caught(&self.path, || open.begin_read().map_err(|error| self.told(error)))
    }

    /// Changes the store: either everything that `work` does, or, after an error, nothing.
    pub fn write<T>(
        &self,
        lasting: Lasting,
        work: impl FnOnce(&WriteTransaction) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let open = database.as_ref().ok_or(LogError::Closed)?;
        let written = caught(&self.path, || {
            let mut writing = open.begin_write().map_err(|error| self.told(error))?;
            match lasting {
                // Two-phase commit records which state was committed, instead of inferring it from checksums. So damage to the
                // newest state is reported as an error, and never mistaken for a crash before its commit.
                Lasting::Now => writing.set_two_phase_commit(true),
                Lasting::Later => writing.set_durability(Durability::None),
            }
            let done = work(&writing)?;
            writing.commit().map_err(|error| self.told(error))?;
            Ok(done)
        });
        if matches!(written, Err(LogError::Full { .. })) {
            self.is_full.store(true, Ordering::Release);
        }
        written
    }

    /// Translates an error of the library.
    pub fn told(&self, error: impl Into<redb::Error>) -> LogError {
        told(&self.path, error)
    }

    /// The error for contents that this program would not have written.
    pub fn damaged(&self, why: impl ToString) -> LogError {
        damaged(&self.path, why)
    }
}

fn told(path: &str, error: impl Into<redb::Error>) -> LogError {
    let (path, error) = (path.to_owned(), error.into());
    match error {
        redb::Error::DatabaseAlreadyOpen => LogError::InUse(path),
        redb::Error::UpgradeRequired(_) => LogError::Damaged { path, why: "an old or no format of tables".into() },
        redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => damaged(&path, "it is no store"),
        redb::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => damaged(&path, "its end is missing"),
        redb::Error::Io(error) if is_full(&error) => LogError::Full { path },
        redb::Error::Io(error) => LogError::Disk { path, why: error.to_string() },
        redb::Error::PreviousIo => LogError::Disk { path, why: "an earlier write failed".into() },
        other => LogError::Damaged { path, why: other.to_string() },
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn damaged(path: &str, why: impl ToString) -> LogError {
    LogError::Damaged { path: path.to_owned(), why: why.to_string() }
}

/// Damaged pages can make the library panic. The panic is caught, so that it ends this store and not the process.
fn caught<T>(path: &str, work: impl FnOnce() -> Result<T, LogError>) -> Result<T, LogError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(damaged(path, text.unwrap_or_else(|| "its pages make no sense".into())))
    })
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    // The file format that newer versions of the library read.
    builder.create_with_file_format_v3(true).set_cache_size(CACHE);
    builder
}

/// Opens the file, readable by this user only. Returns it and whether it is new.
fn private(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok((options.open(path)?, false)),
        made => Ok((made?, true)),
    }
}

/// Syncs the folder, because a new file survives a crash only when its folder entry is on the disk too.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
