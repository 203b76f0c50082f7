//! Finds out whether other objects refer to memory.

use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use pyo3::{ffi, intern};

/// Reference count of an object with one holder: the holder's reference, and the one used to look at it.
const ONE_HOLDER: isize = 2;

/// Whether an array owns its memory, or lies in such memory of another array or in a `Memory`, and nothing else refers to any
/// of these objects. One reference of the caller is allowed.
pub fn is_held_once<Memory: PyTypeInfo>(mut object: Bound<'_, PyAny>) -> PyResult<bool> {
    static COUNT_WEAK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    loop {
        if !has_one_holder(&object) {
            return Ok(false);
        }
        if !is_array(&object)? {
            return Ok(object.is_instance_of::<Memory>());
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

/// Whether only its holder refers to an object. One reference of the caller is allowed.
pub fn has_one_holder(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a living object, and Python's lock is held.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) == ONE_HOLDER }
}

/// Whether this is a numpy array of no derived class. Does not import numpy if nothing else has.
pub fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let kind = object.get_type();
    Ok(kind.name()? == "ndarray" && kind.is(ARRAY.import(object.py(), "numpy", "ndarray")?))
}
