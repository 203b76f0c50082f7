//! News: the messages by which members of a grid exchange lists of revoked certificates, and renewed certificates.

use super::Prefix;
use serde::{Deserialize, Serialize};

/// A summary of a member's news. Two members with equal digests have equal news.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NewsDigest {
    /// The number of the newest list of revoked certificates; 0: there is none.
    pub revoked: u64,
    /// A digest of the renewed certificates; zeros: the member takes none.
    pub renewed: [u8; 16],
}

/// First byte of the header by which a server says on an open link that its news have changed. No service has a message that
/// begins with it: their messages begin with the number of a variant, and none has so many.
const CHANGED: u8 = 0x7f;

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

    /// The frame that says on an open link, of whatever service, that the sender has these news now.
    pub fn to_frame(self) -> Vec<u8> {
        let header = [&[CHANGED][..], &self.to_bytes()].concat();
        let prefix = Prefix { header: header.len(), body: 0, place: None };
        [&prefix.encode()[..], &header].concat()
    }

    /// The digest in the header of such a frame. `None`: it is a message of the link's service.
    pub fn from_header(header: &[u8]) -> Option<NewsDigest> {
        let (first, bytes) = header.split_first()?;
        Some(NewsDigest::from_bytes(bytes.try_into().ok().filter(|_| *first == CHANGED)?))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PREFIX;

    #[test]
    fn a_frame_about_news_is_read_as_it_was_written_and_nothing_else_is_one() {
        let news = NewsDigest { revoked: 7, renewed: [9; 16] };
        let frame = news.to_frame();
        let (prefix, header) = frame.split_at(PREFIX);
        let prefix = Prefix::decode(prefix.try_into().expect("16 bytes")).expect("is one");
        assert_eq!((prefix.header, prefix.body, prefix.place), (header.len(), 0, None));
        assert_eq!(NewsDigest::from_header(header), Some(news));
        for other in [&[][..], &[CHANGED], &header[..header.len() - 1], &[&[0], &header[1..]].concat()] {
            assert_eq!(NewsDigest::from_header(other), None);
        }
    }
}
