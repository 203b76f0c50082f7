//! Converts numpy arrays to encoded fields and back, with one copy each way. This module does not need numpy itself.

use phalanx_core::space::Reader;
use phalanx_core::space::put_array;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyTuple, PyType};

/// Appends an array.
pub fn put_ndarray(to: &mut Vec<u8>, array: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = array.py();
    let dtype = array.getattr(intern!(py, "dtype"))?;
    let plain =
        dtype.getattr(intern!(py, "names"))?.is_none() && !dtype.getattr(intern!(py, "hasobject"))?.is_truthy()?;
    if !plain || dtype.getattr(intern!(py, "itemsize"))?.extract::<usize>()? == 0 {
        return Err(PyTypeError::new_err(format!(
            "an array of dtype {} does not travel: its items are to be numbers, texts, bytes or times",
            dtype.str()?
        )));
    }
    let name = dtype.getattr(intern!(py, "str"))?;
    let name = name.extract::<&str>()?;
    let shape: Vec<u64> = array.getattr(intern!(py, "shape"))?.extract()?;
    let contiguous = match array.getattr(intern!(py, "flags"))?.getattr(intern!(py, "c_contiguous"))?.is_truthy()? {
        true => array.clone(),
        false => array.call_method1("copy", ("C",))?,
    };
    match PyUntypedBuffer::get(&contiguous) {
        Ok(buffer) if buffer.is_c_contiguous() && buffer.len_bytes() > 0 => {
            // SAFETY: contiguous, of this length, and alive as long as the buffer is held. If another thread changes the array
            // meanwhile, either state of it may be put.
            let items = unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes()) };
            put_array(to, name, &shape, items);
        }
        // Arrays of times have no buffer, and empty ones need none.
        _ => put_array(to, name, &shape, contiguous.call_method0("tobytes")?.cast::<PyBytes>()?.as_bytes()),
    }
    Ok(())
}

/// Reads the array after its tag, into memory of its own.
pub fn read_ndarray<'py>(py: Python<'py>, reader: &mut Reader<'_>) -> PyResult<Bound<'py, PyAny>> {
    let dtype = reader.name().map_err(super::wrong)?;
    let dimensions = reader.varint().map_err(super::wrong)?;
    let shape: Result<Vec<u64>, _> = (0..dimensions).map(|_| reader.varint()).collect();
    let items = PyByteArray::new(py, reader.string().map_err(super::wrong)?);
    static NDARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let shape = PyTuple::new(py, shape.map_err(super::wrong)?)?;
    NDARRAY.import(py, "numpy", "ndarray")?.call1((shape, dtype, items))
}
