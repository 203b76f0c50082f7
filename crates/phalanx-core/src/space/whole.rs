//! Whole tuples with their keys, labels, leases and priorities, whatever they look like: for moving them to another
//! space.

use super::store::{Held, Place, Room};
use super::{Asker, Space, Tuple};
use crate::error::SpaceError;
use crate::ids::{SessionId, TransactionId};
use crate::wire::space::{Beside, Spot};
use std::time::Duration;

/// Limits on the tuples in a page or in one withdrawal, and (approximately) on the bytes of a page. Small enough that
/// other requests wait only about a millisecond.
pub const MOST_WHOLE: usize = 1 << 12;
const MOST_BYTES: u64 = 4 << 20;

/// A tuple and its attributes.
#[derive(Debug, Clone, PartialEq)]
pub struct Whole {
    /// The tuple.
    pub tuple: Tuple,
    /// Its attributes.
    pub beside: Beside,
}

impl Space {
    /// A page of the committed tuples after a spot, and where the next page begins, if there may be one. A tuple that
    /// stays in the space while all pages are read is on one of them. A tuple that is put meanwhile may be on none.
    pub fn browse(
        &mut self,
        now: Duration,
        session: SessionId,
        after: Option<Spot>,
    ) -> Result<(Vec<Whole>, Option<Spot>), SpaceError> {
        self.on_tick(now);
        self.check_card(session)?;
        let after = after.map(|spot| Place { partition: spot.partition, slot: spot.slot });
        let (all, next) = self.store.behind(after, Room::new(MOST_WHOLE as u32, MOST_BYTES));
        let next = next.map(|place| Spot { partition: place.partition, slot: place.slot, number: 0 });
        Ok((all.iter().map(|(place, held)| whole(now, *place, held)).collect(), next))
    }

    /// Takes the tuples that are still at these spots, under a transaction.
    pub fn withdraw_whole(
        &mut self,
        now: Duration,
        asker: Asker,
        spots: &[Spot],
        transaction: TransactionId,
    ) -> Result<Vec<Whole>, SpaceError> {
        self.on_tick(now);
        self.check_card(asker.session)?;
        self.open_transaction(Some(transaction))?;
        if spots.len() > MOST_WHOLE {
            return Err(SpaceError::Full { what: "tuples withdrawn at once".into(), most: MOST_WHOLE as u64 });
        }
        let mut all = Vec::with_capacity(spots.len());
        for spot in spots {
            let place = Place { partition: spot.partition, slot: spot.slot };
            if self.store.has(place, spot.number) {
                let held = self.withdraw(place);
                all.push(whole(now, place, &held));
                self.hand_over(held, asker, Some(transaction));
            }
        }
        Ok(all)
    }
}

fn whole(now: Duration, place: Place, held: &Held) -> Whole {
    let spot = Spot { partition: place.partition, slot: place.slot, number: held.number };
    let extra = held.extra.as_deref();
    let beside = Beside {
        spot,
        lease: extra.and_then(|extra| extra.deadline).map(|deadline| deadline.saturating_sub(now)),
        key: extra.and_then(|extra| extra.key.as_ref()).map(|key| key.to_vec()),
        label: extra.and_then(|extra| extra.label.as_ref()).map(|label| label.to_vec()),
        priority: extra.map_or(0, |extra| extra.priority),
    };
    Whole { tuple: held.tuple.clone(), beside }
}
