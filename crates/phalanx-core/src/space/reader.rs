//! Reading of encoded fields: with full checks when bytes arrive, and fast where they are known to be valid.

use crate::error::EncodingError;

/// The tags of the kinds of fields.
pub mod tag {
    /// Python's None.
    pub const NONE: u8 = 0;
    /// False.
    pub const FALSE: u8 = 1;
    /// True.
    pub const TRUE: u8 = 2;
    /// An integer of 64 bits.
    pub const INT: u8 = 3;
    /// A longer integer.
    pub const BIG: u8 = 4;
    /// A floating-point number.
    pub const FLOAT: u8 = 5;
    /// A text.
    pub const STR: u8 = 6;
    /// Bytes.
    pub const BYTES: u8 = 7;
    /// An array.
    pub const ARRAY: u8 = 8;
    /// A tuple.
    pub const TUPLE: u8 = 9;
    /// A list.
    pub const LIST: u8 = 10;
    /// A dataclass.
    pub const RECORD: u8 = 11;
    /// A pickled object.
    pub const OBJECT: u8 = 12;
    /// A value that the server cannot read.
    pub const SEALED: u8 = 13;
}

/// Sets of tags: the kinds of fields that a formal matches.
pub mod mask {
    use super::tag;
    /// Truth values.
    pub const BOOL: u32 = 1 << tag::FALSE | 1 << tag::TRUE;
    /// Integers of any size.
    pub const INT: u32 = 1 << tag::INT | 1 << tag::BIG;
    /// Floating-point numbers.
    pub const FLOAT: u32 = 1 << tag::FLOAT;
    /// Texts.
    pub const STR: u32 = 1 << tag::STR;
    /// Bytes.
    pub const BYTES: u32 = 1 << tag::BYTES;
    /// Arrays.
    pub const ARRAY: u32 = 1 << tag::ARRAY;
    /// Tuples.
    pub const TUPLE: u32 = 1 << tag::TUPLE;
    /// Lists.
    pub const LIST: u32 = 1 << tag::LIST;
    pub(in crate::space) const CLASS: u32 = 1 << tag::RECORD | 1 << tag::OBJECT;
    pub(in crate::space) const ALL: u32 = u32::MAX;
}

/// Limit in bytes on the name of a class, a field or a dtype.
pub const MOST_NAME: u64 = 1024;
/// Limit on the class names of one value.
pub const MOST_CLASSES: u64 = 64;
/// Limit on the dimensions of an array, the same as numpy's.
pub const MOST_DIMENSIONS: u64 = 64;
/// The only NaN in the encoding. All others are converted to it, so that equal values have equal bytes.
pub const NAN: u64 = 0x7ff8_0000_0000_0000;

/// Limits on a tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Fields of a tuple, list or record.
    pub fields: u64,
    /// Tuples, lists and records inside of each other.
    pub nesting: u32,
    /// Bytes of an encoded tuple.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { fields: 4096, nesting: 32, bytes: 1 << 30 }
    }
}

type Result<T> = std::result::Result<T, EncodingError>;

/// Walks over encoded bytes. Every read is checked against their end.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of these bytes.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The bytes read since an earlier position.
    pub fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.at]
    }

    /// The bytes that are not read yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Fails if bytes are left.
    pub fn end(&self) -> Result<()> {
        match self.rest().len() {
            0 => Ok(()),
            more => Err(EncodingError::TooLong(more as u64)),
        }
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or(EncodingError::TooShort)?;
        self.at += 1;
        Ok(byte)
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let count = usize::try_from(count).map_err(|_| EncodingError::TooShort)?;
        let taken = self.rest().get(..count).ok_or(EncodingError::TooShort)?;
        self.at += count;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N as u64)?.try_into().expect("so many were taken"))
    }

    /// An unsigned number (LEB128): groups of 7 bits, the lowest first. Only the shortest form is accepted.
    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        self.long_varint(u64::from(first & 0x7f))
    }

    fn long_varint(&mut self, mut value: u64) -> Result<u64> {
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(EncodingError::NotCanonical("a number over 64 bits".into()));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return match byte {
                    0 => Err(EncodingError::NotCanonical("a number with zeros in front".into())),
                    _ => Ok(value),
                };
            }
        }
        Err(EncodingError::NotCanonical("a number over 64 bits".into()))
    }

    /// A signed number: zigzag.
    pub fn integer(&mut self) -> Result<i64> {
        self.varint().map(unzigzag)
    }

    /// A count of items that follow, at most `most`.
    pub fn count(&mut self, what: &str, most: u64) -> Result<u64> {
        match self.varint()? {
            is if is > most => Err(EncodingError::TooMany { what: what.into(), is, most }),
            is => Ok(is),
        }
    }

    /// A length, followed by that many bytes.
    pub fn string(&mut self) -> Result<&'a [u8]> {
        let length = self.varint()?;
        self.take(length)
    }

    /// A name: a length, followed by that many bytes of UTF-8.
    pub fn name(&mut self) -> Result<&'a str> {
        let length = self.count("bytes of a name", MOST_NAME)?;
        text(self.take(length)?)
    }

    fn classes(&mut self) -> Result<()> {
        match self.count("names of classes", MOST_CLASSES)? {
            0 => Err(EncodingError::NotCanonical("a value without a class".into())),
            count => (0..count).try_for_each(|_| self.name().map(drop)),
        }
    }

    /// Checks one field and moves behind it. `depth`: the number of tuples, lists and records around it.
    pub fn check(&mut self, depth: u32, limits: &Limits) -> Result<()> {
        match self.byte()? {
            tag::NONE | tag::FALSE | tag::TRUE => {}
            tag::INT => drop(self.varint()?),
            tag::BIG => check_big(self.string()?)?,
            tag::FLOAT => check_float(u64::from_le_bytes(self.array()?))?,
            tag::STR => drop(text(self.string()?)?),
            tag::BYTES => drop(self.string()?),
            tag::ARRAY => self.check_array()?,
            tag::TUPLE | tag::LIST => self.check_fields(deeper(depth, limits)?, limits)?,
            tag::RECORD => self.check_record(deeper(depth, limits)?, limits)?,
            tag::OBJECT => {
                self.classes()?;
                self.string()?;
            }
            tag::SEALED => {
                self.take(16)?;
                self.string()?;
            }
            other => return Err(EncodingError::Unknown(other)),
        }
        Ok(())
    }

    /// Checks a count of fields and the fields.
    pub fn check_fields(&mut self, depth: u32, limits: &Limits) -> Result<()> {
        let count = self.count("fields", limits.fields)?;
        (0..count).try_for_each(|_| self.check(depth, limits))
    }

    fn check_record(&mut self, depth: u32, limits: &Limits) -> Result<()> {
        self.classes()?;
        for _ in 0..self.count("fields", limits.fields)? {
            self.name()?;
            self.check(depth, limits)?;
        }
        Ok(())
    }

    fn check_array(&mut self) -> Result<()> {
        let item = item_size(self.name()?)?;
        // As in numpy, an empty dimension does not excuse others that are too large.
        let (mut bytes, mut empty) = (item, false);
        for _ in 0..self.count("dimensions", MOST_DIMENSIONS)? {
            let dimension = self.varint()?;
            empty |= dimension == 0;
            let next = bytes.checked_mul(dimension.max(1)).filter(|bytes| *bytes <= i64::MAX as u64);
            bytes = next.ok_or_else(|| EncodingError::NotCanonical("an array of more bytes than there are".into()))?;
        }
        let length = self.varint()?;
        if length != if empty { 0 } else { bytes } {
            return Err(EncodingError::NotCanonical("an array whose bytes do not fill its dimensions".into()));
        }
        self.take(length).map(drop)
    }

    /// Skips one field that was checked before.
    #[inline]
    pub fn skip(&mut self) -> Result<()> {
        match self.byte()? {
            tag::NONE | tag::FALSE | tag::TRUE => {}
            tag::INT => drop(self.varint()?),
            tag::FLOAT => drop(self.take(8)?),
            tag::STR | tag::BYTES | tag::BIG => drop(self.string()?),
            other => self.skip_rare(other)?,
        }
        Ok(())
    }

    fn skip_rare(&mut self, kind: u8) -> Result<()> {
        match kind {
            tag::ARRAY => {
                self.string()?;
                for _ in 0..self.varint()? {
                    self.varint()?;
                }
            }
            tag::TUPLE | tag::LIST => {
                for _ in 0..self.varint()? {
                    self.skip()?;
                }
                return Ok(());
            }
            tag::RECORD => {
                self.skip_names()?;
                for _ in 0..self.varint()? {
                    self.string()?;
                    self.skip()?;
                }
                return Ok(());
            }
            tag::OBJECT => self.skip_names()?,
            tag::SEALED => drop(self.take(16)?),
            other => return Err(EncodingError::Unknown(other)),
        }
        self.string().map(drop)
    }

    /// Skips a count of names and the names.
    pub fn skip_names(&mut self) -> Result<()> {
        for _ in 0..self.varint()? {
            self.string()?;
        }
        Ok(())
    }

    /// The bytes of the next field including its tag. The field was checked before.
    #[inline]
    pub fn field(&mut self) -> Result<&'a [u8]> {
        let start = self.at;
        self.skip()?;
        Ok(self.since(start))
    }
}

fn deeper(depth: u32, limits: &Limits) -> Result<u32> {
    let most = u64::from(limits.nesting);
    match depth + 1 {
        is if u64::from(is) > most => {
            Err(EncodingError::TooMany { what: "tuples inside of each other".into(), is: u64::from(is), most })
        }
        is => Ok(is),
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| EncodingError::NotCanonical("a text that is not UTF-8".into()))
}

fn check_float(bits: u64) -> Result<()> {
    match f64::from_bits(bits).is_nan() && bits != NAN {
        true => Err(EncodingError::NotCanonical("a NaN that is not the one NaN".into())),
        false => Ok(()),
    }
}

/// Accepts only the minimal form of an integer beyond 64 bits. Smaller integers must use the `INT` tag.
fn check_big(bytes: &[u8]) -> Result<()> {
    let wrong = match bytes {
        [.., _, _, _, _, _, _, _, before, last] => (*last == 0 && *before < 0x80) || (*last == 0xff && *before >= 0x80),
        _ => true,
    };
    match wrong {
        true => Err(EncodingError::NotCanonical("an integer with more bytes than it needs".into())),
        false => Ok(()),
    }
}

/// Bytes per item of a dtype in numpy's notation, like `<f8` or `<U12`. Object dtypes are refused.
fn item_size(dtype: &str) -> Result<u64> {
    let wrong = || EncodingError::NotCanonical("a dtype that is not one of plain items".into());
    let mut letters = dtype.chars();
    let (order, kind) = (letters.next().ok_or_else(wrong)?, letters.next().ok_or_else(wrong)?);
    if !matches!(order, '<' | '>' | '|') || !matches!(kind, 'b' | 'i' | 'u' | 'f' | 'c' | 'm' | 'M' | 'S' | 'U' | 'V') {
        return Err(wrong());
    }
    let rest = letters.as_str();
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (number, unit) = rest.split_at(digits);
    let unit_fits = unit.is_empty() || (matches!(kind, 'm' | 'M') && is_unit(unit));
    let size = number.parse::<u32>().ok().filter(|_| unit_fits && !number.starts_with('0')).ok_or_else(wrong)?;
    let size = u64::from(size) * if kind == 'U' { 4 } else { 1 };
    let exists = match kind {
        'b' => size == 1,
        'i' | 'u' => matches!(size, 1 | 2 | 4 | 8),
        'f' => matches!(size, 2 | 4 | 8 | 12 | 16),
        'c' => matches!(size, 8 | 16 | 24 | 32),
        'm' | 'M' => size == 8,
        _ => size <= i32::MAX as u64,
    };
    if exists { Ok(size) } else { Err(wrong()) }
}

/// Whether the text is a unit of time, like `[ns]` or `[25us]`.
fn is_unit(text: &str) -> bool {
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let name = inside.map(|text| text.trim_start_matches(|letter: char| letter.is_ascii_digit()));
    let count = inside.zip(name).map(|(text, name)| &text[..text.len() - name.len()]);
    const UNITS: [&str; 13] = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"];
    name.is_some_and(|name| UNITS.contains(&name))
        && count.is_some_and(|count| count.is_empty() || count.parse::<i32>().is_ok_and(|count| count > 0))
}

/// An integer as an unsigned one, so that small ones are short whatever their sign.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The integer that [`zigzag`] made unsigned.
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// The contents of a string or bytes field.
pub fn inside(field: &[u8]) -> Option<&[u8]> {
    Reader::new(&field[1..]).string().ok()
}
