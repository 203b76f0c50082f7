//! A member's file, and what it says before anybody was heard: which member this is, and of which space.

use super::facts::{fact, set};
use super::network::Network;
use super::{LogError, Replicated, Store, Timing};
use crate::space::log::store::Lasting;
use phalanx_core::space::Options;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

const PLACE: &str = "place";

/// Which member it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberPlace {
    pub number: u64,
    /// What the space is like, with its members; their numbers are their places in the list, from 1 on.
    pub options: Options,
}

/// A member's file, open.
pub struct Seat {
    store: Store,
    pub place: MemberPlace,
}

impl Seat {
    /// Opens it, or makes it with `new`; none: it does not say which member it is of, nor does anybody else.
    pub fn open(path: &Path, new: Option<MemberPlace>) -> Result<Option<Seat>, LogError> {
        let store = Store::open(path)?;
        if let Some(place) = store.read(|reading| fact::<MemberPlace>(&store, reading, PLACE))? {
            return Ok(Some(Seat { store, place }));
        }
        let Some(place) = new else { return Ok(None) };
        store.write(Lasting::Now, |writing| set(&store, writing, PLACE, &place))?;
        Ok(Some(Seat { store, place }))
    }

    /// Takes part.
    pub fn start(self, timing: Timing, network: Arc<dyn Network>) -> Result<Arc<Replicated>, LogError> {
        Replicated::start_on(self.place.number, self.store, timing, network)
    }
}
