//! Starts further processes while a program runs, because its processes ask for them (spawn).

use super::executors::Kept;
use super::happening::{Happening, Teller};
use super::hosts::Host;
use super::machine::{Event, Machine};
use super::output::Output;
use super::placement::secret;
use super::site::Site;
use super::starting::{Known, show};
use phalanx_core::wire::machines::{Exit, Part, Program};
use phalanx_core::wire::universe::Wanted;
use phalanx_net::sync::lock;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;

/// What is needed to start further processes.
pub struct More {
    /// Environment variables for every process, beside the launcher's own.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    pub output: Output,
    pub happenings: Teller,
    pub program: Arc<Known>,
    /// The reserved places of each world, or why there are none, by the world's first rank.
    pub kept: KeptByWorld,
}

/// See [`More`].
pub type KeptByWorld = Arc<Mutex<HashMap<u32, Result<Kept, String>>>>;

impl More {
    /// Starts a world of these ranks. On this machine it starts at once. On executors (`None`), places are searched first, and
    /// [`Happening::Placed`] reports the result.
    pub fn start(&self, ranks: Range<u32>, programs: Vec<Wanted>) -> io::Result<Option<Site>> {
        self.output.begin(ranks.clone())?;
        match self.program.executors.get() {
            Some(_) => self.look_for_places(ranks, programs).map(|()| None),
            None => self.start_here(&ranks, programs).map(Some),
        }
    }

    fn start_here(&self, ranks: &Range<u32>, programs: Vec<Wanted>) -> io::Result<Site> {
        let environment = &self.environment;
        let program = |(app, wanted): (u32, Wanted)| {
            let Wanted { processes, command, folder, .. } = wanted;
            let (environment, folder) = (environment.clone(), Some(folder).filter(|folder| !folder.is_empty()));
            (processes, Program { app, command, environment, folder })
        };
        let programs = (0..).zip(programs).map(program).collect();
        let (base, size) = (ranks.start, ranks.len() as u32);
        let part = Part { base, size, first: base, secret: secret(), programs, patience: self.program.patience };
        let happenings = self.happenings.clone();
        let on_event = move |event| {
            happenings.send(Happening::Event(event));
        };
        let (machine, streams) = Machine::start(part, None, None, None, on_event)?;
        show(streams.outputs, self.output.clone(), self.happenings.clone())?;
        Ok(Site::Here(machine, None))
    }

    fn look_for_places(&self, ranks: Range<u32>, programs: Vec<Wanted>) -> io::Result<()> {
        let (program, output, happenings) = (self.program.clone(), self.output.clone(), self.happenings.clone());
        let (environment, found) = (self.environment.clone(), self.kept.clone());
        let work = move || {
            let Some(executors) = program.executors.get() else { return };
            let kept = executors.keep(&ranks, programs, &environment, program.token, (&output, &happenings));
            lock(&found).insert(ranks.start, kept);
            happenings.send(Happening::Placed { ranks });
        };
        thread::Builder::new().name("phalanx-places".into()).spawn(work).map(drop)
    }

    /// The places of a world, or why there are none. Call it after [`Happening::Placed`].
    pub fn take_kept(&self, ranks: &Range<u32>) -> Result<Kept, String> {
        lock(&self.kept).remove(&ranks.start).unwrap_or_else(|| Err("nothing was asked for".to_owned()))
    }

    /// Starts processes for which places are reserved. A failure is reported as the end of the processes.
    pub fn start_there(&self, ranks: Range<u32>, kept: Kept) -> io::Result<()> {
        let (program, happenings) = (self.program.clone(), self.happenings.clone());
        let work = move || {
            let Some(executors) = program.executors.get() else { return };
            let _turn = executors.turn();
            let numbers = kept.places.iter().map(|place| place.host);
            let hosts: Vec<(usize, Arc<Host>)> = numbers.zip(kept.hosts).collect();
            let mut first = ranks.start;
            for (place, started) in kept.places.iter().zip(executors.start(&hosts)) {
                let its = first..first + place.processes;
                first = its.end;
                if let Err(why) = started {
                    its.for_each(|rank| tell_unstarted(&happenings, rank, why.clone()));
                }
            }
        };
        thread::Builder::new().name("phalanx-spawn".into()).spawn(work).map(drop)
    }

    /// Reports a process of a world that could not be started at all.
    pub fn report_unstarted(&self, rank: u32, why: String) {
        tell_unstarted(&self.happenings, rank, why);
    }
}

fn tell_unstarted(happenings: &Teller, rank: u32, why: String) {
    happenings.send(Happening::Event(Event::Ended { rank, exit: Exit::Unstarted(why) }));
}
