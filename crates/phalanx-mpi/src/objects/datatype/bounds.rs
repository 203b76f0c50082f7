//! How far an element reaches, and how far apart the elements of an array are (MPI 5.0, 4.1.6-4.1.8).
//!
//! The standard rounds the extent of numbers up to their alignment, but for datatypes that MPI_Type_create_resized gave
//! bounds, or that have such parts. Here that is done at every level of a nested datatype, as Open MPI does it: an
//! element is never smaller than what it is made of.

/// Offsets in bytes from an element's origin. Arithmetic that leaves the address space gives None.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Of the data; None when there is none.
    pub data: Option<Span>,
    /// Of the datatypes inside, with what their own extents were rounded up by.
    pub reach: Option<Span>,
    /// What MPI_Type_create_resized has set, here or in a part: it holds, whatever the data's bounds are.
    pub marked: Option<Span>,
    /// The strictest alignment of the numbers inside: unmarked extents are multiples of it.
    pub align: usize,
}

/// From `low`, to before `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub low: isize,
    pub high: isize,
}

impl Bounds {
    pub const EMPTY: Bounds = Bounds { data: None, reach: None, marked: None, align: 1 };

    /// Of a number or a pair.
    pub fn of(high: usize, align: usize) -> Bounds {
        let to = |high: usize| Some(Span { low: 0, high: high as isize });
        Bounds { data: to(high), reach: to(high.next_multiple_of(align)), marked: None, align }
    }

    /// Lower and upper bound.
    pub fn span(&self) -> Option<Span> {
        match (self.marked, self.reach) {
            (Some(marked), _) => Some(marked),
            (None, None) => Some(Span { low: 0, high: 0 }),
            (None, Some(Span { low, high })) => {
                let length = usize::try_from(high.checked_sub(low)?).ok()?.checked_next_multiple_of(self.align)?;
                Some(Span { low, high: low.checked_add_unsigned(length)? })
            }
        }
    }

    pub fn shifted(&self, by: isize) -> Option<Bounds> {
        let shift = |span: Option<Span>| span.map(|span| span.shifted(by));
        Some(Bounds {
            data: turned(shift(self.data))?,
            reach: turned(shift(self.reach))?,
            marked: turned(shift(self.marked))?,
            align: self.align,
        })
    }

    /// As it counts in other datatypes: even one without data has a place, as in MPICH and Open MPI.
    pub fn padded(&self) -> Option<Bounds> {
        Some(Bounds { reach: Some(self.span()?), ..*self })
    }

    /// `count` of it, `stride` bytes apart.
    pub fn repeated(&self, count: usize, stride: isize) -> Option<Bounds> {
        if count == 0 {
            return Some(Bounds::EMPTY);
        }
        let last = isize::try_from(count - 1).ok()?.checked_mul(stride)?;
        self.joined(&self.shifted(last)?)
    }

    pub fn joined(&self, other: &Bounds) -> Option<Bounds> {
        let joined = Bounds {
            data: Span::joined(self.data, other.data),
            reach: Span::joined(self.reach, other.reach),
            marked: Span::joined(self.marked, other.marked),
            align: self.align.max(other.align),
        };
        // What is too wide to be an extent is noticed where it arises.
        let narrow = |span: Span| span.high.checked_sub(span.low);
        joined.data.map_or(Some(0), narrow).and(narrow(joined.span()?)).map(|_| joined)
    }
}

impl Span {
    fn shifted(self, by: isize) -> Option<Span> {
        Some(Span { low: self.low.checked_add(by)?, high: self.high.checked_add(by)? })
    }

    fn joined(one: Option<Span>, other: Option<Span>) -> Option<Span> {
        match (one, other) {
            (Some(one), Some(other)) => Some(Span { low: one.low.min(other.low), high: one.high.max(other.high) }),
            (one, other) => one.or(other),
        }
    }
}

/// `Some(None)` when there was nothing to compute.
fn turned(span: Option<Option<Span>>) -> Option<Option<Span>> {
    span.map_or(Some(None), |span| span.map(Some))
}
