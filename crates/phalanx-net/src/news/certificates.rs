//! Renewed certificates, in pieces. If the digests of both ends differ, each sends what it keeps, and later what it learns from
//! others while the link is open.

use super::PIECE;
use crate::identity::{Brought, Renewals};
use phalanx_core::wire::NewsDigest;
use std::collections::HashSet;
use std::sync::Arc;

/// One end's part.
#[derive(Debug)]
pub struct Certificates {
    /// `None`: this end takes no renewed certificates.
    renewals: Option<Arc<Renewals>>,
    /// The digest that this end has said.
    said: Option<[u8; 16]>,
    /// The digest that the other end has said.
    theirs: Option<[u8; 16]>,
    /// The fingerprints of the certificates that the other end knows. `None`: the digests were not compared yet.
    known: Option<HashSet<String>>,
    /// Everything up to this number of changes was sent.
    sent: Option<u64>,
    /// The other end has sent something that is no renewed certificate. This end ignores further ones.
    is_deaf: bool,
}

impl Certificates {
    pub fn new(renewals: Option<Arc<Renewals>>) -> Certificates {
        Certificates { renewals, said: None, theirs: None, known: None, sent: None, is_deaf: false }
    }

    /// Notes the digest that this end says.
    pub fn begin(&mut self, digest: [u8; 16]) {
        self.said = self.said.or(some(digest));
    }

    /// Notes the digest of the certificates that the other end keeps.
    pub fn compare(&mut self, digest: [u8; 16]) {
        self.theirs = self.theirs.or(some(digest));
    }

    /// Takes the certificates in a text, which is PEM.
    pub fn hear(&mut self, pem: &[u8]) -> Brought {
        let Some(renewals) = self.renewals.as_ref().filter(|_| !self.is_deaf) else { return Brought::default() };
        let brought = renewals.take(pem);
        self.is_deaf = brought.refused.is_some();
        self.known.get_or_insert_default().extend(brought.fingerprints.iter().cloned());
        brought
    }

    /// The next certificates, as PEM, that the other end may lack.
    pub fn due(&mut self) -> Option<Vec<u8>> {
        let renewals = self.renewals.as_ref()?;
        let (said, theirs, changes) = (self.said?, self.theirs?, renewals.changes());
        if self.sent == Some(changes) {
            return None;
        }
        if self.known.is_none() && theirs == said && theirs == renewals.digest() {
            self.known = Some(renewals.fingerprints());
        }
        let piece = renewals.piece(self.known.get_or_insert_default(), PIECE);
        if piece.is_empty() {
            self.sent = Some(changes);
            return None;
        }
        Some(piece.into_bytes())
    }
}

/// Zeros are the digest of an end that keeps none.
fn some(digest: [u8; 16]) -> Option<[u8; 16]> {
    Some(digest).filter(|digest| *digest != NewsDigest::NONE.renewed)
}
