//! Contents: the bytes of files in a content-addressed store. A hub keeps inputs, programs, logs and outputs of jobs in it. An executor
//! uses it as a cache of fetched inputs.
//!
//! ```text
//! FOLDER/OWNER/DIGEST         a whole content     OWNER: the digest of a user's name, so that no user learns what another one keeps
//! FOLDER/OWNER/DIGEST.part    the beginning of one, which is continued after a link has ended
//! ```

mod client;
mod incoming;
mod serving;

pub use client::{Contents, content_of, digest_of};
pub use incoming::Incoming;
pub use serving::{Allowed, serve};

use phalanx_core::wire::jobs::Digest;
use phalanx_net::sync::lock;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

/// Bytes that contents leave free on their disk, because a hub stores its own decisions there too.
pub const RESERVE: u64 = 512 << 20;
/// The extension of a partial file.
const PART: &str = "part";

/// A folder with contents.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Most bytes of all contents, and of one user's contents.
    most: (u64, u64),
    /// Used bytes by user folder.
    used: Mutex<HashMap<String, u64>>,
    /// The partial files that a writer has claimed.
    claimed: Mutex<HashSet<PathBuf>>,
}

impl Store {
    /// Opens the store. Its folder is created with the first content.
    pub fn open(folder: PathBuf, most: (u64, u64)) -> Store {
        let used = walk(&folder).into_iter().fold(HashMap::new(), |mut used, found| {
            *used.entry(found.owner).or_default() += found.bytes;
            used
        });
        Store { folder, most, used: Mutex::new(used), claimed: Mutex::default() }
    }

    /// The length of the content, if the store has all of it.
    pub fn bytes(&self, user: &str, digest: &Digest) -> Option<u64> {
        fs::metadata(self.path(user, digest)).ok().filter(fs::Metadata::is_file).map(|it| it.len())
    }

    /// Whether the store has the whole content. Updates its time of use, so that the content stays for a while.
    pub fn uses(&self, user: &str, digest: &Digest) -> bool {
        let now = || File::options().append(true).open(self.path(user, digest))?.set_modified(SystemTime::now());
        now().is_ok()
    }

    /// Opens a content.
    ///
    /// # Errors
    /// The store does not have the content.
    pub fn read(&self, user: &str, digest: &Digest) -> io::Result<File> {
        File::open(self.path(user, digest))
    }

    /// Begins to receive a content of `bytes` bytes, or resumes its partial file.
    ///
    /// # Errors
    /// The store has no room. The text is for users.
    pub fn begin(&self, user: &str, digest: Digest, bytes: u64) -> io::Result<Incoming<'_>> {
        self.check_room(user, bytes)?;
        let path = self.path(user, &digest);
        make_folder(path.parent().expect("has a folder"))?;
        Incoming::begin(self, user, path, (digest, bytes))
    }

    /// Checks that the store has room for `bytes` more bytes of a user.
    ///
    /// # Errors
    /// The store has no room for them. The text is for users.
    pub fn check_room(&self, user: &str, bytes: u64) -> io::Result<()> {
        let full = |why: String| io::Error::new(io::ErrorKind::StorageFull, why);
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let (all, own) = {
            let used = lock(&self.used);
            (used.values().sum::<u64>(), used.get(&owner(user)).copied().unwrap_or_default())
        };
        if own.saturating_add(bytes) > self.most.1 || all.saturating_add(bytes) > self.most.0 {
            return Err(full(format!(
                "there is no room for {:.1} GB more: the jobs of {user} have {:.1} of at most {:.1} GB here, and those of all users \
                 {:.1} of {:.1} GB; forget jobs that have ended: phalanx jobs --forget ID",
                gigabytes(bytes),
                gigabytes(own),
                gigabytes(self.most.1),
                gigabytes(all),
                gigabytes(self.most.0)
            )));
        }
        match left(&self.folder) {
            Some(left) if left < bytes.saturating_add(RESERVE) => Err(full(format!(
                "the disk of {} is full: {:.1} GB are left, of which {:.1} GB stay free; make room there, or forget jobs that have \
                 ended: phalanx jobs --forget ID",
                self.folder.display(),
                gigabytes(left),
                gigabytes(RESERVE)
            ))),
            _ => Ok(()),
        }
    }

    /// Removes contents that are not kept and were not used for `grace`. Returns the removed bytes.
    pub fn collect(&self, is_kept: impl Fn(&str, &str) -> bool, grace: Duration) -> u64 {
        let mut removed = 0;
        for found in walk(&self.folder) {
            let is_old = found.used.elapsed().is_ok_and(|age| age >= grace);
            if is_old && !is_kept(&found.owner, &found.digest) {
                removed += self.remove(&found);
            }
        }
        removed
    }

    /// Removes the least recently used contents, until all together have at most `most` bytes.
    pub fn shrink(&self, most: u64) {
        let mut all = walk(&self.folder);
        all.sort_by_key(|it| it.used);
        let mut bytes: u64 = all.iter().map(|it| it.bytes).sum();
        for found in all {
            if bytes <= most {
                return;
            }
            bytes -= self.remove(&found);
        }
    }

    fn remove(&self, found: &Found) -> u64 {
        if lock(&self.claimed).contains(&found.path) || fs::remove_file(&found.path).is_err() {
            return 0;
        }
        if let Some(used) = lock(&self.used).get_mut(&found.owner) {
            *used = used.saturating_sub(found.bytes);
        }
        found.bytes
    }

    fn path(&self, user: &str, digest: &Digest) -> PathBuf {
        self.folder.join(owner(user)).join(name_of(digest))
    }

    fn remove_bytes(&self, user: &str, bytes: u64) {
        if let Some(used) = lock(&self.used).get_mut(&owner(user)) {
            *used = used.saturating_sub(bytes);
        }
    }

    fn add(&self, user: &str, bytes: u64) {
        *lock(&self.used).entry(owner(user)).or_default() += bytes;
    }
}

/// The name of a user's folder. It is a digest, because users' names may have characters that are invalid in file names.
pub fn owner(user: &str) -> String {
    blake3::hash(user.as_bytes()).to_hex()[..32].to_owned()
}

/// The name of a content's file.
pub fn name_of(digest: &Digest) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().to_string()
}

/// A file of the folder.
struct Found {
    path: PathBuf,
    owner: String,
    /// The digest, which is the first part of its name.
    digest: String,
    bytes: u64,
    used: SystemTime,
}

fn walk(folder: &Path) -> Vec<Found> {
    let files = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut found = Vec::new();
    for owner in files(folder.to_owned()) {
        for file in files(owner.path()) {
            let Ok(metadata) = file.metadata() else { continue };
            let (path, name) = (file.path(), file.file_name().to_string_lossy().into_owned());
            let digest = name.split('.').next().unwrap_or_default().to_owned();
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let owner = owner.file_name().to_string_lossy().into_owned();
            found.push(Found { path, owner, digest, bytes: metadata.len(), used });
        }
    }
    found
}

/// Creates a folder and its parents, with access for this account only.
#[cfg(unix)]
fn make_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn make_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

#[cfg(not(unix))]
fn left(_: &Path) -> Option<u64> {
    None
}

#[cfg(unix)]
fn left(folder: &Path) -> Option<u64> {
    let disk = folder.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok())?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests;
