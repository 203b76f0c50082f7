//! The watch: looks at what programs use, and ends the one that uses too much, where the kernel does not bound it.

use super::limiter::{Limiter, beyond, bytes, too_much};
use super::program::{Program, Why};
use super::usage::{self, Used};
use crate::cgroups::Controller;
use phalanx_net::sync::lock;
use rustix::process::Pid;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Pause between two looks at processes. A program that fills memory at 4 GB/s gets 1 GB more than it may. A look takes about 0.1 ms for
/// each process.
const PAUSE: Duration = Duration::from_millis(250);
/// Least pause between two looks at folders, and how often longer it is than the look itself.
const PAUSE_FOLDERS: Duration = Duration::from_secs(1);
const RATIO: u32 = 20;

/// What stays free on the disk for its owner: one part of so many, and at most so many bytes. Files that are open and have no name any more
/// are in no folder, so that only the disk itself tells that there are many.
const RESERVE_PART: u64 = 50;
const LARGEST_RESERVE: u64 = 1_000_000_000;
/// A program that has written fewer bytes than this has not filled the disk.
const FEW: u64 = 16_000_000;

/// Why a program is ended whose use of the disk is not known.
const UNCOUNTED: &str = "ended, because its machine gives a part of its disk only, and cannot count what is in the program's \
    folder: a folder in it is closed, or too deep in others";

/// Starts the thread, which ends with the limiter.
pub fn begin(limiter: &Arc<Limiter>) -> io::Result<()> {
    let limiter = Arc::downgrade(limiter);
    thread::Builder::new().name("phalanx-limits".into()).spawn(move || run(&limiter)).map(drop)
}

fn run(limiter: &Weak<Limiter>) {
    let mut folders = (Instant::now(), PAUSE_FOLDERS);
    let mut hidden = HashSet::new();
    while let Some(limiter) = limiter.upgrade() {
        let programs = limiter.living();
        if programs.is_empty() {
            // Woken by a program that begins. The limiter may be gone meanwhile, so that this does not wait for long.
            let waiting = lock(&limiter.programs);
            drop(limiter.changed.wait_timeout(waiting, PAUSE_FOLDERS));
            continue;
        }
        limiter.look_at_processes(&programs);
        if folders.0.elapsed() >= folders.1 && limiter.limits.disk.is_some() {
            let began = Instant::now();
            limiter.look_at_folders(&programs);
            look_at_disks(&programs, &mut hidden);
            folders = (Instant::now(), (began.elapsed() * RATIO).max(PAUSE_FOLDERS));
        }
        drop(limiter);
        thread::sleep(PAUSE);
    }
}

impl Limiter {
    /// The programs that have not ended.
    fn living(&self) -> Vec<Program> {
        let mut programs = lock(&self.programs);
        programs.retain(|program| program.socket.strong_count() > 0);
        programs.clone()
    }

    fn look_at_processes(&self, programs: &[Program]) {
        let memory = self.limits.memory.filter(|_| !self.is_bound(Controller::Memory));
        let processes = self.limits.processes.filter(|_| !self.is_bound(Controller::Processes));
        let own = |program: &Program| program.memory.filter(|_| !self.is_bound(Controller::Memory));
        if memory.is_none() && processes.is_none() && !programs.iter().any(|it| own(it).is_some()) {
            return;
        }
        let used: Vec<(&Program, Used)> = programs.iter().map(|it| (it, usage::of_processes(it.keeper))).collect();
        for (program, used) in &used {
            match (own(program), memory.and_then(|_| self.memory_of(program.places))) {
                (Some(own), part) if used.memory > own && part.is_none_or(|part| own <= part) => {
                    if let Some(used) = usage::above(program.keeper, own, usage::Root::Keeper) {
                        program.end_for(Why::Program(beyond(Some(used), own)));
                    }
                }
                (_, Some(part)) if used.memory > part => program.end(too_much(part)),
                _ => {}
            }
            if let Some(may) =
                processes.and_then(|_| self.processes_of(program.places)).filter(|it| used.processes > *it)
            {
                program.end(format!(
                    "ended, because its program had {} processes and threads, and may have {may}",
                    used.processes
                ));
            }
        }
        let sum =
            |of: fn(&Used) -> u64| used.iter().filter(|(it, _)| it.lives()).map(|(_, used)| of(used)).sum::<u64>();
        let largest = |of: fn(&Used) -> u64| used.iter().filter(|(it, _)| it.lives()).max_by_key(|(_, used)| of(used));
        if let Some(all) = memory.filter(|all| sum(|it| it.memory) > *all) {
            if let Some((program, used)) = largest(|it| it.memory) {
                program.end(most_of("memory", all, used.memory));
            }
        }
        if let Some(all) = processes.filter(|all| sum(|it| it.processes) > *all) {
            if let Some((program, used)) = largest(|it| it.processes) {
                program.end(format!(
                    "ended, because all programs together had more than the {all} processes and threads that their machine \
                     gives, and this one had most: {}",
                    used.processes
                ));
            }
        }
    }

    /// Interpreters of one manager have the same folders, and end together.
    fn look_at_folders(&self, programs: &[Program]) {
        let Some(all) = self.limits.disk else { return };
        let mut with: HashMap<&[PathBuf], Vec<&Program>> = HashMap::new();
        programs.iter().for_each(|program| with.entry(&program.folders).or_default().push(program));
        let size = |folders: &[PathBuf]| total(folders.iter().map(|folder| usage::of_folder(folder)));
        let used: Vec<(u64, Vec<&Program>)> =
            with.into_iter().map(|(folders, programs)| (size(folders), programs)).collect();
        if total(used.iter().map(|(size, _)| *size)) > all {
            if let Some((size, programs)) = used.into_iter().max_by_key(|(size, _)| *size) {
                let why = match size {
                    usage::UNKNOWN => UNCOUNTED.to_owned(),
                    size => most_of("disk", all, size),
                };
                programs.iter().for_each(|program| program.end(why.clone()));
                // Interpreters that come next to the same folder would be ended at once.
                programs.iter().for_each(|program| program.wait());
                programs[0].folders.iter().for_each(|folder| usage::empty(folder));
            }
        }
    }
}

/// Ends the program that has written most to a disk that is nearly full. `hidden`: the keepers of programs that hid their counts at the
/// last look. A process does so for a moment while it starts.
fn look_at_disks(programs: &[Program], hidden: &mut HashSet<Pid>) {
    let left = |program: &Program| left_on_full_disk(program.folders.first()?);
    let on_full: Vec<(&Program, u64)> =
        programs.iter().filter(|it| it.lives()).filter_map(|it| Some((it, left(it)?))).collect();
    let mut written: Vec<(u64, &Program, u64)> =
        on_full.iter().map(|(program, left)| (usage::written(program.keeper), *program, *left)).collect();
    let hides = written.iter().filter(|(count, ..)| *count == usage::UNKNOWN).map(|(_, program, _)| program.keeper);
    let before = std::mem::replace(hidden, hides.collect());
    written.retain(|(count, program, _)| *count != usage::UNKNOWN || before.contains(&program.keeper));
    if let Some((most, program, left)) = written.into_iter().max_by_key(|(count, ..)| *count).filter(|it| it.0 > FEW) {
        let wrote = match most {
            usage::UNKNOWN => "its program hides how much it has written".to_owned(),
            most => format!("its program had written most: {}", bytes(most)),
        };
        program
            .end(format!("ended, because the disk of its machine is nearly full ({} left), and {wrote}", bytes(left)));
    }
}

/// The bytes that are left on the disk of a folder, if they are too few.
fn left_on_full_disk(folder: &Path) -> Option<u64> {
    let (free, size) = usage::space(folder)?;
    (free < (size / RESERVE_PART).min(LARGEST_RESERVE)).then_some(free)
}

/// The sum of sizes, of which one may be [`usage::UNKNOWN`].
fn total(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

fn most_of(what: &str, all: u64, had: u64) -> String {
    format!(
        "ended, because all programs together used more than the {} of {what} that their machine gives, and this one had \
         most: {}",
        bytes(all),
        bytes(had)
    )
}
