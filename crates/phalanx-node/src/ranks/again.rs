//! Restarts a program on the machines that are left.

use super::happening::Happening;
use super::job::{Hosts, LaunchError};
use super::site::Site;
use super::starting::{Started, Starting, placed};
use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};

/// What was started, and the executors that it may use from now on; or why the start failed, with the machines of the start before it.
type Outcome = Result<(Started, Option<Hosts>), (LaunchError, Vec<Site>)>;

pub struct Again {
    next: Starting,
    /// The result of the start in progress.
    outcome: Option<Receiver<Outcome>>,
    /// The thread of the last start.
    thread: Option<JoinHandle<()>>,
    /// The machines of the start before a failed one. They keep what is in their folders.
    kept: Vec<Site>,
    /// Happenings of the new start that arrive before its result is known.
    early: Vec<Happening>,
}

impl Again {
    /// `next` is what the next start needs.
    pub fn new(next: Starting) -> Again {
        Again { next, outcome: None, thread: None, kept: Vec::new(), early: Vec::new() }
    }

    /// Restarts the program without some of its machines, and moves it off machine `leave`.
    pub fn begin(&mut self, without: &[usize], leave: Option<usize>, sites: Vec<Site>) -> io::Result<()> {
        without.iter().filter_map(|machine| sites.get(*machine)).for_each(|lost| self.next.leave_out(lost));
        leave.and_then(|machine| sites.get(machine)).into_iter().for_each(|site| self.next.leave(site));
        self.start(self.next.again(), sites)
    }

    /// Restarts the program where it was, after a start elsewhere has failed.
    pub fn go_back(&mut self) -> io::Result<()> {
        let sites = std::mem::take(&mut self.kept);
        self.start(self.next.there_again(), sites)
    }

    /// Starts in a thread, because the user may cancel meanwhile. The links to the old machines are closed last, because a
    /// machine keeps a program's folder only while the program has a link to it.
    fn start(&mut self, mut starting: Starting, sites: Vec<Site>) -> io::Result<()> {
        self.next.happenings.start += 1;
        starting.happenings = self.next.happenings.clone();
        self.early.clear();
        let (give, outcome) = channel();
        self.outcome = Some(outcome);
        let work = move || {
            let happenings = starting.happenings.clone();
            let outcome = match starting.run_again() {
                Ok(started) => {
                    drop(sites);
                    Ok((started, starting.job.hosts))
                }
                Err(error) => Err((error, sites)),
            };
            let _ = give.send(outcome);
            happenings.send(Happening::Restarted);
        };
        self.thread = Some(thread::Builder::new().name("phalanx-restart".into()).spawn(work)?);
        Ok(())
    }

    /// How often the program has been started again.
    pub fn starts(&self) -> u32 {
        self.next.happenings.start
    }

    /// Looks for places on other machines for this machine's processes.
    pub fn seek(&self, machine: usize, site: &Site, places: u32) {
        let (starting, address) = (self.next.again(), site.address().cloned());
        let work = move || {
            let found = starting.find_places(address.as_ref(), places);
            starting.happenings.send(Happening::Places { machine, found });
        };
        if let Err(error) = thread::Builder::new().name("phalanx-places".into()).spawn(work) {
            self.next.happenings.send(Happening::Places { machine, found: Err(error.to_string()) });
        }
    }

    /// The result of the start. Call it after [`Happening::Restarted`].
    pub fn take(&mut self) -> Option<Result<Started, LaunchError>> {
        match self.outcome.take()?.recv().ok()? {
            Ok(((options, sites), hosts)) => {
                self.next.job.hosts = hosts;
                self.next.placed = placed(&options, &sites);
                Some(Ok((options, sites)))
            }
            Err((error, sites)) => {
                self.kept = sites;
                Some(Err(error))
            }
        }
    }

    /// The next happening that had to wait for the result of the start.
    pub fn take_early(&mut self) -> Option<Happening> {
        (self.outcome.is_none() && !self.early.is_empty()).then(|| self.early.remove(0))
    }

    /// Returns the happening if it must be handled now. Those of earlier starts are dropped.
    pub fn sort(&mut self, start: u32, happening: Happening) -> Option<Happening> {
        match happening {
            Happening::Signal(_) | Happening::OutputFailed(_) => Some(happening),
            _ if start != self.next.happenings.start => None,
            Happening::Restarted => Some(happening),
            happening if self.outcome.is_some() => {
                self.early.push(happening);
                None
            }
            happening => Some(happening),
        }
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        // The thread uses the folder on this machine, which goes with its last user. A start on this machine is short.
        if self.next.program.folder.is_some() {
            let _ = self.thread.take().map(JoinHandle::join);
        }
    }
}
