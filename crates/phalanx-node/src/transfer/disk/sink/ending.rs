//! The end of a copy: abandoned files are removed, folders get their times, and everything is synced.

use super::folders::open_beneath;
use super::{Folder, Tree};
use crate::transfer::disk::abandoned::sweep_beneath;
use crate::transfer::disk::attributes;
use crate::transfer::system;
use cap_std::fs::Dir;
use phalanx_net::sync::lock;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How long a copy searches for abandoned partial files at its end.
const LONGEST: Duration = Duration::from_secs(2);

impl Tree {
    /// Removes abandoned partial files from the folders that were there before.
    pub(super) fn sweep(&self, now: SystemTime) {
        let Ok(home) = self.home() else { return };
        let until = Instant::now() + LONGEST;
        let folders = lock(&self.folders);
        if folders.is_empty() {
            return sweep_beneath(&home, Path::new(""), now, until); // a file came
        }
        for folder in folders.values().filter(|folder| !folder.is_new) {
            sweep_beneath(&home, &folder.path, now, until);
        }
    }

    pub(super) fn end(&self) -> Vec<(PathBuf, String)> {
        let mut failed = self.make_links(); // before the times of folders are set
        let folders = lock(&self.folders);
        let is_made = |number: &u32, folder: &Folder| folder.is_new || (self.fresh && *number == 0);
        let describes = self.share.is_none(); // otherwise other machines still write there
        // A folder that was there may be of an interrupted copy. Only the top folder may be any folder, because the user
        // named it.
        let is_ours = |(number, folder): &(&u32, &Folder)| describes && (is_made(number, folder) || **number != 0);
        let mut numbers: Vec<_> = folders.iter().filter(is_ours).map(|(number, _)| *number).collect();
        numbers.sort_unstable_by(|one, other| other.cmp(one)); // inner folders first
        let Ok(home) = self.home() else { return failed };
        for (number, folder) in numbers.iter().filter_map(|number| folders.get_key_value(number)) {
            let described = self.describe(&home, *number, folder);
            let described = if is_made(number, folder) { described } else { Ok(()) }; // it may be another user's
            failed.extend(described.err().map(|error| (folder.path.clone(), error.to_string())));
        }
        drop(folders);
        failed.extend(self.refusals.take());
        failed.extend(self.written.sync(&|number| self.folder_of(number)).into_iter().map(|(number, name, error)| {
            let folder = number.and_then(|number| lock(&self.folders).get(&number).map(|folder| folder.path.clone()));
            let path = folder.unwrap_or_default().join(name.unwrap_or_default());
            (if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }, error.to_string())
        }));
        failed
    }

    /// Sets the attributes, the mode and the time of a folder, where they differ.
    fn describe(&self, home: &Dir, number: u32, folder: &Folder) -> io::Result<()> {
        let path = if folder.path.as_os_str().is_empty() { Path::new(".") } else { &folder.path };
        if let Some(attributes) = &folder.attributes {
            let opened = open_beneath(home, &folder.path)?;
            let (changed, refused) =
                attributes::fit(&attributes::open_folder(&opened)?, attributes, self.path_filter.keeps());
            self.refusals.note(&folder.path, refused);
            if changed {
                self.written.on_folder(Some(number), &opened)?;
            }
        }
        let found = home.metadata(path)?;
        let time = found.modified().map(|time| system::to_time(time.into_std()));
        let has_mode = folder.mode.is_none_or(|mode| system::mode(&found).is_none_or(|is| is == mode & 0o777));
        if has_mode && time.is_ok_and(|time| time == folder.modified) {
            return Ok(());
        }
        let opened = home.open_dir(path)?; // before its new mode may forbid it
        describe(home, folder)?;
        self.written.on_folder(Some(number), &opened)
    }
}

#[cfg(unix)]
fn describe(home: &Dir, folder: &Folder) -> io::Result<()> {
    use cap_std::fs::{Permissions, PermissionsExt};
    if let Some(mode) = folder.mode {
        home.set_permissions(&folder.path, Permissions::from_mode(mode & 0o777))?;
    }
    set_time(home, folder)
}

#[cfg(not(unix))]
fn describe(home: &Dir, folder: &Folder) -> io::Result<()> {
    set_time(home, folder)
}

fn set_time(home: &Dir, folder: &Folder) -> io::Result<()> {
    let (within, name) = (folder.path.parent().unwrap_or(Path::new("")), folder.path.file_name());
    let Some(name) = name else { return Ok(()) };
    let within = if within.as_os_str().is_empty() { home.try_clone()? } else { home.open_dir(within)? };
    system::set_time(&within, Path::new(name), folder.modified)
}
