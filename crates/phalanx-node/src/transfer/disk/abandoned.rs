//! Abandoned partial files, which no copy will resume. They are looked for in the folders that copies write to, and removed.
//!
//! A file is removed only if it is surely a copy's: a regular file of this user with one hard link, a name of the exact form,
//! no lock, and old times of modification and of status change. No symbolic link is followed.

use super::unfinished::{self, beside};
use crate::transfer::system;
use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, OpenOptions};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// How long a partial file stays that a copy can resume, because its state file is valid.
const RESUMABLE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long all other partial files stay.
const UNUSABLE: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes abandoned files from a folder beneath `home`. Starts no removal after `until`.
pub fn sweep_beneath(home: &Dir, path: &Path, now: SystemTime, until: Instant) {
    let mut folder = home.try_clone().ok();
    for part in path.components() {
        folder = folder.and_then(|folder| folder.open_dir_nofollow(part.as_os_str()).ok());
    }
    if let Some(folder) = folder {
        sweep(&folder, now, until);
    }
}

/// Removes abandoned files from a folder. A file that cannot be examined or removed stays.
pub fn sweep(folder: &Dir, now: SystemTime, until: Instant) {
    let Ok(entries) = folder.entries() else { return };
    for entry in entries.map_while(Result::ok) {
        if Instant::now() >= until {
            return;
        }
        let name = entry.file_name();
        if let Some(of) = unfinished::of_name(&name, "part") {
            remove_part(folder, &of, now);
        } else if let Some(of) = unfinished::of_name(&name, "state") {
            remove_state(folder, &of, now);
        }
    }
}

fn remove_part(folder: &Dir, of: &OsStr, now: SystemTime) -> Option<()> {
    let part = beside(of, "part");
    let file = open(folder, &part)?;
    if !is_abandoned(folder, of, &file, now)? || !system::lock(&file).ok()? {
        return None;
    }
    if is_abandoned(folder, of, &file, now)? {
        unfinished::remove(folder, of, &file); // no other copy wrote it before the lock was taken
    }
    Some(())
}

/// Removes a state file that has no partial file.
fn remove_state(folder: &Dir, of: &OsStr, now: SystemTime) -> Option<()> {
    let is_alone =
        folder.symlink_metadata(beside(of, "part")).is_err_and(|it| it.kind() == std::io::ErrorKind::NotFound);
    let (_, found) = unfinished::read_end(folder, of).filter(|_| is_alone)?;
    if is_older(&found, now, UNUSABLE)? {
        unfinished::forget(folder, of);
    }
    Some(())
}

/// Opens only regular files. Opening a pipe or a device could have an effect at its other end.
fn open(folder: &Dir, part: &OsStr) -> Option<File> {
    let found = folder.symlink_metadata(part).ok()?;
    let open = |how: &mut OpenOptions| unfinished::open_own(folder, part, how);
    // Some systems can lock only files that are open for writing.
    let writable = || open(OpenOptions::new().read(true).write(true));
    if found.is_file() { writable().or_else(|_| open(OpenOptions::new().read(true))).ok() } else { None }
}

fn is_abandoned(folder: &Dir, of: &OsStr, file: &File, now: SystemTime) -> Option<bool> {
    let found = file.metadata().ok()?;
    Some(match unfinished::read_end(folder, of) {
        Some((end, state)) => {
            let after = if end <= found.len() { RESUMABLE } else { UNUSABLE };
            is_older(&found, now, after)? && is_older(&state, now, after)?
        }
        None => (unfinished::is_drawn(of) || system::is_private(&found)) && is_older(&found, now, UNUSABLE)?,
    })
}

/// Whether content, name, owner and mode have not changed for longer than `than`.
fn is_older(found: &Metadata, now: SystemTime, than: Duration) -> Option<bool> {
    let last = found.modified().ok()?.max(system::changed(found).unwrap_or(SystemTime::UNIX_EPOCH));
    Some(now.duration_since(last).is_ok_and(|age| age > than))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use phalanx_core::transfer::Ranges;

    const DAY: Duration = UNUSABLE;
    const SIZE: u64 = 1 << 20;

    fn folder() -> (tempfile::TempDir, Dir) {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).expect("is there");
        (folder, opened)
    }

    fn sweep_after(folder: &Dir, age: Duration) -> Vec<String> {
        sweep(folder, SystemTime::now() + age, Instant::now() + DAY);
        names(folder)
    }

    fn names(folder: &Dir) -> Vec<String> {
        let names = folder.entries().expect("is read").map(|one| one.expect("is read").file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().expect("is text")).collect();
        names.sort();
        names
    }

    /// A partial file with a state file.
    fn begun(folder: &Dir, name: &str) -> unfinished::PartialFile {
        let (name, source) = (OsStr::new(name), (SIZE, (1, 0)));
        let part = unfinished::open(folder, name, source, &Ranges::default()).expect("is opened");
        system::write_at(&part, b"data", 0).expect("is written");
        unfinished::keep(folder, name, &part, source, None, vec![(0, 4)]).expect("is kept");
        part
    }

    #[test]
    fn what_can_be_resumed_stays_for_thirty_days() {
        let (_path, folder) = folder();
        drop(begun(&folder, "big"));
        let both = [".big.phalanx-part", ".big.phalanx-state"];
        assert_eq!(sweep_after(&folder, RESUMABLE - DAY), both);
        assert_eq!(sweep_after(&folder, RESUMABLE + DAY), [""; 0]);
    }

    #[test]
    fn what_somebody_writes_stays() {
        let (_path, folder) = folder();
        let part = begun(&folder, "big");
        assert_eq!(sweep_after(&folder, 2 * RESUMABLE).len(), 2);
        drop(part);
        assert_eq!(sweep_after(&folder, 2 * RESUMABLE).len(), 0);
    }

    #[test]
    fn what_cannot_be_resumed_stays_for_a_day() {
        let (_path, folder) = folder();
        drop(unfinished::open(&folder, OsStr::new("big"), (SIZE, (1, 0)), &Ranges::default()).expect("is opened"));
        for name in [".0123456789abcdef-7.phalanx-part", ".0123456789abcdef0123456789abcdef.phalanx-part"] {
            drop(unfinished::create_new(&folder, OsStr::new(name), 0o644).expect("is made"));
        }
        let short = begun(&folder, "short");
        short.set_len(1).expect("is set");
        drop(short);
        drop(begun(&folder, "alone"));
        folder.remove_file(".alone.phalanx-part").expect("is removed");
        assert_eq!(sweep_after(&folder, DAY / 2).len(), 6);
        assert_eq!(sweep_after(&folder, 2 * DAY), [""; 0]);
    }

    #[test]
    fn names_and_files_of_users_stay() {
        let (path, folder) = folder();
        let all = [
            ".phalanx-part",
            ".phalanx-statement.pdf",
            ".phalanx-state",
            ".x.phalanx-state",
            ".x.phalanx-part.bak",
            ".X.PHALANX-PART",
            ".notes.phalanx-part",
            "y.phalanx-part",
        ];
        for name in all {
            std::fs::write(path.path().join(name), "precious").expect("is written");
        }
        std::fs::hard_link(path.path().join(".notes.phalanx-part"), path.path().join("other")).expect("is linked");
        std::os::unix::fs::symlink("other", path.path().join(".link.phalanx-part")).expect("is linked");
        let pipe = path.path().join(".pipe.phalanx-part");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("is made");
        assert_eq!(sweep_after(&folder, 2 * RESUMABLE).len(), all.len() + 3);
        // Copies make their partial files private, so a readable one belongs to the user.
        std::fs::remove_file(path.path().join("other")).expect("is removed");
        let shown = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644);
        std::fs::set_permissions(path.path().join(".notes.phalanx-part"), shown).expect("is set");
        assert_eq!(sweep_after(&folder, 2 * RESUMABLE).len(), all.len() + 2);
    }

    #[test]
    fn no_link_leads_to_a_folder_that_is_swept() {
        let (path, folder) = folder();
        for name in ["real", "kept"] {
            std::fs::create_dir(path.path().join(name)).expect("is made");
            let inside = folder.open_dir(name).expect("is there");
            drop(
                unfinished::create_new(&inside, OsStr::new(".0123456789abcdef-7.phalanx-part"), 0o644)
                    .expect("is made"),
            );
        }
        std::os::unix::fs::symlink("kept", path.path().join("link")).expect("is linked");
        for name in ["link", "real", "none"] {
            sweep_beneath(&folder, Path::new(name), SystemTime::now() + 2 * DAY, Instant::now() + DAY);
        }
        let left = |name: &str| names(&folder.open_dir(name).expect("is there")).len();
        assert_eq!((left("real"), left("kept")), (0, 1));
    }
}
