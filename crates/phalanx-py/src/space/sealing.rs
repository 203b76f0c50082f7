//! Seals values for `phalanx/space/_sealing.py`.

use super::decode::decode_field;
use super::encode::{Encoding, encode_field};
use super::wrong;
use crate::errors::raise;
use phalanx_core::space::{Limits, Reader};
use phalanx_net::sealed::{KEY, Sealed, SealingKey as Key};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A key. It is never shown.
#[pyclass(frozen)]
pub struct SealingKey(Key);

#[pymethods]
impl SealingKey {
    #[new]
    fn new(secret: &[u8]) -> PyResult<SealingKey> {
        let wrong = |_| PyValueError::new_err(format!("a secret has {KEY} bytes, not {}", secret.len()));
        secret.try_into().map(|secret| SealingKey(Key::new(secret))).map_err(wrong)
    }

    /// Makes a new secret.
    #[staticmethod]
    fn random(py: Python<'_>) -> Bound<'_, PyBytes> {
        PyBytes::new(py, &Key::random()[..])
    }

    /// Returns a value's fingerprint and ciphertext.
    fn seal<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        matched: bool,
        objects: bool,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let (py, mut field) = (value.py(), Vec::new());
        encode_field(&mut field, value, &Encoding { limits: Limits::default(), objects }, 0)?;
        let sealed = py.detach(|| self.0.seal(&field, matched));
        let sealed = sealed.ok_or_else(|| PyValueError::new_err("a value that is too long to be sealed"))?;
        Ok((PyBytes::new(py, &sealed.fingerprint), PyBytes::new(py, &sealed.ciphertext)))
    }

    /// Decrypts a value.
    fn open<'py>(
        &self,
        py: Python<'py>,
        fingerprint: [u8; 16],
        ciphertext: Vec<u8>,
        objects: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let opened = py.detach(|| self.0.open(&Sealed { fingerprint, ciphertext }));
        let field = opened.ok_or_else(|| raise("SpaceError", "this was sealed with another key, or altered"))?;
        let mut checked = Reader::new(&field);
        checked.check(0, &Limits::default()).and_then(|()| checked.end()).map_err(wrong)?;
        decode_field(py, &mut Reader::new(&field), objects)
    }
}
