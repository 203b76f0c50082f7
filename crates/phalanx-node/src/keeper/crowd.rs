//! Room for one more program: if programs have used almost all processes of their account, the largest program is ended before another one
//! starts.
//!
//! A task that forks until the system refuses more (a fork bomb) would keep the tasks of all other users from starting. The kernel limits
//! the processes and threads of an account, but not those of one program.

use super::is_readable;
use crate::ending;
use crate::limits::{Reason, Why};
use phalanx_net::sync::lock;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Processes and threads that a program needs to start.
const NEEDED: u64 = 16;
/// A program with fewer processes and threads is never ended to make room for others.
const LEAST: u64 = 64;
/// Timeout for the end of a program.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most programs that are ended before one starts.
const MOST: usize = 16;

/// The running programs.
static PROGRAMS: Mutex<Vec<Program>> = Mutex::new(Vec::new());

/// A running program that may have to make room for another one.
struct Program {
    keeper: Pid,
    /// The keeper's socket. Shutting it down ends the program. It is dropped when the program has ended.
    socket: Weak<OwnedFd>,
    account: u32,
    reason: Reason,
}

/// Registers a program that has just started. `reason` receives the text if the program is ended for others.
pub fn note(keeper: Pid, socket: &Arc<OwnedFd>, account: u32, reason: Reason) {
    let socket = Arc::downgrade(socket);
    let mut programs = lock(&PROGRAMS);
    programs.retain(|it| it.socket.strong_count() > 0);
    programs.push(Program { keeper, socket, account, reason });
}

/// Ends the largest programs of this account until it has room among its `most` processes and threads. It ends no program if all programs
/// together have less than half of `most`, because the other processes are the owner's. It ends no program that has less than half of an
/// even share.
pub fn make_room(account: u32, most: u64) {
    let most = most.saturating_sub(NEEDED);
    for _ in 0..MOST {
        // The count of the whole machine is cheap, so it comes before the count of the account.
        if of_machine().is_none_or(|all| all < most) || of_account(account) < most || !end_largest(account, most) {
            return;
        }
    }
}

/// Ends the largest program of the account. False: no program is too large, or the program has not ended within the timeout.
fn end_largest(account: u32, most: u64) -> bool {
    let mut programs = Vec::new();
    for program in lock(&PROGRAMS).iter().filter(|it| it.account == account) {
        programs.extend(program.socket.upgrade().map(|socket| (program.keeper, socket, program.reason.clone())));
    }
    let sizes: Vec<_> = programs.into_iter().map(|it| (of_program(it.0), it)).collect();
    let all: u64 = sizes.iter().map(|(size, _)| size).sum();
    let least = if all < most / 2 { u64::MAX } else { (all / (2 * sizes.len().max(1) as u64)).max(LEAST) };
    let largest = sizes.into_iter().max_by_key(|(size, _)| *size).filter(|(size, _)| *size >= least);
    let Some((size, (keeper, socket, reason))) = largest else { return false };
    let Ok(ended) = pidfd_open(keeper, PidfdFlags::empty()) else { return true };
    reason.give(Why::Machine(format!(
        "ended, because its program had {size} processes and threads, and left none to others of this machine"
    )));
    let _ = shutdown(&*socket, Shutdown::Write); // the same as when its owner drops the keeper
    drop(socket);
    is_readable(&ended, Instant::now() + PATIENCE)
}

/// Processes and threads of the machine.
fn of_machine() -> Option<u64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Processes and threads of the account.
fn of_account(account: u32) -> u64 {
    let threads = |entry: fs::DirEntry| {
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        let word = |name| status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next();
        (word("Uid:")?.parse() == Ok(account)).then_some(())?;
        word("Threads:")?.parse::<u64>().ok()
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(threads).sum()
}

/// Processes and threads that descend from the keeper of a program.
fn of_program(keeper: Pid) -> u64 {
    let (mut count, mut left) = (0, vec![keeper.as_raw_nonzero().get() as u32]);
    while let Some(process) = left.pop() {
        for thread in ending::threads(process) {
            count += 1;
            left.extend(ending::children(process, thread));
        }
    }
    count
}
