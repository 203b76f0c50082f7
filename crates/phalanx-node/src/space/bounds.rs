//! Limits that both ends of a connection to a space keep to.

use std::time::Duration;

/// A peer on another machine that sends nothing at all for this long, not even a beat, is considered gone.
pub const SILENCE: Duration = Duration::from_secs(12);
/// Longest body of a frame, in bytes: the longest tuple and a little more. Memory for it is allocated as the bytes arrive.
pub const MOST_BODY: u64 = (1 << 30) + (1 << 16);
