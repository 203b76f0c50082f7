//! How news of a grid travel: lists of revoked certificates, and renewed certificates.
//!
//! Two members that open a link to each other learn from the handshake whether they have the same news. If not, the client opens a
//! link for news, over which each end sends the news that the other lacks ([`talk`]). Control links carry news too, as long as they
//! are open. In both cases an [`Exchange`] chooses the next message.

mod certificates;
mod lists;
mod talk;
mod unwritten;

pub use talk::{LASTS, LEVELS, talk};
pub use unwritten::{note_unwritten, take_unwritten};

use crate::identity::{Brought, News, Taken};
use certificates::Certificates;
use lists::Lists;
use phalanx_core::wire;
use std::io;

/// Most bytes of one message's body. Control links take 64 KiB.
const PIECE: usize = 48 << 10;

/// One end of a link, as far as news are concerned.
#[derive(Debug)]
pub struct Exchange {
    news: News,
    has_begun: bool,
    lists: Lists,
    certificates: Certificates,
    ending: Ending,
    /// Whether this end has said that it has told everything.
    has_ended: bool,
    /// Whether the other end has told everything.
    is_told: bool,
}

/// When an end sends [`wire::News::Done`].
#[derive(Debug, Clone, Copy)]
enum Ending {
    Never,
    /// As soon as it has.
    First,
    /// When the other end has said so, and this end has taken everything. So the other end knows that its news have arrived.
    Last,
}

/// The news that one message has brought.
#[derive(Debug, Default)]
pub struct Learned {
    /// A newer list of revoked certificates.
    pub list: Option<Taken>,
    /// Renewed certificates.
    pub brought: Brought,
}

impl Exchange {
    /// For a link that stays open.
    pub fn new(news: &News) -> Exchange {
        let lists = Lists::new(news.revocations.clone());
        let certificates = Certificates::new(news.renewals.clone());
        let news = news.clone();
        let ending = Ending::Never;
        Exchange { news, has_begun: false, lists, certificates, ending, has_ended: false, is_told: false }
    }

    /// For the client of a link that ends when both ends have told everything.
    pub fn of_client(news: &News) -> Exchange {
        Exchange { ending: Ending::First, ..Exchange::new(news) }
    }

    /// For the server of such a link.
    pub fn of_server(news: &News) -> Exchange {
        Exchange { ending: Ending::Last, ..Exchange::new(news) }
    }

    /// Returns the next message to the other end, with its body, if one is due.
    pub fn due(&mut self) -> Option<(wire::News, Vec<u8>)> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let digest = self.news.digest();
            self.certificates.begin(digest.renewed);
            return Some((wire::News::Has(digest), Vec::new()));
        }
        if self.has_ended {
            return None;
        }
        if let Some((number, left, piece)) = self.lists.due() {
            return Some((wire::News::Revoked { number, left }, piece));
        }
        if let Some(pem) = self.certificates.due() {
            return Some((wire::News::Renewed, pem));
        }
        self.has_ended = match self.ending {
            Ending::Never => false,
            Ending::First => self.lists.has_heard(),
            Ending::Last => self.is_told,
        };
        self.has_ended.then_some((wire::News::Done, Vec::new()))
    }

    /// Takes a message of the other end.
    ///
    /// # Errors
    /// It is no list that the grid's authority has signed, or no piece of one.
    pub fn hear(&mut self, message: wire::News, body: &[u8]) -> io::Result<Learned> {
        let mut learned = Learned::default();
        match message {
            wire::News::Has(digest) => {
                self.lists.compare(digest.revoked);
                self.certificates.compare(digest.renewed);
            }
            wire::News::Revoked { number, left } => learned.list = self.lists.hear(number, left, body)?,
            wire::News::Renewed => learned.brought = self.certificates.hear(body),
            wire::News::Done => self.is_told = true,
        }
        Ok(learned)
    }

    /// Whether both ends have told everything.
    pub fn is_over(&self) -> bool {
        self.has_ended && self.is_told
    }
}

#[cfg(test)]
mod tests;
