//! How the class of a value determines its encoding. Python examines each class once (`phalanx/space/_records.py`).

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};

/// How to encode a value that is none of Python's plain types.
pub enum Kind<'py> {
    /// A bytearray or memoryview.
    Buffer,
    /// A numpy array.
    Array,
    /// A numpy scalar, as Python's value.
    Scalar(Bound<'py, PyAny>),
    /// An instance of a dataclass or named tuple: the encoded head of the record, and the names of its fields.
    Record { head: Bound<'py, PyBytes>, names: Bound<'py, PyTuple> },
    /// A `px.Record`: an instance of a class that this process does not know.
    Named { classes: Vec<String>, values: Bound<'py, PyDict> },
    /// A `px.Sealed`.
    Sealed { fingerprint: Vec<u8>, ciphertext: Bound<'py, PyBytes> },
    /// Anything else, with the names of its classes.
    Object(Vec<String>),
}

/// The kind of a value. Raises what Python raises.
pub fn kind_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Kind<'py>> {
    let description = describe(&value.get_type())?;
    let first = description.get_borrowed_item(0)?;
    Ok(match first.extract::<&str>()? {
        "buffer" => Kind::Buffer,
        "array" => Kind::Array,
        "scalar" => Kind::Scalar(value.call_method0("item")?),
        "record" => {
            Kind::Record { head: description.get_item(1)?.cast_into()?, names: description.get_item(2)?.cast_into()? }
        }
        "sealed" => Kind::Sealed {
            fingerprint: value.getattr("fingerprint")?.extract()?,
            ciphertext: value.getattr("ciphertext")?.cast_into()?,
        },
        "named" => Kind::Named {
            classes: value.getattr("_classes")?.extract()?,
            values: value.getattr("_values")?.cast_into()?,
        },
        _ => Kind::Object(description.get_item(1)?.extract()?),
    })
}

fn describe<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyTuple>> {
    static DESCRIPTIONS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let py = class.py();
    let known = DESCRIPTIONS.get_or_try_init(py, || {
        let all = py.import("phalanx.space._records")?.getattr("DESCRIPTIONS")?;
        Ok::<_, PyErr>(all.cast_into::<PyDict>()?.unbind())
    })?;
    if let Some(description) = known.bind(py).get_item(class)? {
        return Ok(description.cast_into()?);
    }
    Ok(py.import("phalanx.space._records")?.call_method1("describe", (class,))?.cast_into()?)
}
