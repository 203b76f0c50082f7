//! A member's copy of the news that its grid's authority has signed: the newest list of revoked certificates, and renewed
//! certificates. Members exchange news ([`crate::news`]).

use super::{Ends, Renewals, Revocations};
use crate::sync::lock;
use phalanx_core::wire::NewsDigest;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The news that a member keeps.
#[derive(Debug, Clone)]
pub struct News {
    /// The lists of revoked certificates.
    pub revocations: Arc<Revocations>,
    /// The renewed certificates. `None`: the member takes none.
    pub renewals: Option<Arc<Renewals>>,
}

/// Looks after the news at one end of a link.
pub trait Courier: Send + Sync + Debug {
    /// Called at a client with the digest of the server's news: after the server has authenticated, and whenever they change.
    fn heard(&self, theirs: NewsDigest);

    /// Called about once a second while the link is open.
    fn look(&self, link: &dyn Ends);

    /// Why the server has ended the link, as far as this end can tell.
    fn why_ended(&self) -> Option<String> {
        None
    }
}

/// At a server: tells the client over the open link that the server's news have changed.
#[derive(Debug)]
pub(crate) struct Teller {
    news: News,
    /// The digest that the client has heard last.
    told: Mutex<NewsDigest>,
}

impl Teller {
    /// For a client that has heard the digest `told` in the handshake.
    pub(crate) fn new(news: News, told: NewsDigest) -> Teller {
        Teller { news, told: Mutex::new(told) }
    }
}

impl Courier for Teller {
    /// A server asks no client.
    fn heard(&self, _: NewsDigest) {}

    fn look(&self, link: &dyn Ends) {
        let digest = self.news.digest();
        if std::mem::replace(&mut *lock(&self.told), digest) != digest {
            link.tell(digest);
        }
    }
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

    /// The files that may have a list of revoked certificates.
    pub(crate) fn files(&self) -> &[PathBuf] {
        self.revocations.files()
    }
}
