//! Accounts of this system for the users of an executor that runs as root: the processes of each user run under an account of
//! their own.
//!
//! An account is a number, of a user and of a group, that needs no entry in `/etc/passwd`. The owner names a range of them. A
//! user gets the first free one and keeps it: a register, which lies on the disk, says who has which. So a file that one user
//! leaves never becomes another's, whenever the executor is started again. While an executor runs, its accounts are locked
//! for all executors of the machine.

use phalanx_net::sync::lock;
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid, flock, open};
use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The file whose byte N is locked by the executor that has account N.
const LOCK: &str = "/run/phalanx-accounts";

/// Longest register, in bytes: each account that was ever given has one line, of at most about a hundred bytes.
const LONGEST: u64 = 16 << 20;

/// An account, as which all processes of one user run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    number: u32,
    /// The name of the user in the grid.
    user: Arc<str>,
}

impl Account {
    /// The number, of a user and a group.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The name of the user in the grid.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Makes this process one of the account, for good, and takes it out of all groups. It makes system calls only, for this
    /// thread alone, so it may be called between fork and exec.
    ///
    /// # Errors
    ///
    /// The kernel refuses: this process is not root, or its user namespace does not have the account.
    pub fn enter(&self) -> io::Result<()> {
        let (user, group) = self.ids();
        set_thread_groups(&[])?;
        leave_keyring()?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
        // Until it begins a program, it has the memory of the executor.
        Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
    }

    /// Makes an open file, pipe or folder the account's.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub fn own(&self, file: impl AsFd) -> io::Result<()> {
        let (user, group) = self.ids();
        Ok(rustix::fs::fchown(file, Some(user), Some(group))?)
    }

    /// Calls `work` with the account's rights to files. New files belong to the account, and the kernel refuses files that the
    /// account may not touch. So a link that the account has made cannot lead `work` to a file of another account.
    ///
    /// # Errors
    ///
    /// Those of the work, and those of the system, which then did not do it.
    pub fn acting<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let _acting = Acting::begin(self.number)?;
        work()
    }

    fn ids(&self) -> (Uid, Gid) {
        (Uid::from_raw(self.number), Gid::from_raw(self.number))
    }
}

/// The numbers by which the kernel checked this thread's rights to files before. Dropping this sets them again.
struct Acting {
    user: u32,
    group: u32,
}

impl Acting {
    fn begin(number: u32) -> io::Result<Acting> {
        let before = Acting { group: set_file_group(number), user: set_file_user(number) };
        // The calls do not fail, but say what holds. A call with a number that no account can have changes nothing.
        match (set_file_user(u32::MAX), set_file_group(u32::MAX)) == (number, number) {
            true => Ok(before),
            false => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("account {number} cannot be taken on")))
            }
        }
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        set_file_user(self.user);
        set_file_group(self.group);
        // Each change of the account makes the kernel forget that the memory of this process is hidden.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Leaves the session keyring, whose keys this process could read under any account, for an empty one.
fn leave_keyring() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: the call has no pointer but one that may be null.
    let joined = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, std::ptr::null::<u8>()) };
    match io::Error::last_os_error() {
        // There are no keys, or a container has none for its processes.
        error if joined < 0 && !matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => Err(error),
        _ => Ok(()),
    }
}

/// Sets the account by which the kernel checks this thread's rights to files. Returns the one before.
fn set_file_user(number: u32) -> u32 {
    // SAFETY: the call has no pointer, and concerns this thread alone.
    unsafe { libc::setfsuid(number) as u32 }
}

/// The same for its group.
fn set_file_group(number: u32) -> u32 {
    // SAFETY: as above.
    unsafe { libc::setfsgid(number) as u32 }
}

/// The accounts of an executor.
#[derive(Debug)]
pub struct Accounts {
    numbers: RangeInclusive<u32>,
    register: PathBuf,
    /// The grid whose users get accounts. Another grid can have a user of the same name.
    grid: String,
    /// The owner of each account in use, as `USER GRID`. Users of other grids keep their accounts.
    given: Mutex<BTreeMap<u32, String>>,
    _locked: OwnedFd,
}

impl Accounts {
    /// Locks the accounts for this process, and reads their owners from the register. `authority`: the certificate of the
    /// grid's authority.
    ///
    /// # Errors
    ///
    /// This process is not root, an executor of this machine has one of the accounts, or the register is damaged.
    pub fn new(numbers: RangeInclusive<u32>, register: &Path, authority: &[u8]) -> Result<Accounts, String> {
        if !geteuid().is_root() {
            return Err("--accounts needs root: no other account can start processes under other ones".to_owned());
        }
        if numbers.is_empty() || *numbers.start() == 0 || *numbers.end() == u32::MAX {
            return Err(format!("--accounts {} is no range of accounts", range(&numbers)));
        }
        let _locked = locked(&numbers)?;
        let given = read(register, &numbers)?;
        let grid = digest(authority);
        Ok(Accounts { numbers, register: register.to_owned(), grid, given: Mutex::new(given), _locked })
    }

    /// Returns the account of a user. A new user gets the first free account. `authority`: the certificate of the authority of the
    /// user's grid, if it is another one.
    ///
    /// # Errors
    ///
    /// All accounts are taken, or the register cannot be written.
    pub fn of(&self, user: &str, authority: Option<&[u8]>) -> io::Result<Account> {
        let mut given = lock(&self.given);
        let entry = format!("{user} {}", authority.map_or_else(|| self.grid.clone(), digest));
        let number = match given.iter().find(|(_, of)| **of == entry) {
            Some((number, _)) => *number,
            None => {
                let mut free = self.numbers.clone().filter(|number| !given.contains_key(number));
                let number = free.next().ok_or_else(|| self.used_up())?;
                self.note(number, &entry)?;
                given.insert(number, entry);
                number
            }
        };
        Ok(Account { number, user: user.into() })
    }

    fn used_up(&self) -> io::Error {
        let (count, range) = (self.numbers.clone().count(), range(&self.numbers));
        io::Error::other(format!(
            "all {count} accounts that this executor may use are other users' (--accounts {range}); its owner can name more of \
             them, or free those of users who left no files, by removing their lines from {}",
            self.register.display()
        ))
    }

    /// Writes to the register, and to the disk, before the account is used.
    fn note(&self, number: u32, entry: &str) -> io::Result<()> {
        let wrong = |error: io::Error| {
            io::Error::new(error.kind(), format!("accounts cannot be noted in {}: {error}", self.register.display()))
        };
        let note = || {
            self.register
                .parent()
                .map_or(Ok(()), |folder| fs::DirBuilder::new().recursive(true).mode(0o700).create(folder))?;
            let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.register)?;
            flock(&file, FlockOperation::LockExclusive)?; // other executors, of other ranges, write to it too
            let before = file.metadata()?.len();
            let noted = file.write_all(format!("{number} {entry}\n").as_bytes()).and_then(|()| file.sync_all());
            noted.inspect_err(|_| drop(file.set_len(before)))
        };
        note().map_err(wrong)
    }
}

/// The grid of an authority, as the register names it.
fn digest(authority: &[u8]) -> String {
    blake3::hash(authority).to_hex()[..16].to_owned()
}

fn range(numbers: &RangeInclusive<u32>) -> String {
    format!("{}-{}", numbers.start(), numbers.end())
}

/// Reads the owners of the accounts from the register. Its lines are `ACCOUNT USER GRID`. Lines about accounts outside of the
/// range belong to other executors.
fn read(register: &Path, numbers: &RangeInclusive<u32>) -> Result<BTreeMap<u32, String>, String> {
    let Some(text) = text_of(register)? else { return Ok(BTreeMap::new()) };
    if !(text.is_empty() || text.ends_with('\n')) {
        return Err(format!("{} is not whole: its last line has no end", register.display()));
    }
    let mut given = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let damaged = || format!("{}, line {}, is no line `ACCOUNT USER GRID` of its own", register.display(), at + 1);
        let (number, entry) = line.split_once(' ').ok_or_else(damaged)?;
        let number: u32 = number.parse().map_err(|_| damaged())?;
        if !is_entry(entry) || (numbers.contains(&number) && given.insert(number, entry.to_owned()).is_some()) {
            return Err(damaged());
        }
    }
    Ok(given)
}

/// The text of the register. `None`: there is none yet. A register that others can change is refused, because they could give a
/// user's account, and with it the user's files, to another user.
fn text_of(register: &Path) -> Result<Option<String>, String> {
    let wrong = |error: io::Error| format!("{}: {error}", register.display());
    let opened = match open(register, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        opened => File::from(opened.map_err(|error| wrong(error.into()))?),
    };
    let folder = register.parent().map_or(Ok(None), |folder| fs::metadata(folder).map(Some)).map_err(wrong)?;
    let found = opened.metadata().map_err(wrong)?;
    let is_own = |it: &fs::Metadata| it.uid() == geteuid().as_raw() && it.mode() & 0o022 == 0;
    if !found.is_file() || !is_own(&found) || !folder.as_ref().is_none_or(is_own) {
        let how = "it and its folder must belong to root, and nobody else may write to them (chmod go-w)";
        return Err(format!("{} could be changed by others: {how}", register.display()));
    }
    if found.len() > LONGEST {
        return Err(format!("{} is longer than the {LONGEST} bytes that an executor reads", register.display()));
    }
    let mut text = String::new();
    opened.take(LONGEST).read_to_string(&mut text).map_err(wrong)?;
    Ok(Some(text))
}

/// Whether `entry` is `USER GRID`. A grid is 16 hexadecimal digits.
fn is_entry(entry: &str) -> bool {
    let is_grid = |grid: &str| grid.len() == 16 && grid.bytes().all(|digit| digit.is_ascii_hexdigit());
    entry.split_once(' ').is_some_and(|(user, grid)| !user.is_empty() && is_grid(grid))
}

/// Locks the accounts for as long as the returned file is open. The kernel frees them when this process ends.
fn locked(numbers: &RangeInclusive<u32>) -> Result<OwnedFd, String> {
    let how = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open(LOCK, how, Mode::RUSR | Mode::WUSR).map_err(|error| format!("{LOCK}: {error}"))?;
    // SAFETY: all zeroes are a value of this plain structure.
    let mut area: libc::flock = unsafe { std::mem::zeroed() };
    area.l_type = libc::F_WRLCK as libc::c_short;
    area.l_whence = libc::SEEK_SET as libc::c_short;
    area.l_start = *numbers.start() as libc::off_t;
    area.l_len = (*numbers.end() - *numbers.start()) as libc::off_t + 1;
    // SAFETY: the structure lives as long as the call, which only reads it.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const area) } {
        0 => Ok(file),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Err(format!(
                "another executor of this machine has some of the accounts {}: name others with --accounts",
                range(numbers)
            )),
            error => Err(format!("{LOCK}: {error}")),
        },
    }
}

#[cfg(test)]
mod tests;
