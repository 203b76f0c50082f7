//! The order of encoded values.

use super::reader::{Reader, inside, tag, unzigzag};
use std::cmp::Ordering;

/// A number of any kind, without loss.
#[derive(Debug, Clone, Copy)]
enum Number<'a> {
    Int(i64),
    /// Beyond 64 bits: two's complement, minimal, little endian.
    Big(&'a [u8]),
    Float(f64),
}

/// The order of two encoded fields; `None` if they are not comparable.
pub fn order(one: &[u8], other: &[u8]) -> Option<Ordering> {
    match (one[0], other[0]) {
        (tag::STR, tag::STR) | (tag::BYTES, tag::BYTES) => Some(inside(one)?.cmp(inside(other)?)),
        (tag::FALSE | tag::TRUE, tag::FALSE | tag::TRUE) => Some(one[0].cmp(&other[0])),
        _ => compare(number(one)?, number(other)?),
    }
}

/// The float nearest to a number; `None` for other fields. For a big integer it may be infinite.
pub fn nearest(field: &[u8]) -> Option<f64> {
    Some(match number(field)? {
        Number::Int(value) => value as f64,
        Number::Float(value) => value,
        Number::Big(bytes) => nearest_to_big(bytes),
    })
}

fn number(field: &[u8]) -> Option<Number<'_>> {
    let (kind, rest) = field.split_first()?;
    let mut reader = Reader::new(rest);
    match *kind {
        tag::INT => Some(Number::Int(unzigzag(reader.varint().ok()?))),
        tag::BIG => Some(Number::Big(reader.string().ok()?)),
        tag::FLOAT => Some(Number::Float(f64::from_le_bytes(reader.array().ok()?))),
        _ => None,
    }
}

fn compare(one: Number, other: Number) -> Option<Ordering> {
    match (one, other) {
        (Number::Int(one), Number::Int(other)) => Some(one.cmp(&other)),
        (Number::Float(one), Number::Float(other)) => one.partial_cmp(&other),
        (Number::Big(one), Number::Big(other)) => Some(compare_bigs(one, other)),
        (Number::Big(big), Number::Int(_)) => Some(sign(big)),
        (Number::Int(int), Number::Float(float)) => compare_int(int, float),
        (Number::Big(big), Number::Float(float)) => compare_big(big, float),
        (one, other) => compare(other, one).map(Ordering::reverse),
    }
}

/// Exactly, although not every 64 bit integer is a float.
fn compare_int(int: i64, float: f64) -> Option<Ordering> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    match float {
        _ if float.is_nan() => None,
        _ if float >= BEYOND => Some(Ordering::Less),
        _ if float < -BEYOND => Some(Ordering::Greater),
        _ => {
            let whole = float.trunc();
            Some(int.cmp(&(whole as i64)).then_with(|| whole.partial_cmp(&float).unwrap_or(Ordering::Equal)))
        }
    }
}

fn compare_big(big: &[u8], float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float.abs() < 9_223_372_036_854_775_808.0 {
        return Some(sign(big));
    }
    if float.is_infinite() {
        return Some(if float > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    // A float this large is an integer: its 53 bits, moved.
    let bits = float.to_bits();
    let shift = (bits >> 52 & 0x7ff) as usize - 1075;
    let value = (u128::from(bits & ((1 << 52) - 1) | 1 << 52)) << (shift % 8);
    let mut bytes = [0u8; 144];
    bytes[shift / 8..shift / 8 + 16].copy_from_slice(&value.to_le_bytes());
    if float < 0.0 {
        let mut carry = true;
        for byte in &mut bytes {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    let surplus = |end: &usize| {
        let (before, last) = (bytes[end - 2], bytes[end - 1]);
        (last == 0 && before < 0x80) || (last == 0xff && before >= 0x80)
    };
    let end = (2..=bytes.len()).rev().find(|end| !surplus(end)).unwrap_or(1);
    Some(compare_bigs(big, &bytes[..end]))
}

fn is_negative(big: &[u8]) -> bool {
    big.last().is_some_and(|last| *last >= 0x80)
}

fn sign(big: &[u8]) -> Ordering {
    if is_negative(big) { Ordering::Less } else { Ordering::Greater }
}

fn nearest_to_big(big: &[u8]) -> f64 {
    const HIGH: usize = 15;
    let (rest, high) = big.split_at(big.len().saturating_sub(HIGH));
    let fill = if is_negative(big) { 0xff } else { 0 };
    let mut bytes = [fill; 16];
    bytes[..high.len()].copy_from_slice(high);
    let mut value = i128::from_le_bytes(bytes);
    // The low bytes that are left out only matter if two floats are equally near. Then it is enough to know whether
    // they are zero.
    value |= i128::from(rest.iter().any(|byte| *byte != 0));
    value as f64 * 2f64.powi(i32::try_from(rest.len()).map_or(i32::MAX, |length| length.saturating_mul(8)))
}

/// Both are in minimal form. Among numbers of one sign, the longer one is further from zero.
fn compare_bigs(one: &[u8], other: &[u8]) -> Ordering {
    let by_size = match (is_negative(one), is_negative(other)) {
        (false, true) => return Ordering::Greater,
        (true, false) => return Ordering::Less,
        (false, false) => one.len().cmp(&other.len()),
        (true, true) => other.len().cmp(&one.len()),
    };
    by_size.then_with(|| one.iter().rev().cmp(other.iter().rev()))
}
