//! News: the messages by which members of a grid exchange lists of revoked certificates, and renewed certificates.

use serde::{Deserialize, Serialize};

/// A summary of a member's news. Two members with equal digests have equal news.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NewsDigest {
    /// The number of the newest list of revoked certificates; 0: there is none.
    pub revoked: u64,
    /// A digest of the renewed certificates; zeros: the member takes none.
    pub renewed: [u8; 16],
}

impl NewsDigest {
    /// Length in bytes of [`NewsDigest::to_bytes`].
    pub const LENGTH: usize = 24;
    /// The digest of an end that takes no news.
    pub const NONE: NewsDigest = NewsDigest { revoked: 0, renewed: [0; 16] };

    /// The number, little endian, and the digest.
    pub fn to_bytes(self) -> [u8; NewsDigest::LENGTH] {
        let mut bytes = [0; NewsDigest::LENGTH];
        bytes[..8].copy_from_slice(&self.revoked.to_le_bytes());
        bytes[8..].copy_from_slice(&self.renewed);
        bytes
    }

    /// The digest with these bytes. Every text of this length is one.
    pub fn from_bytes(bytes: [u8; NewsDigest::LENGTH]) -> NewsDigest {
        let (revoked, renewed) = bytes.split_at(8);
        let revoked = u64::from_le_bytes(revoked.try_into().expect("8 bytes"));
        NewsDigest { revoked, renewed: renewed.try_into().expect("16 bytes") }
    }

    /// Whether both ends take news, and one end lacks some that the other has.
    pub fn differs(self, other: NewsDigest) -> bool {
        self != other && self != NewsDigest::NONE && other != NewsDigest::NONE
    }
}

/// A message of either end: on a link for news, and within the messages of control links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum News {
    /// The first message: the digest of the sender's news.
    Has(NewsDigest),
    /// The next bytes, in the body, of the list of revoked certificates with this number; `left` more follow.
    Revoked { number: u64, left: u64 },
    /// Some renewed certificates, in the body as PEM.
    Renewed,
    /// The sender has sent all its news. Control links stay open and do not use this message.
    Done,
}
