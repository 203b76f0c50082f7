//! Files that a copy has written, and folders whose names it has changed, and that may not be on the disk yet.
//!
//! At its end a copy syncs only these, because `syncfs` also waits for the data of all other programs on the file system.
//! `syncfs` is the fallback for very many files, and for a file that cannot be found again.

use cap_std::fs::Dir;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;

/// A folder, by the number of its entry; `None`: the folder that the copy goes into.
pub type Number = Option<u32>;

/// A file in a folder, or the folder itself, that may not be on the disk, and the reason.
pub type Unsynced = (Number, Option<OsString>, io::Error);

/// Opens a folder by its number.
pub type Opening<'a> = dyn Fn(Number) -> io::Result<Arc<Dir>> + Sync + 'a;

#[cfg(target_os = "linux")]
pub use linux::Written;
#[cfg(not(target_os = "linux"))]
pub use portable::Written;

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use crate::transfer::system;
    use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
    use cap_std::fs::{MetadataExt as _, OpenOptions};
    use phalanx_net::sync::lock;
    use rustix::io::Errno;
    use std::collections::{HashMap, HashSet};
    use std::ffi::OsStr;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    /// Most files, and most folders, that are synced one by one. Each sync may write the journal once: on ext4, 1000 files of
    /// 16 KB take 0.1 s and 4000 files take 0.3 to 0.6 s. One `syncfs` takes 0.06 s if no other program writes.
    pub const MOST: usize = 1024;
    /// Threads that sync files. File systems combine commits that are requested at the same time.
    const THREADS: usize = 4;

    /// Device and inode number.
    type Identity = (u64, u64);

    /// What a copy has written.
    #[derive(Default)]
    pub struct Written(Mutex<Noted>);

    #[derive(Default)]
    struct Noted {
        files: Vec<Noting>,
        folders: HashMap<Number, Identity>,
        /// There are more than [`MOST`]: whole file systems are synced instead.
        is_too_much: bool,
        /// Every file system that was written to, with an open file on it for `syncfs`.
        devices: HashMap<u64, Option<File>>,
    }

    /// How to find a written file again.
    #[derive(Clone)]
    struct Noting {
        folder: Number,
        name: OsString,
        identity: Identity,
    }

    impl Written {
        /// Call this when a file has got its name in a folder.
        pub fn on_file(&self, number: Number, folder: &Dir, name: &OsStr, file: &File) -> io::Result<()> {
            let found = file.metadata()?;
            self.note(number, name, (found.dev(), found.ino()), || open(folder).or_else(|_| file.try_clone()));
            self.on_folder(number, folder)
        }

        /// Call this when a file's permissions have changed.
        pub fn on_mode(&self, number: Number, folder: &Dir, name: &OsStr, found: &cap_std::fs::Metadata) {
            self.note(number, name, (found.dev(), found.ino()), || open(folder));
        }

        fn note(&self, folder: Number, name: &OsStr, identity: Identity, open: impl FnOnce() -> io::Result<File>) {
            let mut noted = lock(&self.0);
            noted.add_device(identity.0, open);
            match noted.files.len() < MOST {
                true => noted.files.push(Noting { folder, name: name.to_owned(), identity }),
                false => noted.is_too_much = true,
            }
        }

        /// Call this when names in a folder have changed, or its own permissions or time.
        pub fn on_folder(&self, number: Number, folder: &Dir) -> io::Result<()> {
            if lock(&self.0).folders.contains_key(&number) {
                return Ok(());
            }
            let found = folder.dir_metadata()?;
            let mut noted = lock(&self.0);
            noted.add_device(found.dev(), || open(folder));
            match noted.folders.len() < MOST {
                true => drop(noted.folders.insert(number, (found.dev(), found.ino()))),
                false => noted.is_too_much = true,
            }
            Ok(())
        }

        /// Syncs everything. Returns what may not be on the disk.
        pub fn sync(&self, folder: &Opening<'_>) -> Vec<Unsynced> {
            let Noted { files, folders, is_too_much, devices } = std::mem::take(&mut *lock(&self.0));
            let (mut unsynced, mut whole) = (Vec::new(), HashSet::new());
            if is_too_much {
                whole.extend(devices.keys().copied());
            } else {
                let mut synced = sync_files(&files, folder);
                // Folders after files, so that no name reaches the disk before its file.
                synced.extend(
                    folders.into_iter().map(|(number, id)| (number, None, id, sync_folder(number, id, folder))),
                );
                for (number, name, (device, _), result) in synced {
                    match result {
                        Ok(Synced::Yes) => {}
                        Ok(Synced::NotFound) => drop(whole.insert(device)),
                        Err(error) => unsynced.push((number, name, error)),
                    }
                }
            }
            let failed = whole.iter().filter_map(|device| sync_device(devices.get(device), *device, folder).err());
            unsynced.extend(failed.map(|error| (None, None, error)));
            unsynced
        }
    }

    impl Noted {
        fn add_device(&mut self, device: u64, open: impl FnOnce() -> io::Result<File>) {
            let known = self.devices.entry(device).or_default();
            if known.is_none() {
                *known = open().ok();
            }
        }
    }

    enum Synced {
        Yes,
        /// It cannot be opened, was replaced, or cannot be synced alone.
        NotFound,
    }

    type Outcome = (Number, Option<OsString>, Identity, io::Result<Synced>);

    fn sync_files(files: &[Noting], folder: &Opening<'_>) -> Vec<Outcome> {
        let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                let synced = sync_file(file, folder);
                lock(&outcomes).push((file.folder, Some(file.name.clone()), file.identity, synced));
            }
        };
        thread::scope(|scope| {
            for _ in 1..THREADS.min(files.len()) {
                scope.spawn(work);
            }
            work();
        });
        outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn sync_file(file: &Noting, folder: &Opening<'_>) -> io::Result<Synced> {
        let mut how = OpenOptions::new();
        how.read(true).follow(FollowSymlinks::No);
        system::at_once(&mut how); // another program may have put a pipe there
        let opened = folder(file.folder).and_then(|folder| folder.open_with(&file.name, &how));
        sync_opened(opened.map(cap_std::fs::File::into_std), file.identity)
    }

    fn sync_folder(number: Number, identity: Identity, folder: &Opening<'_>) -> io::Result<Synced> {
        sync_opened(folder(number).and_then(|folder| open(&folder)), identity)
    }

    fn sync_opened(opened: io::Result<File>, identity: Identity) -> io::Result<Synced> {
        let is_it = |file: &File| file.metadata().is_ok_and(|found| (found.dev(), found.ino()) == identity);
        let Some(file) = opened.ok().filter(is_it) else { return Ok(Synced::NotFound) };
        match rustix::fs::fsync(&file) {
            Ok(()) => Ok(Synced::Yes),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::BADF) => Ok(Synced::NotFound),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_device(opened: Option<&Option<File>>, device: u64, folder: &Opening<'_>) -> io::Result<()> {
        if let Some(Some(file)) = opened {
            return Ok(rustix::fs::syncfs(file)?);
        }
        let home = open(&*folder(None)?)?; // nothing else there could be opened
        match home.metadata()?.dev() == device {
            true => Ok(rustix::fs::syncfs(home)?),
            false => Err(io::Error::other("nothing of a file system that was written to could be opened to sync it")),
        }
    }

    /// Opens a folder for syncing. A handle that only looks up names cannot be synced.
    fn open(folder: &Dir) -> io::Result<File> {
        Ok(folder.open(".")?.into_std())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn folder() -> (tempfile::TempDir, Arc<Dir>) {
            let folder = tempfile::tempdir().expect("a folder");
            let opened = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
            (folder, Arc::new(opened))
        }

        fn put(written: &Written, folder: &Dir, name: &str) {
            let file = folder.create(name).expect("is made").into_std();
            written.on_file(None, folder, OsStr::new(name), &file).expect("is noted");
        }

        /// How many files are synced one by one, and how many are not found.
        fn outcomes(written: &Written, folder: &Arc<Dir>) -> (usize, usize) {
            let open = |_: Number| Ok(folder.clone());
            let noted = lock(&written.0);
            let found = sync_files(&noted.files, &open);
            let yes = found.iter().filter(|one| matches!(one.3, Ok(Synced::Yes))).count();
            (yes, found.len() - yes)
        }

        #[test]
        fn files_are_found_again_and_synced_one_by_one() {
            let (_path, folder) = folder();
            let written = Written::default();
            ["a", "b", "c"].iter().for_each(|name| put(&written, &folder, name));
            assert_eq!(outcomes(&written, &folder), (3, 0));
            assert_eq!(lock(&written.0).folders.len(), 1);
            assert!(written.sync(&|_| Ok(folder.clone())).is_empty());
        }

        #[test]
        fn what_is_another_by_now_or_cannot_be_opened_is_synced_with_its_device() {
            let (path, folder) = folder();
            let written = Written::default();
            ["gone", "other", "link", "pipe"].iter().for_each(|name| put(&written, &folder, name));
            std::fs::remove_file(path.path().join("gone")).expect("is removed");
            folder.create("new").expect("is made");
            folder.rename("new", &folder, "other").expect("is renamed");
            folder.rename("link", &folder, "real").expect("is renamed");
            folder.symlink("real", "link").expect("is linked");
            folder.remove_file("pipe").expect("is removed");
            let pipe = path.path().join("pipe");
            rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("is made");
            assert_eq!(outcomes(&written, &folder), (0, 4));
            assert!(lock(&written.0).devices.values().all(Option::is_some));
            assert!(written.sync(&|_| Ok(folder.clone())).is_empty());
        }

        #[test]
        fn a_folder_that_cannot_be_found_again_is_synced_with_its_device() {
            let (_path, folder) = folder();
            let written = Written::default();
            put(&written, &folder, "a");
            assert!(written.sync(&|_| Err(io::ErrorKind::NotFound.into())).is_empty());
        }

        #[test]
        fn very_many_files_are_synced_as_a_whole_and_take_bounded_memory() {
            let (_path, folder) = folder();
            let written = Written::default();
            let file = folder.create("a").expect("is made").into_std();
            for number in 0..MOST + 10 {
                written.on_file(None, &folder, OsStr::new(&number.to_string()), &file).expect("is noted");
                written.on_folder(Some(number as u32), &folder).expect("is noted");
            }
            let noted = lock(&written.0);
            assert_eq!((noted.files.len(), noted.folders.len(), noted.devices.len()), (MOST, MOST, 1));
            assert!(noted.is_too_much);
            drop(noted);
            assert!(written.sync(&|_| Err(io::ErrorKind::NotFound.into())).is_empty());
        }

        #[test]
        fn a_device_of_which_nothing_can_be_opened_is_named() {
            let (_path, folder) = folder();
            let written = Written::default();
            lock(&written.0).note_unopened(u64::MAX);
            assert_eq!(written.sync(&|_| Ok(folder.clone())).len(), 1);
        }

        impl Noted {
            fn note_unopened(&mut self, device: u64) {
                self.add_device(device, || Err(io::ErrorKind::PermissionDenied.into()));
                self.is_too_much = true;
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod portable {
    use super::*;
    use std::ffi::OsStr;
    use std::fs::File;

    /// Syncs nothing, because these systems have no call that syncs a file system and reports errors.
    #[derive(Default)]
    pub struct Written {}

    impl Written {
        pub fn on_file(&self, _: Number, _: &Dir, _: &OsStr, _: &File) -> io::Result<()> {
            Ok(())
        }

        pub fn on_mode(&self, _: Number, _: &Dir, _: &OsStr, _: &cap_std::fs::Metadata) {}

        pub fn on_folder(&self, _: Number, _: &Dir) -> io::Result<()> {
            Ok(())
        }

        pub fn sync(&self, _: &Opening<'_>) -> Vec<Unsynced> {
            Vec::new()
        }
    }
}
