//! The limits of an executor, and how they are enforced.

use super::program::{Program, Why};
use super::said::Limits;
use crate::cgroups::{Bounds, Controller, Group, Groups};
use phalanx_net::sync::lock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::sync::{Condvar, Mutex};
use std::thread;

/// Processes and threads that a program may have, for each of its places, where the owner says nothing.
const MOST_PROCESSES: u64 = 2048;
/// Processes and threads that an interpreter needs itself.
const LEAST_PROCESSES: u64 = 16;

/// How memory is bounded without control groups, and what that misses.
const BY_WATCHING: &str = "by watching, without files in memory that no process has mapped";

/// The limits of an executor, and how they are enforced.
#[derive(Debug)]
pub struct Limiter {
    pub(super) limits: Limits,
    /// The error says why the kernel enforces nothing.
    groups: Result<Groups, String>,
    pub(super) programs: Mutex<Vec<Program>>,
    pub(super) changed: Condvar,
}

impl Limiter {
    /// Makes the groups of an executor, where the system lets it.
    pub fn new(limits: Limits) -> Limiter {
        let cores = thread::available_parallelism().map_or(1, usize::from) as u64;
        // The kernel divides the weight of a group among the processors on which it runs.
        let weight = Some((10 * cores).clamp(10, 100));
        let Limits { memory, cpu, processes, .. } = limits;
        let groups = Groups::new(Bounds { memory, cpu, weight, processes });
        Limiter { limits, groups, programs: Mutex::default(), changed: Condvar::new() }
    }

    /// Whether the kernel enforces this.
    pub(super) fn is_bound(&self, controller: Controller) -> bool {
        self.groups.as_ref().is_ok_and(|groups| groups.bound(controller))
    }

    /// Makes the group of a program with so many places, which may have so much memory. `None`: the kernel enforces nothing here.
    ///
    /// # Errors
    /// The system refuses.
    pub fn group(&self, places: usize, memory: Option<u64>) -> io::Result<Option<Group>> {
        let Ok(groups) = &self.groups else { return Ok(None) };
        let places = places as u64;
        let bounds = Bounds {
            memory: self.memory_of(places).into_iter().chain(memory).min(),
            processes: Some(self.processes_of(places).unwrap_or(MOST_PROCESSES * places)),
            ..Bounds::default()
        };
        groups.program(bounds).map(Some)
    }

    /// The memory of a program with so many places.
    pub(super) fn memory_of(&self, places: u64) -> Option<u64> {
        self.limits.program_memory.map(|each| each.saturating_mul(places))
    }

    /// The processes of a program with so many places.
    pub(super) fn processes_of(&self, places: u64) -> Option<u64> {
        let all = self.limits.processes?;
        Some((all * places / self.limits.places.max(1)).max(LEAST_PROCESSES).min(all))
    }

    /// Watches a program until its keeper's socket is gone.
    pub fn watch(&self, program: Program) {
        lock(&self.programs).push(program);
        self.changed.notify_all();
    }

    /// Why a process of the group was killed, if the kernel did it for a limit. `memory`: the limit that the program's user has set.
    pub fn why(&self, group: &Group, memory: Option<u64>) -> Option<Why> {
        Some(match group.ran_out()? {
            Some(bound) if Some(bound) == memory => Why::Program(beyond(None, bound)),
            Some(bound) => Why::Machine(too_much(bound)),
            None => {
                let most = group.peak().map_or_else(String::new, |peak| format!(" (it had {})", bytes(peak)));
                let all = self.limits.memory.map_or_else(|| "memory".to_owned(), bytes);
                Why::Machine(format!(
                    "ended, because all programs together used the {all} that their machine gives, and this one's process was the largest{most}"
                ))
            }
        })
    }

    /// The limit that the kernel has held a program to without ending it, in words for its user.
    pub fn met(&self, group: &Group, places: u64) -> Option<String> {
        let most = self.processes_of(places).unwrap_or(MOST_PROCESSES * places);
        group.refused_processes().then(|| {
            format!("the program may have {most} processes and threads on this machine, and was refused further ones")
        })
    }

    /// Puts this process under what a process itself can be bound to: the size of files, and, where the kernel bounds no groups, whole
    /// processors. System calls only.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&self) -> io::Result<()> {
        if let Some(most) = self.limits.disk {
            let Rlimit { current, maximum } = getrlimit(Resource::Fsize);
            let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
            setrlimit(Resource::Fsize, Rlimit { current: least(current), maximum: least(maximum) })?;
        }
        self.processors().map_or(Ok(()), stay_on)
    }

    /// Removes the groups.
    pub fn close(&self) {
        self.groups.iter().for_each(Groups::remove);
    }

    /// How many processors the programs may use, where the kernel bounds no groups: whole ones only.
    pub fn processors(&self) -> Option<u64> {
        let cpu = self.limits.cpu.filter(|_| !self.is_bound(Controller::Cpu))?;
        Some((cpu / 100).max(1))
    }

    /// The limits in words, each with how it is enforced.
    pub fn report(&self) -> Vec<String> {
        let how = |controller, otherwise: &'static str| {
            if self.is_bound(controller) { "by control groups" } else { otherwise }
        };
        let mut words = Vec::new();
        if let Some(all) = self.limits.memory {
            let each = self.memory_of(1).map_or_else(String::new, |each| format!(", {} for each place", bytes(each)));
            words.push(format!("memory {}{each} ({})", bytes(all), how(Controller::Memory, BY_WATCHING)));
        }
        match self.limits.cpu {
            Some(cpu) => {
                let how = how(Controller::Cpu, "by whole processors");
                let cpu = if self.is_bound(Controller::Cpu) { cpu as f64 / 100.0 } else { (cpu / 100).max(1) as f64 };
                words.push(format!("processors {cpu} ({how})"));
            }
            None if self.is_bound(Controller::Cpu) => {
                words.push("processors after the owner's programs (by control groups)".to_owned())
            }
            None => {}
        }
        if let Some(all) = self.limits.processes {
            words.push(format!("processes {all} ({})", how(Controller::Processes, "by watching")));
        }
        words.extend(self.limits.disk.map(|all| format!("disk {} (by watching)", bytes(all))));
        if let Err(why) = &self.groups {
            words.push(format!("without control groups, because {why}"));
        }
        words
    }
}

/// Keeps this process on so many of the processors that it may use: the last ones, because systems do their own work on the first.
fn stay_on(most: u64) -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut kept = CpuSet::new();
    let last = (0..CpuSet::MAX_CPU).rev().filter(|number| allowed.is_set(*number));
    last.take(usize::try_from(most).unwrap_or(usize::MAX)).for_each(|number| kept.set(number));
    Ok(sched_setaffinity(None, &kept)?)
}

/// The reason of a program that has used more memory than it may.
pub(super) fn too_much(may: u64) -> String {
    format!("ended, because its program used more than the {} of memory that its machine gives it", bytes(may))
}

/// The reason of an interpreter that has gone beyond the limit of its user's program. `used`: what it was seen to use; `None`: the kernel
/// refused it more.
pub(super) fn beyond(used: Option<u64>, limit: u64) -> String {
    let used = used.map_or_else(|| "all of its memory".to_owned(), |used| format!("{} of memory", bytes(used)));
    format!("it used {used}, and its limit is {}", bytes(limit))
}

/// Bytes as people read them, like `2.0 GB`.
pub(super) fn bytes(number: u64) -> String {
    let (size, unit) = match number {
        0..1_000_000 => (1e3, "KB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    format!("{:.1} {unit}", number as f64 / size)
}
