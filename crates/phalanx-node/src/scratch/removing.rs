//! Removes what programs leave in their folder, however deep it is. What lies in a folder of the folder moves up before that one is
//! removed, so that a depth that a program chooses takes neither stack nor descriptors. No link is followed.

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, Permissions, PermissionsExt};
use phalanx_net::identity::random_number;
use std::ffi::OsStr;
use std::io;

/// Names that no program has foreseen, for folders that move up.
struct Names {
    random: u128,
    given: u64,
}

impl Names {
    fn next(&mut self) -> String {
        self.given += 1;
        format!("{:032x}-{}", self.random, self.given)
    }
}

/// Removes everything in a folder.
///
/// # Errors
/// Something cannot be removed. The rest may be there still.
pub fn empty(folder: &Dir) -> io::Result<()> {
    let mut names = Names { random: random_number(), given: 0 };
    loop {
        let mut is_empty = true;
        for entry in folder.entries()? {
            let entry = entry?;
            is_empty = false;
            unless_gone(match entry.file_type()?.is_dir() {
                true => dissolve(folder, &entry.file_name(), &mut names),
                false => folder.remove_file_or_symlink(entry.file_name()),
            })?;
        }
        if is_empty {
            return Ok(());
        }
    }
}

/// Removes a folder. The folders in it move up.
fn dissolve(above: &Dir, name: &OsStr, names: &mut Names) -> io::Result<()> {
    open_up(above, name);
    let folder = above.open_dir_nofollow(name)?;
    for entry in folder.entries()? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => {
                open_up(&folder, &entry.file_name());
                folder.rename(entry.file_name(), above, names.next())?;
            }
            false => unless_gone(folder.remove_file_or_symlink(entry.file_name()))?,
        }
    }
    above.remove_dir(name)
}

/// An entry may be removed elsewhere meanwhile: the watch over limits empties the folders of programs that it ends.
fn unless_gone(outcome: io::Result<()>) -> io::Result<()> {
    outcome.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Lets this process change a folder that a program may have closed.
fn open_up(above: &Dir, name: &OsStr) {
    let _ = above.set_permissions(name, Permissions::from_mode(0o700)); // if it cannot, what follows says so
}
