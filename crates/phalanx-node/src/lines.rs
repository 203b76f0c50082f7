//! Whole lines out of the pieces in which several streams arrive.

use std::collections::HashMap;
use std::hash::Hash;

/// Bytes of a line that are kept until it is whole; a longer one is shown in pieces.
const MOST_LINE: usize = 64 << 10;

/// For each stream, the line that is not whole yet.
#[derive(Debug)]
pub struct Lines<S>(HashMap<S, Vec<u8>>);

impl<S: Copy + Eq + Hash> Lines<S> {
    pub fn new() -> Lines<S> {
        Lines(HashMap::new())
    }

    /// The lines that are whole with the next bytes of a stream; of a line that is too long, all there is.
    pub fn take(&mut self, stream: S, bytes: &[u8]) -> Vec<u8> {
        let mut text = self.0.remove(&stream).unwrap_or_default();
        text.extend_from_slice(bytes);
        let whole = match text.iter().rposition(|byte| *byte == b'\n') {
            _ if text.len() > MOST_LINE => text.len(),
            last => last.map_or(0, |last| last + 1),
        };
        let rest = text.split_off(whole);
        if !rest.is_empty() {
            self.0.insert(stream, rest);
        }
        text
    }

    /// What there is of a line that will not be whole, or is wanted as it is.
    pub fn end(&mut self, stream: S) -> Vec<u8> {
        self.0.remove(&stream).unwrap_or_default()
    }

    /// The streams of which there is something.
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
    }
}
