//! Converts fields to encoded bytes and back, for stores other than ours (the package `phalanx-redis`).

use super::decode::decode_tuple;
use super::encode::{Encoding, encode_field};
use super::wrong;
use phalanx_core::space::{Limits, Tuple, put_number};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};

/// Encodes each field of a tuple.
#[pyfunction]
pub fn encode_fields<'py>(fields: &Bound<'py, PyTuple>, objects: bool) -> PyResult<Bound<'py, PyList>> {
    let encoding = Encoding { limits: Limits::default(), objects };
    let encoded = PyList::empty(fields.py());
    for field in fields.iter_borrowed() {
        let mut bytes = Vec::with_capacity(64);
        encode_field(&mut bytes, &field, &encoding, 0)?;
        encoded.append(PyBytes::new(fields.py(), &bytes))?;
    }
    Ok(encoded)
}

/// Decodes a tuple from such fields, which are checked.
#[pyfunction]
pub fn decode_fields<'py>(py: Python<'py>, fields: Vec<PyBackedBytes>, objects: bool) -> PyResult<Bound<'py, PyTuple>> {
    let mut bytes = Vec::with_capacity(8 + fields.iter().map(|field| field.len()).sum::<usize>());
    put_number(&mut bytes, fields.len() as u64);
    fields.iter().for_each(|field| bytes.extend_from_slice(field));
    let tuple = Tuple::check(bytes.into(), &Limits::default()).map_err(wrong)?;
    decode_tuple(py, tuple.bytes(), objects)
}
