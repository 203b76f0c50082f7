//! The portable representation "external32": big endian, with sizes of its own (MPI 5.0, 14.5.2).

use super::Datatype;
use super::number::Number;
use crate::error::{Class, Error, Result, fail};

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
        let out = out.get_mut(..length).ok_or_else(|| too_short(length))?;
        let mut machine = vec![0; self.size() * count];
        // SAFETY: the caller's promise.
        unsafe { self.pack(buffer, count, 0, &mut machine) };
        self.convert(count, &mut machine, out, encode)?;
        Ok(length)
    }

    /// Unpacks `count` elements; returns how many of the `packed` bytes they took.
    ///
    /// # Safety
    /// As of [`Datatype::unpack`].
    pub unsafe fn unpack_external(&self, buffer: *mut u8, count: usize, packed: &[u8]) -> Result<usize> {
        let length = self.external_size(count)?;
        let mut packed = packed.get(..length).ok_or_else(|| too_short(length))?.to_vec();
        let mut machine = vec![0; self.size() * count];
        self.convert(count, &mut machine, &mut packed, decode)?;
        // SAFETY: the caller's promise.
        unsafe { self.unpack(buffer, count, 0, &machine) };
        Ok(length)
    }

    /// Calls `each` with every number's bytes in both representations.
    fn convert(&self, count: usize, machine: &mut [u8], external: &mut [u8], each: Convert) -> Result<()> {
        let (mut machine, mut external, mut result) = (machine, external, Ok(()));
        self.each_kind(count, &mut |kind, count| {
            for (number, size) in (0..count).flat_map(|_| kind.numbers().zip(kind.external_sizes())) {
                let (here, rest) = std::mem::take(&mut machine).split_at_mut(number.size());
                let (there, others) = std::mem::take(&mut external).split_at_mut(size);
                (machine, external) = (rest, others);
                if result.is_ok() {
                    result = each(number, here, there);
                }
            }
        });
        result
    }
}

type Convert = fn(Number, &mut [u8], &mut [u8]) -> Result<()>;

fn too_short(length: usize) -> Error {
    Error::new(Class::Arg, format!("the buffer of packed data has less than {length} bytes left"))
}

/// What has fewer bytes in "external32" must have the same value there.
fn encode(number: Number, machine: &mut [u8], external: &mut [u8]) -> Result<()> {
    if cfg!(target_endian = "little") {
        machine.reverse();
    }
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
    let value = match number {
        Number::LongDouble => long_double::of_quadruple(read(number, external))?,
        _ => read(number, external),
    };
    machine.copy_from_slice(&value.to_be_bytes()[16 - machine.len()..]);
    if cfg!(target_endian = "little") {
        machine.reverse();
    }
    Ok(())
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
    use crate::datatype::number::LONG_DOUBLE_SIZE;
    use crate::error::{Class, Result, fail};

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
    use crate::datatype::Datatype;

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
