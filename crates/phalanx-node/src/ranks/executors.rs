//! Starts further processes of a program that runs on executors. They go to any executor that the user named, by its free
//! places.

use super::at_once::at_once;
use super::claim::claim;
use super::happening::Teller;
use super::hosts::{Host, levels};
use super::job::{Hosts, Job, Staged};
use super::output::Output;
use super::placement::{Choice, Miss, Offer, cut, fill_named, is_at, secret};
use phalanx_core::launch::{MOST_SPAWNED, Place};
use phalanx_core::level::{LevelSet, Levels};
use phalanx_core::wire::machines::{Part, Program};
use phalanx_core::wire::ranks::UNIVERSE;
use phalanx_core::wire::universe::Wanted;
use phalanx_net::address::Address;
use phalanx_net::dial::RELAYED;
use phalanx_net::sync::lock;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// An executor's offer, its number, and the link with it.
type Reached = (Offer, (usize, Host));

/// The executors available to a program, in the order of their numbers. Those that it begins with come first.
pub struct Executors {
    hosts: Hosts,
    addresses: Vec<Address>,
    pub ips: Vec<IpAddr>,
    /// Number of executors that the program begins with. These have its files.
    first: usize,
    files: Vec<Staged>,
    patience: Option<Duration>,
    /// For each executor, the levels it accepts for links with each of the others, once it was asked.
    offered: Mutex<Vec<Option<Vec<[LevelSet; 3]>>>>,
    /// Held while a world is started, because two at once would write their files into the same folder.
    turn: Mutex<()>,
    /// Held while places are claimed, because two searches at once would find the same places.
    claiming: Mutex<()>,
    /// The most processes there can be, as far as was known at the start (`MPI_UNIVERSE_SIZE`).
    universe: u64,
    /// The program is being ended, so no more places are claimed.
    ends: AtomicBool,
}

/// Places that are reserved for a world.
pub struct Kept {
    pub hosts: Vec<Arc<Host>>,
    pub places: Vec<Place>,
    pub levels: Vec<Vec<Levels>>,
}

impl Executors {
    /// The executors that a program begins with, with the number of processes of each, and others that were reached.
    pub fn new(hosts: &Hosts, job: &Job, (first, counts): (&[Host], &[u32]), others: &[Host]) -> Executors {
        let is_reached = |other: &&Host| first.iter().all(|host| is_reachable(host.ip, other.ip));
        let others: Vec<&Host> = others.iter().filter(is_reached).collect();
        let had = counts.iter().copied().chain(std::iter::repeat(0));
        let each = first.iter().chain(others.iter().copied()).zip(had).map(|(host, had)| (host.room.free, had));
        let universe = universe(hosts.most, each);
        let (addresses, ips): (Vec<_>, Vec<_>) =
            first.iter().chain(others.iter().copied()).map(|host| (host.address.clone(), host.ip)).unzip();
        let (offered, files, hosts) = (Mutex::new(vec![None; ips.len()]), job.files.clone(), hosts.clone());
        let (turn, claiming) = (Mutex::new(()), Mutex::new(()));
        Executors {
            hosts,
            addresses,
            ips,
            first: first.len(),
            files,
            patience: job.patience,
            offered,
            turn,
            claiming,
            universe,
            ends: AtomicBool::new(false),
        }
    }

    /// The environment variable that tells processes how many of them there can be.
    pub fn variable(&self) -> (Vec<u8>, Vec<u8>) {
        (UNIVERSE.into(), self.universe.to_string().into_bytes())
    }

    /// Records the levels that these executors accept. Returns the levels of all links that result.
    pub fn note(
        &self,
        offers: impl IntoIterator<Item = (usize, Vec<[LevelSet; 3]>)>,
    ) -> Result<Vec<Vec<Levels>>, String> {
        let mut kept = lock(&self.offered);
        let mut offered = kept.clone();
        offers.into_iter().for_each(|(number, offer)| offered[number] = Some(offer));
        let levels = levels(&self.hosts.policy, &self.ips, &offered)?;
        // on an error nothing is recorded, because others may do without the executor that does not fit
        *kept = offered;
        Ok(levels)
    }

    /// Takes the turn to start a world.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    /// Reserves places for a world of these ranks.
    pub fn keep(
        &self,
        ranks: &Range<u32>,
        programs: Vec<Wanted>,
        environment: &[(Vec<u8>, Vec<u8>)],
        token: [u8; 16],
        (output, happenings): (&Output, &Teller),
    ) -> Result<Kept, String> {
        let wanted: Vec<(u32, Option<String>)> = programs.iter().map(|it| (it.processes, it.host.clone())).collect();
        let programs = programs_of(programs, &[environment, &[self.variable()]].concat());
        claim(
            &self.claiming,
            || self.look(output, happenings),
            |offers| self.choose(&wanted, offers),
            |hosts| self.take(hosts, ranks, programs.clone(), token),
            || self.ends.load(Ordering::Relaxed),
        )
    }

    /// Sets whether the program is being ended, so that no more places are wanted.
    pub fn end(&self, ends: bool) {
        self.ends.store(ends, Ordering::Relaxed);
    }

    /// Reaches all executors. Returns those that answer, with their numbers.
    fn look(&self, output: &Output, happenings: &Teller) -> Result<Vec<Reached>, Miss> {
        let most = self.hosts.most.unwrap_or(u32::MAX);
        let reach = |number: usize, address: &Address| {
            let host = Host::reach(address, &self.hosts, output.clone(), happenings.clone());
            let offer = |host: Host| {
                let (name, address, free) = (host.name.clone(), Some(host.address.clone()), most.min(host.room.free));
                (Offer { name, address, free, ..Offer::default() }, (number, host))
            };
            Ok(host.ok().map(offer))
        };
        let reached = at_once(&self.addresses, reach).map_err(|error| Miss::Full(error.to_string()))?;
        Ok(reached.into_iter().flatten().collect())
    }

    /// Decides which executors get how many processes.
    fn choose(&self, wanted: &[(u32, Option<String>)], offers: &[Offer]) -> Result<Choice, Miss> {
        let is_here = |name: &&String| offers.iter().any(|offer| offer.is_called(name));
        let Some(absent) = wanted.iter().filter_map(|(_, name)| name.as_ref()).find(|name| !is_here(name)) else {
            return fill_named(wanted, offers);
        };
        if self.addresses.iter().any(|address| is_at(address, absent)) {
            return Err(Miss::Full(format!("{absent} does not answer")));
        }
        let known: Vec<String> = self.addresses.iter().map(Address::to_string).collect();
        Err(Miss::Never(format!("no executor of this program is called {absent}: there are {}", known.join(", "))))
    }

    /// Asks each executor for its number of places.
    fn take(
        &self,
        hosts: Vec<((usize, Host), u32)>,
        ranks: &Range<u32>,
        mut left: Vec<(u32, Program)>,
        token: [u8; 16],
    ) -> Result<Kept, Miss> {
        let (secret, mut first) = (secret(), ranks.start);
        let mut begun = Vec::new();
        for ((number, host), count) in hosts {
            let programs = cut(&mut left, count);
            let (base, size, patience) = (ranks.start, ranks.len() as u32, self.patience);
            begun.push((number, host, Part { base, size, first, secret, programs, patience }));
            first += count;
        }
        let asked = at_once(&begun, |_, (number, host, part)| host.begin(part.clone(), *number, &self.ips, token));
        let asked = asked.map_err(|error| Miss::TooLate(error.to_string()))?;
        let numbers = begun.iter().map(|(number, ..)| *number);
        let levels = self.note(numbers.zip(asked)).map_err(Miss::Never)?;
        let place = |(number, host, part): &(usize, Host, Part)| Place {
            name: host.name.clone(),
            host: *number,
            processes: part.count(),
        };
        let places = begun.iter().map(place).collect();
        Ok(Kept { hosts: begun.into_iter().map(|(_, host, _)| Arc::new(host)).collect(), places, levels })
    }

    /// Starts the processes for which places are reserved. Executors that do not have the program's files yet get them.
    pub fn start(&self, hosts: &[(usize, Arc<Host>)]) -> Vec<Result<(), String>> {
        let start = |number: &usize, host: &Host| {
            let files: &[Staged] = if *number < self.first { &[] } else { &self.files };
            Ok(host.start(files))
        };
        at_once(hosts, |_, (number, host)| start(number, host)).unwrap_or_default()
    }
}

fn programs_of(programs: Vec<Wanted>, environment: &[(Vec<u8>, Vec<u8>)]) -> Vec<(u32, Program)> {
    let program = |(app, wanted): (u32, Wanted)| {
        let Wanted { processes, command, folder, .. } = wanted;
        let folder = Some(folder).filter(|folder| !folder.is_empty());
        (processes, Program { app, command, environment: environment.to_vec(), folder })
    };
    (0..).zip(programs).map(program).collect()
}

/// Whether ranks on these machines can reach each other by these addresses.
fn is_reachable(from: IpAddr, other: IpAddr) -> bool {
    from.is_loopback() == other.is_loopback() && from != RELAYED && other != RELAYED
}

/// The most processes there can be: those that the program begins with, and as many more as one call can spawn. For each
/// executor, the iterator gives its free places and how many processes begin there. `most` limits the processes of one world on
/// each executor.
fn universe(most: Option<u32>, executors: impl Iterator<Item = (u32, u32)>) -> u64 {
    let most = most.unwrap_or(u32::MAX);
    let (own, more) = executors.fold((0, 0), |(own, more), (free, had)| {
        (own + u64::from(had), more + u64::from(most.min(free.saturating_sub(had))))
    });
    own + more.min(MOST_SPAWNED.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_universe_has_a_programs_own_places_and_those_that_are_free_beside() {
        let executors = [(4, 3), (2, 0), (0, 0)];
        assert_eq!(universe(None, executors.into_iter()), 6);
        assert_eq!(universe(Some(1), [(4, 1), (2, 1)].into_iter()), 4, "--per-host counts for each world");
        assert_eq!(universe(None, [(1000, 2)].into_iter()), 2 + u64::from(MOST_SPAWNED));
        assert_eq!(universe(None, [(0, 2)].into_iter()), 2, "an executor that had less when it was asked again");
    }
}
