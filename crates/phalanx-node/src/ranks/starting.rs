//! How a program is brought to its machines.

use super::happening::Happening;
use super::hosts::{Host, levels};
use super::input;
use super::job::{Block, Hosts, Job, LaunchError, Staged};
use super::machine::{Machine, Streams};
use super::output::Output;
use super::placement::{fill, parts};
use super::serve::write_all;
use super::site::Site;
use super::streams;
use phalanx_core::launch::Options;
use phalanx_core::level::{Level, Levels};
use phalanx_core::wire::machines::Part;
use phalanx_core::wire::ranks::MOST_RANKS;
use phalanx_net::identity::random_token;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::thread;

/// What a start needs.
pub struct Starting {
    pub job: Job,
    pub output: Output,
    pub happenings: Sender<Happening>,
    /// Stops the reading of standard input when its other end is closed.
    pub stopped: OwnedFd,
}

type Started = (Options, Vec<Site>);

impl Starting {
    /// Starts all ranks: what the engine is to know of them, and their machines.
    pub fn run(mut self) -> Result<Started, LaunchError> {
        match self.job.hosts.take() {
            None => self.here(),
            Some(hosts) => self.there(&hosts),
        }
    }

    fn here(mut self) -> Result<Started, LaunchError> {
        let cores = thread::available_parallelism().map_or(1, usize::from) as u64;
        let count = resolve(&mut self.job.programs, cores)?;
        self.output.begin(count)?;
        let part = self.parts(&[count]).swap_remove(0);
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let levels = vec![vec![Levels::all(Level::Clear)]];
        let options = self.options(vec![name], &[count], levels);
        let events = self.happenings.clone();
        let (machine, streams) = Machine::start(part, None, move |event| drop(events.send(Happening::Event(event))))?;
        self.attach(streams)?;
        Ok((options, vec![Site::Here(machine)]))
    }

    /// Standard input goes to rank 0, all output to the user.
    fn attach(self, streams: Streams) -> io::Result<()> {
        if let Some(to) = streams.input {
            input::pump(self.stopped, move |bytes| write_all(&to, bytes))?;
        }
        let Starting { output, happenings, .. } = self;
        let read = move || {
            if let Err(error) = streams::pump(streams.outputs, output) {
                let _ = happenings.send(Happening::OutputFailed(error));
            }
            let _ = happenings.send(Happening::Drained);
        };
        thread::Builder::new().name("phalanx-output".into()).spawn(read).map(drop)
    }

    fn there(mut self, hosts: &Hosts) -> Result<Started, LaunchError> {
        let mut reached = self.reach(hosts)?;
        let free = |host: &Host| (host.name.clone(), hosts.most.unwrap_or(u32::MAX).min(host.free));
        let offers: Vec<_> = reached.iter().map(free).collect();
        let offered = offers.iter().map(|(_, free)| u64::from(*free)).sum();
        let asked = resolve(&mut self.job.programs, offered);
        let mut counts = fill(Some(asked?.into()), &offers).map_err(LaunchError::Hosts)?;
        let mut has_ranks = counts.iter().map(|count| *count > 0).collect::<Vec<_>>().into_iter();
        reached.retain(|_| has_ranks.next().unwrap_or_default()); // the others are let go
        counts.retain(|count| *count > 0);
        self.output.begin(counts.iter().sum())?;
        let ips: Vec<IpAddr> = reached.iter().map(|host| host.ip).collect();
        check_reach(&ips)?;
        let parts = self.parts(&counts);
        let offered = at_once(&reached, |number, host| host.begin(parts[number].clone(), number, &ips))?;
        let levels = levels(&hosts.policy, &ips, &offered).map_err(LaunchError::Hosts)?;
        let files: &[Staged] = &self.job.files;
        at_once(&reached, |_, host| host.start(files))?;
        let names = reached.iter().map(|host| host.name.clone()).collect();
        let options = self.options(names, &counts, levels);
        input::pump(self.stopped, reached[0].input())?;
        Ok((options, reached.into_iter().map(Site::There).collect()))
    }

    fn reach(&self, hosts: &Hosts) -> Result<Vec<Host>, LaunchError> {
        at_once(&hosts.addresses, |_, address| {
            Host::reach(address, &hosts.member, self.output.clone(), self.happenings.clone())
        })
    }

    fn parts(&self, counts: &[u32]) -> Vec<Part> {
        let mut secret = [0; 32];
        secret.chunks_exact_mut(16).for_each(|half| half.copy_from_slice(&random_token()));
        parts(counts, &self.job.programs, &self.job.environment, secret)
    }

    fn options(&self, machines: Vec<String>, counts: &[u32], levels: Vec<Vec<Levels>>) -> Options {
        let of_one = |(machine, count): (usize, &u32)| std::iter::repeat_n(machine, *count as usize);
        let machine_of = counts.iter().enumerate().flat_map(of_one).collect();
        Options { machines, machine_of, levels, keep_going: self.job.keep_going }
    }
}

/// How many ranks there are, where the block without a number gets what is left of `all` places by the others.
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

/// Where one machine is reached by an address that means another machine elsewhere, ranks would not find each other.
fn check_reach(ips: &[IpAddr]) -> Result<(), LaunchError> {
    let local = ips.iter().filter(|ip| ip.is_loopback()).count();
    match local == 0 || local == ips.len() {
        true => Ok(()),
        false => Err(LaunchError::Hosts(
            "one of the machines is this one, by an address that others cannot reach: name it by one they can"
                .to_owned(),
        )),
    }
}

/// Does the same with all machines at once; all that went wrong is told.
fn at_once<H: Sync, T: Send>(
    hosts: &[H],
    work: impl Fn(usize, &H) -> Result<T, String> + Sync,
) -> Result<Vec<T>, LaunchError> {
    let work = &work;
    let outcomes: Vec<Result<T, String>> = thread::scope(|scope| {
        let each = hosts.iter().enumerate().map(|(number, host)| scope.spawn(move || work(number, host)));
        let working: Vec<_> = each.collect();
        working.into_iter().map(|thread| thread.join().expect("talking to a host does not panic")).collect()
    });
    let (done, failed): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    match failed.is_empty() {
        true => Ok(done.into_iter().flatten().collect()),
        false => {
            let reasons: Vec<String> = failed.into_iter().filter_map(Result::err).collect();
            Err(LaunchError::Hosts(reasons.join("; ")))
        }
    }
}
