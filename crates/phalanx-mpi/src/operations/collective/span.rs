//! Memory that operations work on.

use phalanx_net::copy::copy;
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;

/// Bytes in a row that are lent until an operation is done.
///
/// Not a slice, since several messages are under way into parts of one buffer, and a buffer may be both operand and
/// result. Whoever makes one sees to it that the memory lasts, and that nobody else writes it meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    start: *mut u8,
    length: usize,
}

impl Span {
    /// No memory.
    pub const EMPTY: Span = Span { start: std::ptr::NonNull::dangling().as_ptr(), length: 0 };

    /// # Safety
    /// The memory may be read, and written if the operation has it as a result, until the operation is done.
    pub unsafe fn new(start: *mut u8, length: usize) -> Span {
        if length == 0 { Span::EMPTY } else { Span { start, length } }
    }

    /// Of bytes that outlive the span: for locals of the function that waits for the operation.
    pub(crate) fn of(bytes: &mut [u8]) -> Span {
        Span { start: bytes.as_mut_ptr(), length: bytes.len() }
    }

    /// How many bytes.
    pub fn length(self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.length == 0
    }

    /// The address of the first byte.
    pub fn start(self) -> *mut u8 {
        self.start
    }

    /// `length` bytes from `at` on.
    #[inline]
    pub fn part(self, at: usize, length: usize) -> Span {
        assert!(at.checked_add(length).is_some_and(|end| end <= self.length), "a part lies in the whole");
        // SAFETY: within the memory.
        Span { start: unsafe { self.start.add(at) }, length }
    }

    /// Whether they begin at the same place: an operand that is also the result.
    pub fn is_at(self, other: Span) -> bool {
        self.start == other.start
    }

    /// Whether they have bytes in common.
    pub fn overlaps(self, other: Span) -> bool {
        let (one, two) = (self.start as usize, other.start as usize);
        one < two + other.length && two < one + self.length
    }

    /// Copies to memory of the same length; nothing when it is the same.
    #[inline]
    pub fn copy_to(self, other: Span) {
        assert_eq!(self.length, other.length, "a copy is as long as what is copied");
        // SAFETY: both are lent.
        unsafe {
            match self.overlaps(other) {
                false => copy(self.start, other.start, self.length),
                true if !self.is_at(other) => std::ptr::copy(self.start, other.start, self.length),
                true => {}
            }
        }
    }

    /// Zeros from a place on.
    pub fn clear(self, from: usize) {
        let rest = self.part(from, self.length - from);
        // SAFETY: it is lent.
        unsafe { std::ptr::write_bytes(rest.start, 0, rest.length) };
    }

    /// # Safety
    /// Nobody may write it meanwhile.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: it is lent; the caller promises the rest.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

/// One block of memory for each of several ranks.
#[derive(Debug)]
pub enum Blocks {
    /// In a row, equally long; where the memory ends before, the last ones are shorter or empty.
    Equal {
        /// The memory of all blocks.
        all: Span,
        /// The length of one block.
        each: usize,
    },
    /// Wherever they lie.
    Each(Vec<Span>),
}

impl Blocks {
    /// Equal parts of a span, as good as it can be divided between `count` in units of `unit` bytes.
    pub fn divide(all: Span, count: usize, unit: usize) -> Blocks {
        let units = all.length() / unit.max(1);
        Blocks::Equal { all, each: units.div_ceil(count) * unit }
    }

    /// One after the other in a span.
    pub fn in_a_row(all: Span, lengths: impl IntoIterator<Item = usize>) -> Blocks {
        let mut at = 0;
        let next = |length| {
            let block = all.part(at, length);
            at += length;
            block
        };
        Blocks::Each(lengths.into_iter().map(next).collect())
    }

    /// The block of a rank.
    #[inline]
    pub fn at(&self, rank: usize) -> Span {
        match self {
            Blocks::Equal { all, each } => {
                let at = rank.saturating_mul(*each).min(all.length());
                all.part(at, (*each).min(all.length() - at))
            }
            Blocks::Each(spans) => spans[rank],
        }
    }
}

/// Bytes that short operands need no allocation for.
const SHORT: usize = 128;

/// Memory of an operation's own, aligned for every type. Nothing is in it at first.
pub struct Scratch {
    short: [MaybeUninit<u128>; SHORT / 16],
    long: Vec<MaybeUninit<u128>>,
    length: usize,
    _pinned: PhantomPinned,
}

impl Scratch {
    /// Memory for so many bytes.
    #[inline]
    pub fn new(length: usize) -> Scratch {
        let long = if length > SHORT { Vec::with_capacity(length.div_ceil(16)) } else { Vec::new() };
        Scratch { short: [MaybeUninit::uninit(); SHORT / 16], long, length, _pinned: PhantomPinned }
    }

    /// The memory, for as long as this stays where it is.
    #[inline]
    pub fn span(&mut self) -> Span {
        let start = if self.length > SHORT { self.long.as_mut_ptr().cast() } else { self.short.as_mut_ptr().cast() };
        Span { start, length: self.length }
    }
}
