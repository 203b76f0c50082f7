//! Seals values for `phalanx/space/_sealing.py`.

use super::decode::decode_field;
use super::encode::{Encoding, encode_field};
use super::wrong;
use crate::errors::raise;
use phalanx_core::space::{Limits, Reader, tag};
use phalanx_net::sealed::{KEY, NUMBER, Sealed, SealingKey as Key, Tuple, number_of};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

type Fields<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// A key. It is never shown.
#[pyclass(frozen)]
pub struct SealingKey(Key);

/// What the hidden values of one tuple are bound to.
#[pyclass(frozen)]
pub struct SealedTuple(Tuple);

#[pymethods]
impl SealedTuple {
    /// Of the fields of a tuple, those in the positions `hidden` are not seen. `number`: that of the tuple; without one, a
    /// new number is drawn.
    ///
    /// A value that would be pickled counts as no more than that it is one, because what is pickled again has other bytes.
    #[new]
    #[pyo3(signature = (fields, hidden, number = None))]
    fn new(fields: &Bound<'_, PyTuple>, hidden: Vec<usize>, number: Option<[u8; NUMBER]>) -> PyResult<SealedTuple> {
        let encoding = Encoding { limits: Limits::default(), objects: false };
        let mut seen = Vec::new();
        for (position, field) in fields.iter_borrowed().enumerate() {
            if hidden.contains(&position) {
                continue;
            }
            let mut bytes = Vec::new();
            match encode_field(&mut bytes, &field, &encoding, 0) {
                Err(error) if error.is_instance_of::<PyTypeError>(fields.py()) => bytes = vec![tag::OBJECT],
                encoded => encoded?,
            }
            seen.push((position as u64, bytes));
        }
        let seen = seen.iter().map(|(position, bytes)| (*position, &bytes[..]));
        Ok(SealedTuple(Tuple::new(number.unwrap_or_else(Key::number), fields.len() as u64, seen)))
    }

    /// The number of the tuple of a hidden value; `None`: it is not hidden.
    #[staticmethod]
    fn number_of<'py>(py: Python<'py>, ciphertext: &[u8]) -> Option<Bound<'py, PyBytes>> {
        number_of(ciphertext).map(|number| PyBytes::new(py, &number))
    }
}

#[pymethods]
impl SealingKey {
    #[new]
    fn new(secret: &[u8], context: &[u8]) -> PyResult<SealingKey> {
        let wrong = |_| PyValueError::new_err(format!("a secret has {KEY} bytes, not {}", secret.len()));
        secret.try_into().map(|secret| SealingKey(Key::new(secret, context))).map_err(wrong)
    }

    /// Makes a new secret.
    #[staticmethod]
    fn random(py: Python<'_>) -> Bound<'_, PyBytes> {
        PyBytes::new(py, &Key::random()[..])
    }

    /// Returns the fingerprint and the ciphertext of a value in this position; `tuple`: of one that is hidden in it.
    #[pyo3(signature = (value, position, objects, tuple = None))]
    fn seal<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        position: u64,
        objects: bool,
        tuple: Option<&SealedTuple>,
    ) -> PyResult<Fields<'py>> {
        let (py, mut field) = (value.py(), Vec::new());
        encode_field(&mut field, value, &Encoding { limits: Limits::default(), objects }, 0)?;
        let sealed = py.detach(|| match tuple {
            Some(SealedTuple(tuple)) => self.0.hide(&field, position, tuple),
            None => self.0.seal(&field, position),
        });
        let sealed = sealed.ok_or_else(|| PyValueError::new_err("a value that is too long to be sealed"))?;
        Ok((PyBytes::new(py, &sealed.fingerprint), PyBytes::new(py, &sealed.ciphertext)))
    }

    /// Decrypts a value in this position, and in this tuple.
    #[pyo3(signature = (fingerprint, ciphertext, position, objects, tuple = None))]
    fn open<'py>(
        &self,
        py: Python<'py>,
        fingerprint: [u8; 16],
        ciphertext: Vec<u8>,
        position: u64,
        objects: bool,
        tuple: Option<&SealedTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let sealed = Sealed { fingerprint, ciphertext };
        let opened = py.detach(|| self.0.open(&sealed, position, tuple.map(|SealedTuple(tuple)| tuple)));
        let field = opened.map_err(|error| raise("SpaceError", error))?;
        let mut checked = Reader::new(&field);
        checked.check(0, &Limits::default()).and_then(|()| checked.end()).map_err(wrong)?;
        decode_field(py, &mut Reader::new(&field), objects)
    }
}
