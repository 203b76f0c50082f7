//! The launcher of message passing programs for `phalanx mpirun`.

use crate::errors::raise;
use phalanx_node::ranks::launcher::{self as node, Block, Job};
use phalanx_node::ranks::output::Look;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::time::Duration;

/// A running message passing program.
#[pyclass(frozen)]
pub struct Launcher(node::Launcher);

#[pymethods]
impl Launcher {
    /// `programs`: for each, how many processes and the command. `environment`: for all of them, beside this process' own.
    /// `terminals`: whether standard output and error are ones.
    #[new]
    #[pyo3(signature = (programs, *, environment, prefix, terminals, colours, output, keep_going))]
    #[expect(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        programs: Vec<(u32, Vec<Vec<u8>>)>,
        environment: Vec<(Vec<u8>, Vec<u8>)>,
        prefix: bool,
        terminals: [bool; 2],
        colours: bool,
        output: Option<PathBuf>,
        keep_going: bool,
    ) -> PyResult<Launcher> {
        let programs = programs.into_iter().map(|(processes, command)| Block { processes, command }).collect();
        let look = Look { prefix, terminals, colours, folder: output };
        let job = Job { programs, environment, look, keep_going };
        let launcher = py.detach(|| node::Launcher::start(job));
        launcher.map(Launcher).map_err(|error| raise("LaunchError", format!("the program cannot be started: {error}")))
    }

    /// The program's exit code once it has ended; waits for that up to `patience` seconds.
    fn wait(&self, py: Python<'_>, patience: f64) -> Option<i32> {
        py.detach(|| self.0.wait(Duration::from_secs_f64(patience.clamp(0.0, 3600.0))))
    }

    /// This process was sent a signal: the program ends, or hears it too.
    fn signal(&self, number: i32) {
        self.0.signal(number);
    }
}
