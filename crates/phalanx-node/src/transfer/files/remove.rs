//! Removes files and folders. No link is followed, and nothing outside of the opened folder is touched. At any depth, only
//! few folders are open at a time.

use super::beneath::{Beneath, MOST_DEEP, why};
use crate::transfer::disk::abandoned::sweep_beneath;
use crate::transfer::system;
use cap_fs_ext::DirExt;
use cap_std::fs::Dir;
use phalanx_core::wire::files::{Answer, Failure, MOST_FAILURES, MOST_TOLD};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How long to search for abandoned partial files in one folder.
const LONGEST: Duration = Duration::from_secs(1);
/// Names of a folder that are read at once.
const BATCH: usize = 1024;
/// If this many entries of a folder cannot be removed, the rest of the folder is not tried.
const MOST_KEPT: usize = 4096;

/// The outcomes for the names of a request.
#[derive(Debug, Default)]
pub struct Tally {
    done: u64,
    failed: u64,
    failures: Vec<Failure>,
    /// Bytes of the reported failures.
    bytes: usize,
}

impl Tally {
    pub fn note(&mut self, path: &[u8], outcome: io::Result<()>) {
        let Err(error) = outcome else {
            self.done += 1;
            return;
        };
        self.failed += 1;
        let reason = error.to_string();
        self.bytes += path.len() + reason.len();
        if self.failures.len() < MOST_FAILURES && self.bytes <= MOST_TOLD {
            self.failures.push(Failure { path: path.to_vec(), why: why(&error), reason });
        }
    }

    pub fn answer(self) -> Answer {
        Answer::Tried { done: self.done, failed: self.failed, failures: self.failures }
    }
}

/// Removes names within `root`. `all`: folders with everything in them; otherwise only empty folders.
pub fn remove(root: Dir, names: &[Vec<u8>], all: bool, is_over: &dyn Fn() -> bool) -> Tally {
    let mut removing = Removing { beneath: Beneath::new(root), tally: Tally::default(), all, is_over };
    for path in names {
        if is_over() {
            break;
        }
        match system::from_bytes(path.clone()) {
            Ok(path) => drop(removing.entry(&PathBuf::from(path), 0)),
            Err(error) => removing.tally.note(path, Err(error)),
        }
    }
    removing.tally
}

struct Removing<'a> {
    beneath: Beneath,
    tally: Tally,
    all: bool,
    is_over: &'a dyn Fn() -> bool,
}

impl Removing<'_> {
    /// Removes one entry. Returns whether it is gone.
    fn entry(&mut self, path: &Path, depth: usize) -> bool {
        let outcome = match self.is_folder(path) {
            Ok(true) if self.all && !self.content(path, depth) => return false, // the failures in it are reported already
            Ok(true) => self.at(path, remove_folder),
            Ok(false) => self.at(path, |folder, name| folder.remove_file_or_symlink(name)),
            Err(error) => Err(error),
        };
        let is_gone = outcome.is_ok();
        self.note(path, outcome);
        is_gone
    }

    fn at<T>(&mut self, path: &Path, act: impl FnOnce(&Dir, &Path) -> io::Result<T>) -> io::Result<T> {
        let path = system::to_bytes(path.as_os_str());
        let (folder, name) = self.beneath.find(&path)?;
        act(folder, Path::new(name))
    }

    fn is_folder(&mut self, path: &Path) -> io::Result<bool> {
        self.at(path, |folder, name| Ok(folder.symlink_metadata(name)?.is_dir()))
    }

    fn note(&mut self, path: &Path, outcome: io::Result<()>) {
        self.tally.note(&system::to_bytes(path.as_os_str()), outcome);
    }

    /// Removes everything in a folder. Returns whether it is empty now.
    fn content(&mut self, path: &Path, depth: usize) -> bool {
        if depth >= MOST_DEEP {
            let error = io::Error::other(format!("folders in more than {MOST_DEEP} others: remove it first"));
            self.note(path, Err(error));
            return false;
        }
        let mut kept = HashSet::new();
        while kept.len() < MOST_KEPT {
            let names = match self.names(path, &kept) {
                Ok(names) => names,
                Err(error) => {
                    self.note(path, Err(error));
                    return false;
                }
            };
            if names.is_empty() {
                return kept.is_empty();
            }
            for name in names {
                if (self.is_over)() {
                    return false;
                }
                if !self.entry(&path.join(&name), depth + 1) {
                    kept.insert(name);
                }
            }
        }
        self.note(path, Err(io::Error::other(format!("{MOST_KEPT} things in it stay: the rest was not tried"))));
        false
    }

    /// Some entries of a folder, apart from those that could not be removed.
    fn names(&mut self, path: &Path, kept: &HashSet<OsString>) -> io::Result<Vec<OsString>> {
        let entries = self.beneath.folder(path)?.entries()?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
        names.filter(|name| name.as_ref().map_or(true, |name| !kept.contains(name))).take(BATCH).collect()
    }
}

/// Removes an empty folder. Abandoned partial files in it are removed first, because no listing shows them.
fn remove_folder(folder: &Dir, name: &Path) -> io::Result<()> {
    let removed = folder.remove_dir(name);
    if !removed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty) {
        return removed;
    }
    sweep_beneath(folder, name, SystemTime::now(), Instant::now() + LONGEST);
    folder.remove_dir(name)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn gone(folder: &Path, names: &[&str], all: bool) -> (u64, Vec<String>) {
        let root = Dir::open_ambient_dir(folder, cap_std::ambient_authority()).expect("is there");
        let names: Vec<_> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        let tally = remove(root, &names, all, &|| false);
        let failures = tally.failures.iter().map(|it| String::from_utf8(it.path.clone()).expect("is text")).collect();
        (tally.done, failures)
    }

    #[test]
    fn what_links_lead_to_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("outside/in")).expect("is made");
        std::fs::create_dir_all(at("inside/a")).expect("is made");
        std::fs::write(at("outside/precious"), "x").expect("is written");
        symlink(at("outside"), at("inside/a/link")).expect("is made");
        symlink("../outside", at("inside/way")).expect("is made");
        assert_eq!(
            gone(&at("inside"), &["way/precious", "way/in"], true),
            (0, vec!["way/precious".into(), "way/in".into()])
        );
        assert_eq!(gone(&at("inside"), &["way", "a"], true), (3, vec![]));
        assert!(at("outside/precious").exists() && at("outside/in").exists());
        assert_eq!(std::fs::read_dir(at("inside")).expect("is there").count(), 0);
    }

    #[test]
    fn folders_go_only_when_they_are_empty_or_all_is_meant() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b")).expect("is made");
        std::fs::write(at("a/x"), "x").expect("is written");
        assert_eq!(gone(folder.path(), &["a", "a/b", "no such"], false), (1, vec!["a".into(), "no such".into()]));
        assert_eq!(gone(folder.path(), &["a"], true), (2, vec![]));
    }

    #[test]
    fn nothing_is_removed_after_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("x"), "x").expect("is written");
        let root = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
        assert_eq!(remove(root, &[b"x".to_vec()], true, &|| true).done, 0);
        assert!(folder.path().join("x").exists());
    }
}
