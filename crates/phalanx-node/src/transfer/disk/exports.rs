//! The folders that an executor's owner lets users of the grid copy from and to.

use crate::transfer::system::about;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The word that exports no folder but bytes that are made up or thrown away, for measuring.
pub const MEMORY: &str = "memory";

/// A folder, and whether it may be written.
#[derive(Debug, Clone)]
struct Export {
    /// As its owner named it.
    named: PathBuf,
    /// Where that is, without links.
    path: PathBuf,
    writable: bool,
}

/// All that is exported; by default nothing.
#[derive(Debug, Clone, Default)]
pub struct Exports {
    folders: Vec<Export>,
    memory: bool,
}

impl Exports {
    /// From words like `/scratch:rw`, `/data:ro` and `memory`. An error says what is wrong with one.
    pub fn parse(words: &[String]) -> Result<Exports, String> {
        let mut exports = Exports::default();
        for word in words {
            if word == MEMORY {
                exports.memory = true;
                continue;
            }
            let (path, writable) = match word.rsplit_once(':') {
                Some((path, "ro")) => (path, false),
                Some((path, "rw")) => (path, true),
                _ => return Err(format!("{word:?} is no export: write FOLDER:ro or FOLDER:rw")),
            };
            let found = std::fs::canonicalize(path).map_err(|error| format!("cannot export {path:?}: {error}"))?;
            if !found.is_dir() {
                return Err(format!("cannot export {path:?}: it is no folder"));
            }
            let inside = |other: &Export| other.path.starts_with(&found) || found.starts_with(&other.path);
            if let Some(other) = exports.folders.iter().find(|other| inside(other)) {
                return Err(format!("{} and {} lie in each other", found.display(), other.path.display()));
            }
            let named = std::path::absolute(path).map_err(|error| format!("cannot export {path:?}: {error}"))?;
            exports.folders.push(Export { named, path: found, writable });
        }
        Ok(exports)
    }

    /// Whether bytes are made up and thrown away.
    pub fn memory(&self) -> bool {
        self.memory
    }

    /// The exported folder in which an absolute path lies, and the rest of it. Nothing outside is looked at.
    pub fn find(&self, path: &Path, writes: bool) -> io::Result<(Dir, PathBuf)> {
        let (folder, rest) = self.split(path, writes)?;
        Ok((Dir::open_ambient_dir(folder, ambient_authority())?, rest.to_owned()))
    }

    /// The same, where the folder is on this machine.
    pub fn split<'a>(&'a self, path: &'a Path, writes: bool) -> io::Result<(&'a Path, &'a Path)> {
        let refused = |why: &str| io::Error::new(io::ErrorKind::PermissionDenied, format!("{}: {why}", path.display()));
        if !path.is_absolute() || path.components().any(|part| matches!(part, Component::ParentDir)) {
            return Err(refused("a path there begins with / and does not lead up again"));
        }
        let within =
            |export: &Export| path.strip_prefix(&export.path).or_else(|_| path.strip_prefix(&export.named)).ok();
        let export = self.folders.iter().find_map(|export| Some((export, within(export)?)));
        let (export, rest) =
            export.ok_or_else(|| refused("not in a folder that is exported there (phalanx executor --export)"))?;
        if writes && !export.writable {
            return Err(refused("exported for reading only"));
        }
        Ok((export.path.as_path(), rest))
    }
}

/// A folder of this machine that its user named, and the name in it; the whole of a path that has no last name.
pub fn own(path: &Path) -> io::Result<(Dir, PathBuf)> {
    // A link that the user named may lead anywhere: what it leads to is meant.
    let resolved = path.canonicalize();
    let path = match &resolved {
        Ok(resolved) if path.is_symlink() => resolved,
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
        }
        _ => path,
    };
    let (folder, rest) = match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if folder.as_os_str().is_empty() => (Path::new("."), PathBuf::from(name)),
        (Some(folder), Some(name)) => (folder, PathBuf::from(name)),
        _ => (path, PathBuf::new()),
    };
    Ok((Dir::open_ambient_dir(folder, ambient_authority()).map_err(about(folder))?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_exported_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("is there");
        for name in ["in", "out"] {
            std::fs::create_dir(path.join(name)).expect("is made");
        }
        let word = |name: &str, how: &str| format!("{}:{how}", path.join(name).display());
        let exports = Exports::parse(&[word("in", "ro"), word("out", "rw")]).expect("are two folders");
        assert_eq!(exports.find(&path.join("in/a/b"), false).expect("may be read").1, Path::new("a/b"));
        assert_eq!(exports.find(&path.join("out"), true).expect("may be written").1, Path::new(""));
        for (wrong, writes) in [("in/a", true), ("", false), ("inside", false), ("in/../x", false)] {
            assert!(exports.find(&path.join(wrong), writes).is_err(), "{wrong}");
        }
        assert!(exports.find(Path::new("in"), false).is_err());
        assert!(!exports.memory());
    }

    #[test]
    #[cfg(unix)]
    fn an_exported_link_is_found_by_either_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("is there");
        std::fs::create_dir(path.join("there")).expect("is made");
        std::os::unix::fs::symlink("there", path.join("link")).expect("is made");
        let exports = Exports::parse(&[format!("{}:ro", path.join("link").display())]).expect("is a folder");
        for name in ["link/x", "there/x"] {
            assert_eq!(exports.find(&path.join(name), false).expect("may be read").1, Path::new("x"), "{name}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_link_that_the_user_named_is_what_it_leads_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("is there");
        std::fs::create_dir_all(path.join("far/away")).expect("is made");
        std::fs::create_dir(path.join("near")).expect("is made");
        std::os::unix::fs::symlink("../far/away", path.join("near/link")).expect("is made");
        let (base, rest) = own(&path.join("near/link")).expect("is there");
        assert_eq!(rest, Path::new("away"));
        assert!(base.metadata(&rest).expect("is there").is_dir());
    }

    #[test]
    fn words_that_are_no_exports_are_refused() {
        for word in ["", "/tmp", "/tmp:rx", "/tmp/there/is/no/such:ro", "/dev/null:ro"] {
            assert!(Exports::parse(&[word.to_owned()]).is_err(), "{word}");
        }
        let nested = ["/tmp:ro".to_owned(), "/:rw".to_owned()];
        assert!(Exports::parse(&nested).expect_err("one is in the other").contains("in each other"));
        assert!(Exports::parse(&["memory".to_owned()]).expect("is a word").memory());
    }
}
