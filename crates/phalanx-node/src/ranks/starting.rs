//! Starts a program on its machines.

use super::at_once::at_once;
use super::executors::Executors;
use super::happening::{Happening, Parcel, Teller};
use super::hosts::{Host, Room, Unreached};
use super::input;
use super::job::{Block, Hosts, Job, LaunchError, Staged};
use super::machine::{Machine, Streams};
use super::output::Output;
use super::placement::{Choice, Offer, enough, fill, parts, secret};
use super::saving::{self, Saving};
use super::serve::write_all;
use super::site::Site;
use super::store::Store;
use super::streams::{self, Stream};
use crate::credit::Credit;
use crate::scratch::Folder;
use bytes::Bytes;
use phalanx_core::launch::Options;
use phalanx_core::level::{Level, Levels};
use phalanx_core::text::escaped;
use phalanx_core::wire::machines::{FromMachine, Part, WINDOW};
use phalanx_core::wire::ranks::{CHECKPOINTS, MOST_RANKS};
use phalanx_net::address::Address;
use phalanx_net::dial::RELAYED;
use phalanx_net::identity::random_token;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Why a program cannot start further processes.
const APART: &str = "processes are spawned by programs whose ranks share memory or are on executors: start it without \
                     --transport sockets";
/// Why no process can move to another machine.
const ALL_HERE: &str = "all of the program is on this machine";
const NO_CHECKPOINTS: &str = "it makes no checkpoints";
const RESTARTED: &str = "a program that is started again from its checkpoints starts no further processes";

/// How long a launcher waits for places of other users: until an executor takes them, which is after ten seconds, and some.
const ROOM_PATIENCE: Duration = Duration::from_secs(15);
const ROOM_PAUSE: Duration = Duration::from_millis(100);
/// How long a program that survives losses waits for places: the time in which people come back from a meal, or a machine is
/// restarted.
const PLACES_PATIENCE: Duration = Duration::from_secs(600);
const PLACES_PAUSE: Duration = Duration::from_secs(1);
/// Least time between two lines that tell the user who holds places.
const BETWEEN_LINES: Duration = Duration::from_secs(1);

/// What a start needs.
pub struct Starting {
    pub job: Job,
    pub output: Output,
    pub happenings: Teller,
    /// The reading of standard input stops when the other end of this is closed. `None`: an earlier start has begun to read it.
    pub stopped: Option<OwnedFd>,
    /// The number of ranks, if there was an earlier start.
    pub size: Option<u32>,
    /// The executors of the start before, in the order of their ranks, with the number of ranks of each.
    pub placed: Vec<(Address, u32)>,
    /// Executors that the program has left. It returns to one only if there are no other places.
    pub left: Vec<Address>,
    /// The program goes back to where it was a moment ago, so the places there may only be becoming free.
    pub returns: bool,
    /// Executors that were lost. They are tried again if there are too few places without them.
    pub lost: Vec<Address>,
    /// Executors that cannot be reached are not told to the user, who knows.
    pub is_quiet: bool,
    pub program: Arc<Known>,
}

/// What all starts of a program share.
pub struct Known {
    /// The token by which machines know the program.
    pub token: [u8; 16],
    /// The folder for checkpoints on this machine.
    pub folder: Option<Arc<Folder>>,
    /// The checkpoints of a program that survives losses.
    pub store: Option<Arc<Store>>,
    /// The program has ended, and must not be restarted.
    is_over: AtomicBool,
    /// The patience of the [`Job`].
    pub patience: Option<Duration>,
    /// Set once the program has been started.
    pub executors: OnceLock<Executors>,
}

pub type Started = (Options, Vec<Site>);

/// The machines that get ranks, in order; how many each gets; and the machines that get none.
type Placed = (Vec<Host>, Vec<u32>, Vec<Host>);

impl Known {
    /// For a program that has not been started yet.
    pub fn new(job: &Job) -> Result<Known, LaunchError> {
        let here = job.hosts.is_none() && (job.checkpoints.is_some() || job.survive.is_some());
        let folder = here.then(Folder::new).transpose()?.map(Arc::new);
        let store = job.survive.as_ref().map(|it| Store::open(it.folder.as_deref())).transpose()?.map(Arc::new);
        let (token, patience, executors, is_over) =
            (random_token(), job.patience, OnceLock::new(), AtomicBool::new(false));
        Ok(Known { token, folder, store, is_over, patience, executors })
    }

    /// The program has ended with this code. Returns what the user should know of its checkpoints.
    pub fn end(&self, code: i32) -> Option<String> {
        self.is_over.store(true, Ordering::Relaxed);
        self.store.as_ref().and_then(|store| store.end(code))
    }
}

impl Starting {
    /// The description of another start of the same program.
    pub fn again(&self) -> Starting {
        let Starting { job, output, happenings, size, placed, left, lost, is_quiet, program, .. } = self;
        let (job, output, happenings) = (job.clone(), output.clone(), happenings.clone());
        let (placed, left, lost, program) = (placed.clone(), left.clone(), lost.clone(), program.clone());
        let (stopped, size, returns, is_quiet) = (None, *size, false, *is_quiet);
        Starting { job, output, happenings, stopped, size, placed, left, returns, lost, is_quiet, program }
    }

    /// The same, on the machines of the start before.
    pub fn there_again(&self) -> Starting {
        let mut starting = self.again();
        starting.left.clear();
        starting.returns = true;
        let was = &self.placed;
        starting
            .job
            .hosts
            .iter_mut()
            .for_each(|hosts| hosts.addresses = was.iter().map(|(it, _)| it.clone()).collect());
        starting
    }

    /// Excludes a machine that is lost.
    pub fn leave_out(&mut self, site: &Site) {
        if let (Some(hosts), Site::There(host)) = (&mut self.job.hosts, site) {
            hosts.addresses.retain(|address| *address != host.address);
            self.lost.push(host.address.clone());
        }
    }

    /// Makes the program leave that machine.
    pub fn leave(&mut self, site: &Site) {
        self.left.extend(site.address().cloned());
    }

    /// Checks whether machines that the program neither has left nor is leaving have this many places. The error says why not.
    pub fn find_places(&self, leaving: Option<&Address>, places: u32) -> Result<(), String> {
        let Some(hosts) = &self.job.hosts else { return Err(ALL_HERE.to_owned()) };
        let others = hosts.addresses.iter().filter(|it| Some(*it) != leaving && !self.left.contains(it));
        let others: Vec<Address> = others.cloned().collect();
        let reach = |_: usize, address: &Address| {
            let reached = Host::reach(address, hosts, self.output.clone(), self.happenings.clone());
            Ok(reached.ok().map(|host| (host.name.clone(), self.room(hosts, &host))))
        };
        let offers = at_once(&others, reach).map_err(|error| error.to_string())?;
        enough(places, &offers.into_iter().flatten().collect::<Vec<_>>())
    }

    /// How many more ranks an executor takes.
    fn room(&self, hosts: &Hosts, host: &Host) -> u32 {
        hosts.most.unwrap_or(u32::MAX).saturating_sub(self.had(&host.address)).min(host.room.free)
    }

    /// How many ranks an executor had in the start before.
    fn had(&self, address: &Address) -> u32 {
        self.placed.iter().find(|(it, _)| it == address).map_or(0, |(_, count)| *count)
    }

    /// Restarts a program. One that survives losses waits for places. Then machines count too that it has lost.
    pub fn run_again(&mut self) -> Result<Started, LaunchError> {
        let began = Instant::now();
        loop {
            let why = match self.again().run() {
                Err(LaunchError::Hosts(why)) if self.program.store.is_some() => why,
                outcome => return outcome,
            };
            if self.program.is_over.load(Ordering::Relaxed) || began.elapsed() >= PLACES_PATIENCE {
                return Err(LaunchError::Hosts(format!("{why}, for {} s", began.elapsed().as_secs())));
            }
            if !std::mem::replace(&mut self.is_quiet, true) {
                let most = PLACES_PATIENCE.as_secs() / 60;
                self.output.say(&format!("{why}; the program waits for places, for {most} minutes at most"));
            }
            thread::sleep(PLACES_PAUSE);
            self.widen();
        }
    }

    /// From now on, executors count too that were lost, or that have come since the program began.
    fn widen(&mut self) {
        let Some(hosts) = &mut self.job.hosts else { return };
        let mut more = std::mem::take(&mut self.lost);
        if let Some((found, dialler)) = hosts.newcomers.as_ref().and_then(|newcomers| newcomers.0()) {
            more.extend(found);
            hosts.dialler = dialler;
        }
        more.retain(|address| !hosts.addresses.contains(address));
        more.dedup();
        hosts.addresses.extend(more);
    }

    /// Starts all ranks. Returns what the engine needs to know of them, and their machines.
    pub fn run(mut self) -> Result<Started, LaunchError> {
        match self.job.hosts.take() {
            None => self.here(),
            Some(hosts) => self.there(&hosts),
        }
    }

    fn here(mut self) -> Result<Started, LaunchError> {
        let cores = thread::available_parallelism().map_or(1, usize::from) as u64;
        let count = resolve(&mut self.job.programs, self.size.map_or(cores, u64::from))?;
        self.begin_output(count)?;
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let counts = if self.job.apart.is_some() { vec![1; count as usize] } else { vec![count] };
        let level = Levels::all(self.job.apart.unwrap_or(Level::Clear));
        let (names, levels) = (vec![name; counts.len()], vec![vec![level; counts.len()]; counts.len()]);
        let options = self.options(names, &counts, levels, false);
        let address = self.job.apart.map(|_| IpAddr::from(Ipv4Addr::LOCALHOST));
        let mut sites = Vec::with_capacity(counts.len());
        self.claim_store(count)?;
        for (machine, mut part) in self.parts(&counts).into_iter().enumerate() {
            self.give_folder(machine, &mut part)?;
            let ranks = part.first..part.first + part.count();
            self.give_saved(&mut part, ranks.clone())?;
            let events = self.happenings.clone();
            let on_event = move |event| {
                events.send(Happening::Event(event));
            };
            let (machine, streams) = Machine::start(part, None, None, address, on_event)?;
            self.attach(streams)?;
            let saving = self.save_here(sites.len(), ranks)?;
            sites.push(Site::Here(machine, saving));
        }
        Ok((options, sites))
    }

    /// Sets the folder for the checkpoints of this machine's ranks.
    fn give_folder(&self, machine: usize, part: &mut Part) -> io::Result<()> {
        let Some(folder) = &self.program.folder else { return Ok(()) };
        let variable = (CHECKPOINTS.into(), folder.checkpoints(machine)?.into_os_string().into_vec());
        part.programs.iter_mut().for_each(|(_, program)| program.environment.push(variable.clone()));
        Ok(())
    }

    /// Notes whose checkpoints are in the folder that the user has named, or checks it.
    fn claim_store(&self, count: u32) -> Result<(), LaunchError> {
        let text = |block: &Block| {
            let words: Vec<_> = block.command.iter().map(|word| String::from_utf8_lossy(word)).collect();
            words.join(" ")
        };
        let commands: Vec<String> = self.job.programs.iter().map(text).collect();
        let told = format!("{count} processes of {}", commands.join(" : "));
        self.program.store.as_ref().map_or(Ok(()), |store| store.claim(&escaped(&told)))
    }

    /// Gives this machine's ranks the folders for their files, with those of the newest checkpoint.
    fn give_saved(&self, part: &mut Part, ranks: Range<u32>) -> io::Result<()> {
        let (Some(folder), Some(store)) = (&self.program.folder, &self.program.store) else { return Ok(()) };
        folder.begin_saving(ranks.clone())?;
        for Staged { name, path } in store.files(ranks)? {
            let to = folder.path().join(name);
            to.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::copy(path, to)?;
        }
        saving::tell_ranks(part, folder, self.happenings.start, store.newest());
        Ok(())
    }

    /// Starts the thread that looks after what this machine's ranks save.
    fn save_here(&self, machine: usize, ranks: Range<u32>) -> io::Result<Option<Saving>> {
        let (Some(folder), Some(parcels)) = (&self.program.folder, &self.happenings.parcels) else { return Ok(None) };
        let (happenings, parcels, credit) = (self.happenings.clone(), parcels.clone(), Arc::new(Credit::new(WINDOW)));
        let (its, taken) = (ranks.clone(), credit.clone());
        let carry = move |message, bytes: &[u8]| {
            if let FromMachine::Completed { rank, step } = message {
                return happenings.send(Happening::Completed { rank, step });
            }
            let given = taken.clone();
            let receipt = Arc::new(move |bytes| given.give(bytes));
            let (happenings, ranks, body) = (happenings.clone(), its.clone(), Bytes::copy_from_slice(bytes));
            let parcel = Parcel { happenings, machine, ranks, message, bytes: body, receipt };
            taken.take(bytes.len()) && parcels.send(parcel).is_ok()
        };
        Saving::start(folder.clone(), ranks, credit, Box::new(carry)).map(Some)
    }

    /// Connects standard input to rank 0, and all output to the user.
    fn attach(&mut self, streams: Streams) -> io::Result<()> {
        if let (Some(to), Some(stopped)) = (streams.input, self.stopped.take()) {
            input::pump(stopped, move |bytes| write_all(&to, bytes))?;
        }
        show(streams.outputs, self.output.clone(), self.happenings.clone())
    }

    fn there(mut self, hosts: &Hosts) -> Result<Started, LaunchError> {
        let (reached, counts, others) = self.place(hosts)?;
        self.begin_output(counts.iter().sum())?;
        check_reach(&reached.iter().map(|host| (host.name.as_str(), host.ip)).collect::<Vec<_>>())?;
        let executors = Executors::new(hosts, &self.job, (&reached, &counts), &others);
        self.job.environment.push(executors.variable());
        let parts = self.parts(&counts);
        let begin =
            |number: usize, host: &Host| host.begin(parts[number].clone(), number, &executors.ips, self.program.token);
        self.claim_store(counts.iter().sum())?;
        let offered = at_once(&reached, begin)?;
        let levels = executors.note(offered.into_iter().enumerate()).map_err(LaunchError::Hosts)?;
        at_once(&reached, |number, host| {
            let part = &parts[number];
            let saved =
                self.tell_saved(host, part.first..part.first + part.count()).map_err(|error| error.to_string())?;
            host.start(&[&self.job.files[..], &saved].concat())
        })?;
        let names = reached.iter().map(|host| host.name.clone()).collect();
        let options = self.options(names, &counts, levels, true);
        self.stopped.map_or(Ok(()), |stopped| input::pump(stopped, reached[0].input()))?;
        let _ = self.program.executors.set(executors); // not set again by a restarted program, which spawns nothing
        Ok((options, reached.into_iter().map(|host| Site::There(Arc::new(host))).collect()))
    }

    /// Tells a machine from where its ranks go on. Returns the files that they go on from.
    fn tell_saved(&self, host: &Host, ranks: Range<u32>) -> io::Result<Vec<Staged>> {
        let Some(store) = &self.program.store else { return Ok(Vec::new()) };
        host.survive(self.happenings.start, store.newest());
        store.files(ranks)
    }

    /// Chooses the machines that get ranks.
    fn place(&mut self, hosts: &Hosts) -> Result<Placed, LaunchError> {
        let mut reached = self.reach(hosts)?;
        reached.sort_by_key(|host| host.ip == RELAYED); // ranks there reach no other machine
        if reached.is_empty() {
            return Err(LaunchError::Hosts("no executor is left".to_owned()));
        }
        let offered = self.offers(hosts, &reached, |room| room.free).iter().map(|offer| u64::from(offer.free)).sum();
        let asked = resolve(&mut self.job.programs, self.size.map_or(offered, u64::from))?;
        let counts = self.find_room(hosts, &mut reached, asked).map_err(LaunchError::Hosts)?;
        let mut reached: Vec<Option<Host>> = reached.into_iter().map(Some).collect();
        let host = |(index, count): (usize, u32)| Some((reached[index].take()?, count));
        let (placed, counts) = counts.into_iter().filter_map(host).unzip();
        Ok((placed, counts, reached.into_iter().flatten().collect()))
    }

    /// Chooses how many ranks each executor gets. If too few places are free, and other users have more than their shares, waits
    /// until those give places back. The error says why there is no room.
    fn find_room(&self, hosts: &Hosts, reached: &mut [Host], asked: u32) -> Result<Choice, String> {
        let began = Instant::now();
        let (mut wanted, mut said) = (None, (String::new(), began));
        loop {
            let why = match fill(Some(asked.into()), &self.offers(hosts, reached, |room| room.free)) {
                Ok(choice) => return Ok(choice),
                Err(why) => why,
            };
            match (fill(Some(asked.into()), &self.offers(hosts, reached, |room| room.fair)), &wanted) {
                (Ok(choice), _) => wanted = Some(choice),
                (Err(_), None) => return Err(why),
                (Err(_), Some(_)) => {} // yet another user waits, perhaps not for long
            }
            if said.0.is_empty() || (said.0 != why && said.1.elapsed() >= BETWEEN_LINES) {
                self.output.say(&format!("{why}; waiting for other users to give places back"));
                said = (why.clone(), Instant::now());
            }
            if began.elapsed() >= ROOM_PATIENCE {
                return Err(format!("{why}; other users did not give enough back in {} s", ROOM_PATIENCE.as_secs()));
            }
            let of =
                |index| wanted.iter().flatten().find(|(machine, _)| *machine == index).map_or(0, |(_, count)| *count);
            let rooms = at_once(reached, |index, host| host.ask(hosts.program, of(index)));
            let rooms = rooms.map_err(|error| error.to_string())?;
            reached.iter_mut().zip(rooms).for_each(|(host, room)| host.room = room);
            thread::sleep(ROOM_PAUSE);
        }
    }

    fn offers(&self, hosts: &Hosts, reached: &[Host], places: fn(&Room) -> u32) -> Vec<Offer> {
        reached.iter().map(|host| self.offer(hosts, host, places(&host.room))).collect()
    }

    /// What an executor with so many places offers.
    fn offer(&self, hosts: &Hosts, host: &Host, places: u32) -> Offer {
        let place = self.placed.iter().position(|(address, _)| *address == host.address);
        let had = self.had(&host.address);
        let free = if self.returns { places.max(had) } else { places };
        Offer {
            name: host.name.clone(),
            free: hosts.most.unwrap_or(u32::MAX).min(free),
            usage: host.room.usage,
            closed: host.room.closed.clone(),
            had,
            place,
            is_left: self.left.contains(&host.address),
            address: Some(host.address.clone()),
        }
    }

    fn reach(&self, hosts: &Hosts) -> Result<Vec<Host>, LaunchError> {
        let reach =
            |_: usize, address: &Address| Ok(Host::reach(address, hosts, self.output.clone(), self.happenings.clone()));
        let outcomes = at_once(&hosts.addresses, reach)?.into_iter();
        let (reached, failed): (Vec<_>, Vec<_>) = outcomes.partition(Result::is_ok);
        let failed: Vec<Unreached> = failed.into_iter().filter_map(Result::err).collect();
        if self.size.is_none() && !failed.is_empty() {
            let is_stranger = failed.iter().any(|it| it.is_stranger);
            let why = failed.iter().map(Unreached::to_string).collect::<Vec<_>>().join("; ");
            return Err(if is_stranger { LaunchError::Unexpected(why) } else { LaunchError::Hosts(why) });
        }
        // Machines that cannot be reached are left out: the program goes on with the others.
        failed
            .iter()
            .filter(|_| !self.is_quiet)
            .for_each(|error| self.output.say(&format!("{error}; the program goes on without it")));
        Ok(reached.into_iter().flatten().collect())
    }

    /// Creates the files for the ranks' output, once.
    fn begin_output(&self, count: u32) -> io::Result<()> {
        if self.size.is_none() { self.output.begin(0..count) } else { Ok(()) }
    }

    fn parts(&self, counts: &[u32]) -> Vec<Part> {
        parts(counts, &self.job.programs, &self.job.environment, secret(), self.job.patience)
    }

    fn options(&self, machines: Vec<String>, counts: &[u32], levels: Vec<Vec<Levels>>, there: bool) -> Options {
        let of_one = |(machine, count): (usize, &u32)| std::iter::repeat_n(machine, *count as usize);
        let machine_of = counts.iter().enumerate().flat_map(of_one).collect();
        let restarts = self.job.checkpoints.map(|checkpoints| checkpoints.restarts);
        let restarts = restarts.or(self.job.survive.as_ref().map(|it| it.restarts)).unwrap_or(0);
        let survives = self.program.store.as_ref().map(|store| store.newest().unwrap_or(0));
        let apart = self.job.apart.map(|_| APART);
        let restarted = self.job.checkpoints.is_some() || self.job.survive.is_some();
        let fixed = apart.or(restarted.then_some(RESTARTED)).map(str::to_owned);
        let here = (!there).then_some(ALL_HERE);
        let bound = here.or(self.job.checkpoints.is_none().then_some(NO_CHECKPOINTS)).map(str::to_owned);
        let (host_of, is_remote) = ((0..machines.len()).collect(), there);
        let (keep_going, is_bsp) = (self.job.keep_going, self.job.checkpoints.is_some());
        Options {
            machines,
            machine_of,
            levels,
            host_of,
            is_remote,
            keep_going,
            restarts,
            survives,
            fixed,
            bound,
            is_bsp,
        }
    }
}

/// The executors of a start, in the order of their ranks, with the number of ranks of each.
pub fn placed(options: &Options, sites: &[Site]) -> Vec<(Address, u32)> {
    let count = |machine: usize| options.machine_of.iter().filter(|its| **its == machine).count() as u32;
    let sites = sites.iter().enumerate();
    sites.filter_map(|(machine, site)| Some((site.address()?.clone(), count(machine)))).collect()
}

/// Starts a thread that shows output until it ends.
pub fn show(outputs: Vec<Stream>, output: Output, happenings: Teller) -> io::Result<()> {
    let read = move || {
        if let Err(error) = streams::pump(outputs, output) {
            happenings.send(Happening::OutputFailed(error));
        }
        happenings.send(Happening::Drained);
    };
    thread::Builder::new().name("phalanx-output".into()).spawn(read).map(drop)
}

/// The total number of ranks. The block without a number gets the places of `all` that the others leave.
fn resolve(blocks: &mut [Block], all: u64) -> io::Result<u32> {
    let known: u64 = blocks.iter().filter_map(|block| block.processes).map(u64::from).sum();
    let rest = all.saturating_sub(known).clamp(1, u64::from(MOST_RANKS));
    let open = blocks.iter_mut().filter(|block| block.processes.is_none());
    open.for_each(|block| block.processes = Some(rest as u32));
    let count: u64 = blocks.iter().filter_map(|block| block.processes).map(u64::from).sum();
    match count {
        1.. if count <= u64::from(MOST_RANKS) => Ok(count as u32),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{count} processes are not 1 to {MOST_RANKS}"))),
    }
}

/// Rejects machines whose ranks would not find each other: one that a relay leads to, beside others, and addresses that mean another
/// machine elsewhere (such as loopback).
fn check_reach(machines: &[(&str, IpAddr)]) -> Result<(), LaunchError> {
    let relayed: Vec<&str> = machines.iter().filter(|(_, ip)| *ip == RELAYED).map(|(name, _)| *name).collect();
    if !relayed.is_empty() && machines.len() > 1 {
        let names = relayed.join(", ");
        let is = if relayed.len() == 1 { "is" } else { "are" };
        return Err(LaunchError::Hosts(format!(
            "{names} {is} reached only through the hub, and ranks on different machines connect to each other directly: ask for as many \
             processes as one machine has places, or name machines that others can connect to with --hosts"
        )));
    }
    let local = machines.iter().filter(|(_, ip)| ip.is_loopback()).count();
    match local == 0 || local == machines.len() {
        true => Ok(()),
        false => Err(LaunchError::Hosts(
            "one of the machines is this one, by an address that others cannot reach: name it by one they can"
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_behind_a_relay_are_alone_on_their_machine() {
        let (near, here) = (IpAddr::from([10, 0, 0, 2]), IpAddr::from(Ipv4Addr::LOCALHOST));
        let check = |machines: &[(&str, IpAddr)]| check_reach(machines).map_err(|error| error.to_string());
        assert_eq!(check(&[("ws7", RELAYED)]), Ok(()));
        assert_eq!(check(&[("ws7", near), ("ws8", near)]), Ok(()));
        let why = check(&[("ws6", near), ("ws7", RELAYED), ("ws8", RELAYED)]).unwrap_err();
        assert!(why.starts_with("ws7, ws8 are reached only through the hub"), "{why}");
        assert!(check(&[("ws7", near), ("ws8", here)]).unwrap_err().contains("is this one"));
    }
}
