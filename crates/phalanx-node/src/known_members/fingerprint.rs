//! The fingerprint of a grid, for which a member is known.

use super::member::{DIGITS, KnownMember};
use phalanx_net::identity::Member;

impl KnownMember {
    /// A member of the grid of `own`.
    pub fn of_grid(own: &Member, name: &str, address: &str) -> KnownMember {
        KnownMember { name: name.to_ascii_lowercase(), grid: fingerprint(own), address: address.to_owned() }
    }
}

/// The fingerprint of the authority of a member's grid.
fn fingerprint(own: &Member) -> String {
    blake3::hash(own.authority()).to_hex()[..DIGITS].to_owned()
}
