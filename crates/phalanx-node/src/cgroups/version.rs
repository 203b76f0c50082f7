//! The files of both versions of control groups.

use super::{Bounds, Controller, OWN};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Microseconds in which a group has its part of the processors.
const PERIOD: u64 = 100_000;
/// What version 1 calls an ordinary share of the processors; version 2 calls it 100.
const ORDINARY: u64 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

impl Version {
    /// The controllers that groups beneath `place` can have. In version 2 they are turned on. `is_own`: this process is in that group, and has to leave it first
    /// where the kernel allows no process beside groups with controllers.
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

    /// Turns controllers on for the groups of programs.
    pub fn enable_within(self, group: &Path, controllers: Vec<Controller>) -> io::Result<Vec<Controller>> {
        if self == Version::Two {
            controllers.iter().try_for_each(|it| turn_on(group, *it))?;
        }
        Ok(controllers)
    }

    /// Whether a group bounds what is in it.
    pub fn is_bounded(self, group: &Path) -> bool {
        let files = match self {
            Version::One => [("memory.limit_in_bytes", "9223372036854771712"), ("cpu.cfs_quota_us", "-1")],
            Version::Two => [("memory.max", "max"), ("cpu.max", "max")],
        };
        files.iter().any(|(file, none)| words(group, file).first().is_some_and(|it| it != none))
    }

    /// Writes the bounds of a group.
    pub fn write(self, group: &Path, controllers: &[Controller], bounds: Bounds) -> io::Result<()> {
        for controller in controllers {
            match (controller, self) {
                (Controller::Memory, Version::One) => {
                    put(group, "memory.limit_in_bytes", bounds.memory)?;
                    put_if_there(group, "memory.memsw.limit_in_bytes", bounds.memory)?;
                }
                (Controller::Memory, Version::Two) => {
                    put(group, "memory.max", bounds.memory)?;
                    // Otherwise a program goes on in the swap space, and makes the owner's programs slow.
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

    /// How many processes of the group the kernel has ended for their memory.
    pub fn kills(self, group: &Path) -> Option<u64> {
        let file = match self {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(group.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }

    /// The most memory that the group has had, in bytes. Linux before 5.19 does not tell it in version 2.
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

/// Microseconds of processors in each period, of hundredths of a processor.
fn quota(cpu: u64) -> u64 {
    (cpu * PERIOD / 100).max(1000)
}

fn turn_on(group: &Path, controller: Controller) -> io::Result<()> {
    put(group, "cgroup.subtree_control", Some(format!("+{}", controller.word())))
}

/// Moves this process into a group of its own within the one in which it is.
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

/// The same for a file that not every kernel has.
fn put_if_there(group: &Path, file: &str, value: Option<u64>) -> io::Result<()> {
    match put(group, file, value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}
