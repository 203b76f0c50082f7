//! What is kept of entries beside contents, permissions and times: owners, extended attributes, access control lists and hard
//! links. Listings describe it, and a comparison tells whether a copy would change it.

use super::client::Session;
use super::line::{FilesError, GoesOn};
use crate::transfer::disk::attributes;
use cap_std::fs::Metadata;
use phalanx_core::wire::files::{About, Answer, Ask, Kept, Kind, Place};
use phalanx_core::wire::transfer::{Attributes, Keeps, Owner};
use std::collections::HashMap;
use std::fs::File;
use std::io;

/// Most users and groups whose numbers at the target are held.
const MOST_KNOWN: usize = 4096;

/// Describes what is kept of an entry. `open` opens it, if that is needed to read its attributes.
pub fn kept(metadata: &Metadata, keeps: Keeps, open: impl FnOnce() -> io::Result<File>) -> io::Result<Kept> {
    let Attributes { owner, group, extended, .. } = attributes::read(metadata, keeps, open)?;
    let file = attributes::several_names(metadata).filter(|_| keeps.hard_links);
    let several_names = file.map(|(device, number)| {
        let mut place = Place::default();
        place[..8].copy_from_slice(&device.to_le_bytes());
        place[8..].copy_from_slice(&number.to_le_bytes());
        place
    });
    Ok(Kept { owner, group, extended: digest(&extended), several_names })
}

fn digest(extended: &[(Vec<u8>, Vec<u8>)]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for part in extended.iter().flat_map(|(name, value)| [name, value]) {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    digest
}

/// This machine's number for a user or a group.
#[cfg(target_os = "linux")]
pub fn number(owner: &Owner, is_group: bool) -> u32 {
    crate::transfer::disk::users::number(owner, false, is_group)
}

#[cfg(not(target_os = "linux"))]
pub fn number(owner: &Owner, _: bool) -> u32 {
    owner.number
}

/// Compares what is kept of the entries that both ends have.
#[derive(Default)]
pub struct Keeping {
    keeps: Keeps,
    /// Numbers at the target, by numbers and names at the source: of users, and of groups.
    numbers: [HashMap<(u32, Vec<u8>), u32>; 2],
    /// Files with several names at the source, and which file the first of these names is at the target. `None`: one with
    /// no other name.
    files: HashMap<Place, Option<Place>>,
}

impl Keeping {
    pub fn new(keeps: Keeps) -> Keeping {
        Keeping { keeps, ..Keeping::default() }
    }

    /// The number of files that are held.
    pub fn held(&self) -> usize {
        self.files.len()
    }

    /// Whether a copy would change what is kept of the entry at the target, the second one. It would not look at it if the
    /// kinds differ.
    pub fn differs(
        &mut self,
        [source, target]: &[About; 2],
        at: &Session,
        go_on: &mut GoesOn<'_>,
    ) -> Result<bool, FilesError> {
        let is_alike = std::mem::discriminant(&source.kind) == std::mem::discriminant(&target.kind);
        if self.keeps == Keeps::default() || !is_alike || source.kind == Kind::Other {
            return Ok(false);
        }
        let (Some(one), Some(other)) = (&source.kept, &target.kept) else { return Ok(true) };
        let is_linked = self.is_linked(one.several_names, other.several_names);
        Ok(one.extended != other.extended
            || !is_linked
            || self.has_other(false, [&one.owner, &other.owner], at, go_on)?
            || self.has_other(true, [&one.group, &other.group], at, go_on)?)
    }

    /// Whether names of one file at the source are names of one file at the target, as far as they were compared.
    fn is_linked(&mut self, source: Option<Place>, target: Option<Place>) -> bool {
        let Some(source) = source else { return true };
        match self.files.get(&source) {
            Some(first) => first.is_some() && *first == target,
            None => {
                self.files.insert(source, target);
                true
            }
        }
    }

    /// Whether a user, or a group, is another one at the target than the copy would set.
    fn has_other(
        &mut self,
        is_group: bool,
        owners: [&Option<Owner>; 2],
        at: &Session,
        go_on: &mut GoesOn<'_>,
    ) -> Result<bool, FilesError> {
        let [Some(source), Some(target)] = owners else { return Ok(owners[0] != owners[1]) };
        if source.name.is_empty() {
            return Ok(source.number != target.number);
        }
        if source.name == target.name {
            return Ok(false);
        }
        Ok(self.number(is_group, source, at, go_on)? != target.number)
    }

    /// The target's number of a user or a group of the source.
    fn number(
        &mut self,
        is_group: bool,
        owner: &Owner,
        at: &Session,
        go_on: &mut GoesOn<'_>,
    ) -> Result<u32, FilesError> {
        let (known, key) = (&mut self.numbers[usize::from(is_group)], (owner.number, owner.name.clone()));
        if let Some(number) = known.get(&key) {
            return Ok(*number);
        }
        let ask = Ask::Number { owner: owner.clone(), group: is_group };
        let Answer::Number(number) = at.ask(&ask, go_on)? else { return Err(FilesError::Nonsense) };
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(key, number);
        Ok(number)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
