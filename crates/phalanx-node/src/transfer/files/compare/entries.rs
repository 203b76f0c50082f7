//! What counts of listed entries when they are compared.

use phalanx_core::wire::files::{About, Kind};

/// Bytes of a path and of what is held with it.
pub fn room(path: &[u8], about: &About) -> usize {
    let owners = about.kept.iter().flat_map(|kept| [&kept.owner, &kept.group]).flatten();
    let named: usize = owners.map(|owner| owner.name.len()).sum();
    path.len() + named + if let Kind::Link { target } = &about.kind { target.len() } else { 0 }
}

/// Whether two entries differ. Times of folders and permissions of links do not count.
pub fn differ(one: &About, other: &About) -> bool {
    let has_other_mode = || one.mode.is_some() && other.mode.is_some() && one.mode != other.mode;
    match (&one.kind, &other.kind) {
        (Kind::File { .. }, Kind::File { .. }) => {
            (&one.kind, one.modified) != (&other.kind, other.modified) || has_other_mode()
        }
        (Kind::Link { .. }, Kind::Link { .. }) => one.kind != other.kind,
        (one, other) => one != other || has_other_mode(),
    }
}

pub fn is_special(about: &About) -> bool {
    matches!(about.kind, Kind::Link { .. } | Kind::Other)
}

/// Whether a name is that of a partial file, which is neither copied nor removed.
pub fn is_reserved(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    if name.first() != Some(&b'.') {
        return false;
    }
    let name = name.to_ascii_lowercase();
    let end = name.strip_prefix(b".").and_then(|rest| rest.rsplit(|byte| *byte == b'.').next());
    matches!(end, Some(b"phalanx-part" | b"phalanx-state" | b"phalanx-state-new"))
}
