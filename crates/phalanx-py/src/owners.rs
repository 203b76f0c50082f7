//! Finds out whether other objects refer to memory. A token that stays at its interpreter is copied only in that case.

use crate::buffers::Region;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};
use pyo3::{ffi, intern};

/// Reference count of an object with one holder: the holder's reference, and the one used to look at it.
const ONE_HOLDER: isize = 2;
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
    Ok(is_held_once(array)?.then_some(bytes))
}

/// Whether an array owns its memory, or lies in such memory of another object, and nothing else refers to any of these objects.
/// One reference of the caller is allowed.
pub fn is_held_once(mut object: Bound<'_, PyAny>) -> PyResult<bool> {
    static COUNT_WEAK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    loop {
        if !has_one_holder(&object) {
            return Ok(false);
        }
        if !is_array(&object)? {
            return Ok(object.is_instance_of::<Region>());
        }
        let weak = COUNT_WEAK.import(py, "weakref", "getweakrefcount")?.call1((&object,))?;
        let holds_objects = object.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "hasobject"))?;
        if weak.is_truthy()? || holds_objects.is_truthy()? {
            return Ok(false);
        }
        let base = object.getattr(intern!(py, "base"))?;
        if base.is_none() {
            return object.getattr(intern!(py, "flags"))?.getattr(intern!(py, "owndata"))?.is_truthy();
        }
        object = base;
    }
}

fn has_one_holder(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a living object, and Python's lock is held.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) == ONE_HOLDER }
}

/// Whether this is a numpy array of no derived class. Does not import numpy if nothing else has.
fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let kind = object.get_type();
    Ok(kind.name()? == "ndarray" && kind.is(ARRAY.import(object.py(), "numpy", "ndarray")?))
}
