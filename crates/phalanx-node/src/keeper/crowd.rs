//! Room for one more program: if programs have used up nearly all processes that their account may have, the largest program is ended
//! before another one starts.
//!
//! A task that starts processes until the system refuses more would keep the tasks of all other users from starting. The kernel counts
//! the processes and threads of an account, and not those of a program.

use super::is_readable;
use crate::ending;
use crate::limits::Reason;
use phalanx_net::sync::lock;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Processes and threads that a program needs to start.
const NEEDED: u64 = 16;
/// A program that has no more of them than this is never ended for others.
const LEAST: u64 = 64;
/// How long the end of a program is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Programs that are ended at most before one starts.
const MOST: usize = 16;

/// The programs that live.
static PROGRAMS: Mutex<Vec<Program>> = Mutex::new(Vec::new());

/// A program, as others see it that need room.
struct Program {
    keeper: Pid,
    /// The keeper's socket, by which it is told to end. Gone: the program is.
    socket: Weak<OwnedFd>,
    account: u32,
    reason: Reason,
}

/// Notes a program that has just been started. If it is ended for others, the reason is given.
pub fn note(keeper: Pid, socket: &Arc<OwnedFd>, account: u32, reason: Reason) {
    let socket = Arc::downgrade(socket);
    let mut programs = lock(&PROGRAMS);
    programs.retain(|it| it.socket.strong_count() > 0);
    programs.push(Program { keeper, socket, account, reason });
}

/// Ends the largest programs of this account as long as they leave it no room among the `most` processes and threads that it may have.
/// None is ended where most processes of the account are the owner's own, nor one that has less than half of its even share.
pub fn make_room(account: u32, most: u64) {
    let most = most.saturating_sub(NEEDED);
    for _ in 0..MOST {
        // How many there are on the machine is cheap to know. Only then are those of the account counted.
        if of_machine().is_none_or(|all| all < most) || of_account(account) < most || !end_largest(account, most) {
            return;
        }
    }
}

/// Ends the largest program of the account. False: there is none that is too large.
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
    reason.give(format!(
        "ended, because its program had {size} processes and threads, and left none to others of this machine"
    ));
    let _ = shutdown(&*socket, Shutdown::Write); // as its owner ends it
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
