//! How long this process keeps a core that others want too.
//!
//! A rank that is woken needs the core at once and for microseconds, since somebody waits for its answer; who computes beside it
//! keeps the core for a slice of milliseconds. Linux (6.12 and later) lets a process that asked for shorter slices interrupt one that has
//! longer ones, as long as it has not had its share. The share stays the same: it comes in smaller pieces.

/// Asks for the shortest slices that there are, for this thread and those it starts. A system that has no such thing goes on
/// as it is.
#[cfg(target_os = "linux")]
pub fn ask_for_short() {
    /// In nanoseconds: the kernel's least.
    const SLICE: u64 = 100_000;
    const SIZE: u32 = size_of::<libc::sched_attr>() as u32;
    // SAFETY: zero is valid in all fields, and the kernel writes as many bytes as there are.
    let attributes = unsafe {
        let mut attributes: libc::sched_attr = std::mem::zeroed();
        let got = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0);
        (got == 0).then_some(attributes)
    };
    // Whoever was given another policy was given it on purpose.
    let usual = attributes.filter(|it| it.sched_policy == libc::SCHED_OTHER as u32);
    if let Some(mut attributes) = usual {
        (attributes.size, attributes.sched_runtime) = (SIZE, SLICE);
        // SAFETY: the kernel reads the attributes.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// Nothing, because this system has no such slices.
#[cfg(not(target_os = "linux"))]
pub fn ask_for_short() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_rest_stays_as_it_was() {
        let read = || {
            // SAFETY: as above.
            unsafe {
                let mut attributes: libc::sched_attr = std::mem::zeroed();
                let size = size_of::<libc::sched_attr>() as u32;
                assert_eq!(libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0), 0);
                attributes
            }
        };
        std::thread::spawn(move || {
            // SAFETY: a system call without memory.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
            let before = read();
            ask_for_short();
            let after = read();
            assert_eq!((after.sched_nice, after.sched_policy), (before.sched_nice, before.sched_policy));
            // Kernels before 6.12 have no slices of processes.
            assert!(after.sched_runtime == 100_000 || after.sched_runtime == before.sched_runtime);
        })
        .join()
        .unwrap();
    }
}
