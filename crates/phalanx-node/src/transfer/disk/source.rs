//! What is copied: a file, a folder with all in it, or bytes that are made up.

use super::attributes;
use super::following::{Followed, Following};
use super::hard_links::Sent;
use super::holes;
use super::unfinished;
use crate::transfer::patterns::filter::Sieve;
use crate::transfer::system::{self, Identity};
use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, DirEntry, OpenOptions, ReadDir};
use phalanx_core::wire::transfer::{Attributes, Entry, Filter, Keeps, Kind, Links, MOST_NAME, MOST_TARGET};
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

/// Folders, and files that are read in parts, that are kept open.
const MOST_OPEN: usize = 64;

/// Where blocks are read from.
pub enum Source {
    Memory { bytes: u64 },
    Tree(Box<Tree>),
}

/// A file, or a folder with all in it.
pub struct Tree {
    /// The folder in which the file is, or the folder itself.
    root: Dir,
    /// The name of what is copied.
    name: Vec<u8>,
    /// What the file is called in the folder `root`; none: a folder is copied.
    file: Option<OsString>,
    items: RwLock<Vec<Item>>,
    folders: Mutex<HashMap<u32, Arc<Dir>>>,
    files: Mutex<HashMap<u32, Arc<Opened>>>,
    /// What of a folder is copied.
    sieve: Sieve,
    following: Following,
    /// Files with several names, if they are to be kept.
    linked: Sent,
}

/// One entry, as it was found.
#[derive(Debug, Clone)]
struct Item {
    parent: Option<u32>,
    name: Vec<u8>,
    size: u64,
    /// It takes less room than it is long.
    sparse: bool,
    modified: (i64, u32),
    identity: Identity,
}

/// A file that is read in parts.
pub struct Opened {
    pub file: File,
    /// Whether its holes are known without reading them; looked at once, for a file that may have some.
    knows_holes: OnceLock<bool>,
}

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Data,
    /// Zeros that take no room on the disk.
    Hole,
}

/// What a walk finds: an entry, or what cannot be copied and why.
pub type Found<'a> = dyn FnMut(Result<Entry, (PathBuf, String)>) -> io::Result<()> + 'a;

impl Source {
    /// What lies at `path`, beneath `base`.
    pub fn open(base: &Dir, path: &Path, name: &Path) -> io::Result<Source> {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let found = base.metadata(here)?;
        let name = name.file_name().map_or_else(|| b"copy".to_vec(), system::to_bytes);
        let (root, file) = if found.is_dir() {
            (base.open_dir(here)?, None)
        } else if found.is_file() {
            let path =
                if base.symlink_metadata(here)?.is_symlink() { base.canonicalize(here)? } else { here.to_owned() };
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let own = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            (base.open_dir(parent.unwrap_or(Path::new(".")))?, Some(own.to_owned()))
        } else {
            return Err(io::Error::other("neither a file nor a folder"));
        };
        let (items, folders, files) = (RwLock::default(), Mutex::default(), Mutex::default());
        let (sieve, following) = (Sieve::default(), Following::beneath(base.try_clone()?, here.to_owned()));
        Ok(Source::Tree(Box::new(Tree {
            root,
            name,
            file,
            items,
            folders,
            files,
            sieve,
            following,
            linked: Sent::default(),
        })))
    }

    /// The same, without what a filter leaves out.
    pub fn filtered(mut self, filter: &Filter) -> io::Result<Source> {
        if let Source::Tree(tree) = &mut self {
            tree.sieve = Sieve::new(filter)?;
        }
        Ok(self)
    }

    /// Links lead wherever this process may read, and not only beneath the folder that was opened.
    pub fn following_anywhere(mut self, path: &Path) -> io::Result<Source> {
        match &mut self {
            Source::Tree(tree) if tree.sieve.links() == Links::Follow => tree.following = Following::anywhere(path)?,
            _ => {}
        }
        Ok(self)
    }

    /// Tells every entry, folders before what is in them.
    pub fn walk(&self, found: &mut Found<'_>) -> io::Result<()> {
        match self {
            Source::Memory { bytes } => {
                let (name, kind) = (b"memory".to_vec(), Kind::File { size: *bytes });
                found(Ok(Entry { parent: None, name, kind, mode: None, modified: (0, 0), attributes: None }))
            }
            Source::Tree(tree) => tree.walk(found),
        }
    }

    /// Reads bytes of an entry. `whole`: these are all of it.
    pub fn read(&self, entry: u32, buffer: &mut [u8], offset: u64, whole: bool) -> io::Result<Content> {
        match self {
            Source::Memory { .. } => Ok(Content::Data), // whatever is there
            Source::Tree(tree) if whole => tree.read_whole(entry, buffer).map(|()| Content::Data),
            Source::Tree(tree) => tree.read_part(entry, buffer, offset),
        }
    }

    /// A file that is read in parts.
    pub fn open_part(&self, entry: u32) -> io::Result<Arc<Opened>> {
        match self {
            Source::Memory { .. } => Err(io::ErrorKind::InvalidInput.into()),
            Source::Tree(tree) => tree.file(entry),
        }
    }

    /// Whether an entry of which all has been read is still as it was found; reads nothing of it any more.
    pub fn settle(&self, entry: u32) -> io::Result<()> {
        let Source::Tree(tree) = self else { return Ok(()) };
        let file = tree.file(entry)?;
        lock(&tree.files).remove(&entry);
        tree.check(entry, &file.file.metadata()?)
    }

    /// The path of an entry within the copy, for people.
    pub fn path(&self, entry: u32) -> PathBuf {
        let Source::Tree(tree) = self else { return PathBuf::from("memory") };
        tree.path(entry, &tree.name)
    }
}

impl Tree {
    fn walk(&self, found: &mut Found<'_>) -> io::Result<()> {
        let no_link = || Err(changed());
        if let Some(file) = &self.file {
            let metadata = self.root.symlink_metadata(file)?;
            let entry = entry(None, &self.name, &metadata, no_link)?;
            return self.tell(entry, &metadata, None, found).map(drop);
        }
        let metadata = self.root.dir_metadata()?;
        let root = entry(None, &self.name, &metadata, no_link)?;
        let mut open = vec![self.tell(root, &metadata, None, found)?];
        while let Some(number) = open.pop() {
            match self.folder(number).and_then(|folder| Ok((folder.entries()?, folder))) {
                Ok((entries, folder)) => self.walk_folder(entries, &folder, number, found, &mut open)?,
                Err(error) => found(Err((self.path(number, &self.name), error.to_string())))?,
            }
        }
        Ok(())
    }

    /// Tells what is in a folder; the folders among it are to be walked then.
    fn walk_folder(
        &self,
        entries: ReadDir,
        folder: &Dir,
        number: u32,
        found: &mut Found<'_>,
        open: &mut Vec<u32>,
    ) -> io::Result<()> {
        for one in entries {
            let one = match one {
                Ok(one) => one,
                Err(error) => return found(Err((self.path(number, &self.name), error.to_string()))),
            };
            let os_name = one.file_name();
            if !self.takes(number, &one) {
                continue;
            }
            let name = system::to_bytes(&os_name);
            let link = || folder.read_link_contents(&os_name).map(|target| system::to_bytes(target.as_os_str()));
            let whole =
                || if unfinished::is_reserved(&os_name) { Err(io::Error::other(unfinished::RESERVED)) } else { Ok(()) };
            let looked = whole().and_then(|()| one.metadata());
            let is_link = looked.as_ref().is_ok_and(|it| it.is_symlink());
            if is_link && self.sieve.links() == Links::Skip {
                continue;
            }
            let within = |it| -> io::Result<(cap_std::fs::Metadata, Option<Followed>)> {
                Ok((it, self.following.within(number, &os_name)?))
            };
            let looked = match is_link && self.sieve.links() == Links::Follow {
                true => self.following.follow(number, &self.path(number, b""), &os_name),
                false => looked.and_then(within),
            };
            match looked.and_then(|(it, followed)| Ok((entry(Some(number), &name, &it, link)?, it, followed))) {
                Ok((entry, metadata, followed)) => {
                    let is_folder = entry.kind == Kind::Folder;
                    let number = self.tell(entry, &metadata, followed, found)?;
                    open.extend(is_folder.then_some(number));
                }
                Err(error) => found(Err((self.path(number, &self.name).join(&os_name), error.to_string())))?,
            }
        }
        Ok(())
    }

    /// Whether something in a folder is copied.
    fn takes(&self, folder: u32, one: &DirEntry) -> bool {
        let path = || self.path(folder, b"").join(one.file_name());
        self.sieve.is_empty() || self.sieve.takes(&path(), system::is_folder(one))
    }

    /// Remembers an entry before anybody can ask for it.
    fn tell(
        &self,
        mut entry: Entry,
        metadata: &cap_std::fs::Metadata,
        followed: Option<Followed>,
        found: &mut Found<'_>,
    ) -> io::Result<u32> {
        let size = if let Kind::File { size } = entry.kind { size } else { 0 };
        let (identity, sparse) = (system::identity(metadata), system::may_be_sparse(metadata));
        let (parent, name, modified) = (entry.parent, entry.name.clone(), entry.modified);
        let item = Item { parent, name, size, sparse, modified, identity };
        let mut items = self.items.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        items.push(item);
        let number = (items.len() - 1) as u32;
        drop(items);
        self.following.note(number, followed);
        if self.sieve.keeps() != Keeps::default() {
            match self.attributes(number, &entry, metadata) {
                Ok(attributes) => entry.attributes = Some(Box::new(attributes)),
                Err(error) => found(Err((self.path(number, &self.name), error.to_string())))?,
            }
        }
        found(Ok(entry))?;
        Ok(number)
    }

    /// What an entry has beside contents, permissions and times, as far as that was asked for.
    fn attributes(&self, number: u32, entry: &Entry, metadata: &cap_std::fs::Metadata) -> io::Result<Attributes> {
        let keeps = self.sieve.keeps();
        let open = || match entry.kind {
            Kind::Folder => attributes::open_folder(&*self.folder(number)?),
            _ => self.open(number),
        };
        let mut attributes = attributes::read(metadata, keeps, open)?;
        let file = attributes::several_names(metadata).filter(|_| keeps.hard_links);
        attributes.hard_link = file.map(|file| self.linked.note(file, number));
        Ok(attributes)
    }

    fn item(&self, entry: u32) -> Item {
        self.items.read().unwrap_or_else(std::sync::PoisonError::into_inner)[entry as usize].clone()
    }

    /// The path of an entry; `root`: what the first one is called.
    fn path(&self, entry: u32, root: &[u8]) -> PathBuf {
        let (mut names, mut at) = (Vec::new(), Some(entry));
        while let Some(number) = at {
            let item = self.item(number);
            names.push(if item.parent.is_none() { root.to_vec() } else { item.name });
            at = item.parent;
        }
        names.into_iter().rev().filter_map(|name| system::from_bytes(name).ok()).collect()
    }

    fn folder(&self, number: u32) -> io::Result<Arc<Dir>> {
        if let Some(folder) = lock(&self.folders).get(&number) {
            return Ok(folder.clone());
        }
        if let Some(folder) = self.following.open_folder(number) {
            return self.keep_open(number, folder?);
        }
        let path = self.path(number, b"");
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
        self.keep_open(number, if number == 0 { self.root.try_clone()? } else { self.root.open_dir_nofollow(path)? })
    }

    fn keep_open(&self, number: u32, folder: Dir) -> io::Result<Arc<Dir>> {
        let folder = Arc::new(folder);
        let mut folders = lock(&self.folders);
        if folders.len() >= MOST_OPEN {
            folders.clear();
        }
        folders.insert(number, folder.clone());
        Ok(folder)
    }

    fn open(&self, entry: u32) -> io::Result<File> {
        let item = self.item(entry);
        let mut how = OpenOptions::new();
        how.read(true).follow(FollowSymlinks::No);
        system::at_once(&mut how); // what was a file when it was found may be a pipe now
        if let Some(file) = self.following.open_file(entry, &how) {
            return file;
        }
        let file = match (item.parent, &self.file) {
            (Some(parent), _) => self.folder(parent)?.open_with(system::from_bytes(item.name)?, &how)?,
            (None, Some(file)) => self.root.open_with(file, &how)?,
            (None, None) => return Err(changed()),
        };
        Ok(file.into_std())
    }

    /// A file that is read in parts, kept open meanwhile.
    fn file(&self, entry: u32) -> io::Result<Arc<Opened>> {
        if let Some(file) = lock(&self.files).get(&entry) {
            return Ok(file.clone());
        }
        let file = Arc::new(Opened { file: self.open(entry)?, knows_holes: OnceLock::new() });
        let mut files = lock(&self.files);
        if files.len() >= MOST_OPEN {
            files.clear();
        }
        files.insert(entry, file.clone());
        Ok(file)
    }

    /// Part of a large file. Where the file has holes, zeros are one: also those that somebody has written.
    fn read_part(&self, entry: u32, buffer: &mut [u8], offset: u64) -> io::Result<Content> {
        let opened = self.file(entry)?;
        let Opened { file, knows_holes } = &*opened;
        let sparse = self.items.read().unwrap_or_else(std::sync::PoisonError::into_inner)[entry as usize].sparse;
        if sparse
            && *knows_holes.get_or_init(|| holes::are_known(file))
            && holes::is_hole(file, offset, buffer.len() as u64)
        {
            return Ok(Content::Hole);
        }
        system::read_at(file, buffer, offset).map_err(shorter)?;
        Ok(if sparse && buffer.iter().all(|byte| *byte == 0) { Content::Hole } else { Content::Data })
    }

    /// A small file: opened, read, looked at, closed.
    fn read_whole(&self, entry: u32, buffer: &mut [u8]) -> io::Result<()> {
        let file = self.open(entry)?;
        system::read_at(&file, buffer, 0).map_err(shorter)?;
        self.check(entry, &file.metadata()?)
    }

    fn check(&self, entry: u32, now: &Metadata) -> io::Result<()> {
        let item = self.item(entry);
        let seen = cap_std::fs::Metadata::from_just_metadata(now.clone());
        let is_same = system::identity(&seen) == item.identity && system::modified(now) == item.modified;
        match now.is_file() && now.len() == item.size && is_same {
            true => Ok(()),
            false => Err(changed()),
        }
    }
}

/// What is copied of what was found; `link` reads what a link says.
fn entry(
    parent: Option<u32>,
    name: &[u8],
    metadata: &cap_std::fs::Metadata,
    link: impl FnOnce() -> io::Result<Vec<u8>>,
) -> io::Result<Entry> {
    let kind = if metadata.is_dir() {
        Kind::Folder
    } else if metadata.is_file() {
        Kind::File { size: metadata.len() }
    } else if metadata.is_symlink() {
        Kind::Link { target: link()? }
    } else {
        return Err(io::Error::other("neither a file, nor a folder, nor a link"));
    };
    if name.len() > MOST_NAME || matches!(&kind, Kind::Link { target } if target.len() > MOST_TARGET) {
        return Err(io::Error::other("its name is too long"));
    }
    let modified = metadata.modified().map_or((0, 0), |time| system::to_time(time.into_std()));
    Ok(Entry { parent, name: name.to_vec(), kind, mode: system::mode(metadata), modified, attributes: None })
}

fn changed() -> io::Error {
    io::Error::other("it was changed while it was copied")
}

pub fn shorter(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof { changed() } else { error }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use cap_std::ambient_authority;
    use std::os::unix::fs::symlink;

    /// What a walk finds in the folder `copied` of an exported one; paths, with the size of files, and failures.
    fn walked(export: &Path, links: Links, is_own: bool) -> (Vec<String>, Vec<String>) {
        let base = Dir::open_ambient_dir(export, ambient_authority()).expect("is there");
        let source = Source::open(&base, Path::new("copied"), Path::new("copied")).expect("is there");
        let mut source = source.filtered(&Filter { links, ..Filter::default() }).expect("is one");
        if is_own {
            source = source.following_anywhere(&export.join("copied")).expect("is there");
        }
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        let walk = source.walk(&mut |one| {
            match one {
                Ok(entry) => found.push(entry),
                Err((path, why)) => failed.push(format!("{}: {why}", path.display())),
            }
            Ok(())
        });
        walk.expect("ends");
        let mut names = Vec::new();
        for (number, entry) in found.iter().enumerate() {
            let mut name = source.path(number as u32).to_str().expect("is text").to_owned();
            if let Kind::File { size } = entry.kind {
                let mut data = vec![0; size as usize];
                source.read(number as u32, &mut data, 0, true).expect("is read");
                name += &format!("={}", String::from_utf8(data).expect("is text"));
            }
            names.push(name + if matches!(entry.kind, Kind::Link { .. }) { "@" } else { "" });
        }
        names.sort();
        failed.sort();
        (names, failed)
    }

    fn export() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("copied")).expect("is made");
        std::fs::create_dir_all(folder.path().join("beside/in")).expect("is made");
        std::fs::write(folder.path().join("beside/in/x"), "x").expect("is written");
        folder
    }

    #[test]
    fn links_are_left_out_or_followed_within_an_export() {
        let export = export();
        let at = |name: &str| export.path().join("copied").join(name);
        std::fs::write(export.path().join("y"), "y").expect("is written");
        symlink("../beside", at("folder")).expect("is linked");
        symlink("../y", at("file")).expect("is linked");
        symlink("/etc/hostname", at("out")).expect("is linked");
        symlink("nothing", at("broken")).expect("is linked");
        rustix::fs::mknodat(rustix::fs::CWD, export.path().join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("is made");
        symlink("../pipe", at("pipe")).expect("is linked");
        assert_eq!(walked(export.path(), Links::Skip, false), (vec!["copied".to_owned()], vec![]));
        let (found, failed) = walked(export.path(), Links::Follow, false);
        assert_eq!(found, ["copied", "copied/file=y", "copied/folder", "copied/folder/in", "copied/folder/in/x=x"]);
        let failing: Vec<_> = failed.iter().map(|one| one.split(':').next().expect("is one")).collect();
        assert_eq!(failing, ["copied/broken", "copied/out", "copied/pipe"]);
        let (found, _) = walked(export.path(), Links::Keep, false);
        assert_eq!(found.iter().filter(|one| one.ends_with('@')).count(), 5);
    }

    #[test]
    fn links_of_ones_own_lead_anywhere() {
        let (export, outside) = (export(), tempfile::tempdir().expect("a folder"));
        std::fs::write(outside.path().join("z"), "z").expect("is written");
        symlink(outside.path(), export.path().join("copied/out")).expect("is linked");
        let (found, failed) = walked(export.path(), Links::Follow, true);
        assert_eq!((found, failed), (vec!["copied".into(), "copied/out".into(), "copied/out/z=z".into()], vec![]));
        assert_eq!(walked(export.path(), Links::Follow, false).1.len(), 1);
    }

    #[test]
    fn links_that_lead_round_end() {
        let export = export();
        symlink(".", export.path().join("copied/self")).expect("is linked");
        symlink("..", export.path().join("copied/up")).expect("is linked");
        symlink("../beside", export.path().join("copied/there")).expect("is linked");
        symlink("../copied", export.path().join("beside/back")).expect("is linked");
        let (found, failed) = walked(export.path(), Links::Follow, false);
        assert!(found.contains(&"copied/there/in/x=x".to_owned()));
        assert!(found.len() < 10_000 && failed.iter().any(|one| one.contains("that it is in")));
    }

    #[test]
    fn links_that_double_are_bounded() {
        let export = export();
        for number in 0..12 {
            let folder = export.path().join(format!("copied/{number}"));
            std::fs::create_dir(&folder).expect("is made");
            for name in ["a", "b"] {
                symlink(format!("../{}", number + 1), folder.join(name)).expect("is linked");
            }
        }
        let (found, failed) = walked(export.path(), Links::Follow, false);
        assert!(
            found.len() <= 12 * 512 && failed.iter().any(|one| one.contains("links lead to it")),
            "{}",
            found.len()
        );
    }
}
