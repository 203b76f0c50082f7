//! What both ends of a connection to a space keep to.

use std::time::Duration;

/// The other end, on another machine, that does not answer for so long is gone, also while nothing is said.
pub const SILENCE: Duration = Duration::from_secs(12);
/// Longest body of a frame, in bytes: the longest tuple and a little. Memory for it is taken as the bytes arrive.
pub const MOST_BODY: u64 = (1 << 30) + (1 << 16);
