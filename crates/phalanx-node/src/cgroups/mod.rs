//! Control groups: the kernel limits the memory, processors and processes of users' programs at an executor.
//!
//! An executor has one group that limits all programs together, and in it one group for each program. It uses both versions of control
//! groups. Version 2 needs a subtree that is delegated to the executor's account, or root. Version 1 needs root. The executor removes a
//! group when its program has ended. If an executor is killed, the next one that starts in the same place removes its groups.

mod mounted;
mod version;

use mounted::Mounted;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use version::Version;

/// Prefix of the name of an executor's group. The number of its process, `-`, and a number follow.
const PREFIX: &str = "phalanx-";
/// The group to which an executor moves itself, because version 2 allows no process beside the groups of its programs.
const OWN: &str = "phalanx-executor";
/// Attempts to remove a group while its processes end, and the pause between two. Afterwards the group is left to the next start.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// A resource that the kernel can limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Memory, including files in memory and swapped pages.
    Memory,
    /// Processors.
    Cpu,
    /// The number of processes and threads.
    Processes,
}

impl Controller {
    const ALL: [Controller; 3] = [Controller::Memory, Controller::Cpu, Controller::Processes];

    /// The kernel's word.
    fn word(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Cpu => "cpu",
            Controller::Processes => "pids",
        }
    }
}

/// The limits of a group. `None`: unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processors, in hundredths of one.
    pub cpu: Option<u64>,
    /// The share of processors under contention. An ordinary group has 100.
    pub weight: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
}

/// The group of an executor, which contains the groups of its programs. Dropping it removes it.
#[derive(Debug)]
pub struct Groups {
    /// The same group in each hierarchy: one of version 2, or several of version 1.
    parts: Vec<Part>,
    made: AtomicU64,
}

/// A group in one hierarchy.
#[derive(Debug)]
struct Part {
    version: Version,
    controllers: Vec<Controller>,
    path: PathBuf,
    /// The folder, locked as long as this executor lives.
    _lock: File,
}

/// The group of a program. Dropping it ends the remaining processes, and removes it.
#[derive(Debug)]
pub struct Group {
    parts: Vec<(Version, PathBuf)>,
    entries: Vec<OwnedFd>,
    memory: Option<(Version, PathBuf)>,
    bound: Option<u64>,
}

impl Groups {
    /// Makes the group of this executor. The error says why the executor cannot have control groups.
    pub fn new(bounds: Bounds) -> Result<Groups, String> {
        let text = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let mounts = text("/proc/self/mountinfo")?;
        Groups::among(&mounted::read(&mounts, &text("/proc/self/cgroup")?), bounds)
    }

    fn among(mounted: &[Mounted], bounds: Bounds) -> Result<Groups, String> {
        let (mut parts, mut why) = (Vec::new(), Vec::new());
        for hierarchy in mounted {
            match Part::new(hierarchy, bounds) {
                Ok(part) => parts.extend(part),
                Err(error) => why.push(format!("{}: {error}", hierarchy.own.display())),
            }
        }
        match parts.is_empty() {
            true if why.is_empty() => Err("this system has no control groups".to_owned()),
            true => Err(format!("the system lets this account make no control groups ({})", why.join("; "))),
            false => Ok(Groups { parts, made: AtomicU64::new(0) }),
        }
    }

    /// Whether the group limits this resource.
    pub fn bound(&self, controller: Controller) -> bool {
        self.parts.iter().any(|part| part.controllers.contains(&controller))
    }

    /// Makes the group of a program.
    ///
    /// # Errors
    /// The system refuses.
    pub fn program(&self, bounds: Bounds) -> io::Result<Group> {
        let name = format!("program-{}", self.made.fetch_add(1, Ordering::Relaxed));
        let mut group = Group { parts: Vec::new(), entries: Vec::new(), memory: None, bound: bounds.memory };
        for part in &self.parts {
            let path = part.path.join(&name);
            fs::create_dir(&path)?;
            group.parts.push((part.version, path.clone())); // pushed at once, so that dropping removes it after an error
            part.version.write(&path, &part.controllers, bounds)?;
            let entry = OpenOptions::new().write(true).open(path.join("cgroup.procs"))?;
            group.entries.push(entry.into());
            if part.controllers.contains(&Controller::Memory) {
                group.memory = Some((part.version, path));
            }
        }
        Ok(group)
    }
}

impl Groups {
    /// Ends the remaining processes in the groups, and removes the groups.
    pub fn remove(&self) {
        self.parts.iter().for_each(|part| remove(part.version, &part.path));
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Part {
    /// Makes the group of this executor in a hierarchy, at the first place that allows it. `None`: the hierarchy has no controller for it.
    fn new(hierarchy: &Mounted, bounds: Bounds) -> io::Result<Option<Part>> {
        let mut refused = None;
        for place in hierarchy.places() {
            match Part::at(&place, hierarchy, bounds) {
                Ok(part) => return Ok(part),
                Err(error) => refused = refused.or(Some(error)), // the error of the innermost place is the most useful
            }
        }
        Err(refused.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn at(place: &Path, hierarchy: &Mounted, bounds: Bounds) -> io::Result<Option<Part>> {
        let version = hierarchy.version;
        // Executors that start at the same time wait for this lock, so that none removes a group that is not locked yet.
        let starting = File::open(place)?;
        flock(&starting, FlockOperation::LockExclusive)?;
        let controllers = version.enable(place, &hierarchy.controllers, place == hierarchy.own)?;
        if controllers.is_empty() {
            return Ok(None);
        }
        let path = free_name(place);
        fs::create_dir(&path)?;
        let made = File::open(&path).and_then(|lock| {
            flock(&lock, FlockOperation::LockExclusive)?;
            let controllers = version.enable_within(&path, controllers)?;
            version.write(&path, &controllers, bounds)?;
            Ok(Part { version, controllers, path: path.clone(), _lock: lock })
        });
        let made = made.and_then(|part| try_out(&part).map(|()| part));
        let made = made.inspect_err(|_| remove(version, &path))?;
        clean(version, place); // only where executors make groups
        Ok(Some(made))
    }
}

/// The name of a new group of this process.
fn free_name(place: &Path) -> PathBuf {
    let name = |number: u32| place.join(format!("{PREFIX}{}-{number}", std::process::id()));
    (0..).map(name).find(|path| !path.exists()).expect("numbers do not end")
}

/// Whether a group with this name is an executor's. Names of systemd's services may have the same prefix.
fn is_ours(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Lets a process enter a group of the hierarchy, because some systems allow making groups but refuse that.
fn try_out(part: &Part) -> io::Result<()> {
    let probe = part.path.join("probe");
    fs::create_dir(&probe)?;
    let outcome = OpenOptions::new().write(true).open(probe.join("cgroup.procs")).and_then(|entry| {
        // SAFETY: the child makes system calls, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let status = i32::from(rustix::io::write(&entry, b"0").is_err());
            // SAFETY: ends the child without the handlers of its parent.
            unsafe { libc::_exit(status) }
        }
        let mut status = -1;
        // SAFETY: waits for the child, which only this function knows.
        while child > 0 && unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break;
            }
        }
        match status {
            0 => Ok(()),
            _ => Err(io::Error::other("no process can enter a group there")),
        }
    });
    remove(part.version, &probe);
    outcome
}

impl Group {
    /// Puts this process into the group. System calls only.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(entries: &[BorrowedFd<'_>]) -> io::Result<()> {
        for entry in entries {
            while let Err(error) = rustix::io::write(entry, b"0") {
                if error != rustix::io::Errno::INTR {
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// The files by which a process of the program enters the group.
    pub fn entries(&self) -> Vec<BorrowedFd<'_>> {
        self.entries.iter().map(AsFd::as_fd).collect()
    }

    /// Whether the out-of-memory killer has ended a process of the program. If so, returns the limit that the program has reached. An inner
    /// `None` means that all programs together have reached theirs.
    pub fn ran_out(&self) -> Option<Option<u64>> {
        let (version, path) = self.memory.as_ref()?;
        (version.kills(path)? > 0).then_some(())?;
        let peak = version.peak(path).unwrap_or(u64::MAX);
        // The peak is below the limit, because it excludes the memory that the kernel refused.
        Some(self.bound.filter(|bound| peak >= bound - bound / 16))
    }

    /// Whether the kernel has refused the program a process, because it had as many as it may have.
    pub fn refused_processes(&self) -> bool {
        self.parts.iter().any(|(_, path)| version::refused_processes(path))
    }

    /// The peak memory of the program, in bytes.
    pub fn peak(&self) -> Option<u64> {
        self.memory.as_ref().and_then(|(version, path)| version.peak(path))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.entries.clear();
        self.parts.iter().for_each(|(version, path)| remove(*version, path));
    }
}

/// Removes the groups of executors that were killed.
fn clean(version: Version, place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(is_ours);
        let is_free =
            || File::open(entry.path()).is_ok_and(|it| flock(it, FlockOperation::NonBlockingLockExclusive).is_ok());
        if is_ours && is_free() {
            remove(version, &entry.path());
        }
    }
}

/// Ends all processes of a group and of its subgroups, and removes them. Groups that cannot be removed are left to the next start.
fn remove(version: Version, path: &Path) {
    for _ in 0..ATTEMPTS {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(version, &entry.path());
            }
        }
        match fs::remove_dir(path) {
            Ok(()) => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(_) => version.kill(path),
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests;
