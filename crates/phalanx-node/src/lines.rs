//! Assembles whole lines from the pieces of several streams.

use phalanx_core::text::unfinished;
use std::collections::HashMap;
use std::hash::Hash;

/// Most bytes of an incomplete line that are kept. A longer line is shown in pieces.
const MOST_LINE: usize = 64 << 10;

/// The incomplete line of each stream.
#[derive(Debug)]
pub struct Lines<S>(HashMap<S, Vec<u8>>);

impl<S: Copy + Eq + Hash> Lines<S> {
    pub fn new() -> Lines<S> {
        Lines(HashMap::new())
    }

    /// Adds the next bytes of a stream. Returns the lines that are complete now, or all bytes of a line that is too long.
    pub fn take(&mut self, stream: S, bytes: &[u8]) -> Vec<u8> {
        let mut text = self.0.remove(&stream).unwrap_or_default();
        text.extend_from_slice(bytes);
        let whole = match text.iter().rposition(|byte| *byte == b'\n') {
            _ if text.len() > MOST_LINE => text.len() - unfinished(&text),
            last => last.map_or(0, |last| last + 1),
        };
        let rest = text.split_off(whole);
        if !rest.is_empty() {
            self.0.insert(stream, rest);
        }
        text
    }

    /// Removes and returns the incomplete line of a stream, because it will not be completed or is wanted as it is.
    pub fn end(&mut self, stream: S) -> Vec<u8> {
        self.0.remove(&stream).unwrap_or_default()
    }

    /// The streams with an incomplete line.
    pub fn begun(&self) -> Vec<S> {
        self.0.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_streams_are_put_together_apart() {
        let mut lines = Lines::new();
        assert_eq!(lines.take(1, b"one, "), b"");
        assert_eq!(lines.take(2, b"other\nand"), b"other\n");
        assert_eq!(lines.take(1, b"two\n"), b"one, two\n");
        assert_eq!(lines.begun(), [2]);
        assert_eq!((lines.end(2), lines.end(2)), (b"and".to_vec(), Vec::new()));
    }

    #[test]
    fn a_line_without_end_is_not_kept_without_end() {
        let mut lines = Lines::new();
        let piece = vec![b'x'; MOST_LINE];
        assert_eq!(lines.take(1, &piece), b"");
        assert_eq!(lines.take(1, b"y").len(), MOST_LINE + 1);
        assert!(lines.begun().is_empty());
        let cut = ["x".repeat(MOST_LINE).as_bytes(), &"ä".as_bytes()[..1]].concat();
        assert_eq!(lines.take(1, &cut), piece, "a character is not cut");
        assert_eq!(lines.take(1, b"\xa4\n"), "ä\n".as_bytes());
    }
}
