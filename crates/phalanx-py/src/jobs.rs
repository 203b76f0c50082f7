//! A user's requests about jobs. Requests and answers are the messages of the wire as JSON.

use crate::grid::Dialler;
use crate::hub::asked;
use phalanx_core::wire::jobs::Stream;
use phalanx_net::sync::lock;
use phalanx_node::membership::{JobsAtHub as Node, Log, from_json, to_json};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Mutex;

/// A user at the hub, for requests about jobs.
#[pyclass(frozen)]
pub struct JobsAtHub(Mutex<Node>);

#[pymethods]
impl JobsAtHub {
    /// For the user of this dialler.
    #[new]
    fn new(dialler: Dialler, hubs: Vec<String>) -> PyResult<JobsAtHub> {
        let dialler = dialler.read_member()?;
        Ok(JobsAtHub(Mutex::new(Node::new(dialler.member().clone(), hubs))))
    }

    /// Asks the hub: a message of `ToHubJobs` as JSON. Returns one of `FromHubJobs`.
    fn ask(&self, py: Python<'_>, request: &str) -> PyResult<String> {
        let request = from_json(request).map_err(PyValueError::new_err)?;
        let answer = py.detach(|| lock(&self.0).ask(request)).map_err(asked)?;
        Ok(to_json(&answer))
    }

    /// Submits a job, with these files: the path here, the name there, and whether it may be executed. Returns its number.
    fn submit(&self, py: Python<'_>, spec: &str, files: Vec<(PathBuf, String, bool)>) -> PyResult<u64> {
        let spec = from_json(spec).map_err(PyValueError::new_err)?;
        py.detach(|| lock(&self.0).submit(spec, files)).map_err(asked)
    }

    /// What a process has written, from this byte on, and the word `part`, `all`, `not yet` or `nothing`. With `all`, the first value is a
    /// content as JSON.
    fn log<'py>(
        &self,
        py: Python<'py>,
        job: u64,
        index: u32,
        is_error: bool,
        start: u64,
    ) -> PyResult<(Bound<'py, PyBytes>, &'static str)> {
        let stream = if is_error { Stream::Error } else { Stream::Out };
        let (bytes, word) = match py.detach(|| lock(&self.0).log(job, index, stream, start)).map_err(asked)? {
            Log::Part(bytes) => (bytes, "part"),
            Log::All(content) => (to_json(&content).into_bytes(), "all"),
            Log::NotYet => (Vec::new(), "not yet"),
            Log::Nothing => (Vec::new(), "nothing"),
        };
        Ok((PyBytes::new(py, &bytes), word))
    }

    /// Writes a content of a user, as JSON, into a file.
    fn fetch(&self, py: Python<'_>, user: &str, content: &str, path: PathBuf, executable: bool) -> PyResult<()> {
        let content = from_json(content).map_err(PyValueError::new_err)?;
        py.detach(|| lock(&self.0).fetch(user, &content, &path, executable)).map_err(asked)
    }
}
