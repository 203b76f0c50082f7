//! Elements in memory to bytes in a row and back, from any byte to any byte, so that a long message goes in pieces.

use super::Datatype;
use super::walk::{Pack, Unpack, Visit, walk_loop};

impl Datatype {
    /// Copies packed bytes of `count` elements, from the `position`th on, into `out`; returns how many: as many as fit,
    /// and as there are.
    ///
    /// # Safety
    /// Memory at `buffer` (which may be null when the offsets are addresses) must hold `count` elements.
    pub unsafe fn pack(&self, buffer: *const u8, count: usize, position: usize, out: &mut [u8]) -> usize {
        let length = self.left(count, position).min(out.len());
        self.walk(count, position, length, &mut Pack { buffer, packed: out.as_mut_ptr() });
        length
    }

    /// Copies `packed` bytes to their places in `count` elements, the first of them to where the `position`th belongs;
    /// returns how many: what is too much is left alone.
    ///
    /// # Safety
    /// Memory at `buffer` (which may be null when the offsets are addresses) must hold `count` elements.
    pub unsafe fn unpack(&self, buffer: *mut u8, count: usize, position: usize, packed: &[u8]) -> usize {
        let length = self.left(count, position).min(packed.len());
        self.walk(count, position, length, &mut Unpack { packed: packed.as_ptr(), buffer });
        length
    }

    /// Visits the memory of packed bytes `position .. position + length` of `count` elements in runs, in order:
    /// `visit(offset from the buffer, bytes)`. For what moves memory itself (files, windows, other processes).
    pub fn each_run(&self, count: usize, position: usize, length: usize, visit: impl FnMut(isize, usize)) {
        let length = self.left(count, position).min(length);
        self.walk(count, position, length, &mut Each(visit));
    }

    fn left(&self, count: usize, position: usize) -> usize {
        self.size().saturating_mul(count).saturating_sub(position)
    }

    fn walk(&self, count: usize, position: usize, length: usize, visit: &mut impl Visit) {
        if length == 0 {
            return;
        }
        match self.contiguous_at(count) {
            Some(at) => visit.run(at.wrapping_add_unsigned(position), length),
            None => walk_loop(&self.map.layout, self.extent, 0, position, length, visit),
        }
    }
}

struct Each<F>(F);

impl<F: FnMut(isize, usize)> Visit for Each<F> {
    fn run(&mut self, at: isize, length: usize) {
        self.0(at, length);
    }
}

#[cfg(test)]
mod tests {
    use crate::objects::datatype::Datatype;

    #[test]
    fn a_row_of_numbers_is_packed_and_unpacked_in_pieces() {
        let three = Datatype::contiguous(3, &Datatype::of(0x209).expect("MPI_INT")).expect("a small datatype");
        let numbers: Vec<i32> = (0..6).collect();
        let (mut packed, mut back) = ([0; 24], [0i32; 6]);
        // SAFETY: both arrays hold six numbers.
        unsafe {
            assert_eq!(three.pack(numbers.as_ptr().cast(), 2, 0, &mut packed[..7]), 7);
            assert_eq!(three.pack(numbers.as_ptr().cast(), 2, 7, &mut packed[7..]), 17);
            assert_eq!(three.unpack(back.as_mut_ptr().cast(), 2, 0, &packed[..10]), 10);
            assert_eq!(three.unpack(back.as_mut_ptr().cast(), 2, 10, &packed[10..]), 14);
            assert_eq!(three.pack(numbers.as_ptr().cast(), 2, 24, &mut packed), 0);
        }
        assert_eq!(back, numbers[..]);
    }
}
