//! The launcher of message passing programs for `phalanx mpirun`.

use crate::errors::{identity, raise};
use crate::grid::Dialler;
use crate::manager::interruptibly;
use crate::policy::Words;
use crate::space::to_duration;
use phalanx_core::level::Level;
use phalanx_core::spmd::Limit;
use phalanx_core::wire::machines::Exit;
use phalanx_net::address::Address;
use phalanx_net::identity::{Extent, Role, Scope};
use phalanx_node::ranks::job::{Block, Checkpoints, Hosts, Job, LaunchError, Newcomers, Staged, Survive};
use phalanx_node::ranks::launcher::{self as node, Report};
use phalanx_node::ranks::output::Look;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Executors: their addresses, the user's identity and whom it expects, the token of the user's program, the policy, the most
/// ranks on each, the services that are delegated to them, and a function that returns the first two as they are later.
type Executors = (Vec<String>, Dialler, [u8; 16], Words, Option<u32>, Vec<String>, Option<Py<PyAny>>);

/// A process that has ended: its rank, its exit code (negative: a signal; none: unknown), and why.
type Ended = (u32, Option<i32>, String);

/// A running message passing program.
#[pyclass(frozen)]
pub struct Launcher(node::Launcher);

#[pymethods]
impl Launcher {
    /// Starts a program. `programs`: for each block, the number of processes and the command. `environment`: variables for all
    /// of them, beside those of the process that starts it. `terminals`: whether standard output and standard error are
    /// terminals. `shown`: whether output goes there at all. `input`: whether rank 0 reads standard input. `folder`: where
    /// processes of this machine run. `files`: what every executor gets, as name there and path here. `apart`: on this machine,
    /// the level of links between its ranks, which then share no memory. `checkpoints`: for a BSP program, the supersteps
    /// between two checkpoints if the user gave a number, and the most restarts without a new checkpoint. `move_slow`: leave
    /// machines that take so many times as long as others in so many steps. `patience`: a process that was stopped for this
    /// many seconds counts as lost. `survive`: the program saves files of its own; the most restarts without a new checkpoint, and
    /// the folder that keeps the checkpoints.
    #[new]
    #[pyo3(signature = (
        programs, *, environment, prefix, terminals, colours, shown, input, folder, output, keep_going, executors, files,
        apart, checkpoints, move_slow, patience, survive
    ))]
    #[expect(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        programs: Vec<(Option<u32>, Vec<Vec<u8>>)>,
        environment: Vec<(Vec<u8>, Vec<u8>)>,
        prefix: bool,
        terminals: [bool; 2],
        colours: bool,
        shown: bool,
        input: bool,
        folder: Option<Vec<u8>>,
        output: Option<PathBuf>,
        keep_going: bool,
        executors: Option<Executors>,
        files: Vec<(String, PathBuf)>,
        apart: Option<String>,
        checkpoints: Option<(Option<u32>, u32)>,
        move_slow: Option<(f64, u32)>,
        patience: Option<f64>,
        survive: Option<(u32, Option<PathBuf>)>,
    ) -> PyResult<Launcher> {
        let apart = apart.map(|word| word.parse::<Level>().map_err(PyValueError::new_err)).transpose()?;
        let block = |(processes, command)| Block { processes, command, folder: folder.clone() };
        let programs = programs.into_iter().map(block).collect();
        let files = files.into_iter().map(|(name, path)| Staged { name, path }).collect();
        let foreign = executors.is_some();
        let look = Look { prefix, terminals, colours, foreign, hidden: !shown, folder: output };
        let move_slow = move_slow.map(|(times, steps)| Limit { times, steps });
        let checkpoints = checkpoints.map(|(every, restarts)| Checkpoints { every, restarts, move_slow });
        let hosts = executors.map(to_hosts).transpose()?;
        let patience = patience.map(|seconds| to_duration(seconds, "patience")).transpose()?;
        let survive = survive.map(|(restarts, folder)| Survive { restarts, folder });
        let job =
            Job { programs, environment, look, keep_going, hosts, apart, files, checkpoints, survive, input, patience };
        match interruptibly(py, move || node::Launcher::start(job))? {
            Ok(launcher) => Ok(Launcher(launcher)),
            Err(error @ LaunchError::Start(_)) => Err(raise("LaunchError", error)),
            Err(error @ LaunchError::Hosts(_)) => Err(raise("RecruitError", error)),
            Err(error @ LaunchError::Unexpected(_)) => Err(raise("IdentityError", error)),
        }
    }

    /// The program's exit code, once it has ended. Waits up to `patience` seconds.
    fn wait(&self, py: Python<'_>, patience: f64) -> Option<i32> {
        py.detach(|| self.0.wait(Duration::from_secs_f64(patience.clamp(0.0, 3600.0))))
    }

    /// The machine of each rank; the ends of processes as rank, exit code (negative: a signal; none: unknown) and reason; and
    /// the launcher's own lines.
    fn report(&self) -> (Vec<String>, Vec<Ended>, Vec<String>) {
        let Report { machines, ends, said } = self.0.report();
        let end = |(rank, exit)| match exit {
            Exit::Code(code) => (rank, Some(code), String::new()),
            Exit::Signal(number) => (rank, Some(-number), String::new()),
            Exit::Unstarted(why) | Exit::Unseen(why) => (rank, None, why),
        };
        (machines, ends.into_iter().map(end).collect(), said)
    }

    /// Handles a signal to this process: the program ends, or gets the signal too.
    fn signal(&self, number: i32) {
        self.0.signal(number);
    }
}

fn to_hosts((addresses, dialler, program, policy, most, services, find): Executors) -> PyResult<Hosts> {
    let addresses: Result<Vec<Address>, _> = addresses.iter().map(|text| text.parse()).collect();
    let addresses = addresses.map_err(|error| raise("RecruitError", error))?;
    let mut scope = Scope::default();
    for service in services {
        let service = service.parse().map_err(|error: String| raise("IdentityError", error))?;
        scope.add(service, Extent::All).map_err(identity)?;
    }
    let newcomers = find.map(|find| Newcomers(Arc::new(move || find_now(&find))));
    let (dialler, policy) = (dialler.read(Role::User)?, policy.read()?);
    Ok(Hosts { addresses, dialler, program, policy, most, scope, newcomers })
}

/// Asks Python for the executors that there are now. An error is as good as none: the program goes on to wait.
fn find_now(find: &Py<PyAny>) -> Option<(Vec<Address>, phalanx_node::dialler::Dialler)> {
    Python::try_attach(|py| {
        let (addresses, dialler): (Vec<String>, Dialler) = find.call0(py).ok()?.extract(py).ok()?;
        let addresses: Result<Vec<Address>, _> = addresses.iter().map(|text| text.parse()).collect();
        Some((addresses.ok()?, dialler.read(Role::User).ok()?))
    })?
}
