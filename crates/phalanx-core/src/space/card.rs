//! A space that is a member of a spread one has a card: what all members and everybody who uses them must agree on, as bytes
//! that only the users understand.

use super::Space;
use super::change::{Change, MOST_CARD};
use crate::error::SpaceError;
use crate::ids::SessionId;
use bytes::Bytes;
use std::time::Duration;

impl Space {
    /// A log kept this card.
    pub(super) fn fill_card(&mut self, card: Bytes) {
        self.card = card;
    }

    /// The space's card; empty: it has none.
    pub fn card(&self) -> &Bytes {
        &self.card
    }

    /// Where the card is `replaces`, the space has another one from now on. Sessions that go by the old one are told so at
    /// their next request; those that wait, at once.
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
            // What they have put where nobody will look is not committed any more.
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

    /// Whether a session goes by what is true.
    pub fn check_card(&self, session: SessionId) -> Result<(), SpaceError> {
        match self.going_by.get(&session) {
            Some(card) if *card != self.cards => Err(SpaceError::OtherMembers),
            _ => Ok(()),
        }
    }
}
