//! Text of others, made safe for a terminal and a log.

use phalanx_core::text::{escaped, escaped_lines};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Lines that a task printed, for a terminal. With `one`: a name or a reason, of which line ends are no part.
#[pyfunction]
#[pyo3(signature = (text, *, one = false))]
pub fn escape<'py>(text: &Bound<'py, PyBytes>, one: bool) -> Bound<'py, PyBytes> {
    let safe = escaped_lines(text.as_bytes());
    match (one, std::str::from_utf8(&safe)) {
        (true, Ok(line)) => PyBytes::new(text.py(), escaped(line).as_bytes()),
        _ => PyBytes::new(text.py(), &safe),
    }
}
