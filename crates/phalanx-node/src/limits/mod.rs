//! Limits for the memory, processors, processes and disk of all programs of an executor together, and of each program.
//!
//! With control groups, the kernel enforces memory, processors and processes ([`crate::cgroups`]). Without them, and for the disk, the
//! watch polls the programs several times a second, and ends the largest one. The report names the mechanism of each limit.

#[cfg(target_os = "linux")]
mod limiter;
#[cfg(target_os = "linux")]
mod own;
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
pub use own::{Own, Watched};
#[cfg(target_os = "linux")]
pub use program::{Program, Reason, Why};
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
