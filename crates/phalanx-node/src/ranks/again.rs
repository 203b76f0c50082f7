//! Another start of a program, on the machines that are left.

use super::happening::Happening;
use super::job::LaunchError;
use super::site::Site;
use super::starting::{Started, Starting, placed};
use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// What was started, or why it was not, and then what was there before it.
type Outcome = Result<Started, (LaunchError, Vec<Site>)>;

pub struct Again {
    next: Starting,
    /// Of the start that is under way.
    outcome: Option<Receiver<Outcome>>,
    /// The machines of the start before one that has failed: they keep what is in their folders.
    kept: Vec<Site>,
    /// What happens to it before that is known.
    early: Vec<Happening>,
}

impl Again {
    /// `next` is what another start needs.
    pub fn new(next: Starting) -> Again {
        Again { next, outcome: None, kept: Vec::new(), early: Vec::new() }
    }

    /// Starts the program again, without some of its machines, and elsewhere than on one of them.
    pub fn begin(&mut self, without: &[usize], leave: Option<usize>, sites: Vec<Site>) -> io::Result<()> {
        without.iter().filter_map(|machine| sites.get(*machine)).for_each(|lost| self.next.leave_out(lost));
        leave.and_then(|machine| sites.get(machine)).into_iter().for_each(|site| self.next.leave(site));
        self.start(self.next.again(), sites)
    }

    /// Starts it again where it was, after a start elsewhere has failed.
    pub fn go_back(&mut self) -> io::Result<()> {
        let sites = std::mem::take(&mut self.kept);
        self.start(self.next.there_again(), sites)
    }

    /// In a thread: the user may not want it any more. Machines keep what is in a program's folder while it has a link, so
    /// the old ones are closed last.
    fn start(&mut self, mut starting: Starting, sites: Vec<Site>) -> io::Result<()> {
        self.next.happenings.start += 1;
        starting.happenings = self.next.happenings.clone();
        self.early.clear();
        let (give, outcome) = channel();
        self.outcome = Some(outcome);
        let work = move || {
            let happenings = starting.happenings.clone();
            let outcome = match starting.run() {
                Ok(started) => {
                    drop(sites);
                    Ok(started)
                }
                Err(error) => Err((error, sites)),
            };
            let _ = give.send(outcome);
            happenings.send(Happening::Restarted);
        };
        thread::Builder::new().name("phalanx-restart".into()).spawn(work).map(drop)
    }

    /// Looks for places for a machine's processes on others.
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

    /// What was started, after [`Happening::Restarted`].
    pub fn take(&mut self) -> Option<Result<Started, LaunchError>> {
        match self.outcome.take()?.recv().ok()? {
            Ok((options, sites)) => {
                self.next.placed = placed(&options, &sites);
                Some(Ok((options, sites)))
            }
            Err((error, sites)) => {
                self.kept = sites;
                Some(Err(error))
            }
        }
    }

    /// What has waited until it was known what was started.
    pub fn take_early(&mut self) -> Option<Happening> {
        (self.outcome.is_none() && !self.early.is_empty()).then(|| self.early.remove(0))
    }

    /// What is to be taken note of now. Earlier starts are of no interest any more.
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
