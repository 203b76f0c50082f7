//! What a program uses: its processes, their memory, and the files in its folders.

use crate::ending;
use cap_fs_ext::DirExt;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::process::Pid;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Most files that are looked at in one folder. A program with more has its folder counted only as far.
const MOST_FILES: usize = 1_000_000;
/// How deep folders are that are emptied. Each has a descriptor open.
const DEEPEST: u32 = 64;
/// Time in which a process that was just forked begins another program.
const A_FORK: Duration = Duration::from_millis(10);
/// Bytes of a block, whatever the file system (`st_blocks`).
const BLOCK: u64 = 512;

/// The size of a folder that cannot be looked at.
pub const UNKNOWN: u64 = u64::MAX;

/// What the processes of a program use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes of memory that only one process has, of all processes, and the most that one has with others.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u64,
}

/// The first of the processes whose memory is summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// A keeper. It is a fork of the executor, and shares its memory, so that it does not count itself.
    Keeper,
    /// An interpreter.
    Interpreter,
}

/// What descends from the keeper of a program.
pub fn of_processes(keeper: Pid) -> Used {
    sum(keeper, Root::Keeper, memory_of)
}

/// The memory of an interpreter and of what it has started, in bytes.
pub fn of_interpreter(process: Pid) -> u64 {
    sum(process, Root::Interpreter, memory_of).memory
}

/// Looks again, and more closely, whether processes use more memory than `limit`. If so, returns how much. Pages that forked processes
/// share count once. The pause lets a process that was just forked begin its program: until then it has all memory of its parent.
pub fn above(root: Pid, limit: u64, kind: Root) -> Option<u64> {
    thread::sleep(A_FORK);
    let used = sum(root, kind, |process| portion_of(process).unwrap_or_else(|| memory_of(process))).memory;
    (used > limit).then_some(used)
}

fn sum(root: Pid, kind: Root, memory_of: impl Fn(u32) -> [u64; 2]) -> Used {
    let (mut used, mut shared) = (Used::default(), 0);
    for (process, threads) in family(root).skip(usize::from(kind == Root::Keeper)) {
        used.processes += threads;
        let [own, with_others] = memory_of(process);
        used.memory += own;
        shared = shared.max(with_others);
    }
    Used { memory: used.memory + shared, ..used }
}

/// A process, as a keeper, and then what descends from it: each process with the number of its threads.
fn family(first: Pid) -> impl Iterator<Item = (u32, u64)> {
    let mut left = vec![first.as_raw_nonzero().get() as u32];
    std::iter::from_fn(move || {
        let process = left.pop()?;
        let threads =
            ending::threads(process).inspect(|thread| left.extend(ending::children(process, *thread))).count();
        Some((process, threads as u64))
    })
}

/// As [`memory_of`], with each page divided by the number of processes that have it. It takes about 10 ms for each GB. `None`: the system
/// does not tell.
fn portion_of(process: u32) -> Option<[u64; 2]> {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let kilobytes = |name: &str| -> Option<u64> {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let shared = kilobytes("Pss_Shmem").unwrap_or(0);
    Some([(kilobytes("Pss_Anon")? + kilobytes("SwapPss").unwrap_or(0)) << 10, shared << 10])
}

/// The memory of a process: what only it has, swapped out or not, and what it has with others. Both in bytes.
fn memory_of(process: u32) -> [u64; 2] {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kilobytes = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    [(kilobytes("RssAnon") + kilobytes("VmSwap")) << 10, kilobytes("RssShmem") << 10]
}

/// Bytes that a program's processes have written to disks, with those whose ends they have waited for. Files in memory do not count.
/// [`UNKNOWN`]: a process hides its count.
pub fn written(keeper: Pid) -> u64 {
    let written = |(number, process): (usize, u32)| -> u64 {
        match fs::read_to_string(format!("/proc/{process}/io")) {
            Ok(counts) => counts.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok()).unwrap_or(0),
            // The keeper, which comes first, is a fork of the executor, which hides its own.
            Err(error) if is_hidden(&error) && number > 0 && ending::lives(process) => UNKNOWN,
            Err(_) => 0,
        }
    };
    family(keeper).map(|(process, _)| process).enumerate().map(written).fold(0, u64::saturating_add)
}

/// Bytes that are free on the file system of a folder, and its size.
pub fn space(folder: &Path) -> Option<(u64, u64)> {
    let about = rustix::fs::statvfs(folder).ok()?;
    Some((about.f_bavail.saturating_mul(about.f_frsize), about.f_blocks.saturating_mul(about.f_frsize)))
}

/// Bytes on the disk, or in memory, of all files in a folder. It follows no link. What cannot be looked at counts as [`UNKNOWN`], because
/// a program could hide files there.
pub fn of_folder(folder: &Path) -> u64 {
    let (mut sum, mut count, mut left) = (0u64, 0, vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if is_hidden(&error) => return UNKNOWN,
            Err(_) => continue,
        };
        for entry in entries {
            let (entry, about) = match entry.and_then(|entry| entry.metadata().map(|about| (entry, about))) {
                Ok(both) => both,
                Err(error) if is_hidden(&error) => return UNKNOWN,
                Err(_) => continue,
            };
            sum = sum.saturating_add(about.blocks().saturating_mul(BLOCK) / about.nlink().max(1));
            count += 1;
            if about.is_dir() {
                left.push(entry.path());
            }
            if count >= MOST_FILES {
                return sum;
            }
        }
    }
    sum
}

/// Whether an error hides files, and is not one of a file that is gone meanwhile, or of this process, which has no descriptor left.
fn is_hidden(error: &io::Error) -> bool {
    let harmless = [libc::ENOENT, libc::ENOTDIR, libc::ESTALE, libc::EMFILE, libc::ENFILE, libc::ENOMEM];
    !error.raw_os_error().is_some_and(|code| harmless.contains(&code))
}

/// Removes the files in a folder, and leaves the folders. It follows no link. Files of the executor's own stay, whose names begin with a dot.
pub fn empty(folder: &Path) {
    if let Ok(opened) = Dir::open_ambient_dir(folder, ambient_authority()) {
        empty_opened(&opened, DEEPEST);
    }
}

fn empty_opened(folder: &Dir, depth: u32) {
    for entry in folder.entries().into_iter().flatten().flatten() {
        let name = entry.file_name();
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true if depth > 0 => {
                folder.open_dir_nofollow(&name).iter().for_each(|inner| empty_opened(inner, depth - 1));
            }
            false if !name.as_encoded_bytes().starts_with(b".") => drop(folder.remove_file_or_symlink(&name)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_counts_what_is_in_it_and_as_unknown_what_is_hidden() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), vec![1; 100_000]).unwrap();
        assert!((100_000..1 << 20).contains(&of_folder(folder.path())));
        assert_eq!(of_folder(&folder.path().join("gone")), 0);
        // Deeper than a path can be long, as a program makes folders that it enters one after the other.
        let mut inner = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let name = "x".repeat(250);
        for _ in 0..20 {
            inner.create_dir(&name).unwrap();
            inner = inner.open_dir(&name).unwrap();
        }
        assert_eq!(of_folder(folder.path()), UNKNOWN);
        let _ = std::process::Command::new("rm").arg("-rf").arg(folder.path()).status();
    }
}
