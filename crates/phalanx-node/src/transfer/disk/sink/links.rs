//! Symbolic links, and the other names of files.

use super::files::is_same;
use super::{Step, Tree};
use crate::transfer::disk::hard_links::FilePlace;
use crate::transfer::system;
use cap_std::fs::Dir;
use phalanx_core::wire::transfer::Links;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
#[cfg(unix)]
use std::path::{Component, Path};

impl Tree {
    /// Creates a link, if the user asked for links.
    pub(super) fn put_link(
        &self,
        number: u32,
        folder: &Dir,
        name: &OsStr,
        target: &[u8],
        parent: u32,
    ) -> io::Result<Step> {
        let depth = match self.path_filter.links() {
            Links::Within => Some(self.depth(parent)),
            Links::Keep => None,
            Links::Follow | Links::Skip => return Err(io::Error::other("the other end offers what was not asked for")),
        };
        put_link(folder, name, &self.small_part(number), target, depth)
    }

    /// Creates the other names of files. No link is followed, and all names are within the copy.
    pub(super) fn make_links(&self) -> Vec<(PathBuf, String)> {
        let mut failed = Vec::new();
        for (number, place, first) in self.linked.take() {
            if let Err(error) = self.make_link(number, &place, first) {
                failed.push((self.path(place.parent, &place.name), error.to_string()));
            }
        }
        failed
    }

    fn make_link(&self, number: u32, place: &FilePlace, first: Option<FilePlace>) -> io::Result<()> {
        let lost = || io::Error::other("the other name of this file could not be copied");
        let first = first.ok_or_else(lost)?;
        let (from, to) = (self.folder_of(first.parent)?, self.folder_of(place.parent)?);
        let source = from.symlink_metadata(&first.name)?;
        if !is_same(&source, first.size, first.modified) {
            return Err(lost());
        }
        match to.symlink_metadata(&place.name) {
            Ok(there) if there.is_dir() => return Err(io::Error::other("a folder is there, not a file")),
            Ok(there) if system::is_special(&there) => return Err(io::Error::other(system::SPECIAL)),
            Ok(there) if is_one(&there, &source) => return Ok(()),
            _ => {}
        }
        let part = self.small_part(number);
        from.hard_link(&first.name, &to, &part)?;
        to.rename(&part, &to, &place.name).inspect_err(|_| drop(to.remove_file(&part)))?;
        self.written.on_folder(place.parent, &to)
    }
}

/// Whether the metadata of two names belong to one file.
fn is_one(one: &cap_std::fs::Metadata, other: &cap_std::fs::Metadata) -> bool {
    let ((device, number, ..), (other_device, other_number, ..)) = (system::identity(one), system::identity(other));
    (device, number) == (other_device, other_number)
}

/// Creates a link, if its target stays within the copy, because another program might follow it. Without `depth`, the target
/// may be anywhere.
#[cfg(unix)]
fn put_link(folder: &Dir, name: &OsStr, part: &OsStr, target: &[u8], depth: Option<usize>) -> io::Result<Step> {
    let target = PathBuf::from(system::from_bytes(target.to_vec())?);
    if depth.is_some_and(|depth| !stays_within(&target, depth)) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the link leads out of what is copied"));
    }
    if folder.read_link_contents(name).is_ok_and(|there| there == target) {
        return Ok(Step::Kept);
    }
    system::check_place(folder, name)?;
    folder.symlink_contents(&target, part)?;
    folder.rename(part, folder, name).inspect_err(|_| drop(folder.remove_file(part)))?;
    Ok(Step::Copied)
}

#[cfg(not(unix))]
fn put_link(_: &Dir, _: &OsStr, _: &OsStr, _: &[u8], _: Option<usize>) -> io::Result<Step> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "links are not made on this system"))
}

/// Whether the target of a link, in a folder `depth` below the copy's root, lies within the copy. `..` is allowed only at the
/// beginning: after a name, which may be a link itself, `..` could lead anywhere.
#[cfg(unix)]
pub(super) fn stays_within(target: &Path, depth: usize) -> bool {
    let up = target.components().take_while(|part| *part == Component::ParentDir).count();
    let down = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    up <= depth && target.components().skip(up).all(down)
}
