//! A member's copy of the news that its grid's authority has signed: the newest list of revoked certificates, and renewed
//! certificates. Members exchange news ([`crate::news`]).

use super::{Renewals, Revocations};
use phalanx_core::wire::NewsDigest;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

/// The news that a member keeps.
#[derive(Debug, Clone)]
pub struct News {
    /// The lists of revoked certificates.
    pub revocations: Arc<Revocations>,
    /// The renewed certificates. `None`: the member takes none.
    pub renewals: Option<Arc<Renewals>>,
}

/// Compares the news of both ends of a link, and starts an exchange if they differ.
pub trait Courier: Send + Sync + Debug {
    /// Called with the digest of the server's news, after the server has authenticated.
    fn heard(&self, theirs: NewsDigest);

    /// Called about once a second while the link is open.
    fn look(&self);
}

impl News {
    /// The digest of the member's news. A member without files for news takes none, because its other processes would not see them.
    pub fn digest(&self) -> NewsDigest {
        match &self.renewals {
            Some(renewals) if !self.files().is_empty() => {
                renewals.changes(); // looks at the files
                NewsDigest { revoked: self.revocations.number(), renewed: renewals.digest() }
            }
            _ => NewsDigest::NONE,
        }
    }

    /// Changes whenever there are news.
    pub(crate) fn version(&self) -> (u64, u64) {
        (self.revocations.number(), self.renewals.as_ref().map_or(0, |renewals| renewals.changes()))
    }

    /// The files that may have a list of revoked certificates.
    pub(crate) fn files(&self) -> &[PathBuf] {
        self.revocations.files()
    }
}
