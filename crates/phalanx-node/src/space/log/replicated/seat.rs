//! A member's file, and what it says before the member has heard from any other: which member this is, and of which space.

use super::facts::{fact, set};
use super::network::Network;
use super::{LogError, Replicated, Store, Timing};
use crate::space::log::store::Lasting;
use phalanx_core::space::Seat;
use redb::ReadTransaction;
use std::path::Path;
use std::sync::Arc;

const SEAT: &str = "seat";

/// The open file of a member.
pub struct MemberFile {
    store: Store,
    /// The member that the file belongs to, and the options of the space.
    pub seat: Seat,
}

impl MemberFile {
    /// Opens the file, or creates it with `new`. `None`: neither the file nor `new` says which member it belongs to.
    pub fn open(path: &Path, new: Option<Seat>) -> Result<Option<MemberFile>, LogError> {
        let store = Store::open(path)?;
        if let Some(seat) = store.read(|reading| seat_in(&store, reading))? {
            return Ok(Some(MemberFile { store, seat }));
        }
        let Some(seat) = new else { return Ok(None) };
        store.write(Lasting::Now, |writing| set(&store, writing, SEAT, &seat))?;
        Ok(Some(MemberFile { store, seat }))
    }

    /// Takes part in the space with this file.
    pub fn start(self, timing: Timing, network: Arc<dyn Network>) -> Result<Arc<Replicated>, LogError> {
        Replicated::start_on(self.seat.number, self.store, timing, network)
    }
}

/// What a file says about its member.
pub fn seat_in(store: &Store, reading: &ReadTransaction) -> Result<Option<Seat>, LogError> {
    fact(store, reading, SEAT)
}
