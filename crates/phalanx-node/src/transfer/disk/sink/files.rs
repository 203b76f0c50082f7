//! How a file begins: what of it is there already, and what is fitted to the source.

use super::{IncomingFile, Step, Tree};
use crate::transfer::disk::attributes;
use crate::transfer::disk::hard_links::FilePlace;
use crate::transfer::disk::unfinished;
use crate::transfer::system;
use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, OpenOptions};
use phalanx_core::transfer::{Ranges, is_comparable, is_similar};
use phalanx_core::wire::transfer::{Entry, HardLink};
use phalanx_net::sync::lock;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

impl Tree {
    pub(super) fn begin_file(
        &self,
        number: u32,
        entry: &Entry,
        folder: &Dir,
        name: OsString,
        size: u64,
    ) -> io::Result<Step> {
        let link =
            entry.attributes.as_ref().and_then(|it| it.hard_link).filter(|_| self.path_filter.keeps().hard_links);
        if let Some(link) = link {
            let place = FilePlace { parent: entry.parent, name: name.clone(), size, modified: entry.modified };
            let is_there = || folder.symlink_metadata(&name).is_ok_and(|found| is_same(&found, size, entry.modified));
            match link {
                HardLink::First => self.linked.note(number, place, link),
                HardLink::Same(_) if self.share.is_some() => return Ok(Step::Kept), // the copy that follows the shares makes it
                HardLink::Same(_) => {
                    self.linked.note(number, place, link);
                    return Ok(if is_there() { Step::Kept } else { Step::Copied });
                }
            }
        }
        let may_be_there = entry.parent.is_none_or(|parent| !self.is_new(parent));
        if may_be_there {
            match folder.symlink_metadata(&name) {
                Ok(found) if found.is_dir() => return Err(io::Error::other("a folder is there, not a file")),
                Ok(found) if system::is_special(&found) => return Err(io::Error::other(system::SPECIAL)),
                // If another user owns the file, its mode cannot be set, and a new copy with the mode replaces it.
                Ok(found)
                    if !self.anew
                        && is_same(&found, size, entry.modified)
                        && self.fits_mode(entry, folder, &name, &found) =>
                {
                    self.fit_attributes(entry, folder, &name, &found);
                    return Ok(Step::Kept);
                }
                _ => {}
            }
        }
        let (mode, modified, file, ended) = (entry.mode, entry.modified, Mutex::default(), Mutex::new(false));
        let there = match comes_in_parts(size) {
            true => unfinished::look(folder, &name, (size, modified)),
            false => Ranges::default(),
        };
        let (parent, writing, given_up) = (entry.parent, Mutex::default(), AtomicBool::new(false));
        let (has_state, there, attributes) = (AtomicBool::new(there.bytes() > 0), there, entry.attributes.clone());
        let coming = IncomingFile {
            parent,
            name,
            size,
            mode,
            modified,
            attributes,
            there: there.clone(),
            file,
            writing,
            ended,
            has_state,
            given_up,
        };
        if size == 0 {
            let part = self.small_part(number);
            let file = unfinished::create_new(folder, &part, coming.mode())?;
            let put = self.put_in_place(folder, &part, &file, &coming, true);
            put.inspect_err(|_| drop(folder.remove_file(&part)))?;
            return Ok(Step::Copied);
        }
        let older = || open_older(folder, &coming.name).is_ok_and(|(_, length)| is_similar(length, size));
        let compares = may_be_there && self.compares && is_comparable(size) && older();
        lock(&self.coming).insert(number, Arc::new(coming));
        Ok(if compares { Step::Older(there) } else { Step::Wanted(there) })
    }

    /// Gives a file that is there the mode of its source. Returns whether it has that mode now.
    fn fits_mode(&self, entry: &Entry, folder: &Dir, name: &OsStr, found: &cap_std::fs::Metadata) -> bool {
        let is_fitted = system::fit_mode(folder, name, found, entry.mode).is_ok();
        if is_fitted && entry.mode.is_some_and(|wanted| system::mode(found) != Some(wanted & 0o777)) {
            self.written.on_mode(entry.parent, folder, name, found);
        }
        is_fitted
    }

    /// Gives a file that is there the attributes of its source.
    fn fit_attributes(&self, entry: &Entry, folder: &Dir, name: &OsStr, found: &cap_std::fs::Metadata) {
        let Some(attributes) = &entry.attributes else { return };
        let (changed, refused) = match open_older(folder, name) {
            Ok((file, _)) => attributes::fit(&file, attributes, self.path_filter.keeps()),
            Err(error) => (false, vec![format!("its owner and attributes were not set: {error}")]),
        };
        if changed {
            self.written.on_mode(entry.parent, folder, name, found);
        }
        self.refuse(entry.parent, name, refused);
    }

    pub(super) fn refuse(&self, parent: Option<u32>, name: &OsStr, reasons: Vec<String>) {
        if !reasons.is_empty() {
            self.refusals.note(&self.path(parent, name), reasons);
        }
    }
}

/// Whether a file of this size needs more than one record.
fn comes_in_parts(size: u64) -> bool {
    size > u64::from(phalanx_core::transfer::PART)
}

/// Opens the file that has a name, if this end may read it. Returns it and its length.
pub(super) fn open_older(folder: &Dir, name: &OsStr) -> io::Result<(File, u64)> {
    let mut how = OpenOptions::new();
    how.read(true).follow(FollowSymlinks::No);
    system::at_once(&mut how);
    let file = folder.open_with(name, &how)?.into_std();
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok((file, metadata.len())) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

pub(super) fn is_same(found: &cap_std::fs::Metadata, size: u64, modified: (i64, u32)) -> bool {
    let time = found.modified().map(|time| system::to_time(time.into_std()));
    found.is_file() && found.len() == size && time.is_ok_and(|time| time == modified)
}
