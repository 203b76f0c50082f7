//! The tokens of one firing, as Python's thread takes them.

use phalanx_node::turn::Running;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use std::time::{Duration, Instant};

/// An iterator over the tokens of a firing. It ends when its time slice is over, or when the other tokens were given back.
#[pyclass(frozen)]
pub struct Turn {
    running: Running,
    objects: Py<PyIterator>,
    end: Option<Instant>,
}

impl Turn {
    pub fn new(running: Running, objects: Py<PyIterator>, slice: Duration) -> Turn {
        Turn { running, objects, end: Instant::now().checked_add(slice) }
    }
}

#[pymethods]
impl Turn {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// Returns the next token. An exception in unpickling it is raised, and the token counts as begun. The first token is begun
    /// however late it is.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let is_over = self.running.has_begun() && self.end.is_some_and(|end| Instant::now() > end);
        if is_over || !self.running.begin() {
            return Ok(None);
        }
        let missing = || Err(PyRuntimeError::new_err("tasks are missing"));
        self.objects.bind(py).clone().next().unwrap_or_else(missing).map(Some)
    }
}
