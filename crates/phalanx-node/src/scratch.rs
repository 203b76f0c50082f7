//! The folder of a program on an executor: of the ranks of one program, or of the interpreters of one manager. It holds the
//! user's files for this program only, and is removed with it.
//!
//! The folders of all programs are in one folder that only the executor's account can enter. So nothing that another local user
//! puts into `/tmp` is looked at. Folders of programs that run under accounts of their own are in one that these accounts pass
//! through, and neither list nor change. Files are written beneath the program's folder by its descriptor, so that no link that a
//! process of the program makes there leads the executor out of it.

mod removing;
pub mod saved;

use crate::accounts::Account;
use crate::cage::{SHARED, has_private_memory};
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use phalanx_core::wire::machines::MOST_NAME;
use phalanx_net::private_folder;
use phalanx_net::sync::lock;
use rustix::fs::{AtFlags, FlockOperation, Mode, flock, fstat, openat, unlinkat};
use rustix::process::geteuid;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Beginning of the name of the folder with all folders of a user. The user's number follows.
const ALL: &str = "phalanx-programs-of-user-";
/// The name of the folder with all folders of accounts.
const ALL_OF_ACCOUNTS: &str = "phalanx-programs-of-accounts";
/// Beginning of a folder's name. The executor's process number follows, and then `WORD`.
const PREFIX: &str = "phalanx-";
const WORD: &str = "-program-";
/// How often the folder for all programs is made again, if programs that end remove it meanwhile.
const ATTEMPTS: usize = 10;
/// Name of the folder for checkpoints.
const CHECKPOINTS: &str = ".phalanx-checkpoints";

/// A folder that only one account can enter: this user's, or that of its program. Dropping it removes it.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
    /// The account whose folder it is. `None`: that of this user.
    account: Option<Account>,
    /// The folder that its processes see as `/dev/shm`. `None`: they see that of all.
    memory: Option<Memory>,
    /// The folder with all folders of this user, if it is in that one.
    _all: Option<All>,
    /// The same folder, opened.
    opened: Dir,
    /// A lock that shows other executors that the folder is in use.
    _lock: File,
    /// The file that is being written.
    file: Mutex<Option<File>>,
    /// Whether files are sent again, and replace those that are there.
    replaces: AtomicBool,
}

/// A folder in `/dev/shm`. Dropping it removes it.
#[derive(Debug)]
struct Memory {
    path: PathBuf,
    opened: Dir,
    /// A lock that shows other executors that the folder is in use.
    _lock: File,
}

impl Memory {
    fn new(name: &str, account: Option<&Account>) -> io::Result<Memory> {
        clean_memory();
        let mode = Permissions::from_mode(0o700);
        let mut folder = tempfile::Builder::new().prefix(name).permissions(mode).tempdir_in(SHARED)?;
        folder.disable_cleanup(true);
        let lock = File::from(private_folder::find(folder.path())?);
        flock(&lock, FlockOperation::LockExclusive)?;
        account.map_or(Ok(()), |account| account.own(&lock))?;
        let opened = Dir::from_std_file(lock.try_clone()?);
        Ok(Memory { path: folder.path().to_owned(), opened, _lock: lock })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = removing::empty(&self.opened).and_then(|()| fs::remove_dir(&self.path));
    }
}

/// The folder with all folders of a user. Dropping this removes it if it is empty.
#[derive(Debug)]
struct All(PathBuf);

impl Drop for All {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0); // it is not empty while another program has a folder there
    }
}

impl Folder {
    /// Creates an empty folder. Folders left by executors that were killed are removed.
    pub fn new() -> io::Result<Folder> {
        Folder::of(None)
    }

    /// The same, for an account.
    pub fn of(account: Option<Account>) -> io::Result<Folder> {
        Folder::within(&std::env::temp_dir(), account.as_ref())
    }

    /// The account whose folder it is. `None`: that of this user.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// The folder that its processes see as `/dev/shm`. `None`: they see that of all.
    pub fn memory(&self) -> Option<&Path> {
        self.memory.as_ref().map(|memory| &*memory.path)
    }

    /// Creates it in a folder that other users may write to. If another user has taken the name of the folder for all
    /// programs, the program's folder is made beside it, and what killed executors have left stays: no other user can stop a
    /// program from starting.
    fn within(shared: &Path, account: Option<&Account>) -> io::Result<Folder> {
        let (all, make): (_, fn(&Path) -> _) = match account {
            None => (shared.join(format!("{ALL}{}", geteuid().as_raw())), private_folder::make),
            Some(_) => (shared.join(ALL_OF_ACCOUNTS), private_folder::make_passable),
        };
        for _ in 0..ATTEMPTS {
            match make(&all) {
                // Nobody else puts anything into either folder. In that of accounts, the folders are theirs.
                Ok(opened) => remove_stale(&opened, account.is_some()),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Folder::beneath(shared, None, account);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            match Folder::beneath(&all, Some(All(all.clone())), account) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {} // another program that ended has removed it
                made => return made,
            }
        }
        Folder::beneath(shared, None, account)
    }

    fn beneath(parent: &Path, all: Option<All>, account: Option<&Account>) -> io::Result<Folder> {
        let name = format!("{PREFIX}{}{WORD}", std::process::id());
        let mode = Permissions::from_mode(0o700);
        let mut folder = tempfile::Builder::new().prefix(&name).permissions(mode).tempdir_in(parent)?;
        let opened = File::from(private_folder::find(folder.path())?);
        folder.disable_cleanup(true); // dropping the folder removes it
        flock(&opened, FlockOperation::LockExclusive)?;
        account.map_or(Ok(()), |account| account.own(&opened))?;
        let memory = has_private_memory().then(|| Memory::new(&name, account)).transpose()?;
        let (file, replaces, account) = (Mutex::new(None), AtomicBool::new(false), account.cloned());
        let dir = Dir::from_std_file(opened.try_clone()?);
        Ok(Folder { folder, account, memory, _all: all, opened: dir, _lock: opened, file, replaces })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder in it for the checkpoints of a BSP program. Several machines simulated on this one have one each.
    pub fn checkpoints(&self, machine: usize) -> io::Result<PathBuf> {
        let name = if machine == 0 { CHECKPOINTS.to_owned() } else { format!("{CHECKPOINTS}-{machine}") };
        let path = self.folder.path().join(name);
        match self.acting(|| fs::DirBuilder::new().mode(0o700).create(&path)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(path),
        }
    }

    /// Does work on files of the folder with the rights of its account.
    fn acting<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match &self.account {
            Some(account) => account.acting(work),
            None => work(),
        }
    }

    /// From now on, received files may replace existing ones, because the program is restarted.
    pub fn open_again(&self) {
        self.replaces.store(true, Ordering::Relaxed);
    }

    /// Begins a file. It is an error if the name would lead out of the folder, or if the file exists already.
    pub fn begin(&self, name: &str, executable: bool) -> io::Result<()> {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if name.is_empty() || name.len() > MOST_NAME || !inside {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a file's name leads out of the program's folder"));
        }
        let mut how = OpenOptions::new();
        how.write(true).create_new(true).mode(if executable { 0o700 } else { 0o600 });
        let make = || {
            Path::new(name).parent().map_or(Ok(()), |above| self.opened.create_dir_all(above))?;
            if self.replaces.load(Ordering::Relaxed) {
                // removed first, because a process of the earlier start may still have it open
                let _ = self.opened.remove_file(name);
            }
            self.opened.open_with(name, &how)
        };
        *lock(&self.file) = Some(self.acting(make)?.into_std());
        Ok(())
    }

    /// The next bytes of the file.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = lock(&self.file);
        let file = file.as_mut().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no file was begun"))?;
        file.write_all(bytes)
    }

    /// Writes a file at once, in place of one that is there. Until then its bytes are in the file `beside`.
    pub fn replace(&self, name: &str, beside: &str, bytes: &[u8]) -> io::Result<()> {
        let mut how = OpenOptions::new();
        how.write(true).create_new(true).mode(0o600);
        let replace = || {
            self.opened.open_with(beside, &how)?.write_all(bytes)?;
            self.opened.rename(beside, &self.opened, name)
        };
        self.acting(replace).inspect_err(|_| self.remove(beside))
    }

    /// Opens a file in it to read. No link leads out of the folder, and no pipe in it holds this up.
    pub fn read(&self, name: &str) -> io::Result<File> {
        let mut how = OpenOptions::new();
        how.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
        let file = self.acting(|| self.opened.open_with(name, &how))?.into_std();
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file")),
        }
    }

    /// The same, and whether it may be executed.
    pub fn read_as(&self, name: &str) -> io::Result<(File, bool)> {
        let file = self.read(name)?;
        let executable = file.metadata()?.permissions().mode() & 0o100 != 0;
        Ok((file, executable))
    }

    /// Looks at the folder with the rights of its account.
    pub fn reading<T>(&self, look: impl FnOnce(&Dir) -> io::Result<T>) -> io::Result<T> {
        self.acting(|| look(&self.opened))
    }

    /// Removes a file, if it is there.
    pub fn remove(&self, name: &str) {
        let _ = self.acting(|| self.opened.remove_file(name));
    }

    /// Closes the last file. A program that is still open for writing could not be executed.
    pub fn finish(&self) {
        *lock(&self.file) = None;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = removing::empty(&self.opened).and_then(|()| fs::remove_dir(self.folder.path()));
    }
}

/// Removes what killed executors have left, as each program that begins does. For an executor that starts.
pub fn clean() {
    clean_within(&std::env::temp_dir());
}

fn clean_within(shared: &Path) {
    let own = shared.join(format!("{ALL}{}", geteuid().as_raw()));
    let opened = private_folder::find(&own).map(|opened| (own, opened, false));
    let of_accounts = shared.join(ALL_OF_ACCOUNTS);
    let is_there = of_accounts.exists().then(|| private_folder::make_passable(&of_accounts));
    let accounts = is_there.and_then(Result::ok).map(|opened| (of_accounts, opened, true));
    if has_private_memory() {
        clean_memory();
    }
    for (path, opened, any_account) in opened.into_iter().chain(accounts) {
        let _removed_if_empty = All(path);
        remove_stale(&opened, any_account);
    }
}

/// Removes the named memory of programs of killed executors.
fn clean_memory() {
    if let Ok(memory) = File::open(SHARED) {
        remove_stale(&memory.into(), true);
    }
}

/// Removes the folders of killed executors from the folder for all programs. `any_account`: whatever account they are of.
fn remove_stale(opened: &OwnedFd, any_account: bool) {
    let entries = rustix::fs::Dir::read_from(opened).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    for name in names.filter(|name| name.strip_prefix(PREFIX).is_some_and(|rest| rest.contains(WORD))) {
        // held until the folder is gone
        let Some(folder) = stale(opened, &name, any_account) else { continue };
        let emptied = folder.try_clone().and_then(|folder| removing::empty(&Dir::from_std_file(folder)));
        let _ = emptied.and_then(|()| Ok(unlinkat(opened, &name, AtFlags::REMOVEDIR)?));
    }
}

/// Opens and locks a folder that no process uses any more.
fn stale(all: impl AsFd, name: &str, any_account: bool) -> Option<File> {
    let opened = File::from(openat(all, name, private_folder::OPEN, Mode::empty()).ok()?);
    let is_own = any_account || fstat(&opened).is_ok_and(|found| found.st_uid == geteuid().as_raw());
    let is_free = is_own && flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok();
    (is_free && is_old(&opened)).then_some(opened)
}

/// Whether the folder is old enough to be removed. A folder made a moment ago may not be locked yet.
fn is_old(folder: &File) -> bool {
    let age = folder.metadata().and_then(|found| found.modified()).map(|changed| changed.elapsed());
    age.is_ok_and(|age| age.is_ok_and(|age| age.as_secs() > 60))
}

#[cfg(test)]
mod tests;
