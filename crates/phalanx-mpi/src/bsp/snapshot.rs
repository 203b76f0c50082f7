//! What a process is between two supersteps, as bytes.
//!
//! ```text
//! | superstep, tagsize, areas, letters: u64 each | blocks: areas, tag and payload of letters, state |
//! | block: length, u64 | bytes |                                             all little endian
//! ```

use crate::error::{Class, Result, fail};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Snapshot<'a> {
    /// Supersteps that were completed.
    pub superstep: u32,
    pub tagsize: u64,
    /// What is registered, in the order of the registrations.
    pub areas: Vec<&'a [u8]>,
    /// Messages of the queue: tag and payload.
    pub letters: Vec<(&'a [u8], &'a [u8])>,
    /// What the program has declared, in its own form.
    pub state: &'a [u8],
}

impl<'a> Snapshot<'a> {
    pub fn encode(&self) -> Vec<u8> {
        let letters = self.letters.iter().flat_map(|(tag, payload)| [*tag, *payload]);
        let blocks: Vec<&[u8]> = self.areas.iter().copied().chain(letters).chain([self.state]).collect();
        let mut bytes = Vec::with_capacity(32 + blocks.iter().map(|block| 8 + block.len()).sum::<usize>());
        for number in [u64::from(self.superstep), self.tagsize, self.areas.len() as u64, self.letters.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        for block in blocks {
            bytes.extend((block.len() as u64).to_le_bytes());
            bytes.extend(block);
        }
        bytes
    }

    /// An error for bytes that are no snapshot.
    pub fn decode(bytes: &'a [u8]) -> Result<Snapshot<'a>> {
        let mut rest = Rest(bytes);
        match rest.snapshot().filter(|_| rest.0.is_empty()) {
            Some(snapshot) => Ok(snapshot),
            None => fail(Class::Other, "a checkpoint is damaged"),
        }
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn snapshot(&mut self) -> Option<Snapshot<'a>> {
        let superstep = self.number()?.try_into().ok()?;
        let (tagsize, areas, letters) = (self.number()?, self.number()?, self.number()?);
        let areas = (0..areas).map(|_| self.block()).collect::<Option<_>>()?;
        let letters = (0..letters).map(|_| Some((self.block()?, self.block()?))).collect::<Option<_>>()?;
        Some(Snapshot { superstep, tagsize, areas, letters, state: self.block()? })
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn block(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (block, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn snapshot() -> Snapshot<'static> {
        let letters = vec![(&b"tag"[..], &b"payload"[..]), (b"", b"")];
        Snapshot { superstep: 7, tagsize: 3, areas: vec![b"one", b"", b"three"], letters, state: b"state" }
    }

    #[test]
    fn what_was_written_is_read() {
        for written in [snapshot(), Snapshot::default()] {
            assert_eq!(Snapshot::decode(&written.encode()).expect("it is whole"), written);
        }
    }

    #[test]
    fn what_is_cut_or_longer_is_refused() {
        let bytes = snapshot().encode();
        for end in 0..bytes.len() {
            assert!(Snapshot::decode(&bytes[..end]).is_err());
        }
        assert!(Snapshot::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_snapshot_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(read) = Snapshot::decode(&bytes) {
                prop_assert_eq!(read.encode(), bytes);
            }
        }
    }
}
