//! The memory of a hub: a tuple space that the hubs of the grid keep together, and which no client reaches. Each tuple is one change.
//! Its key names the invitation, member or loan that it changes. The hub that leads fills its engine from the store, and writes to it.

use crate::space::{Hosted, Told, Unfilled, fill_from};
use phalanx_core::error::SpaceError;
use phalanx_core::hub::Change;
use phalanx_core::jobs::JobChange;
use phalanx_core::space::{Asker, Get, Options, OutOptions, Pattern, Template, Tuple, Value};
use phalanx_core::wire::{decode, encode_body};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::space::log::replicated::Replicated;
use crate::space::log::{Log, LogError};

/// Most tuples that one read returns.
const PAGE: u32 = 1000;

/// The store.
pub struct Store {
    hosted: Arc<Hosted>,
    /// When the engine had been filled from it.
    filled: Instant,
}

/// Changes on their way to the disks of the hubs.
pub struct Kept(Told);

impl Kept {
    /// Waits until most hubs have the changes on their disks.
    pub fn wait(self) -> Result<(), SpaceError> {
        self.0.flush()
    }
}

impl Store {
    /// Begins to write to the store that the hubs keep together, as the one that leads. Passes everything in it to `fill`.
    pub fn lead(replicated: &Arc<Replicated>, fill: impl FnMut(Change)) -> Result<Store, SpaceError> {
        let open = |take: &mut dyn FnMut(_) -> Result<(), LogError>| {
            replicated.lead(take).map(|log| Arc::new(log) as Arc<dyn Log>)
        };
        let hosted = fill_from(Some(Options::default()), open).map_err(|error| match error {
            Unfilled::Log(error) => SpaceError::NotKept(error.to_string()),
            Unfilled::Space(error) => error,
        })?;
        Store::of(hosted, fill)
    }

    /// The store in this space.
    pub fn of(hosted: Arc<Hosted>, mut fill: impl FnMut(Change)) -> Result<Store, SpaceError> {
        let mut store = Store { hosted, filled: Instant::now() };
        let mut after = None;
        loop {
            let get = Get { limit: PAGE, after, ..Get::default() };
            let page = store.with(|space, now, asker| space.get(now, asker, &changes(), &get, None))?;
            for tuple in &page.tuples {
                fill(read(tuple)?);
            }
            after = page.next;
            if after.is_none() {
                store.filled = Instant::now();
                return Ok(store);
            }
        }
    }

    /// Stores changes, all or none, after the changes of earlier calls. They are stored when [`Kept::wait`] has returned.
    pub fn keep(&self, changes: &[Change]) -> Result<Kept, SpaceError> {
        let (kept, told) = self.begin(|space, now, asker| {
            for change in changes {
                let key = key_of(change);
                let old = Get { take: true, key: Some(key.clone()), ..Get::default() };
                space.find(now, asker, &self::changes(), &old, None)?;
                if !is_end(change) {
                    let options = OutOptions { key: Some(key), ..OutOptions::default() };
                    space.out(now, &[Tuple::of(&[Value::Bytes(encode_body(change))])], &options, None)?;
                }
            }
            Ok(())
        });
        kept.map(|()| Kept(told))
    }

    /// Makes sure that everything decided so far is stored, and that no other hub leads.
    pub fn confirm(&self) -> Result<(), SpaceError> {
        self.with(|_, _, _| Ok(()))
    }

    /// How long ago the engine was filled from the store.
    pub fn age(&self) -> Duration {
        self.filled.elapsed()
    }

    /// Whether nothing more can be stored here: another hub leads, or most hubs are out of reach.
    pub fn has_ended(&self) -> bool {
        self.hosted.has_ended()
    }

    /// Ends the store, once all changes are on the disk.
    pub fn close(&self) {
        self.hosted.end();
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut phalanx_core::space::Space, Duration, Asker) -> Result<T, SpaceError>,
    ) -> Result<T, SpaceError> {
        let (done, told) = self.begin(work);
        told.flush()?;
        done
    }

    fn begin<T>(
        &self,
        work: impl FnOnce(&mut phalanx_core::space::Space, Duration, Asker) -> Result<T, SpaceError>,
    ) -> (Result<T, SpaceError>, Told) {
        let session = self.hosted.lock().number();
        let asker = Asker { session, request: 0, acknowledges: false };
        self.hosted.with(|space, now| work(space, now, asker))
    }
}

/// The change that a hub's tuple is, in the state that it keeps with others.
pub fn change_in(stored: &phalanx_core::space::change::Change) -> Option<Change> {
    match stored {
        phalanx_core::space::change::Change::Put { record, .. } => read(&record.tuple).ok(),
        _ => None,
    }
}

/// Matches every change.
fn changes() -> Template {
    Template::new(vec![Pattern::Any], None)
}

/// Whether nothing is stored in place of what was there.
fn is_end(change: &Change) -> bool {
    matches!(
        change,
        Change::Invitation(_, None)
            | Change::Loan(_, None)
            | Change::Day(_, _, None)
            | Change::Job(JobChange::Job(_, None) | JobChange::Process(_, _, None))
    )
}

fn key_of(change: &Change) -> Vec<u8> {
    let key = match change {
        Change::Invitation(id, _) => encode_body(&(0u8, id)),
        Change::Member(who, _) => encode_body(&(1u8, who)),
        Change::Loan(grid, _) => encode_body(&(2u8, grid)),
        Change::List(_) => encode_body(&3u8),
        Change::Job(JobChange::Job(id, _)) => encode_body(&(4u8, id)),
        Change::Job(JobChange::Process(id, index, _)) => encode_body(&(5u8, id, index)),
        Change::LeastCage(_) => encode_body(&6u8),
        Change::Day(day, executor, _) => encode_body(&(7u8, day, executor)),
    };
    Value::Bytes(key).to_bytes()
}

fn read(tuple: &Tuple) -> Result<Change, SpaceError> {
    let damaged = || SpaceError::NotKept("what the hub has stored cannot be read by this version".to_owned());
    match &tuple.values()[..] {
        [Value::Bytes(bytes)] => decode(bytes).map_err(|_| damaged()),
        _ => Err(damaged()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Directory;
    use phalanx_core::hub::{Asking, Good, Hub, Who};
    use std::path::Path;

    fn filled(folder: &Path) -> (Store, Vec<Change>) {
        let mut found = Vec::new();
        let hosted = Directory::new(folder).open("members", Some(Options::default())).expect("opens");
        let store = Store::of(hosted, |change| found.push(change)).expect("opens");
        (store, found)
    }

    #[test]
    fn what_was_kept_is_found_again_and_what_was_replaced_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, found) = filled(folder.path());
        assert_eq!(found, []);
        let mut hub = Hub::default();
        let ada = Asking { who: Who::user("ada"), key: "key".into() };
        let good = |until| Good { fingerprint: format!("to {until}"), until };
        store.keep(&hub.found(1, ada.clone(), good(100), true)).and_then(Kept::wait).expect("is kept");
        store
            .keep(&hub.invite(2, "ada", ([7; 32], "executor"), 1, 60).expect("is an owner"))
            .and_then(Kept::wait)
            .expect("is kept");
        store.keep(&hub.renew(3, &ada, 100, good(200)).expect("is a member")).and_then(Kept::wait).expect("is kept");
        store.close();
        let (store, found) = filled(folder.path());
        assert_eq!(found.len(), 2, "{found:?}");
        let ws7 = Asking { who: Who::new("executor", "ws7"), key: "other".into() };
        store.keep(&hub.join(4, [7; 32], ws7, good(300)).expect("is invited")).and_then(Kept::wait).expect("is kept");
        store.close();
        let (_store, found) = filled(folder.path());
        assert!(found.iter().all(|it| matches!(it, Change::Member(..))), "the invitation is used: {found:?}");
        assert_eq!(found.len(), 2);
    }
}
