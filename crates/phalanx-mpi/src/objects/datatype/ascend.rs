//! Whether the bytes of an element lie in memory in the order in which they are packed: what filetypes must do
//! (MPI 5.0, 14.1.1).

use super::Datatype;
use super::layout::{Layout, Shape};
use crate::error::{Class, Result, fail};

/// Parts that are looked at before it is given up: nested lists may have more than can be visited.
const MOST_PARTS: usize = 1 << 26;

/// Where the first and the last run of bytes begin, and where the data ends.
#[derive(Clone, Copy)]
struct Order {
    first: isize,
    last: isize,
    end: isize,
}

struct Check {
    overlaps: bool,
    left: usize,
}

impl Datatype {
    /// That the displacements are not negative and never decrease, and, unless `overlaps` are allowed, no byte is there
    /// twice.
    pub fn check_ascends(&self, overlaps: bool) -> Result<()> {
        if self.size() == 0 {
            return Ok(());
        }
        let order = Check { overlaps, left: MOST_PARTS }.order(&self.map.layout)?;
        if order.first < 0 { fail(Class::Arg, "filetype has negative displacements") } else { Ok(()) }
    }
}

impl Check {
    fn order(&mut self, layout: &Layout) -> Result<Order> {
        self.count(1)?;
        let order = match &layout.shape {
            Shape::Run => Order { first: 0, last: 0, end: layout.size as isize },
            Shape::Blocks { length, places } => {
                self.count(places.len())?;
                let one = |place: isize| Order { first: 0, last: 0, end: *length as isize }.moved(place);
                for pair in places.windows(2) {
                    self.follows(one(pair[0]), one(pair[1]))?;
                }
                Order { first: places[0], ..one(places[places.len() - 1]) }
            }
            Shape::Loop { count, stride, inner } => {
                let (one, all) = (self.order(inner)?, stride.wrapping_mul(*count as isize - 1));
                self.follows(one, one.moved(*stride))?;
                Order { first: one.first, ..one.moved(all) }
            }
            Shape::List(parts) => {
                let mut all = self.order(&parts[0].layout)?;
                for part in &parts[1..] {
                    let next = self.order(&part.layout)?;
                    self.follows(all, next)?;
                    all = Order { first: all.first, last: next.last, end: all.end.max(next.end) };
                }
                all
            }
        };
        Ok(order.moved(layout.at))
    }

    fn count(&mut self, parts: usize) -> Result<()> {
        match self.left.checked_sub(parts) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => fail(Class::Type, "filetype has too many parts to be checked"),
        }
    }

    fn follows(&self, one: Order, next: Order) -> Result<()> {
        if next.first < one.last {
            return fail(Class::Arg, "filetype has displacements that decrease");
        }
        if next.first < one.end && !self.overlaps {
            return fail(Class::Arg, "filetype has bytes twice, and the file is written");
        }
        Ok(())
    }
}

impl Order {
    fn moved(self, by: isize) -> Order {
        let add = |place: isize| place.wrapping_add(by); // construction has checked the sums
        Order { first: add(self.first), last: add(self.last), end: add(self.end) }
    }
}
