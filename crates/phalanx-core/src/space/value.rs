//! Values as bytes. The encoding is canonical (two fields are equal exactly when their bytes are) and self-delimiting.
//!
//! ```text
//! tuple: varint number of fields, then fields                 field: tag, then
//!  0 None   1 False   2 True   3 Int: zigzag varint, 64 bits   4 Big: varint length, two's complement, minimal
//!  5 Float: 8 bytes   6 Str: varint length, UTF-8              7 Bytes: varint length, bytes
//!  8 Array: name of numpy's dtype, varint dimensions, each a varint, varint length, items in C order
//!  9 Tuple, 10 List: varint number, fields
//! 11 Record: varint number of classes, their names, varint number, name and field each
//! 12 Object: varint number of classes, their names, varint length, a pickle that a space never opens
//! 13 Sealed: 16 bytes of a keyed fingerprint, varint length, ciphertext             name: varint length, UTF-8
//! ```
//!
//! Numbers are little endian. There is only one NaN, and it equals itself. -0.0 and 0.0 differ. 1, 1.0, True and "1"
//! are four different values.

use super::reader::{Limits, NAN, Reader, tag, unzigzag, zigzag};
use crate::error::EncodingError;
use bytes::Bytes;

/// A tuple whose bytes were checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tuple(Bytes);

impl Tuple {
    /// Bytes that should be one tuple.
    pub fn check(bytes: Bytes, limits: &Limits) -> Result<Tuple, EncodingError> {
        let mut reader = Reader::new(&bytes);
        pass(&mut reader, limits)?;
        reader.end()?;
        Ok(Tuple(bytes))
    }

    /// Checks bytes that should be `count` tuples, one after the other. Short tuples are copied, so that none of them
    /// keeps the whole buffer alive.
    pub fn check_all(bytes: &Bytes, count: u64, limits: &Limits) -> Result<Vec<Tuple>, EncodingError> {
        let mut reader = Reader::new(bytes);
        let mut tuples = Vec::with_capacity(count.min(1 + bytes.len() as u64) as usize);
        for _ in 0..count {
            let start = reader.at();
            pass(&mut reader, limits)?;
            let tuple = reader.since(start);
            let alone = tuple.len() > bytes.len() / 2;
            tuples.push(Tuple(if alone { bytes.slice_ref(tuple) } else { Bytes::copy_from_slice(tuple) }));
        }
        reader.end()?;
        Ok(tuples)
    }

    /// A tuple of these fields.
    pub fn of(fields: &[Value]) -> Tuple {
        let mut bytes = Vec::new();
        put_number(&mut bytes, fields.len() as u64);
        fields.iter().for_each(|field| field.encode(&mut bytes));
        Tuple(bytes.into())
    }

    /// The fields, decoded.
    pub fn values(&self) -> Vec<Value> {
        let mut reader = Reader::new(&self.0);
        values(&mut reader).unwrap_or_default()
    }

    /// The encoded fields.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The encoded fields, without copying them.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Bytes that this crate checked before.
    pub(super) fn known(bytes: Bytes) -> Tuple {
        Tuple(bytes)
    }
}

fn pass(reader: &mut Reader, limits: &Limits) -> Result<(), EncodingError> {
    let start = reader.at();
    reader.check_fields(0, limits)?;
    match reader.since(start).len() as u64 {
        is if is > limits.bytes => Err(EncodingError::TooMany { what: "bytes".into(), is, most: limits.bytes }),
        _ => Ok(()),
    }
}

/// One decoded field, for Rust programs and for tests. Python's values are encoded and decoded without it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum Value {
    /// Python's None.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// Two's complement, little endian. Encoding makes it minimal, and turns it into an `Int` if it fits.
    Big(Vec<u8>),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Str(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// `dtype` as numpy writes it, like `<f8`; `items` in C order.
    Array { dtype: String, shape: Vec<u64>, items: Vec<u8> },
    /// A tuple.
    Tuple(Vec<Value>),
    /// A list.
    List(Vec<Value>),
    /// A dataclass: names of its class and of the bases that are dataclasses, and its fields.
    Record { classes: Vec<String>, fields: Vec<(String, Value)> },
    /// A pickled object, and the names of its class and its bases.
    Object { classes: Vec<String>, pickle: Vec<u8> },
    /// A value that the server cannot read.
    Sealed { fingerprint: [u8; 16], ciphertext: Vec<u8> },
}

impl Value {
    /// Appends the field's bytes.
    pub fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Value::None => to.push(tag::NONE),
            Value::Bool(value) => put_bool(to, *value),
            Value::Int(value) => put_int(to, *value),
            Value::Big(value) => put_big(to, value),
            Value::Float(value) => put_float(to, *value),
            Value::Str(value) => put_str(to, value),
            Value::Bytes(value) => put_bytes(to, value),
            Value::Array { dtype, shape, items } => put_array(to, dtype, shape, items),
            Value::Tuple(values) => put_all(to, tag::TUPLE, values),
            Value::List(values) => put_all(to, tag::LIST, values),
            Value::Record { classes, fields } => {
                put_record(to, classes, fields.len());
                for (name, field) in fields {
                    put_string(to, name.as_bytes());
                    field.encode(to);
                }
            }
            Value::Object { classes, pickle } => {
                to.push(tag::OBJECT);
                put_names(to, classes);
                put_string(to, pickle);
            }
            Value::Sealed { fingerprint, ciphertext } => {
                put_sealed(to, fingerprint, ciphertext);
            }
        }
    }

    /// The next field of bytes that were checked.
    pub fn decode(reader: &mut Reader) -> Result<Value, EncodingError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(match reader.byte()? {
            tag::NONE => Value::None,
            tag::FALSE => Value::Bool(false),
            tag::TRUE => Value::Bool(true),
            tag::INT => Value::Int(unzigzag(reader.varint()?)),
            tag::BIG => Value::Big(reader.string()?.to_vec()),
            tag::FLOAT => Value::Float(f64::from_le_bytes(reader.array()?)),
            tag::STR => Value::Str(text(reader.string()?)),
            tag::BYTES => Value::Bytes(reader.string()?.to_vec()),
            tag::ARRAY => {
                let dtype = text(reader.string()?);
                let dimensions = reader.varint()?;
                let shape = (0..dimensions).map(|_| reader.varint()).collect::<Result<_, _>>()?;
                Value::Array { dtype, shape, items: reader.string()?.to_vec() }
            }
            tag::TUPLE => Value::Tuple(values(reader)?),
            tag::LIST => Value::List(values(reader)?),
            tag::RECORD => {
                let classes = names(reader)?;
                let count = reader.varint()?;
                let field = |_| Ok((text(reader.string()?), Value::decode(reader)?));
                Value::Record { classes, fields: (0..count).map(field).collect::<Result<_, EncodingError>>()? }
            }
            tag::OBJECT => Value::Object { classes: names(reader)?, pickle: reader.string()?.to_vec() },
            tag::SEALED => Value::Sealed { fingerprint: reader.array()?, ciphertext: reader.string()?.to_vec() },
            other => return Err(EncodingError::Unknown(other)),
        })
    }

    /// The field's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes
    }
}

fn values(reader: &mut Reader) -> Result<Vec<Value>, EncodingError> {
    let count = reader.varint()?;
    (0..count).map(|_| Value::decode(reader)).collect()
}

fn names(reader: &mut Reader) -> Result<Vec<String>, EncodingError> {
    let count = reader.varint()?;
    (0..count).map(|_| reader.name().map(str::to_owned)).collect()
}

/// Appends a varint: a count or a length.
#[inline]
pub fn put_number(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Appends a length and bytes: a name, or the contents of a field with a length.
pub fn put_string(to: &mut Vec<u8>, bytes: &[u8]) {
    put_number(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

/// Appends a sealed value.
pub fn put_sealed(to: &mut Vec<u8>, fingerprint: &[u8; 16], ciphertext: &[u8]) {
    to.push(tag::SEALED);
    to.extend_from_slice(fingerprint);
    put_string(to, ciphertext);
}

/// Appends a truth value.
pub fn put_bool(to: &mut Vec<u8>, value: bool) {
    to.push(if value { tag::TRUE } else { tag::FALSE });
}

/// Appends an integer of 64 bits.
pub fn put_int(to: &mut Vec<u8>, value: i64) {
    to.push(tag::INT);
    put_number(to, zigzag(value));
}

/// Appends an integer of any size: two's complement, little endian.
pub fn put_big(to: &mut Vec<u8>, mut bytes: &[u8]) {
    while let [rest @ .., before, last] = bytes {
        match (*before >= 0x80, *last) {
            (false, 0) | (true, 0xff) => bytes = &bytes[..rest.len() + 1],
            _ => break,
        }
    }
    if bytes.len() > 8 {
        to.push(tag::BIG);
        return put_string(to, bytes);
    }
    let negative = bytes.last().is_some_and(|last| *last >= 0x80);
    let mut small = [if negative { 0xff } else { 0 }; 8];
    small[..bytes.len()].copy_from_slice(bytes);
    put_int(to, i64::from_le_bytes(small));
}

/// Appends a floating-point number. All NaNs become the same.
pub fn put_float(to: &mut Vec<u8>, value: f64) {
    to.push(tag::FLOAT);
    let bits = if value.is_nan() { NAN } else { value.to_bits() };
    to.extend_from_slice(&bits.to_le_bytes());
}

/// Appends a text.
pub fn put_str(to: &mut Vec<u8>, value: &str) {
    to.push(tag::STR);
    put_string(to, value.as_bytes());
}

/// Appends bytes.
pub fn put_bytes(to: &mut Vec<u8>, value: &[u8]) {
    to.push(tag::BYTES);
    put_string(to, value);
}

/// Appends an array: its dtype as numpy writes it, its shape, its items in C order.
pub fn put_array(to: &mut Vec<u8>, dtype: &str, shape: &[u64], items: &[u8]) {
    to.push(tag::ARRAY);
    put_string(to, dtype.as_bytes());
    put_number(to, shape.len() as u64);
    shape.iter().for_each(|dimension| put_number(to, *dimension));
    put_string(to, items);
}

/// Begins a record. Its `fields` must follow, each as a name ([`put_string`]) and a field.
pub fn put_record<S: AsRef<str>>(to: &mut Vec<u8>, classes: &[S], fields: usize) {
    to.push(tag::RECORD);
    put_names(to, classes);
    put_number(to, fields as u64);
}

/// Appends a number of names and the names.
pub fn put_names<S: AsRef<str>>(to: &mut Vec<u8>, names: &[S]) {
    put_number(to, names.len() as u64);
    names.iter().for_each(|name| put_string(to, name.as_ref().as_bytes()));
}

fn put_all(to: &mut Vec<u8>, tag: u8, values: &[Value]) {
    to.push(tag);
    put_number(to, values.len() as u64);
    values.iter().for_each(|value| value.encode(to));
}
