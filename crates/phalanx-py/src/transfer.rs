//! A copy for `phalanx/transfer/_copy.py`.

use crate::errors::raise;
use crate::grid::Dialler;
use crate::policy::Words;
use phalanx_core::wire::transfer::{Direction, Filter, Keeps, Links, Share, Target};
use phalanx_net::address::Address;
use phalanx_net::identity::{Service, random_token};
use phalanx_node::transfer::{self as node, CopyError, Here, Job, Report};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::time::Duration;

/// The order of a copy: `CopyOrder` of `phalanx/_copying.py`, which describes the fields.
#[derive(FromPyObject)]
struct Order {
    address: String,
    source: Option<String>,
    dialler: Dialler,
    policy: Words,
    puts: bool,
    here: Option<PathBuf>,
    here_into: bool,
    there: Option<PathBuf>,
    there_into: bool,
    memory: u64,
    level: Option<String>,
    streams: Option<u16>,
    threads: Option<u16>,
    checked: bool,
    anew: bool,
    whole_file: Option<bool>,
    compress: Option<bool>,
    include: Vec<String>,
    exclude: Vec<String>,
    links: Option<String>,
    keeps: Vec<String>,
    only: Vec<PathBuf>,
    patience: f64,
    limit: u64,
    share: Option<(u16, u16)>,
    fresh: bool,
    copy: Option<[u8; 16]>,
}

impl Order {
    fn read(self) -> PyResult<Job> {
        let level = self.level.as_deref().map(str::parse).transpose();
        let share = self.share.map(|(index, count)| Share { index, count });
        share.map_or(Ok(()), Share::check).map_err(|error| raise("TransferError", error))?;
        let here = match (&self.source, self.here) {
            (Some(source), from) => {
                Here::Executor { address: to_address(source)?, source: target(from, false, self.memory) }
            }
            (None, Some(path)) => Here::Path { path, into: self.here_into },
            (None, None) => Here::Memory { bytes: self.memory },
        };
        Ok(Job {
            address: to_address(&self.address)?,
            dialler: self.dialler.read_for(Service::Copies)?,
            policy: self.policy.read()?,
            direction: if self.puts { Direction::Put } else { Direction::Get },
            here,
            there: target(self.there, self.there_into, self.memory),
            level: level.map_err(|error: String| raise("PolicyError", error))?,
            streams: self.streams,
            threads: self.threads,
            checked: self.checked,
            anew: self.anew,
            whole_file: self.whole_file,
            compress: self.compress,
            filter: Filter {
                only: self.only.iter().map(|name| node::to_bytes(name.as_os_str())).collect(),
                include: self.include,
                exclude: self.exclude,
                links: links_of(self.links.as_deref())?,
                keeps: keeps_of(&self.keeps)?,
            },
            patience: Duration::from_secs_f64(self.patience.clamp(0.0, 1e9)),
            limit: self.limit,
            share,
            fresh: self.fresh,
            copy: self.copy.unwrap_or_else(random_token),
        })
    }
}

fn to_address(text: &str) -> PyResult<Address> {
    text.parse().map_err(|error| raise("TransferError", error))
}

/// A path at an executor; `None`: `memory` bytes, generated or discarded.
fn target(path: Option<PathBuf>, folder: bool, memory: u64) -> Target {
    match path {
        Some(path) => Target::Path { path: node::to_bytes(path.as_os_str()), folder },
        None => Target::Memory { bytes: memory },
    }
}

/// A copy in progress.
#[pyclass(frozen)]
pub struct Copy(node::Copy);

#[pymethods]
impl Copy {
    /// Begins a copy.
    #[new]
    fn new(order: &Bound<'_, PyAny>) -> PyResult<Copy> {
        // The error of a field says what is wrong with the user's word; the one around it only names the field.
        let order: Order = order.extract().map_err(|error: PyErr| error.cause(order.py()).unwrap_or(error))?;
        Ok(Copy(node::Copy::start(order.read()?).map_err(|error| raise("TransferError", error))?))
    }

    /// Bytes that have arrived, the bytes that are known so far, and whether more may become known.
    fn progress(&self) -> (u64, u64, bool) {
        self.0.progress()
    }

    /// The outcome of the copy. Waits for it up to `patience` seconds.
    fn wait<'py>(&self, py: Python<'py>, patience: f64) -> PyResult<Option<Bound<'py, PyDict>>> {
        let patience = Duration::from_secs_f64(patience.clamp(0.0, 3600.0));
        match py.detach(|| self.0.wait(patience)) {
            None => Ok(None),
            Some(Ok(report)) => to_dict(py, &report).map(Some),
            Some(Err(error @ CopyError::Level(_))) => Err(raise("PolicyError", error)),
            Some(Err(error @ CopyError::Identity(_))) => Err(raise("IdentityError", error)),
            Some(Err(error)) => Err(raise("TransferError", error)),
        }
    }

    /// Whether it has ended because one of its machines was out of reach.
    fn is_cut(&self) -> bool {
        let outcome = self.0.wait(Duration::ZERO);
        matches!(outcome, Some(Err(CopyError::Unreachable(_) | CopyError::Cut(_))))
    }

    /// Cancels it. Partial files are kept.
    fn cancel(&self) {
        self.0.cancel();
    }
}

impl Drop for Copy {
    /// Releases the GIL, because this waits for the copy's thread.
    fn drop(&mut self) {
        Python::attach(|py| py.detach(|| self.0.close()));
    }
}

fn to_dict<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    let failures: Vec<_> = report.failures.iter().map(|one| (one.path.clone(), one.reason.clone())).collect();
    facts.set_item("level", report.level.name())?;
    facts.set_item("why", &report.why)?;
    facts.set_item("peers", &report.peers)?;
    facts.set_item("streams", report.streams)?;
    facts.set_item("files", report.totals.files)?;
    facts.set_item("folders", report.totals.folders)?;
    facts.set_item("links", report.totals.links)?;
    facts.set_item("bytes", report.totals.bytes)?;
    facts.set_item("reused", report.totals.reused)?;
    facts.set_item("crossed", report.totals.crossed)?;
    facts.set_item("kept", report.totals.kept_files)?;
    facts.set_item("failed", report.totals.failed.max(failures.len() as u64))?;
    facts.set_item("failures", failures)?;
    facts.set_item("lost_streams", report.lost)?;
    facts.set_item("altered_streams", report.altered)?;
    facts.set_item("cuts", report.cuts)?;
    facts.set_item("setup", report.setup.as_secs_f64())?;
    facts.set_item("seconds", report.elapsed.as_secs_f64())?;
    Ok(facts)
}

fn links_of(word: Option<&str>) -> PyResult<Links> {
    match word {
        None => Ok(Links::Within),
        Some("keep") => Ok(Links::Keep),
        Some("follow") => Ok(Links::Follow),
        Some("skip") => Ok(Links::Skip),
        Some(other) => Err(raise("TransferError", format!("links are to keep, follow or skip, not to {other:?}"))),
    }
}

/// What is kept, by the words of a copy.
pub fn keeps_of(words: &[String]) -> PyResult<Keeps> {
    let mut keeps = Keeps::default();
    for word in words {
        let kept = match word.as_str() {
            "owner" => &mut keeps.owner,
            "group" => &mut keeps.group,
            "numeric-ids" => &mut keeps.numeric,
            "xattrs" => &mut keeps.xattrs,
            "acls" => &mut keeps.acls,
            "hard-links" => &mut keeps.hard_links,
            other => {
                let known = "owner, group, numeric-ids, xattrs, acls and hard-links";
                return Err(raise("TransferError", format!("{known} can be kept, not {other:?}")));
            }
        };
        *kept = true;
    }
    Ok(keeps)
}
