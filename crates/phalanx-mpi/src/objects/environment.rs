//! What a process asks of its surroundings (MPI 5.0, 9.1 and 9.6).

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The version of this library, for people.
pub fn library_version(interface: &str) -> String {
    format!("phalanx {}, MPI 5.0, {interface}", env!("CARGO_PKG_VERSION"))
}

/// The name of the machine.
pub fn processor_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Seconds since 1970 at the process's first look, and never back from there: the clocks of the ranks of a machine
/// agree as well as its clock is steady, but are not global.
pub fn time() -> f64 {
    static BEGIN: LazyLock<(Instant, f64)> = LazyLock::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), since.as_secs_f64())
    });
    BEGIN.1 + BEGIN.0.elapsed().as_secs_f64()
}
