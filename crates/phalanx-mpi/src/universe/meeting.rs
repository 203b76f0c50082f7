//! Connections with processes of other worlds, made while the program runs. On one machine the launcher hands out sockets. On
//! executors each of two processes listens for the other with a certificate made for that, the launcher tells both of each
//! other, and one calls. A thread does it, so that no call of the program waits.

use super::losing::lose;
use crate::process::transport::{Link, Listening};
use crate::process::world::{self, World};
use phalanx_core::wire::ranks::{Entry, FromRank, Listens, MOST_RANKS};
use phalanx_net::sync::lock;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A connection, or why there is none.
type Made = std::result::Result<Link, String>;

/// Those that threads have made, by the other process.
static MADE: Mutex<Vec<(u32, Made)>> = Mutex::new(Vec::new());
/// There are some.
static ANY_MADE: AtomicBool = AtomicBool::new(false);

/// The launcher has connected this process with another one.
pub(super) fn on_met(world: &World, process: u32) {
    let file = world.control.as_ref().and_then(|control| control.take_met(process));
    let Some(file) = file.filter(|_| process < MOST_RANKS) else {
        let why = "too many open files: raise the limit with ulimit -n";
        return lose(world, process, format!("{} cannot be reached: {why}", world.name_of(process)));
    };
    meet(world, process, prepare(file).map_err(|error| error.to_string()));
}

fn prepare(file: OwnedFd) -> io::Result<Link> {
    rustix::io::ioctl_fionbio(&file, true)?;
    Ok(Link::clear(file))
}

/// A process is to be met: says where it reaches this one.
pub(super) fn on_listen(world: &World, process: u32) {
    if process >= MOST_RANKS {
        return;
    }
    world.engine().know(process);
    world.encounters.expect(process);
    let open = || -> io::Result<(Listening, Listens)> {
        let listening = Listening::open(world.address)?;
        let listens = listening.listens()?;
        Ok((listening, listens))
    };
    match open() {
        Ok((listening, listens)) => {
            world.encounters.listen(process, listening);
            let told = world.control.as_ref().map(|control| control.tell(&FromRank::Listens { process, listens }));
            drop(told); // a launcher that is gone is noticed elsewhere
        }
        Err(error) => meet(world, process, Err(error.to_string())),
    }
}

/// Both listen: connects, in a thread.
pub(super) fn on_connect(world: &World, process: u32, entries: Vec<Entry>) {
    let Some(listening) = world.encounters.take_listening(process) else { return };
    if entries.len() != 2 {
        return meet(world, process, Err("the launcher did not say where it is".to_owned()));
    }
    let me = usize::from(world.rank as u32 > process);
    let work = move || {
        let Ok(world) = world::world() else { return };
        // The other process connects when it is next in a call of the library, however late that is.
        let is_lost = || if world.encounters.expects(process) { Vec::new() } else { vec![1 - me] };
        let made = listening.connect_pair(me, &entries, &mut || Ok(is_lost()));
        lock(&MADE).push((process, made));
        ANY_MADE.store(true, Ordering::Release);
        world.wake();
    };
    if let Err(error) = std::thread::Builder::new().name("phalanx-meeting".into()).spawn(work) {
        meet(world, process, Err(error.to_string()));
    }
}

/// A process has left its program before it was met. One that is connected tells that itself, after what it has sent.
pub(super) fn on_left(world: &World, process: u32) {
    if process >= MOST_RANKS {
        return;
    }
    take_made(world);
    if world.encounters.end(process) {
        let mut engine = world.engine();
        engine.know(process);
        engine.part(process);
    }
}

/// Takes over the connections that threads have made.
pub(super) fn take_made(world: &World) {
    if !ANY_MADE.swap(false, Ordering::Acquire) {
        return;
    }
    for (process, made) in std::mem::take(&mut *lock(&MADE)) {
        if world.encounters.expects(process) {
            meet(world, process, made);
        }
    }
}

/// There is a connection with a process, or why there is none.
fn meet(world: &World, process: u32, made: Made) {
    match made {
        Ok(link) => {
            world.encounters.end(process);
            world.engine().meet(process, link);
        }
        Err(error) => lose(world, process, format!("{} cannot be reached: {error}", world.name_of(process))),
    }
}
