//! The files of both versions of control groups.

use super::{Bounds, Controller, OWN};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Period of the processor quota, in microseconds.
const PERIOD: u64 = 100_000;
/// The default share of the processors in version 1. It is 100 in version 2.
const ORDINARY: u64 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

impl Version {
    /// Enables the controllers for groups beneath `place`, and returns them. Version 1 needs no change. `is_own`: this process is in the
    /// group. It moves to a subgroup if the kernel refuses controllers because of processes in the group.
    pub fn enable(self, place: &Path, of_hierarchy: &[Controller], is_own: bool) -> io::Result<Vec<Controller>> {
        if self == Version::One {
            return Ok(of_hierarchy.to_vec());
        }
        let there = words(place, "cgroup.controllers");
        let wanted: Vec<Controller> =
            Controller::ALL.into_iter().filter(|it| there.contains(&it.word().to_owned())).collect();
        let on = |place| words(place, "cgroup.subtree_control");
        let is_on = |on: &[String], it: &Controller| on.contains(&it.word().to_owned());
        let turn_on = || wanted.iter().filter(|it| !is_on(&on(place), it)).try_for_each(|it| turn_on(place, *it));
        match turn_on() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && is_own => {
                step_aside(place)?;
                turn_on()?;
            }
            Err(error) if !wanted.iter().any(|it| is_on(&on(place), it)) => return Err(error),
            _ => {}
        }
        let on = on(place);
        Ok(wanted.into_iter().filter(|it| is_on(&on, it)).collect())
    }

    /// Enables controllers for the groups of programs.
    pub fn enable_within(self, group: &Path, controllers: Vec<Controller>) -> io::Result<Vec<Controller>> {
        if self == Version::Two {
            controllers.iter().try_for_each(|it| turn_on(group, *it))?;
        }
        Ok(controllers)
    }

    /// Whether a group has a limit for memory or processors.
    pub fn is_bounded(self, group: &Path) -> bool {
        let files = match self {
            Version::One => [("memory.limit_in_bytes", "9223372036854771712"), ("cpu.cfs_quota_us", "-1")],
            Version::Two => [("memory.max", "max"), ("cpu.max", "max")],
        };
        files.iter().any(|(file, none)| words(group, file).first().is_some_and(|it| it != none))
    }

    /// Writes the limits of a group.
    pub fn write(self, group: &Path, controllers: &[Controller], bounds: Bounds) -> io::Result<()> {
        for controller in controllers {
            match (controller, self) {
                (Controller::Memory, Version::One) => {
                    put(group, "memory.limit_in_bytes", bounds.memory)?;
                    put_if_there(group, "memory.memsw.limit_in_bytes", bounds.memory)?;
                }
                (Controller::Memory, Version::Two) => {
                    put(group, "memory.max", bounds.memory)?;
                    // Without this, a program would use the swap space, and slow the owner's programs down.
                    put_if_there(group, "memory.swap.max", bounds.memory.map(|_| 0))?;
                }
                (Controller::Cpu, Version::One) => {
                    put(group, "cpu.cfs_period_us", bounds.cpu.map(|_| PERIOD))?;
                    put(group, "cpu.cfs_quota_us", bounds.cpu.map(quota))?;
                    put(group, "cpu.shares", bounds.weight.map(|weight| (weight * ORDINARY / 100).max(2)))?;
                }
                (Controller::Cpu, Version::Two) => {
                    put(group, "cpu.max", bounds.cpu.map(|cpu| format!("{} {PERIOD}", quota(cpu))))?;
                    put(group, "cpu.weight", bounds.weight)?;
                }
                (Controller::Processes, _) => put(group, "pids.max", bounds.processes)?,
            }
        }
        Ok(())
    }

    /// The number of processes of the group that the out-of-memory killer has ended.
    pub fn kills(self, group: &Path) -> Option<u64> {
        let file = match self {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(group.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }

    /// The peak memory of the group, in bytes. `None` in version 2 before Linux 5.19.
    pub fn peak(self, group: &Path) -> Option<u64> {
        number(group, ["memory.max_usage_in_bytes", "memory.peak"][usize::from(self == Version::Two)])
    }

    /// Ends all processes of a group.
    pub fn kill(self, group: &Path) {
        if self == Version::Two && put(group, "cgroup.kill", Some(1)).is_ok() {
            return;
        }
        for process in words(group, "cgroup.procs") {
            let process = process.parse().ok().and_then(Pid::from_raw);
            let _ = process.map(|it| kill_process(it, Signal::KILL));
        }
    }
}

/// Whether the kernel has refused a process to the group. The file is the same in both versions.
pub fn refused_processes(group: &Path) -> bool {
    let text = fs::read_to_string(group.join("pids.events")).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("max ")).any(|count| count.trim() != "0")
}

/// The quota in microseconds per period, for hundredths of a processor.
fn quota(cpu: u64) -> u64 {
    (cpu * PERIOD / 100).max(1000)
}

fn turn_on(group: &Path, controller: Controller) -> io::Result<()> {
    put(group, "cgroup.subtree_control", Some(format!("+{}", controller.word())))
}

/// Moves this process into a subgroup of its current group.
fn step_aside(place: &Path) -> io::Result<()> {
    let own = place.join(OWN);
    match fs::create_dir(&own) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    put(&own, "cgroup.procs", Some(0))
}

fn words(group: &Path, file: &str) -> Vec<String> {
    let text = fs::read_to_string(group.join(file)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn number(group: &Path, file: &str) -> Option<u64> {
    words(group, file).first()?.parse().ok()
}

/// Writes a value, if there is one.
fn put(group: &Path, file: &str, value: Option<impl ToString>) -> io::Result<()> {
    let Some(value) = value else { return Ok(()) };
    let mut opened = OpenOptions::new().write(true).open(group.join(file))?;
    opened.write_all(value.to_string().as_bytes())
}

/// Writes a value to a file that some kernels lack.
fn put_if_there(group: &Path, file: &str, value: Option<u64>) -> io::Result<()> {
    match put(group, file, value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}
