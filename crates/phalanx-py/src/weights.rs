//! How much memory a token takes that may stay at its interpreter. Otherwise the token is copied.

use crate::buffers::Region;
use crate::owners::{has_one_holder, is_array, is_held_once};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Deepest nesting of containers that is examined.
const DEEPEST: u32 = 8;

/// The approximate size in bytes of the only object in a list, if the object is as good as one that had travelled; otherwise
/// `None`. Nothing but the list may see or change it. It must consist of writable arrays without gaps, of plain objects, and of
/// lists, tuples and dicts of these.
#[pyfunction]
pub fn bytes_if_alone(holder: &Bound<'_, PyList>) -> PyResult<Option<usize>> {
    weigh(holder.get_item(0)?, DEEPEST)
}

fn weigh(object: Bound<'_, PyAny>, deepest: u32) -> PyResult<Option<usize>> {
    if is_array(&object)? {
        return weigh_array(object);
    }
    if !has_one_holder(&object) || deepest == 0 {
        return Ok(None);
    }
    let mut sum = 0;
    let mut add = |item: Bound<'_, PyAny>| -> PyResult<bool> {
        let bytes = match plain_bytes(&item)? {
            Some(bytes) => Some(bytes),
            None => weigh(item, deepest - 1)?,
        };
        sum += bytes.unwrap_or_default();
        Ok(bytes.is_some())
    };
    if let Ok(list) = object.cast_exact::<PyList>() {
        for place in 0..list.len() {
            if !add(list.get_item(place)?)? {
                return Ok(None);
            }
        }
    } else if let Ok(tuple) = object.cast_exact::<PyTuple>() {
        for place in 0..tuple.len() {
            if !add(tuple.get_item(place)?)? {
                return Ok(None);
            }
        }
    } else if let Ok(dict) = object.cast_exact::<PyDict>() {
        for (key, value) in dict {
            if plain_bytes(&key)?.is_none() || !add(value)? {
                return Ok(None);
            }
        }
    } else {
        return Ok(None);
    }
    Ok(Some(sum))
}

/// The size of an immutable object. It may have other holders, because nobody can notice.
fn plain_bytes(object: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    if let Ok(text) = object.cast_exact::<PyString>() {
        return Ok(Some(text.len()?));
    }
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(Some(bytes.as_bytes().len()));
    }
    let is_plain = object.is_none()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyComplex>();
    Ok(is_plain.then_some(0))
}

fn weigh_array(array: Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let py = array.py();
    let flags = array.getattr(intern!(py, "flags"))?;
    let is = |name| -> PyResult<bool> { flags.getattr(name)?.is_truthy() };
    if !(is(intern!(py, "writeable"))? && is(intern!(py, "forc"))?) {
        return Ok(None);
    }
    let bytes = array.getattr(intern!(py, "nbytes"))?.extract()?;
    drop(flags);
    Ok(is_held_once::<Region>(array)?.then_some(bytes))
}
