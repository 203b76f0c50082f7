//! Tells in which folders a place lies, by their positions in their file systems. Names do not tell, because links and mounts
//! give one folder several names.

use super::beneath::is_missing;
use super::places::places;
use cap_std::fs::Dir;
use phalanx_core::wire::files::Answer;
use std::io;
use std::path::{Path, PathBuf};

/// A place on this machine.
pub fn own(path: &Path) -> io::Result<Answer> {
    let whole = std::path::absolute(path)?;
    let (found, exists) = nearest(&whole, |path| path.canonicalize())?;
    Ok(located(exists, &found))
}

/// A place `rest` in an exported folder at `root`. Folders above `root` are reported only by their identities, not by
/// their names.
pub fn exported(base: &Dir, root: &Path, rest: &Path) -> io::Result<Answer> {
    let (found, exists) = match rest.as_os_str().is_empty() {
        true => (PathBuf::new(), true),
        false => nearest(
            rest,
            |path| if path.as_os_str().is_empty() { Ok(PathBuf::new()) } else { base.canonicalize(path) },
        )?,
    };
    Ok(located(exists, &root.canonicalize()?.join(found)))
}

fn located(exists: bool, found: &Path) -> Answer {
    Answer::Located { exists, folders: places(found) }
}

/// The part of a path that exists, without links, and whether that is the whole path.
fn nearest(path: &Path, resolve: impl Fn(&Path) -> io::Result<PathBuf>) -> io::Result<(PathBuf, bool)> {
    for (up, path) in path.ancestors().enumerate() {
        match resolve(path) {
            Ok(found) => return Ok((found, up == 0)),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use phalanx_core::wire::files::Place;

    fn folders(answer: io::Result<Answer>) -> (bool, Vec<Place>) {
        let Answer::Located { exists, folders } = answer.expect("is there") else { panic!("another answer") };
        (exists, folders)
    }

    #[test]
    fn a_place_is_known_by_whatever_name_and_whoever_looks() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("is there");
        std::fs::create_dir_all(root.join("data/a/b")).expect("is made");
        std::os::unix::fs::symlink("data/a", root.join("way")).expect("is made");
        let (exists, straight) = folders(own(&root.join("data/a/b")));
        assert!(exists);
        assert_eq!(straight, folders(own(&root.join("way/b"))).1);
        let base = Dir::open_ambient_dir(root.join("data"), cap_std::ambient_authority()).expect("is there");
        let there = |rest: &str| folders(exported(&base, &root.join("data"), Path::new(rest)));
        assert_eq!(there("a/b"), (true, straight.clone()));
        assert_eq!(there("a/b/c/d"), (false, straight.clone()));
        assert_eq!(there("").1, straight[2..]);
        assert_eq!(folders(own(&root.join("data/a/c"))), (false, straight[1..].to_vec()));
    }
}
