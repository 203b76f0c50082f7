//! Where the bytes of one element lie in memory, as loops: a vector of a million blocks is one loop, not a million
//! segments. Packed bytes are numbered in the order of the type map.

use std::sync::Arc;

/// `size` bytes, the first of them `at` bytes from the element's origin (unless a stride is negative).
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub at: isize,
    pub size: usize,
    pub shape: Shape,
}

#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// Bytes in a row.
    Run,
    /// `inner` again and again, `stride` bytes apart.
    Loop { count: usize, stride: isize, inner: Arc<Layout> },
    /// Runs of `length` bytes each, in no regular distances.
    Blocks { length: usize, places: Arc<[isize]> },
    /// One after the other; at least two of them, none empty.
    List(Arc<[Part]>),
}

#[derive(Debug)]
pub(super) struct Part {
    /// How many packed bytes of the list lie before it.
    pub start: usize,
    pub layout: Layout,
}

/// Lists within lists are joined up to this many parts: beyond, what is saved by walking one list is little, and
/// repeating a long list in a longer one must not multiply them.
const JOINED: usize = 256;

impl Layout {
    pub const EMPTY: Layout = Layout::run(0);

    pub const fn run(size: usize) -> Layout {
        Layout { at: 0, size, shape: Shape::Run }
    }

    pub fn shifted(&self, by: isize) -> Layout {
        Layout { at: self.at.wrapping_add(by), ..self.clone() }
    }

    /// `count` of it, `stride` bytes apart. The caller has seen to it that sizes and offsets are representable.
    pub fn repeated(&self, count: usize, stride: isize) -> Layout {
        if count == 0 || self.size == 0 {
            return Layout::EMPTY;
        }
        let size = self.size * count;
        let shape = match &self.shape {
            _ if count == 1 => return self.clone(),
            Shape::Run if stride == self.size as isize => Shape::Run,
            Shape::Loop { count: inside, stride: step, inner }
                if step.checked_mul(*inside as isize) == Some(stride) =>
            {
                Shape::Loop { count: inside * count, stride: *step, inner: inner.clone() }
            }
            _ => Shape::Loop { count, stride, inner: Arc::new(Layout { at: 0, ..self.clone() }) },
        };
        Layout { at: self.at, size, shape }
    }

    /// The parts one after the other, joined where they touch.
    pub fn list(parts: impl IntoIterator<Item = Layout>) -> Layout {
        let (mut joined, mut same): (Vec<Layout>, _) = (Vec::new(), Same::Nothing);
        for part in parts.into_iter().filter(|part| part.size > 0) {
            same = same.and(&part);
            match &part.shape {
                Shape::List(inside) if joined.len() + inside.len() <= JOINED => {
                    inside.iter().for_each(|inner| append(&mut joined, inner.layout.shifted(part.at)));
                }
                _ => append(&mut joined, part),
            }
        }
        match joined.as_slice() {
            [] => Layout::EMPTY,
            [only] => only.clone(),
            [first, ..] => match common_stride(&joined) {
                Some(stride) => first.repeated(joined.len(), stride),
                None => {
                    let size = joined.iter().map(|part| part.size).sum();
                    let shape = if let Some(length) = same.worth(size, joined.len()) {
                        Shape::Blocks { length, places: split(&joined, length) }
                    } else {
                        numbered(joined)
                    };
                    Layout { at: 0, size, shape }
                }
            },
        }
    }

    /// The same bytes of memory in the same order, wherever they begin.
    fn alike(&self, other: &Layout) -> bool {
        self.size == other.size
            && match (&self.shape, &other.shape) {
                (Shape::Run, Shape::Run) => true,
                (Shape::Loop { stride, inner, .. }, Shape::Loop { stride: step, inner: inside, .. }) => {
                    stride == step && Arc::ptr_eq(inner, inside)
                }
                (Shape::Blocks { places, .. }, Shape::Blocks { places: others, .. }) => Arc::ptr_eq(places, others),
                (Shape::List(parts), Shape::List(others)) => Arc::ptr_eq(parts, others),
                _ => false,
            }
    }
}

/// Whether all parts of a list are runs of one length.
#[derive(Clone, Copy)]
enum Same {
    Nothing,
    Length(usize),
    No,
}

impl Same {
    fn and(self, part: &Layout) -> Same {
        match (self, &part.shape) {
            (Same::Nothing, Shape::Run) => Same::Length(part.size),
            (Same::Length(length), Shape::Run) if length == part.size => self,
            _ => Same::No,
        }
    }

    /// The length, when runs of one length are better than the few that are left of them where they touch.
    fn worth(self, size: usize, joined: usize) -> Option<usize> {
        match self {
            Same::Length(length) if size / length < JOINED_IS_BETTER * joined => Some(length),
            _ => None,
        }
    }
}

/// Runs of different lengths take about so many times longer.
const JOINED_IS_BETTER: usize = 4;

/// Where runs of `length` begin.
fn split(runs: &[Layout], length: usize) -> Arc<[isize]> {
    let places = |run: &Layout| (run.at..run.at + run.size as isize).step_by(length);
    runs.iter().flat_map(places).collect()
}

fn append(parts: &mut Vec<Layout>, next: Layout) {
    if let (Some(last), Shape::Run) = (parts.last_mut(), &next.shape) {
        if matches!(last.shape, Shape::Run) && last.at.checked_add_unsigned(last.size) == Some(next.at) {
            last.size += next.size;
            return;
        }
    }
    parts.push(next);
}

/// When the parts are alike and equally far apart.
fn common_stride(parts: &[Layout]) -> Option<isize> {
    let stride = parts[1].at.checked_sub(parts[0].at)?;
    let same = |pair: &[Layout]| pair[1].at.checked_sub(pair[0].at) == Some(stride) && pair[0].alike(&pair[1]);
    parts.windows(2).all(same).then_some(stride)
}

fn numbered(parts: Vec<Layout>) -> Shape {
    let mut start = 0;
    let number = |layout: Layout| {
        let part = Part { start, layout };
        start += part.layout.size;
        part
    };
    Shape::List(parts.into_iter().map(number).collect())
}
