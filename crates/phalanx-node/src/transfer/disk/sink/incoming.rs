//! Files whose bytes are arriving: how they are written, how their states are saved, and how they end.

use super::files::open_older;
use super::{IncomingFile, Sink, Tree};
use crate::transfer::disk::attributes;
use crate::transfer::disk::unfinished::{self, PartialFile, beside};
use crate::transfer::system;
use cap_std::fs::Dir;
use phalanx_core::transfer::{Outcome, SPLIT};
use phalanx_core::wire::transfer::Share;
use phalanx_net::sync::lock;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A file of at least this size is synced before it gets its name. Smaller files are synced together at the end.
const LARGE: u64 = 8 << 20;

impl Sink {
    /// Writes all bytes of a file.
    pub fn whole(&self, entry: u32, data: &[u8]) -> io::Result<()> {
        let Sink::Tree(tree) = self else { return Ok(()) };
        let coming = tree.coming(entry)?;
        let folder = tree.folder_of(coming.parent)?;
        let part = tree.small_part(entry);
        let mut file = unfinished::create_new(&folder, &part, coming.mode())?;
        let put = file.write_all(data).and_then(|()| tree.put_in_place(&folder, &part, &file, &coming, true));
        put.inspect_err(|_| drop(folder.remove_file(&part)))?;
        lock(&tree.coming).remove(&entry);
        Ok(())
    }

    /// The older version of a file that is arriving, and its length.
    pub fn older(&self, entry: u32) -> io::Result<(File, u64)> {
        let Sink::Tree(tree) = self else { return Err(io::ErrorKind::NotFound.into()) };
        let coming = tree.coming(entry)?;
        open_older(&*tree.folder_of(coming.parent)?, &coming.name)
    }

    /// Writes a part of a file.
    pub fn part(&self, entry: u32, data: &[u8], offset: u64) -> io::Result<()> {
        let Sink::Tree(tree) = self else { return Ok(()) };
        let coming = tree.coming(entry)?;
        let file = tree.file(&coming)?;
        let _alone = lock(&coming.writing);
        system::write_at(&file, data, offset)
    }

    /// Writes a part of a file that consists of zeros, as a hole.
    pub fn hole(&self, entry: u32, offset: u64, length: u32) -> io::Result<()> {
        let Sink::Tree(tree) = self else { return Ok(()) };
        let coming = tree.coming(entry)?;
        let file = tree.file(&coming)?;
        if coming.there.bytes() > 0 {
            system::clear(&file, offset, length)?; // an earlier copy may have written there without saving its state
        }
        if file.metadata()?.len() < coming.size {
            file.set_len(coming.size)?; // no thread writes beyond this length, so nothing is cut off
        }
        Ok(())
    }

    /// Completes a file. All its parts have been written.
    pub fn finish(&self, entry: u32) -> io::Result<Outcome> {
        let Sink::Tree(tree) = self else { return Ok(Outcome::Copied) };
        let coming = tree.coming(entry)?;
        if let Some(share) = tree.share_of(&coming) {
            self.keep_as(entry, vec![share.range(coming.size)], true)?;
            self.leave(entry);
            return Ok(Outcome::Shared);
        }
        let folder = tree.folder_of(coming.parent)?;
        let file = tree.file(&coming)?;
        if coming.size >= LARGE || coming.has_state.load(Ordering::SeqCst) {
            file.sync_all()?; // before the state is removed: after a power cut, one of both must be there
        }
        *lock(&coming.ended) = true;
        let part = beside(&coming.name, "part");
        if !system::is_at(&file, &folder, &part)? {
            return Err(io::Error::other("somebody put something else in its place"));
        }
        system::check_place(&folder, &coming.name)?; // hours may have passed since the copy began
        unfinished::forget(&folder, &coming.name); // before the rename, after which another transfer may begin one
        tree.put_in_place(&folder, &part, &file, &coming, false)?;
        *lock(&coming.file) = None;
        lock(&tree.coming).remove(&entry);
        Ok(Outcome::Copied)
    }

    /// Stops writing a file. What is there stays.
    pub fn leave(&self, entry: u32) {
        let Sink::Tree(tree) = self else { return };
        if let Some(coming) = lock(&tree.coming).remove(&entry) {
            *lock(&coming.ended) = true;
            *lock(&coming.file) = None;
        }
    }

    /// Gives a file up. It will not be complete.
    pub fn give_up(&self, entry: u32) {
        let Sink::Tree(tree) = self else { return };
        if let Some(coming) = { lock(&tree.coming).remove(&entry) } {
            coming.given_up.store(true, Ordering::SeqCst);
            tree.remove_given_up(&coming);
        }
    }

    /// Saves which ranges of a file are there, so that another transfer can resume.
    pub fn keep(&self, entry: u32, ranges: Vec<(u64, u64)>) -> io::Result<()> {
        self.keep_as(entry, ranges, false)
    }

    /// `is_last`: no later state of the file is saved.
    pub(super) fn keep_as(&self, entry: u32, ranges: Vec<(u64, u64)>, is_last: bool) -> io::Result<()> {
        let Sink::Tree(tree) = self else { return Ok(()) };
        let Some(coming) = lock(&tree.coming).get(&entry).cloned() else { return Ok(()) };
        let Some(file) = lock(&coming.file).clone() else { return Ok(()) };
        let folder = tree.folder_of(coming.parent)?;
        let mut ended = lock(&coming.ended);
        if *ended {
            return Ok(());
        }
        let (share, source) = (tree.share_of(&coming), coming.source());
        let kept = match share {
            None => unfinished::keep(&folder, &coming.name, &file, source, None, ranges),
            Some(share) => {
                let real = share.real(&coming.there, &ranges, coming.size).pairs();
                unfinished::keep(&folder, &coming.name, &file, source, Some(share), real)
            }
        };
        coming.has_state.store(true, Ordering::SeqCst);
        *ended = is_last && kept.is_ok();
        drop(ended);
        if is_last {
            tree.written.on_folder(coming.parent, &folder)?; // only the state file says that this share is there
        }
        tree.remove_given_up(&coming);
        kept
    }
}

impl Tree {
    pub(super) fn coming(&self, entry: u32) -> io::Result<Arc<IncomingFile>> {
        lock(&self.coming).get(&entry).cloned().ok_or_else(|| io::Error::other("it was given up"))
    }

    /// Removes a file that was given up. Of a file that others write too, removes only the state of this share, because its
    /// source may have changed. This function does not wait for a thread that is saving the state: that thread calls it again
    /// afterwards.
    pub(super) fn remove_given_up(&self, coming: &IncomingFile) {
        let Ok(mut ended) = coming.ended.try_lock() else { return };
        if !coming.given_up.load(Ordering::SeqCst) || std::mem::replace(&mut *ended, true) {
            return;
        }
        let file = lock(&coming.file).take();
        if let (Some(file), Ok(folder)) = (file, self.folder_of(coming.parent)) {
            match self.share_of(coming) {
                None => unfinished::remove(&folder, &coming.name, &file),
                Some(share) => unfinished::forget_share(&folder, &coming.name, share.index),
            }
        }
    }

    pub(super) fn file(&self, coming: &IncomingFile) -> io::Result<Arc<PartialFile>> {
        let mut file = lock(&coming.file);
        if let Some(file) = &*file {
            return Ok(file.clone());
        }
        if coming.given_up.load(Ordering::SeqCst) {
            return Err(io::Error::other("it was given up")); // its partial file is removed, or about to be
        }
        let folder = self.folder_of(coming.parent)?;
        let how = if self.share_of(coming).is_some() { unfinished::open_shared } else { unfinished::open };
        let opened = how(&folder, &coming.name, coming.source(), &coming.there)?;
        Ok(file.insert(Arc::new(opened)).clone())
    }

    /// The share of a file that is large enough to be divided.
    pub(super) fn share_of(&self, coming: &IncomingFile) -> Option<Share> {
        self.share.filter(|_| coming.size >= SPLIT)
    }

    /// The name of a partial file that no copy resumes.
    pub(super) fn small_part(&self, entry: u32) -> OsString {
        format!(".{:016x}-{entry}.phalanx-part", self.token).into()
    }

    /// Sets a file's time and mode, and gives it its name. `made`: it was created with its mode, as far as the umask allows.
    pub(super) fn put_in_place(
        &self,
        folder: &Dir,
        part: &OsStr,
        file: &File,
        coming: &IncomingFile,
        made: bool,
    ) -> io::Result<()> {
        // Before its permissions: only root can set attributes of a read-only file.
        if let Some(attributes) = &coming.attributes {
            let (_, refused) = attributes::fit(file, attributes, self.path_filter.keeps());
            self.refuse(coming.parent, &coming.name, refused);
        }
        if !made || coming.attributes.is_some() || self.mask.is_none_or(|mask| mask & coming.mode() != 0) {
            system::set_mode(file, coming.mode())?;
        }
        file.set_modified(system::from_time(coming.modified))?;
        folder.rename(part, folder, &coming.name)?;
        self.written.on_file(coming.parent, folder, &coming.name, file)
    }
}

impl IncomingFile {
    /// Identifies the version of its source.
    fn source(&self) -> unfinished::Source {
        (self.size, self.modified)
    }

    pub(super) fn mode(&self) -> u32 {
        self.mode.unwrap_or(0o644)
    }
}
