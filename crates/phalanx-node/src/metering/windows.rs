//! What Windows tells of processes: of each by itself, without those that it has started.

use super::Process;
use crate::ending;
use std::time::{Duration, Instant};

/// The system counts processor time in units of 100 ns.
const TICKS_A_MILLISECOND: u64 = 10_000;

/// When a process started, in ticks. 0: it has ended.
pub(super) fn start(process: u32) -> u64 {
    ending::told_of(process).map_or(0, |told| told.start)
}

/// The processor time, in ticks, and the memory, in bytes, of a process. `None`: it has ended.
pub(super) fn tree(of: &Process, _: Instant) -> Option<(u64, u64)> {
    let told = ending::told_of(of.number).filter(|told| told.start == of.start)?;
    Some((told.processor, told.resident))
}

/// The time of so many ticks.
pub fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks / TICKS_A_MILLISECOND)
}

/// `None`: the system keeps no sum of processes that have ended. Those that were looked at before their end are in the sums of users.
pub(super) fn of_ended_children() -> Option<Duration> {
    None
}
