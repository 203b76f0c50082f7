//! What is kept of entries beside contents, permissions and times: owners, extended attributes, access control lists and hard
//! links. A comparison tells whether a copy would change it.

use super::client::Session;
use super::line::{FilesError, GoesOn};
use phalanx_core::wire::files::{About, Answer, Ask, Kind, Place};
use phalanx_core::wire::transfer::{Keeps, Owner};
use std::collections::HashMap;

/// Most users and groups whose numbers at the target are held.
const MOST_KNOWN: usize = 4096;

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
