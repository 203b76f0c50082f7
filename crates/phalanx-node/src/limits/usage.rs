//! What a program uses: its processes, their memory, and the files in its folders.

use crate::ending;
use cap_fs_ext::DirExt;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::process::Pid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Most files that are looked at in one folder. A program with more has its folder counted only as far.
const MOST_FILES: usize = 1_000_000;
/// How deep folders are that are emptied. Each has a descriptor open.
const DEEPEST: u32 = 64;
/// Bytes of a block, whatever the file system (`st_blocks`).
const BLOCK: u64 = 512;

/// What the processes of a program use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes of memory that only one process has, of all processes, and the most that one has with others.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u64,
}

/// What descends from the keeper of a program.
pub fn of_processes(keeper: Pid) -> Used {
    let (mut used, mut shared) = (Used::default(), 0);
    let mut left = vec![keeper.as_raw_nonzero().get() as u32];
    let keeper = left[0];
    while let Some(process) = left.pop() {
        for thread in ending::threads(process) {
            used.processes += u64::from(process != keeper);
            left.extend(ending::children(process, thread));
        }
        // The keeper is a fork of the executor, and shares its memory.
        if process != keeper {
            let [own, with_others] = memory_of(process);
            used.memory += own;
            shared = shared.max(with_others);
        }
    }
    Used { memory: used.memory + shared, ..used }
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

/// Bytes on the disk, or in memory, of all files in a folder. It follows no link.
pub fn of_folder(folder: &Path) -> u64 {
    let (mut sum, mut count, mut left) = (0, 0, vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else { continue };
            sum += about.blocks() * BLOCK / about.nlink().max(1);
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
