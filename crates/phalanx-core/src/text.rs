//! Text of others, made safe for a terminal and a log.
//!
//! An attacker may choose what a task prints, what a peer says, or the name of a file. With such text the attacker can steer the
//! reader's terminal: set its title, clear it, write over another line, or show text in another order. Only this module says
//! which characters can do that. They are shown as `\x1b` or `\u{202e}`.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal or an editor may act on the character instead of showing it. A tab is harmless.
fn steers(c: char) -> bool {
    match c {
        '\t' => false,
        // marks, embeddings, overrides and isolates of the bidirectional algorithm (UAX #9, section 2)
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // separators of lines and of paragraphs
        '\u{2028}' | '\u{2029}' => true,
        _ => c.is_control(), // C0, DEL and C1
    }
}

/// The text as one line: what steers a terminal is escaped, and so are line ends.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| push(&mut safe, c));
    Cow::Owned(safe)
}

/// The lines of a stream: what steers a terminal is escaped, but for line ends, which may be `\n` or `\r\n`. Bytes that
/// are not UTF-8 are escaped too, because terminals with 8-bit controls act on some of them.
pub fn escaped_lines(bytes: &[u8]) -> Cow<'_, [u8]> {
    let is_safe = |text: &str| text.chars().all(|c| c == '\n' || !steers(c));
    if std::str::from_utf8(bytes).is_ok_and(is_safe) {
        return Cow::Borrowed(bytes);
    }
    let mut safe = String::with_capacity(bytes.len() + 16);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let (text, end) = split_end(line);
        for piece in text.utf8_chunks() {
            piece.valid().chars().for_each(|c| push(&mut safe, c));
            piece.invalid().iter().for_each(|byte| push_byte(&mut safe, *byte));
        }
        safe.push_str(end);
    }
    Cow::Owned(safe.into_bytes())
}

fn split_end(line: &[u8]) -> (&[u8], &'static str) {
    match line {
        [text @ .., b'\r', b'\n'] => (text, "\r\n"),
        [text @ .., b'\n'] => (text, "\n"),
        text => (text, ""),
    }
}

fn push(safe: &mut String, c: char) {
    match u8::try_from(c) {
        _ if !steers(c) => safe.push(c),
        Ok(byte) => push_byte(safe, byte),
        Err(_) => write!(safe, "\\u{{{:x}}}", u32::from(c)).expect("memory takes all"),
    }
}

fn push_byte(safe: &mut String, byte: u8) {
    write!(safe, "\\x{byte:02x}").expect("memory takes all");
}

/// How many bytes at the end of `bytes` begin a character whose other bytes are still to come.
pub fn unfinished(bytes: &[u8]) -> usize {
    let goes_on = |byte: &u8| byte & 0xc0 == 0x80;
    let more = bytes.iter().rev().take(3).take_while(|byte| goes_on(byte)).count();
    let begun = &bytes[bytes.len().saturating_sub(more + 1)..];
    match std::str::from_utf8(begun) {
        Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => begun.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(bytes: &[u8]) -> String {
        String::from_utf8(escaped_lines(bytes).into_owned()).unwrap()
    }

    #[test]
    fn text_of_people_stays_as_it_is() {
        for text in ["", "tab\there", "äöü λ ✓ 日本語 עברית العربية", "👩\u{200d}🔬 café\u{301}", "a\\x1b"]
        {
            assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text), "{text}");
            assert!(matches!(escaped_lines(text.as_bytes()), Cow::Borrowed(_)), "{text}");
        }
        assert!(matches!(escaped_lines(b"one\ntwo\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_steers_a_terminal_is_shown_instead() {
        let title = "\x1b]0;root@bank\x07";
        assert_eq!(escaped(title), "\\x1b]0;root@bank\\x07");
        assert_eq!(escaped("\x1b[2J\x7f\u{9b}31m"), "\\x1b[2J\\x7f\\x9b31m");
        assert_eq!(escaped("one\nWARNING forged\r"), "one\\x0aWARNING forged\\x0d");
        assert_eq!(escaped("a\u{202e}b\u{2028}c\u{2069}d\u{200f}"), "a\\u{202e}b\\u{2028}c\\u{2069}d\\u{200f}");
    }

    #[test]
    fn lines_end_where_they_do_and_nowhere_else() {
        assert_eq!(lines(b"one\r\ntwo\n\x1b[2Jthree"), "one\r\ntwo\n\\x1b[2Jthree");
        assert_eq!(lines(b"50 %\r100 %\n"), "50 %\\x0d100 %\n");
        assert_eq!(lines("a\u{85}b\u{2029}c".as_bytes()), "a\\x85b\\u{2029}c");
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_numbers() {
        assert_eq!(lines(b"\x9b31m \xff \xc3\n\xc2"), "\\x9b31m \\xff \\xc3\n\\xc2");
    }

    #[test]
    fn a_character_is_not_cut() {
        for text in ["ä", "✓", "🙂"] {
            for cut in 1..text.len() {
                assert_eq!(unfinished(&["x".as_bytes(), &text.as_bytes()[..cut]].concat()), cut, "{text} {cut}");
                assert_eq!(unfinished(&text.as_bytes()[..cut]), cut, "{text} {cut}");
            }
            assert_eq!(unfinished(text.as_bytes()), 0);
        }
        assert_eq!([&b""[..], b"x", b"\xff", b"\x80\x80", b"\x80\x80\x80\x80"].map(unfinished), [0; 5]);
    }

    proptest! {
        #[test]
        fn nothing_that_steers_is_left(bytes in proptest::collection::vec(any::<u8>(), 0..200), text: String) {
            prop_assert!(!escaped(&text).chars().any(steers));
            let safe = lines(&bytes);
            prop_assert!(safe.replace("\r\n", "\n").chars().all(|c| c == '\n' || !steers(c)));
            prop_assert_eq!(safe.matches('\n').count(), bytes.iter().filter(|byte| **byte == b'\n').count());
        }
    }
}
