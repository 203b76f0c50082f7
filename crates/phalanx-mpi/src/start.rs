//! What the launcher tells a process that it starts: one environment variable.

use std::collections::HashMap;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The environment variable, of `key=value` pairs.
pub const VARIABLE: &str = "PHALANX_RANK";

/// The place of a process in its program, and what it inherited.
#[derive(Debug)]
pub struct Start {
    pub rank: usize,
    pub size: usize,
    /// The ranks of this machine.
    pub local: std::ops::Range<usize>,
    pub control: OwnedFd,
    pub segment: OwnedFd,
    /// Of the processes of this machine, in order.
    pub bells: Vec<OwnedFd>,
}

impl Start {
    /// Reads the variable's text.
    ///
    /// # Safety
    /// The file descriptors that it names must be open and nobody else's.
    pub unsafe fn parse(text: &str) -> Result<Start, String> {
        let pairs: HashMap<&str, &str> = text.split_whitespace().filter_map(|pair| pair.split_once('=')).collect();
        let word = |key: &str| pairs.get(key).copied().ok_or_else(|| format!("{VARIABLE} has no {key}"));
        let number = |key: &str| word(key)?.parse::<usize>().map_err(|_| format!("{VARIABLE}: {key} is no number"));
        let (rank, size, first, local) = (number("rank")?, number("size")?, number("first")?, number("local")?);
        let bells = word("bells")?.split(',').map(str::parse).collect::<Result<Vec<RawFd>, _>>();
        let bells = bells.map_err(|_| format!("{VARIABLE}: bells are no numbers"))?;
        let fits = first.checked_add(local).is_some_and(|end| end <= size && (first..end).contains(&rank));
        if !fits || bells.len() != local {
            return Err(format!("{VARIABLE}: rank {rank} of {size}, {local} here from {first} on, does not fit"));
        }
        // SAFETY: as the caller promises.
        let own = |file: RawFd| unsafe { OwnedFd::from_raw_fd(file) };
        let (control, segment) = (number("control")? as RawFd, number("segment")? as RawFd);
        let bells = bells.into_iter().map(own).collect();
        Ok(Start { rank, size, local: first..first + local, control: own(control), segment: own(segment), bells })
    }
}
