//! The folder of a program on an executor: of the ranks of one program, or of the interpreters of one manager. It holds the
//! user's files for this program only, and is removed with it.
//!
//! The folders of all programs are in one folder that only the executor's account can enter. So nothing that another local user
//! puts into `/tmp` is looked at. Files are written beneath the program's folder by its descriptor, so that no link that a
//! process of the program makes there leads the executor out of it.

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use phalanx_core::wire::machines::MOST_NAME;
use phalanx_net::private_folder;
use phalanx_net::sync::lock;
use rustix::fs::{FlockOperation, Mode, flock, fstat, openat};
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
/// Beginning of a folder's name. The executor's process number follows, and then `WORD`.
const PREFIX: &str = "phalanx-";
const WORD: &str = "-program-";
/// How often the folder for all programs is made again, if programs that end remove it meanwhile.
const ATTEMPTS: usize = 10;
/// Name of the folder for checkpoints.
const CHECKPOINTS: &str = ".phalanx-checkpoints";

/// A folder that only this user can enter. Dropping it removes it.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
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
        Folder::within(&std::env::temp_dir())
    }

    /// Creates it in a folder that other users may write to. If another user has taken the name of the folder for all
    /// programs, the program's folder is made beside it, and what killed executors have left stays: no other user can stop a
    /// program from starting.
    fn within(shared: &Path) -> io::Result<Folder> {
        let all = shared.join(format!("{ALL}{}", geteuid().as_raw()));
        for _ in 0..ATTEMPTS {
            match private_folder::make(&all) {
                Ok(opened) => remove_stale(&all, &opened),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Folder::beneath(shared, None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            match Folder::beneath(&all, Some(All(all.clone()))) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {} // another program that ended has removed it
                made => return made,
            }
        }
        Folder::beneath(shared, None)
    }

    fn beneath(parent: &Path, all: Option<All>) -> io::Result<Folder> {
        let name = format!("{PREFIX}{}{WORD}", std::process::id());
        let mode = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(&name).permissions(mode).tempdir_in(parent)?;
        let opened = File::from(private_folder::find(folder.path())?);
        flock(&opened, FlockOperation::LockExclusive)?;
        let (file, replaces) = (Mutex::new(None), AtomicBool::new(false));
        Ok(Folder { folder, _all: all, opened: Dir::from_std_file(opened.try_clone()?), _lock: opened, file, replaces })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder in it for the checkpoints of a BSP program. Several machines simulated on this one have one each.
    pub fn checkpoints(&self, machine: usize) -> io::Result<PathBuf> {
        let name = if machine == 0 { CHECKPOINTS.to_owned() } else { format!("{CHECKPOINTS}-{machine}") };
        let path = self.folder.path().join(name);
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(path),
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
        Path::new(name).parent().map_or(Ok(()), |above| self.opened.create_dir_all(above))?;
        if self.replaces.load(Ordering::Relaxed) {
            // removed first, because a process of the earlier start may still have it open
            let _ = self.opened.remove_file(name);
        }
        let mut how = OpenOptions::new();
        how.write(true).create_new(true).mode(if executable { 0o700 } else { 0o600 });
        *lock(&self.file) = Some(self.opened.open_with(name, &how)?.into_std());
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
        let written = self.opened.open_with(beside, &how).and_then(|mut file| file.write_all(bytes));
        let replaced = written.and_then(|()| self.opened.rename(beside, &self.opened, name));
        replaced.inspect_err(|_| self.remove(beside))
    }

    /// Removes a file, if it is there.
    pub fn remove(&self, name: &str) {
        let _ = self.opened.remove_file(name);
    }

    /// Closes the last file. A program that is still open for writing could not be executed.
    pub fn finish(&self) {
        *lock(&self.file) = None;
    }
}

/// Removes the folders of killed executors from the folder for all programs.
fn remove_stale(all: &Path, opened: &OwnedFd) {
    let entries = rustix::fs::Dir::read_from(opened).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    for name in names.filter(|name| name.strip_prefix(PREFIX).is_some_and(|rest| rest.contains(WORD))) {
        // held until the folder is gone
        let Some(_lock) = stale(opened, &name) else { continue };
        let _ = fs::remove_dir_all(all.join(name));
    }
}

/// Opens and locks a folder that no process uses any more.
fn stale(all: impl AsFd, name: &str) -> Option<File> {
    let opened = File::from(openat(all, name, private_folder::OPEN, Mode::empty()).ok()?);
    let is_own = fstat(&opened).is_ok_and(|found| found.st_uid == geteuid().as_raw());
    let is_free = is_own && flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok();
    (is_free && is_old(&opened)).then_some(opened)
}

/// Whether the folder is old enough to be removed. A folder made a moment ago may not be locked yet.
fn is_old(folder: &File) -> bool {
    let age = folder.metadata().and_then(|found| found.modified()).map(|changed| changed.elapsed());
    age.is_ok_and(|age| age.is_ok_and(|age| age.as_secs() > 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{AtFlags, CWD, FileType, Timespec, Timestamps, UTIME_OMIT, mknodat, utimensat};
    use std::os::unix::fs::{chown, symlink};

    const NOBODY: u32 = 65534;

    fn pipe(at: &Path) {
        mknodat(CWD, at, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    /// Makes a folder look as if an executor had been killed an hour ago.
    fn age(folder: &Path) {
        let omitted = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let long_ago = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
        let times = Timestamps { last_access: omitted, last_modification: long_ago };
        utimensat(CWD, folder, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }

    fn all(shared: &Path) -> PathBuf {
        shared.join(format!("{ALL}{}", geteuid().as_raw()))
    }

    #[test]
    fn what_others_put_into_a_shared_place_is_not_looked_at() {
        let shared = tempfile::tempdir().unwrap();
        let shared = shared.path();
        let left = shared.join("phalanx-2-program-left");
        fs::create_dir(&left).unwrap();
        age(&left);
        pipe(&shared.join("phalanx-1-program-pipe")); // opening it would wait for a writer for ever
        let folder = Folder::within(shared).unwrap();
        assert!(folder.path().starts_with(all(shared)) && left.exists());
    }

    #[test]
    fn what_killed_executors_left_is_removed_and_nothing_else() {
        let shared = tempfile::tempdir().unwrap();
        let all = all(shared.path());
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("kept"), "").unwrap();
        drop(private_folder::make(&all).unwrap());
        let named = |name: &str| all.join(format!("phalanx-1-program-{name}"));
        for name in ["left", "fresh", "anothers"] {
            fs::create_dir(named(name)).unwrap();
        }
        fs::write(named("left").join("file"), "").unwrap();
        symlink(other.path(), named("left").join("link")).unwrap();
        symlink(other.path(), named("link")).unwrap();
        pipe(&named("pipe"));
        let chowned = geteuid().is_root() && chown(named("anothers"), Some(NOBODY), None).is_ok();
        ["left", "anothers", "link", "pipe"].iter().for_each(|name| age(&named(name)));
        let used = Folder::within(shared.path()).unwrap();
        age(used.path());
        let _later = Folder::within(shared.path()).unwrap();
        assert!(!named("left").exists() && used.path().exists() && named("fresh").exists());
        assert!(!chowned || named("anothers").exists());
        assert!(named("pipe").exists() && named("link").exists() && other.path().join("kept").exists());
    }

    #[test]
    fn another_user_who_takes_the_name_stops_no_program() {
        for taken in [symlink_to_tmp as fn(&Path), pipe, open_folder, folder_of_nobody] {
            let shared = tempfile::tempdir().unwrap();
            taken(&all(shared.path()));
            let folder = Folder::within(shared.path()).unwrap();
            assert_eq!(folder.path().parent(), Some(shared.path()));
            let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
    }

    fn symlink_to_tmp(at: &Path) {
        symlink("/tmp", at).unwrap();
    }

    fn open_folder(at: &Path) {
        fs::create_dir(at).unwrap();
        fs::set_permissions(at, Permissions::from_mode(0o777)).unwrap();
    }

    fn folder_of_nobody(at: &Path) {
        match geteuid().is_root() {
            true => {
                fs::create_dir(at).unwrap();
                chown(at, Some(NOBODY), None).unwrap();
            }
            false => open_folder(at),
        }
    }

    #[test]
    fn no_link_in_the_folder_leads_a_file_out_of_it() {
        let (folder, other) = (Folder::new().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("file"), "kept").unwrap();
        symlink(other.path(), folder.path().join("bin")).unwrap();
        symlink(other.path().join("file"), folder.path().join("file")).unwrap();
        folder.open_again();
        assert!(folder.begin("bin/new", true).is_err() && folder.begin("bin/file", true).is_err());
        folder.begin("file", false).unwrap();
        folder.write(b"own").unwrap();
        assert_eq!(fs::read(other.path().join("file")).unwrap(), b"kept");
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
        assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"own");
    }

    #[test]
    fn files_are_this_users_alone_and_go_with_the_folder() {
        let folder = Folder::new().unwrap();
        folder.begin("bin/a.out", true).unwrap();
        folder.write(b"one").unwrap();
        folder.write(b"two").unwrap();
        folder.begin("data", false).unwrap();
        folder.finish();
        let path = folder.path().to_owned();
        let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(""), mode("bin/a.out"), mode("data")), (0o700, 0o700, 0o600));
        assert_eq!(fs::read(path.join("bin/a.out")).unwrap(), b"onetwo");
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_is_replaced_at_once_and_no_link_leads_it_out() {
        let (folder, other) = (Folder::new().unwrap(), tempfile::tempdir().unwrap());
        let (outside, path) = (other.path().join("file"), folder.path().join("file"));
        fs::write(&outside, "kept").unwrap();
        symlink(&outside, &path).unwrap();
        symlink(&outside, folder.path().join("beside")).unwrap();
        assert!(folder.replace("file", "beside", b"x").is_err(), "another file is there");
        folder.replace("file", "beside", b"one").unwrap();
        folder.replace("file", "beside", b"two").unwrap();
        assert_eq!((fs::read(&outside).unwrap(), fs::read(&path).unwrap()), (b"kept".to_vec(), b"two".to_vec()));
        assert_eq!(fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!folder.path().join("beside").exists());
        folder.remove("file");
        assert!(!path.exists());
    }

    #[test]
    fn no_name_leads_out() {
        let folder = Folder::new().unwrap();
        for name in ["", "/etc/passwd", "../x", "a/../../x", ".", "a\0b", &"a/".repeat(3000)] {
            assert!(folder.begin(name, false).is_err(), "{name:?}");
        }
        folder.begin("a", false).unwrap();
        assert!(folder.begin("a", true).is_err(), "it is there already");
        assert!(folder.begin("a/b", true).is_err(), "a file is no folder");
        folder.open_again();
        assert!(folder.begin("a", true).is_ok(), "it is sent once more");
        assert!(folder.begin("../a", true).is_err());
    }
}
