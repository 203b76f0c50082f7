//! How many threads and processes the system allows, and what part of them links may take.

use std::path::Path;

/// A link of an executor is served by a few threads, and some links also start processes. All links of one kind are at most 1 in
/// so many of the threads that the system allows. That leaves most of the threads to interpreters and ranks.
pub const THREADS: usize = 16;

/// How many links of one kind there may be: `most`, or fewer where the system does not allow `threads` for each.
pub fn most_links(most: usize, threads: usize) -> usize {
    most.min(most_threads() / threads).max(1)
}

/// How many processes and threads the account may have while a task still begins one. The rest is left to the executor, so that a task
/// that starts as many as it can does not end the service for other users. `None`: the system sets no limit.
#[cfg(target_os = "linux")]
pub fn most_for_tasks() -> Option<u64> {
    let most = most_threads();
    (most < usize::MAX).then(|| without_reserve(most) as u64)
}

#[cfg(target_os = "linux")]
fn without_reserve(most: usize) -> usize {
    most.saturating_sub((most / 8).clamp(16, 512)).max(most / 2)
}

/// The least of the limits of the account (`ulimit -u`) and of the control groups (`pids.max`).
fn most_threads() -> usize {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = limits_of_groups(&groups, Path::new("/sys/fs/cgroup"));
    of_groups.into_iter().chain(limit_of_account()).min().unwrap_or(usize::MAX)
}

#[cfg(target_os = "linux")]
fn limit_of_account() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nproc);
    limit.current.map(|most| usize::try_from(most).unwrap_or(usize::MAX))
}

#[cfg(not(target_os = "linux"))]
fn limit_of_account() -> Option<usize> {
    None
}

/// The limits of the control groups that `groups` lists, and of those around them, of version 2 and version 1.
fn limits_of_groups(groups: &str, mounted: &Path) -> Vec<usize> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let top = match controllers {
            "" => mounted.to_owned(),
            _ if controllers.split(',').any(|name| name == "pids") => mounted.join("pids"),
            _ => continue,
        };
        let inner = top.join(path.trim_start_matches('/'));
        // without a limit, the file has the word max
        let limit = |folder: &Path| std::fs::read_to_string(folder.join("pids.max")).ok()?.trim().parse::<usize>().ok();
        limits.extend(inner.ancestors().take_while(|folder| folder.starts_with(&top)).filter_map(limit));
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_versions_and_of_outer_groups_count() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("lab/pids.max", "4915\n");
        write("lab/executor/pids.max", "max\n");
        write("pids/old/pids.max", "512\n");
        let limits = |groups| limits_of_groups(groups, folder.path());
        assert_eq!(limits("0::/lab/executor\n"), [4915]);
        assert_eq!(limits("8:pids:/old\n7:blkio:/\n0::/elsewhere"), [512]);
        assert_eq!(limits("nonsense\n1:cpu:/old\n"), [0usize; 0]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn tasks_leave_some_processes_to_the_executor() {
        assert_eq!([0, 20, 40, 300, 100_000].map(without_reserve), [0, 10, 24, 263, 99_488]);
    }

    #[test]
    fn a_link_is_left_however_few_threads_there_are() {
        assert_eq!((most_links(0, 1), most_links(1024, usize::MAX)), (1, 1));
        assert!(most_links(1024, THREADS) <= 1024);
    }
}
