//! A space that is a member of a spread space has a card. The card says who the members are and where tuples are placed; all
//! clients of the spread space must agree on it. To this space it is bytes that only the clients understand.

use super::Space;
use super::change::{Change, MOST_CARD};
use crate::error::SpaceError;
use crate::ids::SessionId;
use bytes::Bytes;
use std::time::Duration;

impl Space {
    /// The space's card; empty: it has none.
    pub fn card(&self) -> &Bytes {
        &self.card
    }

    /// Replaces the card, if it is `replaces`; `false`: it is another one. Sessions that go by the old card get an error at their
    /// next request; requests of theirs that wait get it at once.
    pub fn replace_card(&mut self, now: Duration, card: Bytes, replaces: &[u8]) -> Result<bool, SpaceError> {
        if card.len() > MOST_CARD {
            return Err(SpaceError::Full {
                what: "bytes of what members know of each other".into(),
                most: MOST_CARD as u64,
            });
        }
        if self.card != replaces {
            return Ok(false);
        }
        if self.card != card {
            self.card = card.clone();
            self.cards += 1;
            self.note(|_| Change::Card { card });
            let waiting = self.waiting().into_iter().filter(|(session, _)| self.check_card(*session).is_err());
            for (session, request) in waiting.collect::<Vec<_>>() {
                self.disappoint(session, request, SpaceError::OtherMembers);
            }
            // Open transactions of these sessions end: their tuples would lie where nobody looks for them.
            let open = self.transactions.iter().filter(|(_, own)| !own.prepared && self.check_card(own.owner).is_err());
            for transaction in open.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.undo(now, transaction);
            }
        }
        Ok(true)
    }

    /// From now on the session goes by this card, if it is the space's.
    pub fn go_by_card(&mut self, session: SessionId, card: &[u8]) -> bool {
        let is_so = self.card == card;
        if is_so {
            self.going_by.insert(session, self.cards);
        }
        is_so
    }

    /// An error where the session goes by a card that was replaced.
    pub fn check_card(&self, session: SessionId) -> Result<(), SpaceError> {
        match self.going_by.get(&session) {
            Some(card) if *card != self.cards => Err(SpaceError::OtherMembers),
            _ => Ok(()),
        }
    }
}
