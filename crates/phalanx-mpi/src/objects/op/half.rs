//! Numbers of 16 bits (MPI_REAL2), which are computed in 32: for one sum or product that rounds as if it were computed
//! exactly, since 24 digits are more than twice 11.

use super::truth::Truth;
use std::cmp::Ordering;
use std::ops::{Add, Mul, Sub};

#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Half(u16);

const INFINITE: u32 = 0x7f80_0000;
/// By how much the exponents differ, at its place.
const REBIAS: u32 = (127 - 15) << 23;
const SMALLEST_NORMAL: u32 = (127 - 14) << 23;
const TOO_LARGE: u32 = (127 + 16) << 23;
/// 2²⁴: the smallest number becomes 1.
const SCALE: f32 = 16_777_216.0;

impl Truth for Half {
    fn truth(value: bool) -> Half {
        f32::from(value).into()
    }
}

impl From<Half> for f32 {
    fn from(Half(bits): Half) -> f32 {
        let (sign, exponent, digits) = ((bits as u32 & 0x8000) << 16, bits as u32 >> 10 & 0x1f, bits as u32 & 0x3ff);
        let size = match exponent {
            0 => (digits as f32 / SCALE).to_bits(),
            0x1f => INFINITE | digits << 13,
            _ => (exponent << 23 | digits << 13) + REBIAS,
        };
        f32::from_bits(sign | size)
    }
}

impl From<f32> for Half {
    fn from(number: f32) -> Half {
        let (sign, size) = (number.to_bits() >> 16 & 0x8000, number.to_bits() & 0x7fff_ffff);
        let bits = match size {
            0..SMALLEST_NORMAL => (f32::from_bits(size) * SCALE).round_ties_even() as u32,
            SMALLEST_NORMAL..TOO_LARGE => (size - REBIAS + 0xfff + (size >> 13 & 1)) >> 13,
            TOO_LARGE..=INFINITE => 0x7c00,
            _ => 0x7e00 | size >> 13 & 0x3ff,
        };
        Half((sign | bits) as u16)
    }
}

impl Add for Half {
    type Output = Half;

    fn add(self, other: Half) -> Half {
        (f32::from(self) + f32::from(other)).into()
    }
}

impl Sub for Half {
    type Output = Half;

    fn sub(self, other: Half) -> Half {
        (f32::from(self) - f32::from(other)).into()
    }
}

impl Mul for Half {
    type Output = Half;

    fn mul(self, other: Half) -> Half {
        (f32::from(self) * f32::from(other)).into()
    }
}

impl PartialEq for Half {
    fn eq(&self, other: &Half) -> bool {
        f32::from(*self) == f32::from(*other)
    }
}

impl PartialOrd for Half {
    fn partial_cmp(&self, other: &Half) -> Option<Ordering> {
        f32::from(*self).partial_cmp(&f32::from(*other))
    }
}

#[cfg(test)]
mod tests {
    use super::Half;

    #[test]
    fn every_number_comes_back_and_what_lies_between_is_rounded() {
        for bits in 0..=u16::MAX {
            let number = f32::from(Half(bits));
            assert!(Half::from(number).0 == bits || number.is_nan(), "{bits:#x}");
            assert_eq!(f32::from(Half::from(number)).is_nan(), number.is_nan());
        }
        for bits in 0..0x7c00 {
            let (low, high) = (f32::from(Half(bits)), f32::from(Half(bits + 1)));
            let high = if high.is_infinite() { 65536.0 } else { high };
            let middle = (low + high) / 2.0;
            assert_eq!(Half::from(middle).0, bits + (bits & 1), "{bits:#x}");
            assert_eq!(Half::from(f32::from_bits(middle.to_bits() - 1)).0, bits);
            assert_eq!(Half::from(f32::from_bits(middle.to_bits() + 1)).0, bits + 1);
        }
    }
}
