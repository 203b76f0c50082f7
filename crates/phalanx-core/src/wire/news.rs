//! What members of a grid tell each other about its certificates: which ones were revoked, and which ones were renewed.

use serde::{Deserialize, Serialize};

/// What a member has, in short. Two members with the same digest have the same.
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

    /// Whether two ends that both take news have something to tell each other.
    pub fn differs(self, other: NewsDigest) -> bool {
        self != other && self != NewsDigest::NONE && other != NewsDigest::NONE
    }
}

/// A message of either end: on a link for news, and within the messages of control links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum News {
    /// First message: what this end has.
    Has(NewsDigest),
    /// The next bytes, in the body, of the list of revoked certificates with this number; `left` more follow.
    Revoked { number: u64, left: u64 },
    /// Some renewed certificates, in the body as PEM.
    Renewed,
    /// This end has told everything. Not said on control links, which stay open.
    Done,
}
