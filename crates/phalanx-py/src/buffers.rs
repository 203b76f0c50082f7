//! Memory shared between Rust and Python without a copy, in both directions.

use crate::owners::is_held_once;
use bytes::Bytes;
use phalanx_net::sync::lock;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::os::raw::{c_int, c_void};
use std::sync::Mutex;

/// Bytes that arrived on a link, or that stayed at the interpreter, as a writable buffer. An array can lie in them.
#[pyclass(frozen)]
pub struct Region {
    memory: Memory,
}

enum Memory {
    Arrived(Bytes),
    /// Memory of another Python object. Nothing else refers to it.
    Stayed(PyBuffer<u8>),
}

impl Region {
    pub fn new(bytes: Bytes) -> Region {
        Region { memory: Memory::Arrived(bytes) }
    }

    fn start_and_length(&self) -> (*mut c_void, usize) {
        match &self.memory {
            Memory::Arrived(bytes) => (bytes.as_ptr().cast_mut().cast(), bytes.len()),
            Memory::Stayed(buffer) => (buffer.buf_ptr(), buffer.len_bytes()),
        }
    }
}

#[pymethods]
impl Region {
    /// The bytes of a view as memory that nothing else refers to: in place if only the view refers to it, otherwise a copy.
    #[staticmethod]
    fn alone(view: &Bound<'_, PyAny>) -> PyResult<Region> {
        let py = view.py();
        let is_read_only = view.getattr(intern!(py, "readonly"))?.is_truthy()?;
        let is_alone = !is_read_only && is_held_once::<Region>(view.getattr(intern!(py, "obj"))?)?;
        let buffer = PyBuffer::get(view)?;
        let stays = is_alone && buffer.is_c_contiguous();
        let memory = if stays { Memory::Stayed(buffer) } else { Memory::Arrived(buffer.to_vec(py)?.into()) };
        Ok(Region { memory })
    }

    fn __len__(&self) -> usize {
        self.start_and_length().1
    }

    /// # Safety
    /// Called by Python with a view to fill in.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill in"));
        }
        let (start, length) = slf.get().start_and_length();
        // SAFETY: the memory is a frame's body, or that of a writable object that nothing else refers to. It lives as long as
        // `slf`. It may be written, because Rust handed it over with the frame and does not read it again.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length as isize, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// Smaller buffers are copied rather than kept alive for a link.
const COPIED: usize = 64 << 10;

/// Python buffers that links have finished with. The next thread that comes from Python releases them, so that no control
/// thread ever waits for the GIL.
static RELEASED: Mutex<Vec<PyBuffer<u8>>> = Mutex::new(Vec::new());

struct Held(ManuallyDrop<PyBuffer<u8>>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        let length = self.0.len_bytes();
        if length == 0 {
            return &[];
        }
        // SAFETY: contiguous (checked in `bytes_of`), and kept alive by the buffer. If a program changes an array after handing
        // it over, either state may be sent; the contract of `Manager.compute` says so.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), length) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let buffer = unsafe { ManuallyDrop::take(&mut self.0) };
        lock(&RELEASED).push(buffer);
    }
}

/// A Python buffer as bytes for a link. Small buffers are copied, large ones are referred to.
pub fn bytes_of(py: Python<'_>, buffer: PyBuffer<u8>) -> PyResult<Bytes> {
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the buffer is not contiguous"));
    }
    if buffer.len_bytes() < COPIED {
        return Ok(buffer.to_vec(py)?.into());
    }
    Ok(Bytes::from_owner(Held(ManuallyDrop::new(buffer))))
}

/// Releases the buffers that links have finished with.
pub fn release(_: Python<'_>) {
    let released = std::mem::take(&mut *lock(&RELEASED));
    drop(released);
}
