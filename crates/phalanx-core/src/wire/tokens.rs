//! Tokens on the wire: pickled objects, followed by the large buffers (arrays) that they refer to.

use crate::error::WireError;
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

/// Alignment of attached buffers in the body, in bytes. An array can then be used in place and is aligned for vector
/// instructions.
pub const ALIGNMENT: usize = 64;
static PADDING: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// The layout of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Shape {
    /// One pickle of a list of `count` plain immutable objects (numbers, strings). This is the cheapest form.
    Packed { count: u32, bytes: u64 },
    /// Pickles of these lengths, one after the other, followed by the attached buffers.
    Separate { pickles: Vec<u64>, attached: Vec<Attached> },
}

/// A buffer that the pickle of token number `token` refers to (pickle protocol 5, out of band).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The number of the token.
    pub token: u32,
    /// The length of the buffer.
    pub bytes: u64,
}

impl Shape {
    /// The number of tokens.
    pub fn count(&self) -> u32 {
        match self {
            Shape::Packed { count, .. } => *count,
            Shape::Separate { pickles, .. } => pickles.len() as u32,
        }
    }

    /// The length of the body that this shape describes; `None` if the sum overflows.
    fn body(&self) -> Option<u64> {
        match self {
            Shape::Packed { bytes, .. } => Some(*bytes),
            Shape::Separate { pickles, attached } => {
                let mut sum = pickles.iter().try_fold(0u64, |sum, bytes| sum.checked_add(*bytes))?;
                for buffer in attached {
                    sum = sum.checked_next_multiple_of(ALIGNMENT as u64)?.checked_add(buffer.bytes)?;
                }
                Some(sum)
            }
        }
    }

    /// Refuses a shape that does not fit a body of `body` bytes. Zero separate tokens are allowed, because a group can
    /// be empty.
    pub fn check(&self, body: u64) -> Result<(), WireError> {
        let packed_nothing = matches!(self, Shape::Packed { count: 0, .. });
        if packed_nothing || self.body() != Some(body) {
            return Err(WireError::Lengths);
        }
        let Shape::Separate { pickles, attached } = self else { return Ok(()) };
        let in_order = attached.windows(2).all(|pair| pair[0].token <= pair[1].token);
        let in_range = attached.last().is_none_or(|last| (last.token as usize) < pickles.len());
        if in_order && in_range { Ok(()) } else { Err(WireError::Lengths) }
    }
}

/// Several tokens with their bytes. Cloning and slicing copy no bytes.
#[derive(Debug, Clone)]
pub struct Tokens {
    shape: Shape,
    /// The pickles, followed by the attached buffers.
    parts: Vec<Bytes>,
}

impl Tokens {
    /// `count` plain objects pickled as one list.
    pub fn packed(count: u32, pickle: Bytes) -> Tokens {
        Tokens { shape: Shape::Packed { count, bytes: pickle.len() as u64 }, parts: vec![pickle] }
    }

    /// Separately pickled objects. `lengths` cut `pickles`; `attached` is in the order of the tokens.
    pub fn separate(pickles: Bytes, lengths: Vec<u64>, attached: Vec<(u32, Bytes)>) -> Tokens {
        let shape = attached.iter().map(|(token, bytes)| Attached { token: *token, bytes: bytes.len() as u64 });
        let shape = Shape::Separate { pickles: lengths, attached: shape.collect() };
        let parts = std::iter::once(pickles).chain(attached.into_iter().map(|(_, bytes)| bytes)).collect();
        Tokens { shape, parts }
    }

    /// Builds tokens from a peer's shape and body.
    pub fn from_wire(shape: Shape, body: Bytes) -> Result<Tokens, WireError> {
        shape.check(body.len() as u64)?;
        let Shape::Separate { pickles, attached } = &shape else {
            return Ok(Tokens { shape, parts: vec![body] });
        };
        let mut end = pickles.iter().sum::<u64>() as usize;
        let mut parts = vec![body.slice(..end)];
        for buffer in attached {
            let start = end.next_multiple_of(ALIGNMENT);
            end = start + buffer.bytes as usize;
            parts.push(body.slice(start..end));
        }
        Ok(Tokens { shape, parts })
    }

    /// The number of tokens.
    pub fn count(&self) -> u32 {
        self.shape.count()
    }

    /// The layout of the parts.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The pickles, followed by the attached buffers.
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }

    /// The length of the body, in bytes.
    pub fn bytes(&self) -> u64 {
        self.shape.body().expect("a shape made or checked here adds up")
    }

    /// The parts in the order of the body, with padding between them.
    pub fn body(&self) -> Vec<Bytes> {
        let mut body = Vec::with_capacity(2 * self.parts.len());
        let mut end = 0;
        for (index, part) in self.parts.iter().enumerate() {
            let start = if index == 0 { 0 } else { end_padded(end) };
            if start > end {
                body.push(Bytes::from_static(&PADDING[..start - end]));
            }
            end = start + part.len();
            body.push(part.clone());
        }
        body
    }

    /// Only the tokens `first .. first + count`, and where they begin in the returned tokens. Packed tokens cannot be
    /// cut and are returned as a whole.
    pub fn slice(&self, first: u32, count: u32) -> (Tokens, u32) {
        let Shape::Separate { pickles, attached } = &self.shape else { return (self.clone(), first) };
        let range = first as usize..(first + count) as usize;
        if range == (0..pickles.len()) {
            return (self.clone(), 0);
        }
        let start = pickles[..range.start].iter().sum::<u64>() as usize;
        let end = start + pickles[range.clone()].iter().sum::<u64>() as usize;
        let wanted = attached.iter().zip(&self.parts[1..]).filter(|(at, _)| range.contains(&(at.token as usize)));
        let wanted = wanted.map(|(at, bytes)| (at.token - first, bytes.clone())).collect();
        (Tokens::separate(self.parts[0].slice(start..end), pickles[range].to_vec(), wanted), 0)
    }

    /// Cuts the tokens into consecutive pieces of these sizes, without copying. Packed tokens cannot be cut and are
    /// refused. Sizes that sum to more than the number of tokens are refused too.
    pub fn cut(&self, sizes: impl IntoIterator<Item = u32>) -> Result<Vec<Tokens>, WireError> {
        let Shape::Separate { pickles, attached } = &self.shape else { return Err(WireError::Lengths) };
        let mut buffers = attached.iter().zip(&self.parts[1..]).peekable();
        let (mut token, mut end) = (0usize, 0usize);
        let mut pieces = Vec::new();
        for size in sizes {
            let lengths = pickles.get(token..token + size as usize).ok_or(WireError::Lengths)?;
            let (first, start) = (token, end);
            token += size as usize;
            end += lengths.iter().sum::<u64>() as usize;
            let mut mine = Vec::new();
            while let Some((at, bytes)) = buffers.next_if(|(at, _)| (at.token as usize) < token) {
                mine.push((at.token - first as u32, bytes.clone()));
            }
            pieces.push(Tokens::separate(self.parts[0].slice(start..end), lengths.to_vec(), mine));
        }
        Ok(pieces)
    }

    /// Concatenates pieces of separate tokens. Copies the pickles, but not the attached buffers.
    pub fn concat(pieces: &[Tokens]) -> Tokens {
        if let [piece] = pieces {
            return piece.clone();
        }
        let (mut all, mut lengths, mut buffers) = (BytesMut::new(), Vec::new(), Vec::new());
        for piece in pieces {
            let Shape::Separate { pickles, attached } = &piece.shape else { unreachable!("packed tokens are not cut") };
            let before = lengths.len() as u32;
            let mine = attached.iter().zip(&piece.parts[1..]);
            buffers.extend(mine.map(|(at, bytes)| (at.token + before, bytes.clone())));
            all.extend_from_slice(&piece.parts[0]);
            lengths.extend_from_slice(pickles);
        }
        Tokens::separate(all.freeze(), lengths, buffers)
    }

    /// An empty set of tokens.
    pub fn none() -> Tokens {
        Tokens::separate(Bytes::new(), Vec::new(), Vec::new())
    }

    /// Whether single tokens can be taken out.
    pub fn is_separate(&self) -> bool {
        matches!(self.shape, Shape::Separate { .. })
    }

    /// A copy of all bytes, for tests and for small tokens whose buffer must not be kept alive.
    pub fn to_owned_bytes(&self) -> Bytes {
        self.body()
            .iter()
            .fold(BytesMut::new(), |mut all, part| {
                all.extend_from_slice(part);
                all
            })
            .freeze()
    }
}

fn end_padded(end: usize) -> usize {
    end.next_multiple_of(ALIGNMENT)
}
