//! Tokens as Python packs and unpacks them (`phalanx/_tokens.py`).

use crate::buffers::{Region, bytes_of};
use phalanx_core::wire::{Shape, Tokens};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The number of tokens, their pickles, the pickles' lengths (`None`: one pickle of a list of all), and the buffers that belong
/// to them.
pub type Packed = (u32, PyBuffer<u8>, Option<Vec<u64>>, Vec<(u32, PyBuffer<u8>)>);
/// The same in the other direction.
pub type Unpacked<'py> = (u32, Bound<'py, Region>, Option<Vec<u64>>, Vec<(u32, Bound<'py, Region>)>);

pub fn from_python(py: Python<'_>, packed: Packed) -> PyResult<Tokens> {
    let (count, pickles, lengths, attached) = packed;
    let pickles = bytes_of(py, pickles)?;
    let tokens = match lengths {
        None => Tokens::packed(count, pickles),
        Some(lengths) => {
            let attached: PyResult<Vec<_>> =
                attached.into_iter().map(|(token, buffer)| Ok((token, bytes_of(py, buffer)?))).collect();
            Tokens::separate(pickles, lengths, attached?)
        }
    };
    if tokens.shape().check(tokens.bytes()).is_err() || tokens.count() != count {
        return Err(PyValueError::new_err("the lengths do not describe the tokens"));
    }
    Ok(tokens)
}

pub fn to_python(py: Python<'_>, tokens: Tokens) -> PyResult<Unpacked<'_>> {
    let region = |bytes: &bytes::Bytes| Bound::new(py, Region::new(bytes.clone()));
    let pickles = region(&tokens.parts()[0])?;
    let Shape::Separate { pickles: lengths, attached } = tokens.shape() else {
        return Ok((tokens.count(), pickles, None, Vec::new()));
    };
    let attached: PyResult<Vec<_>> =
        attached.iter().zip(&tokens.parts()[1..]).map(|(at, bytes)| Ok((at.token, region(bytes)?))).collect();
    Ok((tokens.count(), pickles, Some(lengths.clone()), attached?))
}
