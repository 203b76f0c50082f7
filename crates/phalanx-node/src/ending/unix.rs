//! How a child process ended: its exit status, its peak resident size, and whether the kernel killed it for lack of memory.

use phalanx_core::launch::signal_name;
use phalanx_net::sync::lock;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, OnceLock};

/// State of the parent from before a child starts, needed to interpret the child's end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    /// The parent's peak resident size in bytes. A child's peak starts from this value, so it only counts once it is larger.
    parent: u64,
}

impl Before {
    /// Call this before the child is started.
    pub fn now() -> Before {
        watched_for_memory(); // kernel kills from now on are kills of children
        // SAFETY: all zeroes is a value of this plain structure, which the system fills in.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` lives as long as the call.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
        Before { parent: resident(&usage) }
    }
}

/// Waits for a child that was not waited for yet. Returns a text for users about how it ended.
pub(crate) fn wait(child: &Child, before: Before) -> String {
    match wait_with_usage(child) {
        Ok((status, usage)) => tell(status, resident(&usage), before),
        Err(error) => error.to_string(),
    }
}

/// The text about a process that ended, with its peak resident size in bytes.
pub(crate) fn tell(status: ExitStatus, resident: u64, before: Before) -> String {
    describe(status, Some(resident).filter(|size| *size > before.parent))
}

fn wait_with_usage(child: &Child) -> io::Result<(ExitStatus, libc::rusage)> {
    // SAFETY: all zeroes is a value of this plain structure, which the system fills in.
    let (mut status, mut usage) = (0, unsafe { std::mem::zeroed() });
    loop {
        // SAFETY: both live as long as the call; the child was not waited for, so the number still is its own.
        if unsafe { libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, &raw mut usage) } >= 0 {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// The state letter of a process as the kernel reports it: `T` and `t` are stopped, `Z` and `X` ended. `None`: unknown.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end_of_name + 2).map(|byte| char::from(*byte))
}

/// Whether a process lives and is not stopped. One that only waits for the processor or the disk does.
pub(crate) fn is_running(pid: u32) -> bool {
    state(pid).is_some_and(|state| !"TtZX".contains(state))
}

/// Whether a process has not ended.
pub(crate) fn lives(pid: u32) -> bool {
    state(pid).is_some_and(|state| !"ZX".contains(state))
}

/// The threads of a process.
pub(crate) fn threads(pid: u32) -> impl Iterator<Item = u32> {
    let listed = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    listed.filter_map(|it| it.file_name().to_str()?.parse().ok())
}

/// The processes that a thread of a process has begun, also those that have ended and that were not waited for. None: the kernel does not
/// tell.
pub(crate) fn children(pid: u32, thread: u32) -> impl Iterator<Item = u32> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|it| it.parse().ok()).collect::<Vec<_>>().into_iter()
}

/// Whether a process is stopped now.
pub(crate) fn is_stopped(pid: u32) -> bool {
    state(pid).is_some_and(|state| "Tt".contains(state))
}

fn resident(usage: &libc::rusage) -> u64 {
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    usage.ru_maxrss as u64 * unit
}

fn describe(status: ExitStatus, size: Option<u64>) -> String {
    let mut words = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("killed by signal {}", signal_name(signal)),
        (_, Some(code)) => format!("exited with status {code}"),
        _ => status.to_string(),
    };
    if status.signal() == Some(libc::SIGKILL) {
        words += lock(watched_for_memory()).blame();
    }
    match size {
        Some(size) => format!("{words}, at most {} MiB resident", size.div_ceil(1 << 20)),
        None => words,
    }
}

/// The kernel's counter of processes killed for lack of memory (OOM kills).
#[derive(Debug)]
enum Counter {
    /// The counter of this process's cgroup, which its children belong to.
    Group(PathBuf),
    /// The counter of the whole machine.
    Machine,
}

/// The OOM kills seen so far.
#[derive(Debug)]
struct Kills {
    counter: Counter,
    seen: u64,
}

fn watched_for_memory() -> &'static Mutex<Kills> {
    static KILLS: OnceLock<Mutex<Kills>> = OnceLock::new();
    KILLS.get_or_init(|| {
        let counter = group_counter().map_or(Counter::Machine, Counter::Group);
        let seen = counter.count().unwrap_or_default();
        Mutex::new(Kills { counter, seen })
    })
}

impl Kills {
    /// The remark on a child that ended by SIGKILL. Each OOM kill that the kernel counts explains the end of one child.
    fn blame(&mut self) -> &'static str {
        if self.counter.count().is_none_or(|count| count <= self.seen) {
            return "";
        }
        self.seen += 1;
        match self.counter {
            Counter::Group(_) => ", out of memory",
            Counter::Machine => ", probably out of memory (the system killed a process of this machine for that)",
        }
    }
}

impl Counter {
    fn count(&self) -> Option<u64> {
        let path = match self {
            Counter::Group(path) => path.as_path(),
            Counter::Machine => "/proc/vmstat".as_ref(),
        };
        kills_in(&std::fs::read_to_string(path).ok()?)
    }
}

/// The number after the word `oom_kill`. All of these files have it on a line of its own.
fn kills_in(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// The file of this process's cgroup with the counter, for cgroups version 2 or 1.
fn group_counter() -> Option<PathBuf> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let paths = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        match controllers {
            "" => Some(("/sys/fs/cgroup", path, "memory.events")),
            "memory" => Some(("/sys/fs/cgroup/memory", path, "memory.oom_control")),
            _ => None,
        }
    });
    // In a container, the cgroup's own folder may be mounted as the root.
    let files = paths.flat_map(|(root, path, file)| [format!("{root}{path}/{file}"), format!("{root}/{file}")]);
    files.map(PathBuf::from).find(|file| Counter::Group(file.clone()).count().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_found_in_the_files_of_both_versions_of_cgroups_and_of_the_machine() {
        assert_eq!(kills_in("low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\noom_group_kill 1\n"), Some(2));
        assert_eq!(kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), Some(7));
        assert_eq!(kills_in("nr_free_pages 1\noom_kill 0\n"), Some(0));
        assert_eq!(kills_in("under_oom 0\n"), None);
    }

    #[test]
    fn each_kill_explains_one_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.events");
        std::fs::write(&path, "oom_kill 4\n").unwrap();
        let mut kills = Kills { counter: Counter::Group(path.clone()), seen: 2 };
        assert_eq!([kills.blame(), kills.blame(), kills.blame()], [", out of memory", ", out of memory", ""]);
    }

    #[test]
    fn an_end_is_told_with_the_signal_and_the_size() {
        let killed = |signal| describe(ExitStatus::from_raw(signal), Some(5 << 20));
        assert_eq!(killed(libc::SIGSEGV), "killed by signal 11 (SIGSEGV), at most 5 MiB resident");
        assert_eq!(describe(ExitStatus::from_raw(7 << 8), None), "exited with status 7");
    }
}
