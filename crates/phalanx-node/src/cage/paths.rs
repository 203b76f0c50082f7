//! Files that caged processes may open.

use super::rights::{is_readable, others_may_read};
use super::{Settings, gpu};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders and files of the system that programs read. Missing ones are left out.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    ETC,
    "/gnu/store",
    "/nix/store",
    "/run/current-system",
    "/run/opengl-driver",
    // targets of the link /etc/resolv.conf
    "/run/NetworkManager/resolv.conf",
    "/run/resolvconf",
    "/run/systemd/resolve",
    "/var/cache/fontconfig",
    "/var/lib/ca-certificates",
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
];
const ETC: &str = "/etc";
/// The grant that opens graphics processors.
const GPU: &str = "gpu";

/// Paths that processes may open, each with everything beneath it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Opened {
    /// Paths for reading.
    pub readable: Vec<PathBuf>,
    /// Paths for reading and writing.
    pub writable: Vec<PathBuf>,
}

impl Opened {
    /// # Errors
    ///
    /// A grant is malformed, its path does not exist, or it would open a private path.
    pub fn new(settings: &Settings) -> Result<Opened, String> {
        let never: Vec<PathBuf> = settings.private.iter().map(resolved).collect();
        let mut private = never.clone();
        private.extend(settings.home.iter().map(resolved));
        private.extend(private_within(Path::new(ETC)));
        let all = SYSTEM.iter().map(Path::new).chain(settings.python.iter().map(PathBuf::as_path));
        let mut paths = Opened { readable: Vec::new(), writable: Vec::new() };
        for path in all.filter(|path| path.is_absolute()) {
            paths.readable.extend(without(&resolved(path), &private));
        }
        for grant in &settings.grants {
            if grant == GPU {
                let (devices, facts) = gpu::opened(Path::new("/dev"), Path::new("/sys"))?;
                paths.writable.extend(devices);
                paths.readable.extend(facts);
            } else {
                let (path, writes) = read_grant(grant, &never)?;
                if writes { &mut paths.writable } else { &mut paths.readable }.push(path);
            }
        }
        Ok(paths)
    }

    /// Whether processes may open a path, which has no symbolic links.
    pub(super) fn opens(&self, path: &Path) -> bool {
        self.readable.iter().chain(&self.writable).any(|it| path.starts_with(it))
    }
}

fn read_grant(grant: &str, private: &[PathBuf]) -> Result<(PathBuf, bool), String> {
    let (path, writes) = match grant.rsplit_once(':') {
        Some((path, "ro")) => (path, false),
        Some((path, "rw")) => (path, true),
        _ => return Err(format!("{grant:?} is no grant: write FOLDER:ro, FOLDER:rw or gpu")),
    };
    let found = fs::canonicalize(path).map_err(|error| format!("cannot grant {path:?}: {error}"))?;
    let wrong = |why: String| format!("cannot grant {path:?}: {why}");
    check_private(&found, private).map_err(wrong)?;
    if let Some(around) = private.iter().find(|it| found.starts_with(it)) {
        return Err(wrong(gives_away(around)));
    }
    let programs = resolved(std::env::temp_dir());
    match programs.starts_with(&found) {
        true => Err(wrong(format!(
            "users' programs have their folders in {}, and would open each other's; grant a folder in it, or start the \
             executor with another TMPDIR",
            programs.display()
        ))),
        false => Ok((found, writes)),
    }
}

/// Checks that a path, which has no symbolic links, contains no private path.
///
/// # Errors
///
/// The path contains a private one.
pub fn check_private(path: &Path, private: &[PathBuf]) -> Result<(), String> {
    let held = private.iter().map(resolved).find(|it| it.starts_with(path));
    held.map_or(Ok(()), |held| Err(gives_away(&held)))
}

fn gives_away(private: &Path) -> String {
    format!("it would give {0} to users, which is private; name another folder, or move {0}", private.display())
}

/// The path without symbolic links if it exists, and the path itself otherwise.
fn resolved(path: impl AsRef<Path>) -> PathBuf {
    fs::canonicalize(path.as_ref()).unwrap_or_else(|_| path.as_ref().to_owned())
}

/// The path, or its largest parts that contain no private path. A part may lie within a private folder, as Python's environment does within
/// the owner's home. The result leaves out symbolic links of a divided folder, because their targets may be private. Following a link needs
/// no rule.
fn without(path: &Path, private: &[PathBuf]) -> Vec<PathBuf> {
    if path.parent().is_none() || private.iter().any(|it| it == path) {
        return Vec::new();
    }
    if !private.iter().any(|it| it.starts_with(path)) {
        return vec![path.to_owned()];
    }
    entries(path).filter(|entry| !entry.is_symlink()).flat_map(|entry| without(&entry, private)).collect()
}

/// Files in a system folder that this account may read and others may not, such as keys of services if the executor runs as root.
fn private_within(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in entries(folder) {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        match others_may_read(&metadata) {
            // Other files need no rule, and fewer rules are faster.
            false if is_readable(&path) => found.push(path),
            true if metadata.is_dir() => found.extend(private_within(&path)),
            _ => {}
        }
    }
    found
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn folder(names: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let made = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(made.path()).unwrap();
        for name in names {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        (made, path)
    }

    #[test]
    fn what_is_private_is_left_out_of_what_is_around_it() {
        let (_made, at) = folder(&["a", "b/keys", "b/other"]);
        symlink(at.join("b/keys"), at.join("link")).unwrap();
        let mut found = without(&at, &[at.join("b/keys")]);
        found.sort();
        assert_eq!(found, [at.join("a"), at.join("b/other")]);
        assert_eq!(without(&at.join("b"), &[at.join("b")]), [] as [PathBuf; 0]);
        assert_eq!(without(&at.join("b/other"), &[at.join("b")]), [at.join("b/other")], "an environment within a home");
        assert_eq!(without(Path::new("/"), &[]), [] as [PathBuf; 0]);
    }

    #[test]
    fn grants_are_paths_that_are_there_and_give_no_keys_away() {
        let (_made, at) = folder(&["data", "home/.phalanx"]);
        let private = [at.join("home/.phalanx")];
        let read = |name: &str| read_grant(&format!("{}/{name}", at.display()), &private);
        assert_eq!(read("data:ro"), Ok((at.join("data"), false)));
        assert_eq!(read("data:rw"), Ok((at.join("data"), true)));
        for wrong in ["data", "data:rx", "nothing:ro", "home:ro", "home/.phalanx:ro"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read("home:rw").unwrap_err().contains(".phalanx to users"));
    }

    #[test]
    fn the_folder_with_the_folders_of_all_programs_is_not_granted() {
        let temporary = fs::canonicalize(std::env::temp_dir()).unwrap();
        for around in [&temporary, Path::new("/")] {
            let refused = read_grant(&format!("{}:rw", around.display()), &[]).unwrap_err();
            assert!(refused.contains("would open each other's"), "{refused}");
        }
    }

    #[test]
    fn what_only_this_account_may_read_is_found() {
        let (_made, at) = folder(&["ssl/private", "ssl/certs"]);
        fs::write(at.join("shadow"), "").unwrap();
        fs::set_permissions(at.join("shadow"), Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(at.join("ssl/private"), Permissions::from_mode(0o710)).unwrap();
        let mut found = private_within(&at);
        found.sort();
        assert_eq!(found, [at.join("shadow"), at.join("ssl/private")]);
    }
}
