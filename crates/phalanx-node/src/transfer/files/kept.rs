//! What a listing tells of entries beside contents, permissions and times: owners, extended attributes, access control lists
//! and hard links.

use crate::transfer::disk::attributes;
use cap_std::fs::Metadata;
use phalanx_core::wire::files::{Kept, Place};
use phalanx_core::wire::transfer::{Attributes, Keeps, Owner};
use std::fs::File;
use std::io;

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

/// A digest of extended attributes.
pub fn digest(extended: &[(Vec<u8>, Vec<u8>)]) -> [u8; 16] {
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
