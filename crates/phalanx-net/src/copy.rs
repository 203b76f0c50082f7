//! Copies many bytes at full speed, whatever their alignment.
//!
//! The C library copies more than about 2 KB with one instruction, `rep movsb`. On AMD's Zen 3 and 4 that instruction
//! is twenty times slower (2 to 3 GB/s) if the target starts 1 to 31 bytes further into its page than the source does into
//! its own. This happens whenever bytes from the start of a page are put behind a head of a few bytes.

use std::ops::Range;

/// Pieces up to this length are copied by other instructions.
const PIECE: usize = 2048;
const PAGE: usize = 4096;

/// How many bytes to copy at a time.
#[inline]
fn step(from: *const u8, to: *const u8, length: usize) -> usize {
    let ahead = (to as usize).wrapping_sub(from as usize) % PAGE;
    if length > PIECE && (1..32).contains(&ahead) { PIECE } else { length.max(1) }
}

/// Like [`std::ptr::copy_nonoverlapping`].
///
/// # Safety
/// `from` may be read and `to` be written for `length` bytes, and they do not overlap.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    let step = step(from, to, length);
    let mut at = 0;
    while at < length {
        // SAFETY: within what the caller promises.
        unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), step.min(length - at)) };
        at += step;
    }
}

/// Like `copy_within`, towards the front. That instruction is slow for short distances too.
#[inline]
pub fn move_ahead(bytes: &mut [u8], from: Range<usize>, to: usize) {
    debug_assert!(to <= from.start);
    let ahead = from.start - to;
    let mut at = from.start;
    while at < from.end {
        let end = from.end.min(at + PIECE);
        bytes.copy_within(at..end, at - ahead);
        at = end;
    }
}

/// Like [`Vec::extend_from_slice`].
#[inline]
pub fn append(to: &mut Vec<u8>, bytes: &[u8]) {
    to.reserve(bytes.len());
    let step = step(bytes.as_ptr(), to.as_ptr().wrapping_add(to.len()), bytes.len());
    bytes.chunks(step).for_each(|piece| to.extend_from_slice(piece));
}

/// Like [`slice::to_vec`].
pub fn copied(bytes: &[u8]) -> Vec<u8> {
    let mut copied = Vec::with_capacity(bytes.len());
    append(&mut copied, bytes);
    copied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_copied_wherever_it_lies() {
        let from: Vec<u8> = (0..3 * PAGE).map(|at| (at % 251) as u8).collect();
        let mut slow = 0;
        // How far the target is behind the source, within the page.
        let behind = |to: *const u8, ahead| (from.as_ptr() as usize).wrapping_sub(to as usize) % PAGE + ahead;
        for (ahead, length) in
            (0..40).flat_map(|ahead| [0, 1, PIECE, PIECE + 1, 2 * PAGE + 5].map(|length| (ahead, length)))
        {
            let mut to = vec![0; 5 * PAGE];
            let at = behind(to.as_ptr(), ahead);
            slow += u32::from(length > PIECE && step(from.as_ptr(), to[at..].as_ptr(), length) == PIECE);
            // SAFETY: both have that much, and are two.
            unsafe { copy(from.as_ptr(), to[at..].as_mut_ptr(), length) };
            assert_eq!(to[at..][..length], from[..length]);
            assert!(to[..at].iter().chain(&to[at + length..]).all(|byte| *byte == 0));
            let mut to = Vec::with_capacity(5 * PAGE);
            let at = behind(to.as_ptr(), ahead);
            to.resize(at, 7);
            append(&mut to, &from[..length]);
            assert_eq!((&to[..at], &to[at..]), (&vec![7; at][..], &from[..length]));
            assert_eq!(copied(&from[..length]), from[..length]);
        }
        assert_eq!(slow, 2 * 31);
    }

    #[test]
    fn what_is_slow_is_copied_in_pieces() {
        let (from, length) = (std::ptr::without_provenance::<u8>(10 * PAGE), 10 * PIECE);
        for (ahead, slow) in [(0, false), (1, true), (31, true), (32, false), (PAGE + 5, true), (2 * PAGE, false)] {
            assert_eq!(step(from, from.wrapping_add(ahead), length) == PIECE, slow, "{ahead}");
        }
        assert_eq!(step(from, from.wrapping_add(5), PIECE), PIECE);
        assert!(step(from, from.wrapping_sub(5), length) == length && step(from, from, 0) == 1);
    }
}
