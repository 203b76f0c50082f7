//! Folders in shared places, such as `/tmp`, that only this user can enter.
//!
//! Any local user can put anything into a shared place, under any name: a link that leads elsewhere, a folder of their
//! own, or a pipe that holds up whoever opens it. So a folder is opened without following links and without waiting,
//! and what is checked is the opened folder.

use rustix::fs::{Mode, OFlags, fchmod, fstat, open};
use rustix::process::geteuid;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// How folders in shared places are opened: no link is followed, and no pipe or device waits for its other end.
pub const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Makes the folder unless it is there, and opens it.
///
/// # Errors
///
/// `PermissionDenied` if what is at the path is not a folder, is another user's, or can be entered by others.
pub fn make(path: &Path) -> io::Result<OwnedFd> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    find(path)
}

/// Makes a folder unless it is there, and opens it. Only this user lists and changes it. Other users pass through it to folders
/// in it whose names they know.
///
/// # Errors
///
/// `PermissionDenied` if what is at the path is not a folder, is another user's, or can be listed or changed by others.
pub fn make_passable(path: &Path) -> io::Result<OwnedFd> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let opened = find_with(path, Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH)?;
    fchmod(&opened, Mode::from_raw_mode(0o711))?; // whatever the mask of this process is
    Ok(opened)
}

/// Opens the folder, with the same errors as [`make`], and `NotFound` if there is none.
pub fn find(path: &Path) -> io::Result<OwnedFd> {
    find_with(path, Mode::RWXG | Mode::RWXO)
}

/// `refused`: the rights that no other user may have.
fn find_with(path: &Path, refused: Mode) -> io::Result<OwnedFd> {
    let opened = match open(path, OPEN, Mode::empty()) {
        Ok(opened) => opened,
        Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP | rustix::io::Errno::ACCESS) => {
            return Err(not_private(path));
        }
        Err(error) => return Err(error.into()),
    };
    let found = fstat(&opened)?;
    let is_private = found.st_uid == geteuid().as_raw() && !Mode::from_raw_mode(found.st_mode).intersects(refused);
    if is_private { Ok(opened) } else { Err(not_private(path)) }
}

fn not_private(path: &Path) -> io::Error {
    let what = format!("{} is not a folder that only this user can enter", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn is_refused(path: &Path) -> bool {
        let refused = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        make(path).is_err_and(refused) && find(path).is_err_and(refused)
    }

    #[test]
    fn a_folder_is_made_for_this_user_alone_and_found_again() {
        let shared = tempfile::tempdir().unwrap();
        let path = shared.path().join("folder");
        assert_eq!(find(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        make(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        make(&path).unwrap();
        find(&path).unwrap();
    }

    #[test]
    fn others_pass_through_a_folder_and_do_not_list_it() {
        let shared = tempfile::tempdir().unwrap();
        let path = shared.path().join("folder");
        for _ in 0..2 {
            make_passable(&path).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o711);
        }
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(make_passable(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn nothing_else_is_entered() {
        let shared = tempfile::tempdir().unwrap();
        let path = |name: &str| shared.path().join(name);
        make(&path("own")).unwrap();
        symlink(path("own"), path("link")).unwrap();
        symlink(path("nowhere"), path("dangling")).unwrap();
        fs::write(path("file"), "").unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
        make(&path("open")).unwrap();
        fs::set_permissions(path("open"), Permissions::from_mode(0o750)).unwrap();
        for name in ["link", "dangling", "file", "pipe", "open"] {
            assert!(is_refused(&path(name)), "{name}");
        }
        if geteuid().is_root() {
            make(&path("anothers")).unwrap();
            chown(path("anothers"), Some(65534), None).unwrap();
            assert!(is_refused(&path("anothers")));
        }
    }
}
