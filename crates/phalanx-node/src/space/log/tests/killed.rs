//! Kills a process at any step of a write, as `kill -9` does. What it had promised must be in the file.

use super::damage::{Folder, state};
use super::*;
use crate::space::log::store::Store;
use redb::StorageBackend;
use redb::backends::FileBackend;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};

const PATH: &str = "PHALANX_TEST_STORE";
const STEPS: &str = "PHALANX_TEST_STEPS";
const GROUPS: u64 = 10;

/// A file whose process dies in the middle of a write, after this many steps.
#[derive(Debug)]
struct Deadly {
    file: FileBackend,
    steps: AtomicI64,
}

impl Deadly {
    fn step(&self) -> bool {
        self.steps.fetch_sub(1, Ordering::Relaxed) <= 0
    }
}

fn die() -> ! {
    // SAFETY: signals this process only.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!()
}

impl StorageBackend for Deadly {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.file.read(offset, len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.step() { die() } else { self.file.set_len(len) }
    }

    fn sync_data(&self, eventual: bool) -> io::Result<()> {
        if self.step() { die() } else { self.file.sync_data(eventual) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.step() {
            self.file.write(offset, &data[..data.len() / 2])?;
            die()
        }
        self.file.write(offset, data)
    }
}

/// The process that is killed. It prints what it was promised.
#[test]
#[ignore = "started by the test below"]
fn child() {
    let path = std::env::var(PATH).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let steps = AtomicI64::new(std::env::var(STEPS).unwrap().parse().unwrap());
    let store = Store::on(Deadly { file: FileBackend::new(file).unwrap(), steps }).unwrap();
    let log = Durable::start(store, ignore).unwrap();
    for n in 0..GROUPS {
        log.wait(log.append(group(n))).unwrap();
        println!("\npromised {}", n + 1);
    }
}

/// Returns how many groups the child was promised before it died, and whether it died.
fn run(path: &str, steps: i64) -> (u64, bool) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "space::log::tests::killed::child", "--ignored", "--nocapture"])
        .env(PATH, path)
        .env(STEPS, steps.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let promised = lines.filter_map(|line| line.strip_prefix("promised ")?.parse().ok()).max().unwrap_or(0);
    (promised, !child.wait().unwrap().success())
}

#[test]
fn a_process_that_is_killed_at_any_step_loses_nothing_that_was_promised() {
    let folder = Folder::new();
    for steps in 0.. {
        drop(std::fs::remove_file(folder.file()));
        drop(Durable::open(&folder.file(), ignore).unwrap());
        let (promised, died) = run(folder.file().to_str().unwrap(), steps);
        let numbers: Vec<u64> = tuples(&state(&folder.file()).unwrap()).into_keys().collect();
        let possible = [numbers_after(promised), numbers_after(promised + 1)];
        assert!(possible.contains(&numbers), "after {steps} steps: {numbers:?}, and {promised} groups were promised");
        if !died {
            assert_eq!(promised, GROUPS);
            assert!(steps > 3 * GROUPS as i64, "{steps}");
            return;
        }
    }
}
