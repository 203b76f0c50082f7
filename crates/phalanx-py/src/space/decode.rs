//! Decodes fields to Python values. The bytes were checked on arrival; decoding still raises on malformed ones.

use super::array::read_ndarray;
use super::wrong;
use bytes::Bytes;
use phalanx_core::space::{Limits, Reader, Tuple, tag, unzigzag};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Limits for a tuple of any space; the space's server enforces its own. Nesting is limited because each level takes some of
/// this thread's stack.
pub const FOREIGN: Limits = Limits { fields: u64::MAX, nesting: 256, bytes: u64::MAX };

/// Decodes a tuple's bytes to a Python tuple.
pub fn decode_tuple<'py>(py: Python<'py>, bytes: &[u8], objects: bool) -> PyResult<Bound<'py, PyTuple>> {
    let mut reader = Reader::new(bytes);
    let fields = decode_all(py, &mut reader, objects)?;
    reader.end().map_err(wrong)?;
    Ok(fields)
}

/// Decodes a tuple that a server sent. It is checked first, because the server may be malicious.
pub fn decode_foreign<'py>(py: Python<'py>, bytes: &Bytes, objects: bool) -> PyResult<Bound<'py, PyTuple>> {
    Tuple::check(bytes.clone(), &FOREIGN).map_err(wrong)?;
    decode_tuple(py, bytes, objects)
}

fn decode_all<'py>(py: Python<'py>, reader: &mut Reader<'_>, objects: bool) -> PyResult<Bound<'py, PyTuple>> {
    let count = reader.varint().map_err(wrong)?;
    // A field has at least one byte. So this check limits the memory that a forged count can allocate to what arrived.
    if count > reader.rest().len() as u64 {
        return Err(PyValueError::new_err("a tuple is shorter than it says"));
    }
    // SAFETY: a new tuple with empty slots, which no other code sees until all are filled. Each slot takes over the reference.
    // If the tuple is dropped before that, it frees the slots that are filled.
    unsafe {
        let tuple = Bound::from_owned_ptr_or_err(py, ffi::PyTuple_New(count as ffi::Py_ssize_t))?;
        for place in 0..count {
            let field = decode_field(py, reader, objects)?;
            // Not the macro SET_ITEM, which the stable ABI lacks. The place exists, so this cannot fail.
            ffi::PyTuple_SetItem(tuple.as_ptr(), place as ffi::Py_ssize_t, field.into_ptr());
        }
        Ok(tuple.cast_into_unchecked())
    }
}

/// The next field.
pub fn decode_field<'py>(py: Python<'py>, reader: &mut Reader<'_>, objects: bool) -> PyResult<Bound<'py, PyAny>> {
    Ok(match reader.byte().map_err(wrong)? {
        tag::STR => text(py, reader.string().map_err(wrong)?)?.into_any(),
        tag::INT => PyInt::new(py, unzigzag(reader.varint().map_err(wrong)?)).into_any(),
        tag::FLOAT => PyFloat::new(py, f64::from_le_bytes(reader.array().map_err(wrong)?)).into_any(),
        tag::BYTES => PyBytes::new(py, reader.string().map_err(wrong)?).into_any(),
        tag::NONE => py.None().into_bound(py),
        tag::FALSE => pyo3::types::PyBool::new(py, false).to_owned().into_any(),
        tag::TRUE => pyo3::types::PyBool::new(py, true).to_owned().into_any(),
        tag::TUPLE => decode_all(py, reader, objects)?.into_any(),
        other => decode_rare(py, reader, other, objects)?,
    })
}

fn decode_rare<'py>(py: Python<'py>, reader: &mut Reader<'_>, kind: u8, objects: bool) -> PyResult<Bound<'py, PyAny>> {
    match kind {
        tag::BIG => {
            let signed = PyDict::new(py);
            signed.set_item("signed", true)?;
            let bytes = PyBytes::new(py, reader.string().map_err(wrong)?);
            py.get_type::<PyInt>().call_method("from_bytes", (bytes, "little"), Some(&signed))
        }
        tag::LIST => {
            let list = PyList::empty(py);
            for _ in 0..reader.varint().map_err(wrong)? {
                list.append(decode_field(py, reader, objects)?)?;
            }
            Ok(list.into_any())
        }
        tag::ARRAY => read_ndarray(py, reader),
        tag::RECORD => {
            let classes = names(py, reader)?;
            let values = PyDict::new(py);
            for _ in 0..reader.varint().map_err(wrong)? {
                let name = text(py, reader.string().map_err(wrong)?)?;
                values.set_item(name, decode_field(py, reader, objects)?)?;
            }
            py.import("phalanx.space._records")?.call_method1("build", (classes, values))
        }
        tag::OBJECT => {
            let classes = names(py, reader)?;
            let pickle = PyBytes::new(py, reader.string().map_err(wrong)?);
            // Unpickles only if the caller allowed objects.
            py.import("phalanx.space._records")?.call_method1("open_object", (classes, pickle, objects))
        }
        tag::SEALED => {
            let fingerprint = PyBytes::new(py, &reader.array::<16>().map_err(wrong)?);
            let ciphertext = PyBytes::new(py, reader.string().map_err(wrong)?);
            py.import("phalanx.space._records")?.call_method1("Sealed", (fingerprint, ciphertext))
        }
        other => Err(PyValueError::new_err(format!("a field of the unknown kind {other}"))),
    }
}

fn names<'py>(py: Python<'py>, reader: &mut Reader<'_>) -> PyResult<Bound<'py, PyTuple>> {
    let count = reader.varint().map_err(wrong)?;
    let names: PyResult<Vec<_>> = (0..count).map(|_| text(py, reader.string().map_err(wrong)?)).collect();
    PyTuple::new(py, names?)
}

fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    PyString::from_bytes(py, bytes)
}
