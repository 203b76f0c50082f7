//! The manager's driver for `phalanx/manager.py`.

use crate::buffers::{Region, release};
use crate::errors::{identity, raise, recruit};
use crate::graph::{PyInstruction, PyTarget, to_graph};
use crate::grid::Dialler;
use crate::needs::{NeedsRow, to_needs};
use crate::policy::Words;
use crate::tokens::{Packed, from_python, to_python};
use bytes::Bytes;
use phalanx_core::event::Outcome;
use phalanx_core::flow::{Goal, Graph, MarkedData, Marks, Options, RunOptions};
use phalanx_core::ids::{ProgramId, RunId};
use phalanx_core::level::Level;
use phalanx_net::address::Address;
use phalanx_net::identity::{Extent, Role};
use phalanx_node::connect::{Place, connect};
use phalanx_node::manager as node;
use phalanx_node::prints::{Printed, Show};
use phalanx_node::recruit::Start;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// For each instruction, whether its input tokens and its output tokens are marked.
type MarkedTokens = Vec<(bool, bool)>;

/// For each instruction its timeout in seconds, its retries, its priority, and its needs. A missing entry means the default.
type InstructionOptions = Vec<(Option<f64>, u32, i32, Option<NeedsRow>)>;

/// How often a wait checks for Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(100);

/// The mailbox where a reader of runs finds outcomes.
#[pyclass(frozen)]
pub struct Mailbox(Arc<node::Mailbox>);

#[pymethods]
impl Mailbox {
    #[new]
    fn new() -> Mailbox {
        Mailbox(Arc::default())
    }

    /// Makes the current waits for outcomes return, or the next ones.
    fn nudge(&self, py: Python<'_>) {
        py.detach(|| self.0.nudge());
    }
}

/// Computes programs on recruited interpreters.
#[pyclass(frozen)]
pub struct Manager(node::Manager);

#[pymethods]
impl Manager {
    /// Starts a manager. `addresses`: the executors; `None`: this machine. `grid`: the grid whose executors they are, and more as they
    /// come that have what is needed (cores, memory, GPUs, software, labels). `dialler`: the user's identity, and whom it expects.
    /// `program`: the token of the user's program. `throughput` (tasks per second) or `deadline` (seconds): the goal of the
    /// contract, with at most `interpreters`. `show`: a function, and whether its lines are always whole. It is called in a
    /// thread of its own with what tasks print: a list of `(interpreter, 0 for output or 1 for errors, lines)`. `None`: output
    /// is not shown. `gives`: whether interpreters of other machines may use the spaces in code and tasks. `tell`: a function that is
    /// called in a thread of its own with a line about what the manager waits for. `memory`: the bytes that each interpreter may use.
    #[new]
    #[pyo3(signature = (*, addresses, grid=None, dialler, program, interpreters, throughput, deadline, policy, command, path, python, silence, patience, journal, show, gives, tell=None, memory=None))]
    #[expect(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        addresses: Option<Vec<String>>,
        grid: Option<(String, NeedsRow)>,
        dialler: Option<Dialler>,
        program: [u8; 16],
        interpreters: Option<u32>,
        throughput: Option<f64>,
        deadline: Option<f64>,
        policy: Words,
        command: Vec<String>,
        path: Vec<String>,
        python: String,
        silence: f64,
        patience: f64,
        journal: Option<PathBuf>,
        show: Option<(Py<PyAny>, bool)>,
        gives: bool,
        tell: Option<Py<PyAny>>,
        memory: Option<u64>,
    ) -> PyResult<Manager> {
        let place = match addresses {
            None => Place::ThisMachine,
            Some(addresses) => {
                let addresses: Result<Vec<Address>, _> = addresses.iter().map(|text| text.parse()).collect();
                let addresses = addresses.map_err(|error| raise("RecruitError", error))?;
                let dialler = dialler.ok_or_else(|| raise("IdentityError", "executors need an identity"))?;
                let grid = grid.map(|(name, needs)| (name, to_needs(needs)));
                Place::Executors { addresses, grid, dialler: Box::new(dialler.read(Role::User)?), program }
            }
        };
        let policy = policy.read()?;
        let start = Start { command, path, python, memory };
        let silence = Duration::try_from_secs_f64(silence).map_err(|error| raise("ContractError", error))?;
        let goal = throughput.map(Goal::Throughput).or(deadline.map(Goal::Deadline));
        let patience = Duration::try_from_secs_f64(patience).unwrap_or(Duration::MAX / 4);
        let (show, tell) = (show.map(to_show), tell.map(to_tell));
        let options = node::Options { interpreters, goal, silence, patience, journal, show, gives, tell };
        let source = interruptibly(py, move || connect(place, policy, start, interpreters))?.map_err(recruit)?;
        Ok(Manager(py.detach(|| node::Manager::start(source, options))?))
    }

    /// How many interpreters the contract asks for now.
    #[getter]
    fn interpreters(&self) -> u32 {
        self.0.interpreters()
    }

    /// Lets interpreters of other machines use a service in the user's name: the things with these names, like `ws7/jobs`, or
    /// everything.
    fn delegate(&self, py: Python<'_>, service: &str, names: Option<Vec<String>>) -> PyResult<()> {
        let service = service.parse().map_err(|error: String| raise("IdentityError", error))?;
        let extent = names.map_or(Extent::All, |names| Extent::Named(names.into_iter().collect()));
        py.detach(|| self.0.delegate(service, extent)).map_err(identity)
    }

    /// Registers a program that is a chain of instructions. Takes the pickled tuple of their functions, whether it is marked,
    /// for each instruction whether its input and its output are marked, and the options of each instruction.
    #[pyo3(signature = (instructions, code, marked_code, marked_data, options=Vec::new()))]
    fn stage(
        &self,
        py: Python<'_>,
        instructions: u16,
        code: Vec<u8>,
        marked_code: bool,
        marked_data: MarkedTokens,
        options: InstructionOptions,
    ) -> PyResult<u32> {
        let (marks, options) = (to_marks(marked_code, marked_data), self.read_options(py, options)?);
        Ok(py.detach(|| self.0.stage(Graph::chain(instructions), code.into(), marks, options).0))
    }

    /// Registers a program that is a graph. Takes the targets of its tasks, its instructions, the pickled tuple of their
    /// functions, its marks, and the options of each instruction.
    #[pyo3(signature = (entry, instructions, code, marked_code, marked_data, options=Vec::new()))]
    #[expect(clippy::too_many_arguments)]
    fn stage_graph(
        &self,
        py: Python<'_>,
        entry: Vec<PyTarget>,
        instructions: Vec<PyInstruction>,
        code: Vec<u8>,
        marked_code: bool,
        marked_data: MarkedTokens,
        options: InstructionOptions,
    ) -> PyResult<u32> {
        let graph = to_graph(entry, instructions).map_err(|error| raise("ProgramError", error))?;
        let (marks, options) = (to_marks(marked_code, marked_data), self.read_options(py, options)?);
        Ok(py.detach(|| self.0.stage(graph, code.into(), marks, options).0))
    }

    fn forget(&self, py: Python<'_>, program: u32) {
        py.detach(|| self.0.forget(ProgramId(program)));
    }

    /// Opens a run that takes tasks `ahead` seconds ahead, and at least `spare` batches for each interpreter. `contract`:
    /// whether the manager's contract on time applies to it. `size`: the number of tasks in its stream.
    #[pyo3(signature = (program, mailbox, *, ordered, ahead, spare, stragglers, contract, size))]
    #[expect(clippy::too_many_arguments)]
    fn open(
        &self,
        py: Python<'_>,
        program: u32,
        mailbox: &Mailbox,
        ordered: bool,
        ahead: f64,
        spare: u32,
        stragglers: bool,
        contract: bool,
        size: Option<u64>,
    ) -> u32 {
        let ahead = Duration::from_secs_f64(ahead.clamp(0.0, 60.0));
        let options = RunOptions { ordered, ahead, spare, stragglers, contract, size };
        py.detach(|| self.0.open(ProgramId(program), options, &mailbox.0).0)
    }

    /// How many tasks the run can take now; waits up to `patience` seconds for it to be more than 0.
    fn room(&self, py: Python<'_>, run: u32, patience: f64) -> u32 {
        py.detach(|| self.0.room(RunId(run), seconds(patience)))
    }

    fn feed(&self, py: Python<'_>, run: u32, tasks: Packed) -> PyResult<()> {
        release(py);
        let tasks = from_python(py, tasks)?;
        py.detach(|| self.0.feed(RunId(run), tasks)).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn finish(&self, py: Python<'_>, run: u32) {
        py.detach(|| self.0.finish(RunId(run)));
    }

    /// Cancels a task of a chain, and ends the interpreter that fires it. False: the task has an outcome already.
    fn cancel(&self, py: Python<'_>, run: u32, task: u64) -> bool {
        py.detach(|| self.0.cancel(RunId(run), task))
    }

    /// Closes a run. `stops`: interpreters that still fire its tasks after a moment are ended.
    #[pyo3(signature = (run, stops=false))]
    fn close_run(&self, py: Python<'_>, run: u32, stops: bool) {
        py.detach(|| match stops {
            true => self.0.stop_run(RunId(run)),
            false => self.0.close_run(RunId(run)),
        });
        release(py);
    }

    /// Outcomes as tuples `(run, kind, first task, what)`. Waits up to `patience` seconds for the first one; an `eager` reader
    /// is served before others.
    fn take<'py>(
        &self,
        py: Python<'py>,
        mailbox: &Mailbox,
        patience: f64,
        eager: bool,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let outcomes = py.detach(|| self.0.take(&mailbox.0, seconds(patience), eager));
        release(py);
        outcomes.into_iter().map(|(run, outcome)| outcome_to_python(py, run, outcome)).collect()
    }

    /// The journal's totals as plain objects.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let summary = py.detach(|| self.0.summary());
        let interpreters = PyList::empty(py);
        for it in summary.interpreters.values() {
            let entry = PyDict::new(py);
            entry.set_item("name", &it.name)?;
            entry.set_item("machine", &it.machine)?;
            entry.set_item("pid", it.pid)?;
            entry.set_item("level", it.level.name())?;
            entry.set_item("state", it.state)?;
            entry.set_item("tasks", it.tasks)?;
            entry.set_item("bytes_in", it.bytes_in)?;
            entry.set_item("bytes_out", it.bytes_out)?;
            entry.set_item("bytes_stayed", it.bytes_stayed)?;
            entry.set_item("busy", it.busy)?;
            entry.set_item("protection_here", it.protection_here)?;
            entry.set_item("protection_there", it.protection_there)?;
            let (levels, [why, why_data, why_code]) = (it.levels, &it.why);
            entry.set_item("levels", (levels.base.name(), levels.data.name(), levels.code.name()))?;
            entry.set_item("why", (why, why_data, why_code))?;
            entry.set_item("weaker", it.weaker)?;
            let spent = PyDict::new(py);
            for (level, (bytes, seconds)) in Level::ALL.into_iter().zip(it.spent) {
                spent.set_item(level.name(), (bytes, seconds))?;
            }
            entry.set_item("spent", spent)?;
            entry.set_item("cause", &it.cause)?;
            entry.set_item("delegated", &it.delegated)?;
            interpreters.append(entry)?;
        }
        let all = PyDict::new(py);
        all.set_item("tasks", summary.tasks)?;
        all.set_item("wall", summary.wall)?;
        all.set_item("lost", summary.lost)?;
        all.set_item("replaced", summary.replaced)?;
        all.set_item("refired", summary.refired)?;
        all.set_item("doubled", summary.doubled)?;
        let contract = summary.contract.map(|it| (it.asked, it.reached, it.met, it.why));
        all.set_item("contract", contract)?;
        all.set_item("interpreters", interpreters)?;
        Ok(all)
    }

    /// What a page shows, as JSON: the runs, windows and round trips now, the totals of the latest runs, and the latest losses and
    /// recoveries.
    fn shown(&self, py: Python<'_>) -> PyResult<String> {
        Ok(py.detach(|| self.0.shown())?)
    }

    /// Ends every interpreter.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| self.0.close());
        release(py);
        Ok(closed?)
    }
}

/// Wraps a Python function that tells the user a line.
fn to_tell(tell: Py<PyAny>) -> node::Tell {
    Arc::new(move |line| {
        Python::attach(|py| {
            if let Err(error) = tell.call1(py, (line,)) {
                error.write_unraisable(py, Some(tell.bind(py)));
            }
        });
    })
}

/// Wraps a Python function that shows lines. An exception in it is reported like one of a thread.
fn to_show((show, whole): (Py<PyAny>, bool)) -> Show {
    let with = move |printed: Vec<Printed>| {
        Python::attach(|py| {
            let line = |it: Printed| (it.interpreter.to_string(), it.kind as u8, PyBytes::new(py, &it.lines));
            let lines: Vec<_> = printed.into_iter().map(line).collect();
            if let Err(error) = show.call1(py, (lines,)) {
                error.write_unraisable(py, Some(show.bind(py)));
            }
        });
    };
    Show { with: Box::new(with), whole }
}

fn to_marks(code: bool, data: MarkedTokens) -> Marks {
    let data = data.into_iter().map(|(takes, gives)| MarkedData { takes, gives }).collect();
    Marks { code, data }
}

impl Manager {
    /// The options of instructions. It may take a moment to find out on which machines programs are.
    fn read_options(&self, py: Python<'_>, options: InstructionOptions) -> PyResult<Vec<Options>> {
        let timeout = |seconds: f64| Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero());
        let read = |(seconds, retries, priority, needs): (Option<f64>, u32, i32, Option<NeedsRow>)| {
            let number = |needs| py.detach(|| self.0.need(to_needs(needs)));
            let needs = needs.map_or(Some(0), number);
            let needs = needs.ok_or_else(|| raise("ProgramError", "a manager has at most 65535 different needs"))?;
            Ok(Options { timeout: seconds.and_then(timeout), retries, priority, needs })
        };
        options.into_iter().map(read).collect()
    }
}

/// Runs work that may wait for other machines in a thread of its own, so that Ctrl-C is noticed meanwhile.
pub fn interruptibly<T: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (sender, mut done) = channel();
    std::thread::spawn(move || drop(sender.send(work())));
    loop {
        let (outcome, back) = py.detach(move || (done.recv_timeout(SIGNALS), done));
        done = back;
        match outcome {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(raise("RecruitError", "connecting failed unexpectedly")),
        }
    }
}

fn seconds(patience: f64) -> Duration {
    Duration::from_secs_f64(patience.clamp(0.0, 3600.0))
}

fn outcome_to_python(py: Python<'_>, run: RunId, outcome: Outcome) -> PyResult<Bound<'_, PyAny>> {
    let region = |bytes: Bytes| Bound::new(py, Region::new(bytes));
    Ok(match outcome {
        Outcome::Results { first, tokens } => (run.0, "results", first, to_python(py, tokens)?).into_pyobject(py)?,
        Outcome::Raised { task, error, by } => (run.0, "raised", task, (region(error)?, by)).into_pyobject(py)?,
        Outcome::Culprit { task, bytes, killed } => (run.0, "culprit", task, (bytes, killed)).into_pyobject(py)?,
        Outcome::TimedOut { task, timeout, attempts, by } => {
            (run.0, "timed_out", task, (timeout.as_secs_f64(), attempts, by)).into_pyobject(py)?
        }
        Outcome::Cancelled { task } => (run.0, "cancelled", task, py.None()).into_pyobject(py)?,
        Outcome::Unmet { asked, reached, why } => (run.0, "unmet", 0, (asked, reached, why)).into_pyobject(py)?,
        Outcome::Abandoned { losses, recruited } => {
            (run.0, if recruited { "abandoned" } else { "unrecruited" }, 0, losses).into_pyobject(py)?
        }
        Outcome::Ended => (run.0, "ended", 0, py.None()).into_pyobject(py)?,
    }
    .into_any())
}
