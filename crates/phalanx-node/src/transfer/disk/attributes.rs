//! Owners, extended attributes and access control lists. All system calls for these are here. Where the system has none, the
//! functions return an error.

use phalanx_core::wire::transfer::{Attributes, Keeps};
use phalanx_net::sync::lock;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

#[cfg(target_os = "linux")]
pub use linux::{fit, fit_link, open_folder, read, several_names};
#[cfg(not(target_os = "linux"))]
pub use portable::{fit, fit_link, open_folder, read, several_names};

/// Attributes that could not be set. For each reason, the first path and the number of files, so that a few lines report on a
/// million files.
#[derive(Default)]
pub struct Refusals(Mutex<BTreeMap<String, (PathBuf, u64)>>);

/// Most different reasons that are reported.
const MOST_REASONS: usize = 64;

impl Refusals {
    pub fn note(&self, path: &Path, reasons: Vec<String>) {
        let mut all = lock(&self.0);
        for reason in reasons {
            let has_room = all.len() < MOST_REASONS;
            match all.get_mut(&reason) {
                Some((_, count)) => *count += 1,
                None if has_room => drop(all.insert(reason, (path.to_owned(), 1))),
                None => {}
            }
        }
    }

    /// All reasons, as failures of the copy.
    pub fn take(&self) -> Vec<(PathBuf, String)> {
        let all = std::mem::take(&mut *lock(&self.0));
        let more = |count: u64| if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        all.into_iter().map(|(reason, (path, count))| (path, format!("{reason}{}", more(count)))).collect()
    }
}

/// Whether a peer may set an attribute here. No attribute may grant rights on this machine, whichever user runs this end.
///
/// Any user may set `user.*`, only root may set `trusted.*`. `security.*` is never copied: `security.capability` grants a
/// program rights like a setuid bit, which is not copied either.
#[cfg(target_os = "linux")]
fn is_kept(name: &[u8], keeps: Keeps, is_root: bool) -> bool {
    let is_acl = matches!(name, b"system.posix_acl_access" | b"system.posix_acl_default");
    match is_acl {
        true => keeps.acls,
        false => keeps.xattrs && (name.starts_with(b"user.") || (is_root && name.starts_with(b"trusted."))),
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use crate::transfer::disk::users::{name, number};
    use cap_std::fs::Dir;
    use phalanx_core::wire::transfer::{MOST_ATTRIBUTE_BYTES, MOST_ATTRIBUTES, MOST_VALUE, Owner};
    use rustix::fs::{AtFlags, Gid, Uid, XattrFlags};
    use rustix::io::Errno;
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io;

    /// Longest list of attribute names that Linux returns, in bytes.
    const MOST_LIST: usize = 64 << 10;

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    /// The attributes to keep of an entry that was found. `open` opens it, if that is needed to read them.
    pub fn read(
        found: &cap_std::fs::Metadata,
        keeps: Keeps,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<Attributes> {
        use cap_std::fs::MetadataExt;
        let named =
            |number, is_group| Owner { number, name: if keeps.numeric { vec![] } else { name(number, is_group) } };
        let extended = match (keeps.xattrs || keeps.acls) && !found.is_symlink() {
            true => extended(&open()?, keeps)?,
            false => Vec::new(),
        };
        Ok(Attributes {
            owner: keeps.owner.then(|| named(found.uid(), false)),
            group: keeps.group.then(|| named(found.gid(), true)),
            extended,
            hard_link: None,
        })
    }

    /// Opens a folder so that its attributes can be read and set. The handle with which it is walked cannot do that.
    pub fn open_folder(folder: &Dir) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, openat};
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(folder, ".", how, Mode::empty())?))
    }

    /// Device and inode number of a file with several names; `None` if it has one name.
    pub fn several_names(found: &cap_std::fs::Metadata) -> Option<(u64, u64)> {
        use cap_std::fs::MetadataExt;
        (found.is_file() && found.nlink() > 1).then(|| (found.dev(), found.ino()))
    }

    /// The extended attributes, sorted by name.
    fn extended(file: &File, keeps: Keeps) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut list = vec![0; MOST_LIST];
        let length = match rustix::fs::flistxattr(file, &mut list[..]) {
            Ok(length) => length,
            Err(Errno::NOTSUP) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let is_root = is_root();
        let names = list[..length].split(|byte| *byte == 0);
        let (mut all, mut bytes, mut value) = (Vec::new(), 0, vec![0; MOST_VALUE]);
        for name in names.filter(|name| is_kept(name, keeps, is_root)) {
            let length = match rustix::fs::fgetxattr(file, name, &mut value[..]) {
                Ok(length) => length,
                Err(Errno::NODATA) => continue, // it was removed meanwhile
                Err(error) => return Err(error.into()),
            };
            bytes += name.len() + length;
            if bytes > MOST_ATTRIBUTE_BYTES || all.len() >= MOST_ATTRIBUTES {
                return Err(io::Error::other("it has too many extended attributes, or too long ones"));
            }
            all.push((name.to_vec(), value[..length].to_vec()));
        }
        all.sort();
        Ok(all)
    }

    /// Gives a file or a folder the attributes of its source. Returns whether anything changed, and the reasons of refusals.
    ///
    /// The owner is set first, because the system clears other attributes then. Permissions and times are to be set
    /// afterwards.
    pub fn fit(file: &File, wanted: &Attributes, keeps: Keeps) -> (bool, Vec<String>) {
        use std::os::unix::fs::MetadataExt;
        let mut refused = Vec::new();
        let mut changed = match file.metadata() {
            Ok(found) => fit_owner(found.uid(), found.gid(), wanted, keeps, &mut refused, |owner, group| {
                rustix::fs::fchown(file, owner, group)
            }),
            Err(error) => {
                refused.push(error.to_string());
                false
            }
        };
        if keeps.xattrs || keeps.acls {
            match extended(file, keeps) {
                Ok(found) if found == wanted.extended => {}
                Ok(found) => {
                    writable(file, || changed |= fit_extended(file, &found, wanted, keeps, &mut refused));
                }
                Err(error) => refused.push(format!("its extended attributes cannot be read: {error}")),
            }
        }
        (changed, refused)
    }

    /// Calls `act` while the file's mode allows writing, because only root can set attributes of a read-only file.
    fn writable(file: &File, act: impl FnOnce()) {
        use rustix::fs::{Mode, fchmod, fstat};
        let mode = fstat(file).map(|found| Mode::from_raw_mode(found.st_mode));
        let closed = mode.ok().filter(|mode| !is_root() && !mode.contains(Mode::WUSR));
        let opened = closed.filter(|mode| fchmod(file, *mode | Mode::WUSR).is_ok());
        act();
        if let Some(mode) = opened {
            // Keeps an access control list that was just set: only the owner's permission is restored.
            let now = fstat(file).map_or(mode, |found| Mode::from_raw_mode(found.st_mode));
            let _ = fchmod(file, now - Mode::WUSR);
        }
    }

    /// Gives a symbolic link the owner of its source.
    pub fn fit_link(folder: &Dir, name: &OsStr, wanted: &Attributes, keeps: Keeps) -> (bool, Vec<String>) {
        use cap_std::fs::MetadataExt;
        let mut refused = Vec::new();
        let found = match folder.symlink_metadata(name) {
            Ok(found) => found,
            Err(error) => return (false, vec![error.to_string()]),
        };
        let changed = fit_owner(found.uid(), found.gid(), wanted, keeps, &mut refused, |owner, group| {
            rustix::fs::chownat(folder, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)
        });
        (changed, refused)
    }

    fn fit_owner(
        user: u32,
        group: u32,
        wanted: &Attributes,
        keeps: Keeps,
        refused: &mut Vec<String>,
        set: impl Fn(Option<Uid>, Option<Gid>) -> Result<(), Errno>,
    ) -> bool {
        let number = |of: &Option<Owner>, is_kept: bool, is_group| {
            of.as_ref().filter(|_| is_kept).map(|owner| number(owner, keeps.numeric, is_group))
        };
        let owner = number(&wanted.owner, keeps.owner, false).filter(|number| *number != user);
        let new_group = number(&wanted.group, keeps.group, true).filter(|number| *number != group);
        let mut changed = false;
        // For the system call, u32::MAX means "do not change".
        if let Some(new) = owner.filter(|number| *number != u32::MAX) {
            match set(Some(Uid::from_raw(new)), None) {
                Ok(()) => changed = true,
                Err(Errno::PERM) => {
                    refused.push("its owner was not set: only an end that runs as root can give files away".to_owned())
                }
                Err(error) => refused.push(format!("its owner was not set: {error}")),
            }
        }
        if let Some(new) = new_group.filter(|number| *number != u32::MAX) {
            match set(None, Some(Gid::from_raw(new))) {
                Ok(()) => changed = true,
                Err(Errno::PERM) => refused.push(
                    "its group was not set: an end that does not run as root can set only its own groups".to_owned(),
                ),
                Err(error) => refused.push(format!("its group was not set: {error}")),
            }
        }
        changed
    }

    fn fit_extended(
        file: &File,
        found: &[(Vec<u8>, Vec<u8>)],
        wanted: &Attributes,
        keeps: Keeps,
        refused: &mut Vec<String>,
    ) -> bool {
        let (mut changed, is_root) = (false, is_root());
        let mut note = |what: &str, name: &[u8], outcome: Result<(), Errno>| match outcome {
            Ok(()) | Err(Errno::NODATA) => changed = true,
            Err(error) => refused.push(format!("its attribute {} was not {what}: {error}", shown(name))),
        };
        for (name, _) in found.iter().filter(|(name, _)| !wanted.extended.iter().any(|(other, _)| other == name)) {
            note("removed", name, rustix::fs::fremovexattr(file, &name[..]));
        }
        for (name, value) in wanted.extended.iter().filter(|one| !found.contains(one)) {
            if !is_kept(name, keeps, is_root) {
                note("set", name, Err(Errno::PERM));
                continue;
            }
            note("set", name, rustix::fs::fsetxattr(file, &name[..], value, XattrFlags::empty()));
        }
        changed
    }

    fn shown(name: &[u8]) -> String {
        crate::dial::printable(&String::from_utf8_lossy(name))
    }
}

#[cfg(not(target_os = "linux"))]
mod portable {
    use super::*;
    use cap_std::fs::Dir;
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io;

    fn none() -> String {
        "owners, extended attributes and access control lists are not kept on this system".to_owned()
    }

    pub fn read(_: &cap_std::fs::Metadata, _: Keeps, _: impl FnOnce() -> io::Result<File>) -> io::Result<Attributes> {
        Err(io::Error::other(none()))
    }

    pub fn open_folder(folder: &Dir) -> io::Result<File> {
        Ok(folder.try_clone()?.into_std_file())
    }

    pub fn several_names(_: &cap_std::fs::Metadata) -> Option<(u64, u64)> {
        None
    }

    pub fn fit(_: &File, _: &Attributes, _: Keeps) -> (bool, Vec<String>) {
        (false, vec![none()])
    }

    pub fn fit_link(_: &Dir, _: &OsStr, _: &Attributes, _: Keeps) -> (bool, Vec<String>) {
        (false, vec![none()])
    }
}
