//! How a child process ended on Windows: its exit status and its peak resident size.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use windows_sys::Win32::Foundation::{FILETIME, WAIT_TIMEOUT};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{
    GetExitCodeProcess, GetProcessTimes, INFINITE, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE,
    WaitForSingleObject,
};

/// The exit status of processes that their parent has ended. No program ends with it by itself.
pub(crate) const ENDED: u32 = 0x2070_6861;
/// Exit statuses from here on are the system's reasons for an end (NTSTATUS), and no program's.
const SYSTEMS: u32 = 0xc000_0000;

/// State of the parent from before a child starts. Windows needs none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before;

impl Before {
    pub fn now() -> Before {
        Before
    }
}

/// What the system tells of a process, in units of 100 ns and in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Told {
    /// When it started.
    pub start: u64,
    /// Processor time.
    pub processor: u64,
    pub resident: u64,
    pub most_resident: u64,
}

/// Waits for the end of a process. Returns a text for users about how it ended.
pub(crate) fn wait(process: BorrowedHandle<'_>) -> String {
    let mut status = 0;
    // SAFETY: the handle is open, and `status` lives as long as the call.
    let told = unsafe {
        WaitForSingleObject(process.as_raw_handle(), INFINITE);
        GetExitCodeProcess(process.as_raw_handle(), &raw mut status)
    };
    match told {
        0 => io::Error::last_os_error().to_string(),
        _ => describe(status, tell(process).map(|told| told.most_resident)),
    }
}

fn describe(status: u32, most_resident: Option<u64>) -> String {
    let words = match status {
        ENDED => "killed".to_owned(),
        SYSTEMS.. => format!("ended by the system with status {status:#x}{}", reason(status)),
        _ => format!("exited with status {status}"),
    };
    match most_resident.filter(|size| *size > 0) {
        Some(size) => format!("{words}, at most {} MiB resident", size.div_ceil(1 << 20)),
        None => words,
    }
}

fn reason(status: u32) -> &'static str {
    match status {
        0xc000_0005 => " (access violation)",
        0xc000_0017 => " (out of memory)",
        0xc000_001d => " (illegal instruction)",
        0xc000_00fd => " (stack overflow)",
        0xc000_013a => " (interrupted)",
        0xc000_0409 => " (stack buffer overrun, or abort)",
        _ => "",
    }
}

/// Whether a process has ended.
pub(crate) fn has_ended(process: BorrowedHandle<'_>) -> bool {
    // SAFETY: the handle is open.
    unsafe { WaitForSingleObject(process.as_raw_handle(), 0) != WAIT_TIMEOUT }
}

fn open(process: u32) -> Option<OwnedHandle> {
    // SAFETY: a plain call; the handle that it returns is owned by nothing else.
    unsafe {
        let handle = OpenProcess(PROCESS_SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION, 0, process);
        (!handle.is_null()).then(|| OwnedHandle::from_raw_handle(handle))
    }
}

/// Whether a process lives. One that only waits for the processor or the disk does.
pub(crate) fn is_running(process: u32) -> bool {
    open(process).is_some_and(|process| !has_ended(process.as_handle()))
}

/// Whether a process is stopped now. Windows stops threads only.
pub(crate) fn is_stopped(_: u32) -> bool {
    false
}

/// What the system tells of a process that lives. `None`: it has ended, or the system does not tell.
pub(crate) fn told_of(process: u32) -> Option<Told> {
    let process = open(process)?;
    (!has_ended(process.as_handle())).then(|| tell(process.as_handle()))?
}

pub(crate) fn tell(process: BorrowedHandle<'_>) -> Option<Told> {
    let (mut times, mut memory) = ([FILETIME::default(); 4], PROCESS_MEMORY_COUNTERS::default());
    let [start, end, kernel, user] = &mut times;
    let length = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    // SAFETY: the handle is open, and the rest lives as long as the calls.
    let told = unsafe {
        GetProcessTimes(process.as_raw_handle(), start, end, kernel, user) != 0
            && K32GetProcessMemoryInfo(process.as_raw_handle(), &raw mut memory, length) != 0
    };
    let [start, _, kernel, user] = times.map(|it| u64::from(it.dwHighDateTime) << 32 | u64::from(it.dwLowDateTime));
    let (resident, most_resident) = (memory.WorkingSetSize as u64, memory.PeakWorkingSetSize as u64);
    told.then_some(Told { start, processor: kernel + user, resident, most_resident })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_with_the_status_and_the_size() {
        assert_eq!(describe(7, Some(5 << 20)), "exited with status 7, at most 5 MiB resident");
        assert_eq!(describe(0xc000_0005, None), "ended by the system with status 0xc0000005 (access violation)");
        assert_eq!(describe(ENDED, None), "killed");
    }

    #[test]
    fn this_process_lives_and_has_used_memory() {
        assert!(is_running(std::process::id()) && told_of(std::process::id()).unwrap().resident > 0);
    }
}
