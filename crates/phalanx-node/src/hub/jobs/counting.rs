//! Tells executors which results are stored. One thread waits for the disk, for all executors in turn.

use super::super::Hub;
use super::super::store::{Kept, Store};
use phalanx_core::jobs::Command;
use phalanx_net::sync::lock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;

/// Capacity of the queue of pending writes. If it is full, the links of executors block (backpressure).
const MOST: usize = 1024;

/// A pending write: the store, the changes in flight, and the commands that follow.
type Waiting = (Arc<Store>, Kept, Vec<Command>);

/// The thread that waits for the disk.
#[derive(Default)]
pub struct Counting(Mutex<Option<SyncSender<Waiting>>>);

impl Counting {
    /// Starts the thread.
    pub fn begin(&self, hub: Weak<Hub>) -> std::io::Result<()> {
        let (sender, waiting) = sync_channel::<Waiting>(MOST);
        *lock(&self.0) = Some(sender);
        let wait = move || {
            for (store, kept, counted) in waiting {
                let stored = kept.wait();
                let Some(hub) = hub.upgrade() else { return };
                if hub.stored(&store, stored).is_ok() {
                    hub.tell_counted(counted);
                }
            }
        };
        thread::Builder::new().name("phalanx-counting".into()).spawn(wait).map(drop)
    }

    /// Adds a write for whose end the thread waits.
    pub fn add(&self, store: Arc<Store>, kept: Kept, counted: Vec<Command>) {
        let sender = lock(&self.0).clone();
        if let Some(sender) = sender {
            let _ = sender.send((store, kept, counted)); // the thread ends with the hub only
        }
    }

    /// Ends the thread.
    pub fn end(&self) {
        lock(&self.0).take();
    }
}
