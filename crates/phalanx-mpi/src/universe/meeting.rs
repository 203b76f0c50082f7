//! Connections with processes of other worlds on executors, made while the program runs: each listens for the other with a
//! certificate made for that, the launcher tells both of each other, and one calls. A thread does it, so that no call of the
//! program waits.

use crate::process::transport::{Link, Listening};
use crate::process::world::World;
use crate::universe::launcher::Universe;
use phalanx_core::wire::ranks::{Entry, FromRank, Listens};
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Those under way, by the other process.
#[derive(Default)]
pub struct Meetings {
    listening: Mutex<HashMap<u32, Listening>>,
    made: Mutex<Vec<Made>>,
    /// There are some.
    any_made: AtomicBool,
}

/// A connection, or why there is none.
type Made = (u32, Result<Link, String>);

impl Meetings {
    /// The process will not be met.
    pub(crate) fn forget(&self, process: u32) {
        lock(&self.listening).remove(&process);
    }
}

impl Universe {
    /// A process is to be met: says where it reaches this one.
    pub(crate) fn listen(&self, world: &World, process: u32) {
        let open = || -> io::Result<(Listening, Listens)> {
            let listening = Listening::open(world.address)?;
            let listens = listening.listens()?;
            Ok((listening, listens))
        };
        match open() {
            Ok((listening, listens)) => {
                lock(&self.meetings().listening).insert(process, listening);
                let told = world.control.as_ref().map(|control| control.tell(&FromRank::Listens { process, listens }));
                drop(told); // a launcher that is gone is noticed elsewhere
            }
            Err(error) => self.meet_by(world, process, Err(error.to_string())),
        }
    }

    /// Both listen: connects, in a thread.
    pub(crate) fn connect(&self, world: &World, process: u32, entries: Vec<Entry>) {
        let Some(listening) = lock(&self.meetings().listening).remove(&process) else { return };
        if entries.len() != 2 {
            return self.meet_by(world, process, Err("the launcher did not say where it is".to_owned()));
        }
        let me = usize::from(world.rank as u32 > process);
        let work = move || {
            let Ok(world) = crate::process::world::world() else { return };
            // The other process connects when it is next in a call of the library, however late that is.
            let is_lost = || if world.universe.awaits_process(process) { Vec::new() } else { vec![1 - me] };
            let made = listening.connect_pair(me, &entries, &mut || Ok(is_lost()));
            let meetings = world.universe.meetings();
            lock(&meetings.made).push((process, made));
            meetings.any_made.store(true, Ordering::Release);
            world.wake();
        };
        if let Err(error) = std::thread::Builder::new().name("phalanx-meeting".into()).spawn(work) {
            self.meet_by(world, process, Err(error.to_string()));
        }
    }

    /// Takes over the connections that have been made.
    pub(crate) fn take_made(&self, world: &World) {
        let meetings = self.meetings();
        if !meetings.any_made.swap(false, Ordering::Acquire) {
            return;
        }
        for (process, made) in std::mem::take(&mut *lock(&meetings.made)) {
            if self.awaits_process(process) {
                self.meet_by(world, process, made);
            }
        }
    }
}
