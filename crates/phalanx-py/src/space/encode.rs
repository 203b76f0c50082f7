//! Encodes Python values to fields (the encoding is defined in `phalanx_core::space::value`).

use super::array::put_ndarray;
use super::classes::{Kind, kind_of};
use phalanx_core::space::tag;
use phalanx_core::space::{
    Limits, put_big, put_bool, put_bytes, put_float, put_int, put_names, put_number, put_sealed, put_str, put_string,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple};

/// How values of one space are encoded.
#[derive(Debug, Clone, Copy)]
pub struct Encoding {
    pub limits: Limits,
    /// Whether a value without an encoding of its own is pickled.
    pub objects: bool,
}

/// Encodes a tuple's fields.
pub fn encode_tuple(fields: &Bound<'_, PyTuple>, encoding: &Encoding) -> PyResult<Vec<u8>> {
    let mut bytes = Vec::with_capacity(64);
    put_count(&mut bytes, fields.len(), encoding)?;
    for field in fields.iter_borrowed() {
        encode_field(&mut bytes, &field, encoding, 0)?;
    }
    Ok(bytes)
}

/// Appends one field. `depth`: the number of tuples, lists and records around it.
pub fn encode_field(to: &mut Vec<u8>, value: &Bound<'_, PyAny>, encoding: &Encoding, depth: u32) -> PyResult<()> {
    // Exact types only, because a subclass may mean something else: True is not 1.
    if let Ok(value) = value.cast_exact::<PyString>() {
        let text = value.to_str()?;
        check_room(to, text.len(), encoding)?;
        put_str(to, text);
    } else if let Ok(value) = value.cast_exact::<PyInt>() {
        put_integer(to, value, encoding)?;
    } else if let Ok(value) = value.cast_exact::<PyFloat>() {
        put_float(to, value.value());
    } else if let Ok(value) = value.cast_exact::<PyBytes>() {
        check_room(to, value.as_bytes().len(), encoding)?;
        put_bytes(to, value.as_bytes());
    } else if let Ok(value) = value.cast_exact::<PyBool>() {
        put_bool(to, value.is_true());
    } else if value.is_none() {
        to.push(tag::NONE);
    } else if let Ok(values) = value.cast_exact::<PyTuple>() {
        let depth = deeper(depth, encoding)?;
        to.push(tag::TUPLE);
        put_count(to, values.len(), encoding)?;
        for value in values.iter_borrowed() {
            encode_field(to, &value, encoding, depth)?;
        }
    } else if let Ok(values) = value.cast_exact::<PyList>() {
        // A copy, so that another thread cannot make it longer meanwhile.
        let values = values.to_tuple();
        let depth = deeper(depth, encoding)?;
        to.push(tag::LIST);
        put_count(to, values.len(), encoding)?;
        for value in values.iter_borrowed() {
            encode_field(to, &value, encoding, depth)?;
        }
    } else {
        encode_rare(to, value, encoding, depth)?;
    }
    Ok(())
}

fn encode_rare(to: &mut Vec<u8>, value: &Bound<'_, PyAny>, encoding: &Encoding, depth: u32) -> PyResult<()> {
    let room = |to: &Vec<u8>, more| check_room(to, more, encoding);
    match kind_of(value)? {
        Kind::Buffer => {
            let bytes: Vec<u8> = match value.cast::<PyByteArray>() {
                Ok(bytes) => bytes.to_vec(),
                Err(_) => value.cast::<PyMemoryView>()?.call_method0("tobytes")?.extract()?,
            };
            room(to, bytes.len())?;
            put_bytes(to, &bytes);
        }
        Kind::Array => {
            room(to, value.getattr("nbytes")?.extract()?)?;
            put_ndarray(to, value)?;
        }
        Kind::Scalar(plain) => encode_field(to, &plain, encoding, depth)?,
        Kind::Record { head, names } => {
            let depth = deeper(depth, encoding)?;
            to.extend_from_slice(head.as_bytes());
            for name in names.iter_borrowed() {
                let name = name.cast::<PyString>()?;
                put_string(to, name.to_str()?.as_bytes());
                encode_field(to, &value.getattr(name)?, encoding, depth)?;
            }
        }
        Kind::Named { classes, values } => {
            let depth = deeper(depth, encoding)?;
            to.push(tag::RECORD);
            put_names(to, &classes);
            put_count(to, values.len(), encoding)?;
            for (name, value) in values.iter() {
                put_string(to, name.cast::<PyString>()?.to_str()?.as_bytes());
                encode_field(to, &value, encoding, depth)?;
            }
        }
        Kind::Sealed { fingerprint, ciphertext } => {
            let ciphertext = ciphertext.as_bytes();
            room(to, ciphertext.len())?;
            let fingerprint =
                fingerprint[..].try_into().map_err(|_| PyValueError::new_err("a fingerprint has 16 bytes"))?;
            put_sealed(to, fingerprint, ciphertext);
        }
        Kind::Object(classes) if encoding.objects => {
            let pickle = value.py().import("phalanx.space._records")?.call_method1("pickle_object", (value,))?;
            let pickle = pickle.cast::<PyBytes>()?.as_bytes();
            room(to, pickle.len())?;
            to.push(tag::OBJECT);
            put_names(to, &classes);
            put_string(to, pickle);
        }
        Kind::Object(_) => {
            let class = value.get_type();
            return Err(PyTypeError::new_err(format!(
                "a tuple holds None, bool, int, float, str, bytes, arrays, tuples, lists and dataclass instances, \
                 not {}: make the space with objects=True to put pickled objects",
                class.fully_qualified_name()?,
            )));
        }
    }
    Ok(())
}

#[inline]
fn put_integer(to: &mut Vec<u8>, value: &Bound<'_, PyInt>, encoding: &Encoding) -> PyResult<()> {
    if let Ok(small) = value.extract::<i64>() {
        put_int(to, small);
        return Ok(());
    }
    let bits: usize = value.call_method0("bit_length")?.extract()?;
    let length = bits / 8 + 1;
    check_room(to, length, encoding)?;
    let signed = pyo3::types::PyDict::new(value.py());
    signed.set_item("signed", true)?;
    let bytes = value.call_method("to_bytes", (length, "little"), Some(&signed))?;
    put_big(to, bytes.cast::<PyBytes>()?.as_bytes());
    Ok(())
}

#[inline]
fn put_count(to: &mut Vec<u8>, count: usize, encoding: &Encoding) -> PyResult<()> {
    if count as u64 > encoding.limits.fields {
        let most = encoding.limits.fields;
        return Err(PyValueError::new_err(format!("{count} fields are more than {most}: use an array or bytes")));
    }
    put_number(to, count as u64);
    Ok(())
}

#[inline]
fn check_room(to: &[u8], more: usize, encoding: &Encoding) -> PyResult<()> {
    let (is, most) = ((to.len() + more) as u64, encoding.limits.bytes);
    if is <= most { Ok(()) } else { Err(too_long(is, most)) }
}

#[cold]
fn too_long(is: u64, most: u64) -> PyErr {
    PyValueError::new_err(format!("a tuple of {is} bytes is longer than {most}, the most that this space takes"))
}

fn deeper(depth: u32, encoding: &Encoding) -> PyResult<u32> {
    let most = encoding.limits.nesting;
    if depth < most {
        return Ok(depth + 1);
    }
    Err(PyValueError::new_err(format!("more than {most} tuples, lists and dataclass instances inside of each other")))
}
