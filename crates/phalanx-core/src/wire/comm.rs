//! Messages between processes of Dask, of many pieces each.
//!
//! The pieces of a message (Dask calls them frames) are a serialized header, and the buffers of the objects in it. They
//! travel as one or several *parts*, each the body of a frame of the link. A part arrives in memory of its own, so that an
//! array can be released without the others of its message.
//!
//! ```text
//! first part: | length of each piece, u64 | padding | piece | piece | …      others: | piece | piece | …      little endian
//! ```

use super::{ALIGNMENT, decode, encode};
use crate::error::WireError;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Limit on the pieces of one message. Their lengths take 8 MiB.
pub const MOST_PIECES: u32 = 1 << 20;
/// Limit on what comes before the pieces in the first part, in bytes.
pub const MOST_BEFORE: u64 = MOST_PIECES as u64 * WORD as u64 + ALIGNMENT as u64;
const WORD: usize = 8;
static ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// The header of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Part {
    /// The first part of a message of so many pieces. So many bytes of padding follow their lengths.
    First { pieces: u32, padding: u8 },
    /// Another part.
    Next,
}

/// A message that has arrived.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// The parts, without the lengths.
    pub parts: Vec<Bytes>,
    /// The lengths of the pieces.
    pub lengths: Vec<u64>,
}

impl Message {
    /// The bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// Bytes of memory that the message takes.
    pub fn held(&self) -> u64 {
        self.bytes() + (WORD * self.lengths.len() + size_of::<Bytes>() * self.parts.len()) as u64
    }

    /// The pieces of each part, as ranges in it.
    pub fn pieces(&self) -> Vec<Vec<Range<usize>>> {
        let mut lengths = self.lengths.iter().map(|length| *length as usize).peekable();
        let pieces_of = |part: &Bytes| {
            let mut end = 0;
            let next = |_| {
                let length = lengths.next_if(|length| end + length <= part.len())?;
                end += length;
                Some(end - length..end)
            };
            std::iter::repeat(()).map_while(next).collect()
        };
        self.parts.iter().map(pieces_of).collect()
    }
}

/// A frame that is to be sent: its start, and its body in pieces.
pub type Encoded = (Vec<u8>, Vec<Bytes>);

/// Encodes a message: the start and the body of the frame of each part. A part has as many pieces as `counts` says. `aligned`: the
/// piece of the first part that begins at a multiple of [`ALIGNMENT`] in the receiver's memory.
///
/// # Errors
/// There are more than [`MOST_PIECES`], or the counts do not add up to the pieces.
pub fn encode_message(pieces: Vec<Bytes>, counts: &[usize], aligned: Option<usize>) -> Result<Vec<Encoded>, WireError> {
    let count = u32::try_from(pieces.len()).ok().filter(|count| *count <= MOST_PIECES).ok_or(WireError::Lengths)?;
    if counts.is_empty() || counts.iter().sum::<usize>() != pieces.len() {
        return Err(WireError::Lengths);
    }
    let mut table = BytesMut::with_capacity(WORD * pieces.len());
    pieces.iter().for_each(|piece| table.put_u64_le(piece.len() as u64));
    let before =
        |aligned: usize| table.len() + pieces[..aligned.min(pieces.len())].iter().map(Bytes::len).sum::<usize>();
    let padding = aligned.map(before).map_or(0, |before| before.next_multiple_of(ALIGNMENT) - before);
    let mut header = Part::First { pieces: count, padding: padding as u8 };
    let mut body = vec![table.freeze(), Bytes::from_static(&ZEROS[..padding])];
    let (mut pieces, mut parts) = (pieces.into_iter(), Vec::with_capacity(counts.len()));
    for count in counts {
        body.extend(pieces.by_ref().take(*count));
        let length = body.iter().map(|piece| piece.len() as u64).sum();
        if length > 0 || header != Part::Next {
            parts.push((encode(&header, length), std::mem::take(&mut body)));
        }
        header = Part::Next;
        body.clear();
    }
    Ok(parts)
}

/// Puts the parts of messages together as they arrive.
#[derive(Debug)]
pub struct Gathering {
    /// Limit on the bytes of a message.
    most: u64,
    message: Message,
    /// The number of pieces that have arrived, and the bytes that are missing.
    arrived: usize,
    missing: u64,
}

impl Gathering {
    /// For messages of at most `most` bytes.
    pub fn new(most: u64) -> Gathering {
        Gathering { most, message: Message::default(), arrived: 0, missing: 0 }
    }

    /// The longest body that the next part may have, in bytes.
    pub fn room(&self) -> u64 {
        if self.missing > 0 { self.missing } else { self.most.saturating_add(MOST_BEFORE) }
    }

    /// Takes a part. Returns the message if that was its last one.
    ///
    /// # Errors
    /// The peer is at fault: the part is none, or does not belong to the message, or the message is too long.
    pub fn take(&mut self, header: &[u8], body: Bytes) -> Result<Option<Message>, WireError> {
        let part = match (decode(header)?, self.missing > 0) {
            (Part::First { pieces, padding }, false) => self.begin(pieces, padding, body)?,
            (Part::Next, true) if !body.is_empty() => body, // endless empty parts would take memory
            _ => return Err(WireError::NoMessage),
        };
        self.missing = self.missing.checked_sub(part.len() as u64).ok_or(WireError::Lengths)?;
        let mut left = part.len() as u64;
        let lengths = self.message.lengths[self.arrived..].iter();
        self.arrived +=
            lengths.take_while(|length| left.checked_sub(**length).inspect(|rest| left = *rest).is_some()).count();
        if left > 0 {
            return Err(WireError::Lengths); // a piece that goes on in another part
        }
        self.message.parts.push(part);
        Ok((self.missing == 0).then(|| std::mem::take(&mut self.message)))
    }

    /// Begins a message with the body of its first part. Returns that without the lengths.
    fn begin(&mut self, pieces: u32, padding: u8, mut body: Bytes) -> Result<Bytes, WireError> {
        let table = pieces as usize * WORD;
        if pieces > MOST_PIECES || usize::from(padding) >= ALIGNMENT || body.len() < table + usize::from(padding) {
            return Err(WireError::Lengths);
        }
        let mut table = body.split_to(table);
        body.advance(padding.into());
        let lengths: Vec<u64> = (0..pieces).map(|_| table.get_u64_le()).collect();
        let total = lengths.iter().try_fold(0u64, |sum, length| sum.checked_add(*length)).ok_or(WireError::Lengths)?;
        if total > self.most {
            return Err(WireError::BodyTooLong { is: total, most: self.most });
        }
        (self.arrived, self.missing) = (0, total);
        self.message.lengths = lengths;
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PREFIX;
    use proptest::prelude::*;

    const MOST: u64 = 1 << 20;

    fn send(pieces: &[Vec<u8>], counts: &[usize], aligned: Option<usize>) -> Vec<(Vec<u8>, Bytes)> {
        let pieces = pieces.iter().cloned().map(Bytes::from).collect();
        let parts = encode_message(pieces, counts, aligned).expect("the counts add up");
        parts.into_iter().map(|(start, body)| (start[PREFIX..].to_vec(), Bytes::from(body.concat()))).collect()
    }

    fn receive(parts: Vec<(Vec<u8>, Bytes)>) -> Result<Option<Message>, WireError> {
        let mut gathering = Gathering::new(MOST);
        let mut message = None;
        for (header, body) in parts {
            assert!(message.is_none() && body.len() as u64 <= gathering.room());
            message = gathering.take(&header, body)?;
        }
        Ok(message)
    }

    fn pieces_of(message: &Message) -> Vec<Vec<u8>> {
        let parts = message.parts.iter().zip(message.pieces());
        parts.flat_map(|(part, pieces)| pieces.into_iter().map(|piece| part[piece].to_vec())).collect()
    }

    #[test]
    fn an_array_of_the_first_part_is_aligned_and_others_begin_a_part() {
        let pieces = [vec![1; 13], vec![2; 7], vec![3; 100], vec![4; 50]];
        let parts = send(&pieces, &[3, 1], Some(2));
        let message = receive(parts.clone()).expect("is one").expect("is whole");
        assert_eq!(pieces_of(&message), pieces);
        assert_eq!(message.parts.len(), 2);
        let place = parts[0].1.len() - 100;
        assert_eq!(place % ALIGNMENT, 0);
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        let first = |pieces, padding| encode(&Part::First { pieces, padding }, 0)[PREFIX..].to_vec();
        let next = encode(&Part::Next, 0)[PREFIX..].to_vec();
        let long = |length: u64| Bytes::copy_from_slice(&length.to_le_bytes());
        let refused = |parts: Vec<(Vec<u8>, Bytes)>| receive(parts).expect_err("breaks the protocol");
        assert_eq!(refused(vec![(next.clone(), Bytes::new())]), WireError::NoMessage);
        assert_eq!(refused(vec![(first(MOST_PIECES + 1, 0), Bytes::new())]), WireError::Lengths);
        assert_eq!(refused(vec![(first(2, 0), long(1))]), WireError::Lengths);
        assert_eq!(refused(vec![(first(1, 64), Bytes::from(vec![0; 100]))]), WireError::Lengths);
        assert_eq!(refused(vec![(first(1, 0), long(MOST + 1))]), WireError::BodyTooLong { is: MOST + 1, most: MOST });
        let sum = Bytes::from([u64::MAX.to_le_bytes(), u64::MAX.to_le_bytes()].concat());
        assert_eq!(refused(vec![(first(2, 0), sum)]), WireError::Lengths);
        assert_eq!(refused(vec![(first(1, 0), long(5)), (first(0, 0), Bytes::new())]), WireError::NoMessage);
        assert_eq!(refused(vec![(first(1, 0), long(5)), (next.clone(), Bytes::new())]), WireError::NoMessage);
        assert_eq!(
            refused(vec![(first(1, 0), long(5)), (next.clone(), Bytes::from_static(b"abc"))]),
            WireError::Lengths
        );
        assert_eq!(refused(vec![(vec![9], Bytes::new())]), WireError::NoMessage);
    }

    proptest! {
        #[test]
        fn messages_arrive_as_they_were_sent(
            parts in proptest::collection::vec(proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..4), 1..5),
            aligned in proptest::option::of(0usize..4)
        ) {
            let counts: Vec<_> = parts.iter().map(Vec::len).collect();
            let pieces: Vec<_> = parts.concat();
            let sent = send(&pieces, &counts, aligned);
            if let Some(message) = receive(sent).expect("is a message") {
                prop_assert_eq!(message.bytes() as usize, pieces.concat().len());
                prop_assert_eq!(pieces_of(&message), pieces);
            } else {
                prop_assert!(false, "is not whole");
            }
        }

        #[test]
        fn hostile_parts_never_panic(parts in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..8), proptest::collection::vec(any::<u8>(), 0..100)), 0..5)
        ) {
            let mut gathering = Gathering::new(1000);
            for (header, body) in parts {
                if let Ok(Some(message)) = gathering.take(&header, body.into()) {
                    message.pieces();
                }
            }
        }
    }
}
