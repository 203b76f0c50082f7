//! Room on the disk for what the hub decides.
//!
//! A failed write ends the hub's part in the group, and discards the state that was read from it. So the hub checks the free space before
//! each change, and refuses the change if there is too little. It keeps its state then, and members, links and programs go on. If the disk
//! fills between the check and the write, the hub opens its part again once there is room.

use super::{Hub, HubError};
use crate::log::Severity;
use phalanx_net::sync::lock;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// The least room, in bytes, with which the hub decides anything. One change writes some 100 KB of table pages, and a list with 10 000
/// revoked certificates has 1 MB.
const LEAST: u64 = 2 << 20;
/// Pause between two looks for room.
const AGAIN: Duration = Duration::from_secs(1);
/// The log line for a disk that has room again.
const ROOM_AGAIN: &str = "the hub's disk has room again: what changes is stored";

/// Checks that the disk of the hub's folder has room. The error is for users, and says which folder it is.
pub fn check(folder: &Path) -> Result<(), String> {
    match left(folder) {
        Some(left) if left < LEAST => Err(full(folder)),
        _ => Ok(()), // where the system does not tell, the write does
    }
}

/// The text for users about a full disk.
pub fn full(folder: &Path) -> String {
    let left = left(folder).map_or_else(String::new, |left| format!(", where {} KB are left", left >> 10));
    format!(
        "the hub's disk is full, so that it stores nothing: on the hub's machine, make room for {} MB in {}{left}",
        LEAST >> 20,
        folder.display()
    )
}

#[cfg(unix)]
fn left(folder: &Path) -> Option<u64> {
    // The folder of a new hub is not there yet.
    let disk = folder.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok())?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn left(_: &Path) -> Option<u64> {
    None
}

impl Hub {
    /// Checks that there is room for a change. Logs when there is none any more, and when there is again.
    pub(super) fn check_room(&self) -> Result<(), HubError> {
        let found = check(&self.folder);
        let was_short = self.is_short.swap(found.is_err(), Ordering::AcqRel);
        match &found {
            Err(text) if !was_short => self.log.warning(format!("{text}. Members, links and programs go on")),
            Ok(()) if was_short => self.log.info(ROOM_AGAIN),
            _ => {}
        }
        found.map_err(HubError::Full)
    }

    /// Opens this hub's part in the group again, after its store has failed because the disk was full. Waits for room. Until then, the hub
    /// answers what it lacks.
    pub(super) fn wait_for_room(&self) {
        let text = full(&self.folder);
        self.log.warning(format!("{text}. The hub goes on when there is room"));
        *lock(&self.lacking) = Some(text);
        let store = lock(&self.store).clone();
        store.iter().for_each(|store| self.stop_leading(store));
        drop(store);
        let group = self.group();
        group.close();
        thread::sleep(AGAIN); // answers that say what is lacking leave before their links end
        lock(&self.linked).values().for_each(|linked| linked.close());
        while !self.is_closed() {
            let own = Arc::new(self.member.newest());
            let opened = check(&self.folder).map(|()| group.again(&self.folder, &own));
            match opened {
                Ok(Ok(again)) => {
                    *lock(&self.group) = Arc::new(again);
                    *lock(&self.lacking) = None;
                    self.log.info(ROOM_AGAIN);
                    break;
                }
                Ok(Err(error)) => {
                    let what = "the hub's store does not open again yet";
                    self.log.limited(Severity::Warning, what, format!("{what}: {error}"));
                }
                Err(_) => {}
            }
            thread::sleep(AGAIN);
        }
    }
}
