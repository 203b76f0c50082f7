//! The portable representation "external32": big endian, with sizes of its own (MPI 5.0, 14.5.2).

use super::number::Number;
use super::{Datatype, Kind};
use crate::error::{Class, Error, Result, fail};

/// Bytes of data that are converted together.
const PIECE: usize = 1 << 20;

impl Datatype {
    /// Bytes of `count` elements in "external32".
    pub fn external_size(&self, count: usize) -> Result<usize> {
        self.map
            .signature
            .external
            .checked_mul(count)
            .filter(|size| isize::try_from(*size).is_ok())
            .ok_or_else(|| Error::new(Class::Count, format!("{count} elements are too much to be packed")))
    }

    /// Packs `count` elements into `out`; returns how many bytes that were.
    ///
    /// # Safety
    /// As of [`Datatype::pack`].
    pub unsafe fn pack_external(&self, buffer: *const u8, count: usize, out: &mut [u8]) -> Result<usize> {
        let length = self.external_size(count)?;
        let mut out = out.get_mut(..length).ok_or_else(|| too_short(length))?;
        // SAFETY: the caller's promise.
        unsafe {
            self.each_external(buffer, count, |piece| {
                let (here, rest) = std::mem::take(&mut out).split_at_mut(piece.len());
                here.copy_from_slice(piece);
                out = rest;
                Ok(())
            })?;
        }
        Ok(length)
    }

    /// Unpacks `count` elements; returns how many of the `packed` bytes they took.
    ///
    /// # Safety
    /// As of [`Datatype::unpack`].
    pub unsafe fn unpack_external(&self, buffer: *mut u8, count: usize, packed: &[u8]) -> Result<usize> {
        let length = self.external_size(count)?;
        let mut packed = packed.get(..length).ok_or_else(|| too_short(length))?;
        // SAFETY: the caller's promise.
        unsafe {
            self.fill_external(buffer, count, |piece| {
                let (here, rest) = packed.split_at(piece.len());
                piece.copy_from_slice(here);
                packed = rest;
                Ok(here.len())
            })?;
        }
        Ok(length)
    }

    /// Gives `count` elements to `put`, piece after piece, until it fails.
    ///
    /// # Safety
    /// As of [`Datatype::pack`].
    pub unsafe fn each_external(
        &self,
        buffer: *const u8,
        count: usize,
        mut put: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        self.each_piece(count, |piece| {
            let (mut machine, mut external) = piece.memory();
            // SAFETY: the caller's promise.
            done += unsafe { self.pack(buffer, count, done, &mut machine) };
            piece.convert(&mut machine, &mut external, encode)?;
            put(&external)?;
            Ok(true)
        })
    }

    /// Gets `count` elements from `get`, piece after piece, until that gets less than there is room for; how many bytes of
    /// data these were in memory. Part of a number is none.
    ///
    /// # Safety
    /// As of [`Datatype::unpack`].
    pub unsafe fn fill_external(
        &self,
        buffer: *mut u8,
        count: usize,
        mut get: impl FnMut(&mut [u8]) -> Result<usize>,
    ) -> Result<usize> {
        let mut done = 0;
        self.each_piece(count, |piece| {
            let (mut machine, mut external) = piece.memory();
            let got = get(&mut external)?;
            let length = piece.convert(&mut machine, &mut external[..got], decode)?;
            // SAFETY: the caller's promise.
            done += unsafe { self.unpack(buffer, count, done, &machine[..length]) };
            Ok(got == external.len())
        })?;
        Ok(done)
    }

    /// Visits the numbers of `count` elements in pieces, until it is told to stop.
    fn each_piece(&self, count: usize, mut visit: impl FnMut(&Piece) -> Result<bool>) -> Result<()> {
        let (mut piece, mut outcome) = (Piece::default(), Ok(true));
        self.each_kind(count, &mut |kind, count| {
            let mut left = count;
            while left > 0 && outcome == Ok(true) {
                let some = left.min((PIECE / kind.size()).max(1));
                piece.add(kind, some);
                left -= some;
                if piece.machine >= PIECE {
                    outcome = visit(&std::mem::take(&mut piece));
                }
            }
        });
        if outcome? && piece.machine > 0 {
            visit(&piece)?;
        }
        Ok(())
    }
}

/// Numbers that are converted together.
#[derive(Default)]
struct Piece {
    kinds: Vec<(&'static Kind, usize)>,
    /// Bytes in memory.
    machine: usize,
    /// Bytes in "external32".
    external: usize,
}

impl Piece {
    fn add(&mut self, kind: &'static Kind, count: usize) {
        self.machine += kind.size() * count;
        self.external += kind.external_sizes().sum::<usize>() * count;
        match self.kinds.last_mut() {
            Some((last, before)) if *last == kind => *before += count,
            _ => self.kinds.push((kind, count)),
        }
    }

    /// Of both sides.
    fn memory(&self) -> (Vec<u8>, Vec<u8>) {
        (vec![0; self.machine], vec![0; self.external])
    }

    /// Calls `each` with every number's bytes in both representations, up to the first one that is not all there; how many
    /// bytes these were in memory.
    fn convert(&self, machine: &mut [u8], external: &mut [u8], each: Convert) -> Result<usize> {
        let (mut here, mut there) = (0, 0);
        for (number, size) in self
            .kinds
            .iter()
            .flat_map(|(kind, count)| (0..*count).flat_map(|_| kind.numbers().zip(kind.external_sizes())))
        {
            let Some(external) = external.get_mut(there..there + size) else { break };
            each(number, &mut machine[here..here + number.size()], external)?;
            (here, there) = (here + number.size(), there + size);
        }
        Ok(here)
    }
}

type Convert = fn(Number, &mut [u8], &mut [u8]) -> Result<()>;

fn too_short(length: usize) -> Error {
    Error::new(Class::Arg, format!("the buffer of packed data has less than {length} bytes left"))
}

/// What has fewer bytes in "external32" must have the same value there.
fn encode(number: Number, machine: &mut [u8], external: &mut [u8]) -> Result<()> {
    if is_as_large(number, external) {
        external.copy_from_slice(machine);
        to_big_endian(external);
        return Ok(());
    }
    to_big_endian(machine);
    let value = match number {
        Number::LongDouble => long_double::to_quadruple(read(number, machine))?,
        _ => read(number, machine),
    };
    external.copy_from_slice(&value.to_be_bytes()[16 - external.len()..]);
    match read(number, external) == value {
        true => Ok(()),
        false => fail(Class::Conversion, format!("a number does not fit in the {} bytes it has", external.len())),
    }
}

fn decode(number: Number, machine: &mut [u8], external: &mut [u8]) -> Result<()> {
    if is_as_large(number, external) {
        machine.copy_from_slice(external);
        to_big_endian(machine); // and back
        return Ok(());
    }
    let value = match number {
        Number::LongDouble => long_double::of_quadruple(read(number, external))?,
        _ => read(number, external),
    };
    machine.copy_from_slice(&value.to_be_bytes()[16 - machine.len()..]);
    to_big_endian(machine); // and back
    Ok(())
}

/// Only the order of bytes differs.
fn is_as_large(number: Number, external: &[u8]) -> bool {
    number != Number::LongDouble && number.size() == external.len()
}

fn to_big_endian(number: &mut [u8]) {
    if cfg!(target_endian = "little") {
        number.reverse();
    }
}

/// Big endian bytes, with the sign's copies before them.
fn read(number: Number, bytes: &[u8]) -> u128 {
    let mut all = [if number.is_signed() && bytes[0] >= 0x80 { 0xff } else { 0 }; 16];
    all[16 - bytes.len()..].copy_from_slice(bytes);
    u128::from_be_bytes(all)
}

/// x86's numbers of 80 bits have a bit for the digit before the point, and 63 digits after it. Quadruple ones have no
/// such bit, and 112 digits; sign and exponent are the same.
#[cfg(target_arch = "x86_64")]
mod long_double {
    use crate::error::Result;

    const POINT: u128 = 1 << 63;
    const MORE: u32 = 112 - 63;

    pub fn to_quadruple(extended: u128) -> Result<u128> {
        let (sign_exponent, digits) = (extended >> 64 & 0xffff, extended & (POINT - 1));
        Ok(sign_exponent << 112 | digits << MORE)
    }

    /// To the nearest, and of two equally near ones to the one that ends in 0.
    pub fn of_quadruple(quadruple: u128) -> Result<u128> {
        let is_number = quadruple >> 112 & 0x7fff != 0x7fff;
        let (kept, lost) = (quadruple >> MORE, quadruple & ((1 << MORE) - 1));
        let half = 1 << (MORE - 1);
        let up = is_number && (lost > half || (lost == half && kept & 1 == 1));
        // What is no number stays none when the digits that say so are lost.
        let none = !is_number && lost != 0 && kept & (POINT - 1) == 0;
        let rounded = kept + up as u128 + if none { POINT >> 1 } else { 0 };
        let point = if rounded >> 63 & 0x7fff == 0 { 0 } else { POINT };
        Ok(rounded >> 63 << 64 | point | rounded & (POINT - 1))
    }
}

/// Quadruple precision itself, or not converted.
#[cfg(not(target_arch = "x86_64"))]
mod long_double {
    use crate::error::{Class, Result, fail};
    use crate::objects::datatype::number::LONG_DOUBLE_SIZE;

    pub fn to_quadruple(value: u128) -> Result<u128> {
        match LONG_DOUBLE_SIZE {
            16 => Ok(value),
            _ => fail(Class::UnsupportedOperation, "long double is not converted to external32 on this machine"),
        }
    }

    pub fn of_quadruple(value: u128) -> Result<u128> {
        to_quadruple(value)
    }
}

#[cfg(test)]
mod tests {
    use crate::objects::datatype::Datatype;

    /// Packed, and unpacked again.
    fn there_and_back<T: Copy + Default>(handle: u32, value: T) -> (Vec<u8>, T) {
        let (datatype, mut packed, mut back) = (Datatype::of(handle).unwrap(), [0; 32], T::default());
        // SAFETY: one element.
        let length = unsafe { datatype.pack_external((&raw const value).cast(), 1, &mut packed) }.unwrap();
        // SAFETY: one element.
        unsafe { datatype.unpack_external((&raw mut back).cast(), 1, &packed[..length]) }.unwrap();
        (packed[..length].to_vec(), back)
    }

    #[test]
    fn numbers_are_big_endian_and_have_the_standards_sizes() {
        assert_eq!(there_and_back(0x209, -2i32), (vec![0xff, 0xff, 0xff, 0xfe], -2));
        assert_eq!(there_and_back(0x20a, -2i64), (vec![0xff, 0xff, 0xff, 0xfe], -2));
        assert_eq!(there_and_back(0x214, 1.0f64), (vec![0x3f, 0xf0, 0, 0, 0, 0, 0, 0], 1.0));
        assert_eq!(there_and_back(0x216, [1.0f64, -1.0]).1, [1.0, -1.0]);
        assert_eq!(there_and_back(0x229, (1.5f64, 7i32)).1, (1.5, 7));
        assert_eq!(there_and_back(0x229, (1.5f64, 7i32)).0.len(), 12);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let (long, value, mut packed) = (Datatype::of(0x20a).unwrap(), [1i64 << 31, 1], [0; 8]);
        // SAFETY: two elements.
        unsafe {
            assert!(long.pack_external(value.as_ptr().cast(), 2, &mut packed).is_err());
            assert!(long.pack_external(value.as_ptr().cast(), 2, &mut packed[..7]).is_err());
        }
        let pair = Datatype::contiguous(i64::MAX / 16, &Datatype::of(0x229).unwrap()).unwrap();
        assert!(pair.external_size(9).is_err());
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn long_doubles_are_quadruple_there() {
        // 1 + 2^-63, as the processor has it.
        let extended = 0x3fff_8000_0000_0000_0001u128;
        let (packed, back) = there_and_back(0x220, extended);
        assert_eq!(u128::from_be_bytes(packed.try_into().unwrap()), 0x3fff_0000_0000_0000_0002_0000_0000_0000);
        assert_eq!(back, extended);
        let infinite = 0xffff_8000_0000_0000_0000u128;
        assert_eq!(there_and_back(0x220, infinite).1, infinite);
        assert_eq!(there_and_back(0x220, 0u128).1, 0);
    }
}
