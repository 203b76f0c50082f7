//! Results of a run: its streams, and the files that match its patterns. The executor sends both to the hub.

use super::running::{Failure, Running};
use super::{Shared, Task};
use crate::contents::digest_of;
use crate::scratch::Folder;
use cap_std::fs::Dir;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use phalanx_core::wire::encode_body;
use phalanx_core::wire::jobs::{Content, File as Output, LONGEST_NAME, MOST_FILES, MOST_HERE, Outcome, Stream};
use std::fs::File;
use std::io::{self, Read, Seek};

/// Most entries that the search visits, over all folders.
const MOST_ENTRIES: usize = 100_000;
/// Depth limit of the search.
const DEEPEST: usize = 32;
/// Most encoded bytes of the list of outputs.
const LONGEST_LIST: usize = 128 << 10;

impl Shared {
    /// Sends the captured standard streams to the hub.
    pub(super) fn bring_streams(&self, task: &Task, running: &Running, outcome: &mut Outcome) -> Result<(), Failure> {
        for stream in [Stream::Out, Stream::Error] {
            let (here, file, dropped) = running.captured(stream).take();
            outcome.dropped += dropped;
            let content = match file {
                None => Content::Here(here),
                Some(file) => self.bring_file(task, running, file)?,
            };
            match stream {
                Stream::Out => outcome.stdout = content,
                Stream::Error => outcome.stderr = content,
            }
        }
        Ok(())
    }

    /// Sends the files that match the patterns of the job to the hub.
    pub(super) fn bring_outputs(
        &self,
        task: &Task,
        running: &Running,
        folder: &Folder,
    ) -> Result<Vec<Output>, Failure> {
        if task.spec.outputs.is_empty() {
            return Ok(Vec::new());
        }
        let patterns = patterns(&task.spec.outputs).map_err(|error| Failure::User(error.to_string()))?;
        let names = folder.reading(|folder| found(folder, &patterns))?.map_err(Failure::User)?;
        let mut outputs = Vec::new();
        for name in names {
            let (file, executable) = match folder.read_as(&name) {
                Ok(opened) => opened,
                Err(error) => return Err(Failure::User(format!("the output {name} cannot be read: {error}"))),
            };
            let content = self.bring_file(task, running, file)?;
            outputs.push(Output { name, content, executable });
        }
        match encode_body(&outputs).len() > LONGEST_LIST {
            true => {
                Err(Failure::User("its outputs have too many or too long names: put them into an archive".to_owned()))
            }
            false => Ok(outputs),
        }
    }

    fn bring_file(&self, task: &Task, running: &Running, mut file: File) -> Result<Content, Failure> {
        let bytes = file.metadata()?.len();
        file.rewind()?;
        if bytes <= MOST_HERE as u64 {
            let mut here = Vec::new();
            Read::by_ref(&mut file).take(MOST_HERE as u64).read_to_end(&mut here)?;
            return Ok(Content::Here(here));
        }
        let (digest, bytes) = digest_of(&mut file)?;
        self.bring(running, |contents| contents.put(&task.user, digest, bytes, &mut file))?;
        Ok(Content::Kept { digest, bytes })
    }
}

/// The patterns of a job. A pattern that matches a folder matches all files in it.
fn patterns(texts: &[String]) -> Result<GlobSet, globset::Error> {
    let mut all = GlobSetBuilder::new();
    for text in texts {
        for pattern in [text.clone(), format!("{text}/**")] {
            all.add(GlobBuilder::new(&pattern).literal_separator(true).build()?);
        }
    }
    all.build()
}

/// The sorted names of the files that match the patterns. The search follows no symbolic links.
fn found(folder: &Dir, patterns: &GlobSet) -> io::Result<Result<Vec<String>, String>> {
    let mut open = vec![(String::new(), folder.try_clone()?, 0)];
    let (mut names, mut looked) = (Vec::new(), 0);
    while let Some((above, folder, depth)) = open.pop() {
        for entry in folder.entries()? {
            let entry = entry?;
            looked += 1;
            if looked > MOST_ENTRIES {
                return Ok(Err(format!("it has left more than {MOST_ENTRIES} files: put them into an archive")));
            }
            let (Ok(name), kind) = (entry.file_name().into_string(), entry.file_type()?) else { continue };
            let path = if above.is_empty() { name.clone() } else { format!("{above}/{name}") };
            if path.len() > LONGEST_NAME || name.starts_with(".phalanx-") {
                continue;
            }
            if kind.is_dir() && depth < DEEPEST {
                open.push((path, folder.open_dir(&name)?, depth + 1));
            } else if kind.is_file() && patterns.is_match(&path) {
                names.push(path);
                if names.len() > MOST_FILES {
                    return Ok(Err(format!(
                        "its patterns find more than {MOST_FILES} outputs: put them into an archive"
                    )));
                }
            }
        }
    }
    names.sort();
    Ok(Ok(names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::ambient_authority;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn patterns_find_files_beneath_the_folder_and_follow_no_link() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["out-1.csv", "out-2.csv", "deep/er/x.txt", "other.txt"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("has one")).expect("is made");
            fs::write(path, name).expect("is written");
        }
        symlink("/etc/passwd", folder.path().join("out-3.csv")).expect("is made");
        symlink("/etc", folder.path().join("etc")).expect("is made");
        let opened = Dir::open_ambient_dir(folder.path(), ambient_authority()).expect("is there");
        let find = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|it| (*it).to_owned()).collect();
            found(&opened, &patterns(&texts).expect("are patterns")).expect("is readable").expect("are few")
        };
        assert_eq!(find(&["out-*.csv"]), ["out-1.csv", "out-2.csv"]);
        assert_eq!(find(&["deep", "etc"]), ["deep/er/x.txt"]);
        assert_eq!(find(&["*.txt"]), ["other.txt"]);
        assert_eq!(find(&["**/*.txt"]), ["deep/er/x.txt", "other.txt"]);
        assert!(patterns(&["[".to_owned()]).is_err());
    }
}
