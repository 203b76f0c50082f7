//! The card of a space that is a member of a spread space. The card lists the members and says where tuples are placed.
//! All clients of the spread space must agree on it. The space itself treats it as opaque bytes; only clients read it.

use super::Space;
use super::change::{Change, MOST_CARD};
use crate::error::SpaceError;
use crate::ids::SessionId;
use bytes::Bytes;
use std::time::Duration;

impl Space {
    /// The space's card. Empty: it has none.
    pub fn card(&self) -> &Bytes {
        &self.card
    }

    /// Replaces the card if it equals `replaces`. `false`: the space has another card. Sessions that use the old card
    /// get an error at their next request; their waiting requests get it at once.
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
            // Open transactions of these sessions are aborted. Their tuples would lie where clients with the new card
            // do not look.
            let open = self.transactions.iter().filter(|(_, own)| !own.prepared && self.check_card(own.owner).is_err());
            for transaction in open.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.undo(now, transaction);
            }
        }
        Ok(true)
    }

    /// From now on the session uses this card, if it is the space's.
    pub fn go_by_card(&mut self, session: SessionId, card: &[u8]) -> bool {
        let is_so = self.card == card;
        if is_so {
            self.going_by.insert(session, self.cards);
        }
        is_so
    }

    /// Fails if the session uses a card that was replaced.
    pub fn check_card(&self, session: SessionId) -> Result<(), SpaceError> {
        match self.going_by.get(&session) {
            Some(card) if *card != self.cards => Err(SpaceError::OtherMembers),
            _ => Ok(()),
        }
    }
}
