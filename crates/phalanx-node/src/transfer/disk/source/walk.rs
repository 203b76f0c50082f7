//! The walk of a source: finds all entries, folders before the entries in them.

use super::{Found, Item, Tree, changed};
use crate::transfer::disk::attributes;
use crate::transfer::disk::following::Followed;
use crate::transfer::disk::unfinished;
use crate::transfer::system;
use cap_std::fs::{Dir, DirEntry, ReadDir};
use phalanx_core::wire::transfer::{Attributes, Entry, Keeps, Kind, Links, MOST_NAME, MOST_TARGET};
use std::io;

impl Tree {
    pub(super) fn walk(&self, found: &mut Found<'_>) -> io::Result<()> {
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

    /// Calls `found` with the entries of a folder. Adds the folders among them to `open`.
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
            if is_link && self.path_filter.links() == Links::Skip {
                continue;
            }
            let within = |it| -> io::Result<(cap_std::fs::Metadata, Option<Followed>)> {
                Ok((it, self.following.within(number, &os_name)?))
            };
            let looked = match is_link && self.path_filter.links() == Links::Follow {
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

    /// Whether the filter accepts an entry of a folder.
    fn takes(&self, folder: u32, one: &DirEntry) -> bool {
        let path = || self.path(folder, b"").join(one.file_name());
        self.path_filter.is_empty() || self.path_filter.takes(&path(), system::is_folder(one))
    }

    /// Remembers an entry, and only then calls `found`, because the receiver may ask for it at once.
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
        if self.path_filter.keeps() != Keeps::default() {
            match self.attributes(number, &entry, metadata) {
                Ok(attributes) => entry.attributes = Some(Box::new(attributes)),
                Err(error) => found(Err((self.path(number, &self.name), error.to_string())))?,
            }
        }
        found(Ok(entry))?;
        Ok(number)
    }

    /// The attributes of an entry that are to be kept.
    fn attributes(&self, number: u32, entry: &Entry, metadata: &cap_std::fs::Metadata) -> io::Result<Attributes> {
        let keeps = self.path_filter.keeps();
        let open = || match entry.kind {
            Kind::Folder => attributes::open_folder(&*self.folder(number)?),
            _ => self.open(number),
        };
        let mut attributes = attributes::read(metadata, keeps, open)?;
        let file = attributes::several_names(metadata).filter(|_| keeps.hard_links);
        attributes.hard_link = file.map(|file| self.linked.note(file, number));
        Ok(attributes)
    }
}

/// The entry for metadata that was found. `link` reads the target of a link.
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
