//! What all programs of an executor, and each of them, may use of the machine: memory, processors, processes, disk.
//!
//! Where the system grants control groups, the kernel enforces memory, processors and processes ([`crate::cgroups`]). Elsewhere, and for
//! the disk, the watch looks at the programs several times a second, and ends the one that has most. The report says
//! which of the two it is.

#[cfg(target_os = "linux")]
mod limiter;
#[cfg(target_os = "linux")]
mod program;
mod said;
#[cfg(target_os = "linux")]
mod usage;
#[cfg(target_os = "linux")]
mod watch;

#[cfg(target_os = "linux")]
pub use limiter::Limiter;
#[cfg(target_os = "linux")]
pub use program::Reason;
pub use said::Limits;

/// Begins to enforce limits.
///
/// # Errors
/// The system starts no thread.
#[cfg(target_os = "linux")]
pub fn begin(limits: Limits) -> std::io::Result<std::sync::Arc<Limiter>> {
    let limiter = std::sync::Arc::new(Limiter::new(limits));
    watch::begin(&limiter)?;
    Ok(limiter)
}
