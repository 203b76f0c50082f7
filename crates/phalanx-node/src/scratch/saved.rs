//! The files that ranks of a program save, to go on from them after a loss: a folder for each rank in the program's folder, and in
//! it an entry for each step, such as `step-120.npy`, or `step-120` with several files.
//!
//! Programs of others write here. No link is followed out of the folder, and only regular files are read.

use super::{Folder, removing};
use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use phalanx_core::wire::ranks::SURVIVE_FOLDER;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// Most files of one step of a rank.
pub const MOST_FILES: usize = 1024;
/// Most entries of a rank that are looked at, with those of other names, and most files and folders of one step.
const MOST_LOOKED_AT: usize = 4096;
/// Most folders within each other in an entry.
pub const DEEPEST: usize = 8;
/// Endings of names of files that a program still writes.
const UNFINISHED: [&str; 3] = [".part", ".tmp", "~"];

/// A file of a step: its name in the rank's folder, and its length in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    pub name: String,
    pub length: u64,
}

/// The step that an entry with this name belongs to. `None`: it is no entry, or not complete.
pub fn step_of(name: &str) -> Option<u64> {
    let rest = name.strip_prefix("step-")?;
    let end = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
    let is_finished = !UNFINISHED.iter().any(|ending| name.ends_with(ending));
    let (digits, ending) = rest.split_at(end);
    (is_finished && (ending.is_empty() || ending.starts_with('.'))).then(|| digits.parse().ok()).flatten()
}

impl Folder {
    /// Makes the folders of these ranks, empty, in place of those of an earlier start.
    pub fn begin_saving(&self, ranks: Range<u32>) -> io::Result<()> {
        self.acting(|| {
            for name in ranks.map(name_of) {
                if let Ok(earlier) = self.opened.open_dir_nofollow(&name) {
                    removing::empty(&earlier)?;
                    continue;
                }
                let _ = self.opened.remove_file(&name);
                self.opened.create_dir_all(&name)?;
            }
            Ok(())
        })
    }

    /// The folder of a rank.
    pub fn of_rank(&self, rank: u32) -> PathBuf {
        self.path().join(name_of(rank))
    }

    /// The entries of a rank, by step. A step should have one.
    pub fn saved_entries(&self, rank: u32) -> io::Result<BTreeMap<u64, Vec<String>>> {
        self.acting(|| {
            let mut entries: BTreeMap<u64, Vec<String>> = BTreeMap::new();
            for (count, entry) in self.opened.open_dir(name_of(rank))?.entries()?.enumerate() {
                if count == MOST_LOOKED_AT {
                    return Err(io::Error::other(format!(
                        "rank {rank} has too many entries: at most {MOST_LOOKED_AT}"
                    )));
                }
                let Ok(name) = entry?.file_name().into_string() else { continue };
                step_of(&name).into_iter().for_each(|step| entries.entry(step).or_default().push(name.clone()));
            }
            entries.values_mut().for_each(|names| names.sort());
            Ok(entries)
        })
    }

    /// The files of an entry.
    pub fn saved_files(&self, rank: u32, entry: &str) -> io::Result<Vec<Saved>> {
        self.acting(|| {
            let (mut files, mut left) = (Vec::new(), MOST_LOOKED_AT);
            list(&self.opened.open_dir(name_of(rank))?, entry, entry, 0, &mut files, &mut left)?;
            Ok(files)
        })
    }

    /// Opens a file of an entry. A pipe with its name does not make this wait.
    pub fn open_saved(&self, rank: u32, name: &str) -> io::Result<File> {
        let mut how = OpenOptions::new();
        how.read(true).custom_flags(libc::O_NONBLOCK);
        self.acting(|| Ok(self.opened.open_dir(name_of(rank))?.open_with(name, &how)?.into_std()))
    }

    /// Removes an entry.
    pub fn remove_saved(&self, rank: u32, entry: &str) -> io::Result<()> {
        self.acting(|| {
            let folder = self.opened.open_dir(name_of(rank))?;
            match folder.symlink_metadata(entry)?.is_dir() {
                true => removing::empty(&folder.open_dir_nofollow(entry)?).and_then(|()| folder.remove_dir(entry)),
                false => folder.remove_file_or_symlink(entry),
            }
        })
    }
}

fn name_of(rank: u32) -> String {
    format!("{SURVIVE_FOLDER}/rank-{rank}")
}

/// Adds the files of an entry of `above`, whose name in the rank's folder is `path`. `left`: how many more files and folders are looked at.
fn list(above: &Dir, name: &str, path: &str, depth: usize, files: &mut Vec<Saved>, left: &mut usize) -> io::Result<()> {
    *left = left.checked_sub(1).ok_or_else(|| io::Error::other(format!("too many entries in {path}")))?;
    let found = above.symlink_metadata(name)?;
    if found.is_file() {
        files.push(Saved { name: path.to_owned(), length: found.len() });
    } else if found.is_dir() && depth < DEEPEST {
        let folder = above.open_dir_nofollow(name)?;
        for entry in folder.entries()? {
            let name = entry?.file_name().into_string();
            let name = name.map_err(|_| io::Error::other(format!("a name in {path} is no UTF-8")))?;
            list(&folder, &name, &format!("{path}/{name}"), depth + 1, files, left)?;
        }
    } else {
        return Err(io::Error::other(format!("{path} is no regular file, or too deep in folders")));
    }
    match files.len() <= MOST_FILES {
        true => Ok(()),
        false => Err(io::Error::other(format!("{path} has more than {MOST_FILES} files"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn steps_have_names_that_end_where_they_are_complete() {
        assert_eq!(step_of("step-000120.npy"), Some(120));
        assert_eq!(step_of("step-7"), Some(7));
        for name in [
            "step-7.npy.part",
            "step-7.tmp",
            "step-7~",
            "step-",
            "step-x",
            "step-7x",
            "7",
            ".step-7",
            "step-99999999999999999999",
        ] {
            assert_eq!(step_of(name), None, "{name}");
        }
    }

    #[test]
    fn what_a_rank_saves_is_found_and_removed() {
        let folder = Folder::new().expect("there is room");
        folder.begin_saving(0..2).expect("it can be made");
        let place = folder.of_rank(1);
        fs::write(place.join("step-1.npy"), b"one").expect("there is room");
        fs::create_dir_all(place.join("step-2/more")).expect("there is room");
        fs::write(place.join("step-2/more/a"), b"two").expect("there is room");
        fs::write(place.join("step-3.part"), b"").expect("there is room");
        let entries = folder.saved_entries(1).expect("it is there");
        assert_eq!(entries, BTreeMap::from([(1, vec!["step-1.npy".into()]), (2, vec!["step-2".into()])]));
        let files = folder.saved_files(1, "step-2").expect("it is there");
        assert_eq!(files, [Saved { name: "step-2/more/a".into(), length: 3 }]);
        folder.remove_saved(1, "step-2").expect("it is there");
        assert_eq!(folder.saved_entries(1).expect("it is there").len(), 1);
        folder.begin_saving(0..2).expect("it is there");
        assert_eq!(fs::read_dir(&place).expect("it is there").count(), 0);
    }

    #[test]
    fn a_rank_with_too_many_entries_is_an_error() {
        let folder = Folder::new().expect("there is room");
        folder.begin_saving(0..1).expect("it can be made");
        let place = folder.of_rank(0);
        let make = |inner: &std::path::Path| {
            (0..MOST_LOOKED_AT)
                .for_each(|number| fs::create_dir(inner.join(format!("x{number}"))).expect("there is room"));
        };
        fs::create_dir(place.join("step-1")).expect("there is room");
        make(&place.join("step-1"));
        assert!(folder.saved_files(0, "step-1").is_err_and(|why| why.to_string().contains("too many entries")));
        assert_eq!(folder.saved_entries(0).expect("one is there").len(), 1);
        make(&place);
        assert!(folder.saved_entries(0).is_err_and(|why| why.to_string().contains("too many entries")));
    }

    #[test]
    fn links_and_pipes_bring_nothing_of_the_machine_away() {
        let folder = Folder::new().expect("there is room");
        folder.begin_saving(0..1).expect("it can be made");
        let place = folder.of_rank(0);
        symlink("/etc/passwd", place.join("step-1")).expect("there is room");
        symlink("/etc", place.join("step-2")).expect("there is room");
        fs::create_dir(place.join("step-3")).expect("there is room");
        symlink("/etc/passwd", place.join("step-3/a")).expect("there is room");
        for entry in ["step-1", "step-2", "step-3"] {
            assert!(folder.saved_files(0, entry).is_err(), "{entry}");
            assert!(folder.open_saved(0, entry).is_err() || entry == "step-3", "{entry}");
        }
        assert!(folder.open_saved(0, "step-3/a").is_err() && folder.open_saved(0, "../../../../etc/passwd").is_err());
        folder.remove_saved(0, "step-2").expect("the link goes");
        assert!(PathBuf::from("/etc/passwd").exists());
        fs::remove_dir_all(folder.path().join(SURVIVE_FOLDER)).expect("it is there");
        symlink("/etc", folder.path().join(SURVIVE_FOLDER)).expect("there is room");
        assert!(folder.saved_entries(0).is_err() && folder.begin_saving(0..1).is_err());
    }
}
