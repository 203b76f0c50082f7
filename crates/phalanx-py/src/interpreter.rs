//! The interpreter process for `phalanx/_interpreter.py`, over its link ([`phalanx_node::interpreter_link`]).

use crate::buffers::{Region, release};
use crate::tokens::{Packed, from_python, to_python};
use crate::turn::Turn;
use phalanx_core::ids::FiringId;
use phalanx_core::wire::{HEAVY, PAST, Stayed};
use phalanx_net::link::LinkError;
use phalanx_node::interpreter_link::{Firing, Incoming, InterpreterLink};
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use std::path::PathBuf;
use std::time::Duration;

/// The process's only link, as Python uses it.
#[pyclass(frozen)]
pub struct Interpreter {
    link: InterpreterLink,
    /// The name of this machine.
    #[pyo3(get)]
    machine: String,
    /// The folders of the user's modules.
    #[pyo3(get)]
    path: Vec<String>,
    /// The paths that the cage of this process opens for reading, and for writing too. `None`: no cage keeps files apart.
    #[pyo3(get)]
    opened: Option<(Vec<PathBuf>, Vec<PathBuf>)>,
    /// The account that this process runs under, if it is not the executor's.
    #[pyo3(get)]
    account: Option<u32>,
}

#[pymethods]
impl Interpreter {
    /// A token of at least this many bytes stays here if an instruction follows.
    #[classattr]
    const HEAVY: u64 = HEAVY;

    /// Waits for the parent's first message, and for the data link.
    #[staticmethod]
    fn begin(py: Python<'_>) -> PyResult<Interpreter> {
        let (begin, link) = py.detach(InterpreterLink::begin)?;
        let opened = begin.opened.map(|opened| (opened.readable, opened.writable));
        Ok(Interpreter { link, machine: begin.machine, path: begin.path, opened, account: begin.account })
    }

    /// The next message: `("stage", program, code)`, `("forget", program)`, `("ahead", firing, tokens)` or
    /// `("fire", program, firing, instruction, first, slice in seconds, tokens, count, groups, instructions that follow)`.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        release(py); // also while no message comes
        let incoming = py.detach(|| self.link.next());
        release(py);
        Ok(match incoming {
            Incoming::Stage { program, code } => {
                ("stage", program.0, Bound::new(py, Region::new(code))?).into_pyobject(py)?.into_any()
            }
            Incoming::Forget { program } => ("forget", program.0).into_pyobject(py)?.into_any(),
            Incoming::Ahead { firing, tokens } => {
                ("ahead", firing.0, to_python(py, tokens)?).into_pyobject(py)?.into_any()
            }
            Incoming::Fire(Firing { firing, program, instruction, tokens, first, count, slice, groups, follow }) => {
                let (slice, tokens) = (slice.as_secs_f64(), to_python(py, tokens)?);
                ("fire", program.0, firing.0, instruction, first, slice, tokens, count, groups, follow)
                    .into_pyobject(py)?
                    .into_any()
            }
        })
    }

    /// Sends the results of the firing's next tokens. `busy` is in nanoseconds. `ways`: for each token of an instruction that
    /// branches, how many tokens it gives; `None`: it leaves. `stayed`: bytes and nanoseconds of the tokens that stayed before.
    #[pyo3(signature = (firing, results, ways, busy, stayed=Vec::new()))]
    fn fired(
        &self,
        py: Python<'_>,
        firing: u64,
        results: Packed,
        ways: Vec<Option<u32>>,
        busy: u64,
        stayed: Vec<(u64, u64)>,
    ) -> PyResult<()> {
        release(py);
        let tokens = from_python(py, results)?;
        let ways = ways.into_iter().map(|way| way.unwrap_or(PAST)).collect();
        let stayed = stayed.into_iter().map(|(bytes, busy)| Stayed { bytes, busy }).collect();
        py.detach(|| self.link.fired(FiringId(firing), &tokens, ways, stayed, busy)).map_err(ended)
    }

    /// Sends parts of the firing's next token before its answer. `stayed` tokens of it stayed before.
    #[pyo3(signature = (firing, parts, stayed=0))]
    fn ahead(&self, py: Python<'_>, firing: u64, parts: Packed, stayed: usize) -> PyResult<()> {
        release(py);
        let tokens = from_python(py, parts)?;
        py.detach(|| self.link.ahead(FiringId(firing), &tokens, stayed)).map_err(ended)
    }

    /// Reports that the firing's next token raised an exception. `error` is the pickled exception.
    fn failed(&self, py: Python<'_>, firing: u64, error: Vec<u8>, busy: u64) -> PyResult<()> {
        py.detach(|| self.link.failed(FiringId(firing), error, busy)).map_err(ended)
    }

    /// An iterator over the tokens of the current firing, taken from the iterator `objects` for `slice` seconds. It omits the
    /// tokens that the link's thread gives back meanwhile.
    fn turn(&self, objects: Py<PyIterator>, slice: f64) -> PyResult<Turn> {
        let running = self.link.running();
        let running = running.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("nothing is to be fired"))?;
        Ok(Turn::new(running, objects, Duration::try_from_secs_f64(slice).unwrap_or(Duration::MAX)))
    }

    /// Ends the firing. Its tokens that were not begun are given back.
    fn end_turn(&self, py: Python<'_>) -> PyResult<()> {
        let Some((firing, kept)) = self.link.end_firing() else { return Ok(()) };
        py.detach(|| self.link.give_back(firing, kept)).map_err(ended)
    }
}

fn ended(error: LinkError) -> PyErr {
    pyo3::exceptions::PyConnectionError::new_err(error.to_string())
}
