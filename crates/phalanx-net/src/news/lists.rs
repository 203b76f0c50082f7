//! Lists of revoked certificates, in pieces. The end with the higher number sends its list, also when a newer list appears later.

use super::PIECE;
use crate::identity::{LONGEST_LIST, Revocations, Taken};
use std::io;
use std::sync::Arc;

/// One end's part.
#[derive(Debug)]
pub struct Lists {
    revocations: Arc<Revocations>,
    /// The number of the other end's newest list, once it has said it. A list that was sent counts as theirs.
    theirs: Option<u64>,
    /// The list that is being sent: its number, its text, and how many bytes of it were sent.
    sending: Option<(u64, Vec<u8>, usize)>,
    /// The list that is arriving: its number, and the bytes so far.
    arriving: (u64, Vec<u8>),
}

impl Lists {
    pub fn new(revocations: Arc<Revocations>) -> Lists {
        Lists { revocations, theirs: None, sending: None, arriving: Default::default() }
    }

    /// Notes the number of the other end's newest list.
    pub fn compare(&mut self, number: u64) {
        self.theirs = self.theirs.max(Some(number));
    }

    /// Whether the other end has sent the number of its list.
    pub fn has_heard(&self) -> bool {
        self.theirs.is_some()
    }

    /// The next piece of a list that the other end lacks: the list's number, how many bytes of it follow later, and the piece.
    pub fn due(&mut self) -> Option<(u64, u64, Vec<u8>)> {
        let theirs = self.theirs?;
        if self.sending.is_none() {
            let (number, text) = self.revocations.newer_than(theirs)?;
            self.sending = Some((number, text.into_bytes(), 0));
        }
        let (number, text, sent) = self.sending.as_mut()?;
        let piece = text[*sent..].chunks(PIECE).next().unwrap_or_default().to_vec();
        *sent += piece.len();
        let (number, left) = (*number, (text.len() - *sent) as u64);
        if left == 0 {
            self.theirs = Some(theirs.max(number));
            self.sending = None;
        }
        Some((number, left, piece))
    }

    /// Takes a piece. Returns the list if it is whole by now and this member took it.
    ///
    /// # Errors
    /// The pieces are none of one list, or the list is too long, or the grid's authority has not signed it.
    pub fn hear(&mut self, number: u64, left: u64, piece: &[u8]) -> io::Result<Option<Taken>> {
        let (of, text) = &mut self.arriving;
        if *of != number {
            (*of, *text) = (number, Vec::new());
        }
        if piece.is_empty() || (text.len() + piece.len()) as u64 > LONGEST_LIST.saturating_sub(left) {
            return Err(io::Error::other("this is no piece of a list"));
        }
        text.extend(piece);
        if left > 0 {
            return Ok(None);
        }
        let (number, text) = std::mem::take(&mut self.arriving);
        self.compare(number);
        self.revocations.take(std::str::from_utf8(&text).map_err(io::Error::other)?)
    }
}
