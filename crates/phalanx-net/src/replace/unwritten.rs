//! Writes that failed and are tried again.

use super::PATIENCE;
use std::time::{Duration, Instant};

/// How long a write that has failed rests before it is tried again.
const AGAIN: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(30) };

/// Whether a file is still to be written. A write that has failed is tried again.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    is_due: bool,
    failed: Option<Instant>,
}

impl Unwritten {
    /// There are new contents.
    pub(crate) fn set(&mut self) {
        (self.is_due, self.failed) = (true, None);
    }

    /// Whether to write now, and how long to wait for the lock. A later try does not wait, because links wait for it.
    pub(crate) fn begin(&mut self) -> Option<Duration> {
        let may = self.failed.is_none_or(|failed| failed.elapsed() >= AGAIN);
        let patience = if self.failed.is_none() { PATIENCE } else { Duration::ZERO };
        (may && std::mem::take(&mut self.is_due)).then_some(patience)
    }

    /// The write has ended. One that has failed is due again, and newer contents that have come meanwhile are written at once.
    pub(crate) fn end(&mut self, is_written: bool) {
        let has_newer = self.is_due;
        self.failed = (!is_written && !has_newer).then(Instant::now);
        self.is_due |= !is_written;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_failed_is_due_again_later_and_newer_contents_at_once() {
        let mut unwritten = Unwritten::default();
        assert_eq!(unwritten.begin(), None);
        unwritten.set();
        assert_eq!((unwritten.begin(), unwritten.begin()), (Some(PATIENCE), None));
        unwritten.end(false);
        let until = Instant::now() + PATIENCE;
        let again = std::iter::repeat_with(|| unwritten.begin()).find(|it| it.is_some() || Instant::now() > until);
        assert_eq!(again, Some(Some(Duration::ZERO)));
        unwritten.end(false);
        unwritten.set();
        assert_eq!(unwritten.begin(), Some(PATIENCE));
        unwritten.end(true);
        assert_eq!(unwritten.begin(), None);
    }
}
