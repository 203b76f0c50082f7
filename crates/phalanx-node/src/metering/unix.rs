//! What a unix kernel tells of processes.

use super::Process;
use crate::ending;
use std::time::{Duration, Instant};

/// Most processes that are looked at, of those that one process has started. A program may start as many as its account can.
const MOST_PROCESSES: usize = 1000;

/// The processor time, in ticks, and the memory, in bytes, of a process and of all that it has started, as far as they are found until
/// then. `None`: it has ended.
pub(super) fn tree(of: &Process, until: Instant) -> Option<(u64, u64)> {
    of_process(of.number).filter(|seen| seen.start == of.start)?;
    let (mut ticks, mut resident, mut found) = (0, 0, vec![of.number]);
    let mut next = 0;
    while let Some(process) = found.get(next).copied() {
        next += 1;
        let Some(seen) = of_process(process) else { continue };
        (ticks, resident) = (ticks + seen.ticks, resident + seen.resident);
        let in_time = ending::threads(process).take_while(|_| Instant::now() < until);
        let children = in_time.flat_map(|thread| ending::children(process, thread));
        found.extend(children.take(MOST_PROCESSES.saturating_sub(found.len())));
    }
    Some((ticks, resident))
}

/// When a process started, in ticks. 0: it has ended.
pub(super) fn start(process: u32) -> u64 {
    of_process(process).map_or(0, |seen| seen.start)
}

/// What the kernel tells of a process: its start and its processor time with that of its children that have ended, in ticks, and its
/// memory in bytes.
struct OfProcess {
    start: u64,
    ticks: u64,
    resident: u64,
}

/// Reads it (proc(5), the fields 14 to 17, 22 and 24 of `stat`).
fn of_process(process: u32) -> Option<OfProcess> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let ticks = (14..=17).map(number).sum::<Option<u64>>()?;
    Some(OfProcess { start: number(22)?, ticks, resident: number(24)? * page_size() })
}

/// The time of so many of the kernel's ticks.
pub fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / ticks_a_second())
}

pub(super) fn ticks_a_second() -> u64 {
    // SAFETY: the call only reads a number.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64
}

fn page_size() -> u64 {
    // SAFETY: the call only reads a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as u64
}

/// The processor time of the children of this process that have ended and were waited for, and of their own.
pub(super) fn of_ended_children() -> Option<Duration> {
    // SAFETY: all zeroes is a value of this plain structure, which the system fills in.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` lives as long as the call.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    Some(time(usage.ru_utime) + time(usage.ru_stime))
}
