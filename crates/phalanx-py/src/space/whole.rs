//! Tuples as encoded bytes, with the options that they were put with. `phalanx/space/_moving.py` moves them to another space
//! without decoding them.

use super::options::to_duration;
use super::wrong;
use phalanx_core::space::{Beside, OutOptions, Reader, Spot, Tuple, Whole};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};

/// The position of a tuple: its partition, its slot and its number.
pub type At = (u32, u32, u64);
/// A tuple's position, its bytes, the remaining seconds of its lease, its key and its label (both encoded), and its priority.
pub type Item<'py> =
    (At, Bound<'py, PyBytes>, Option<f64>, Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>, i64);
/// A page of such tuples, and where the next page begins.
pub type Items<'py> = (Vec<Item<'py>>, Option<At>);

pub fn to_spot((partition, slot, number): At) -> Spot {
    Spot { partition, slot, number }
}

pub fn to_at(spot: Spot) -> At {
    (spot.partition, spot.slot, spot.number)
}

pub fn to_item<'py>(py: Python<'py>, tuple: &Tuple, beside: Beside) -> Item<'py> {
    let Beside { spot, lease, key, label, priority } = beside;
    let bytes = |bytes: Vec<u8>| PyBytes::new(py, &bytes);
    let lease = lease.map(|lease| lease.as_secs_f64());
    (to_at(spot), PyBytes::new(py, tuple.bytes()), lease, key.map(bytes), label.map(bytes), priority)
}

pub fn to_items<'py>(py: Python<'py>, all: Vec<Whole>) -> Vec<Item<'py>> {
    all.into_iter().map(|whole| to_item(py, &whole.tuple, whole.beside)).collect()
}

/// The options with which such tuples are put again.
pub fn to_options(
    lease: Option<f64>,
    key: Option<Vec<u8>>,
    label: Option<Vec<u8>>,
    priority: i64,
) -> PyResult<OutOptions> {
    let lease = lease.map(|seconds| to_duration(seconds, "lease=")).transpose()?;
    Ok(OutOptions { lease, key, label, priority: Some(priority), once: None })
}

/// The bytes of each field of a tuple that is given as bytes.
#[pyfunction]
pub fn split_fields<'py>(py: Python<'py>, tuple: PyBackedBytes) -> PyResult<Bound<'py, PyList>> {
    let mut fields = Reader::new(&tuple);
    let split = PyList::empty(py);
    for _ in 0..fields.varint().map_err(wrong)? {
        split.append(PyBytes::new(py, fields.field().map_err(wrong)?))?;
    }
    Ok(split)
}
