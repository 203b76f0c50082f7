//! A copy for `phalanx/transfer.py`.

use crate::errors::{identity, raise};
use crate::policy::Words;
use phalanx_core::wire::transfer::{Direction, Filter, Keeps, Links, Share, Target};
use phalanx_net::address::Address;
use phalanx_net::identity::{Member, Role, random_token};
use phalanx_node::transfer::{self as node, CopyError, Here, Job, Report};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::time::Duration;

/// A copy that goes on.
#[pyclass(frozen)]
pub struct Copy(node::Copy);

#[pymethods]
impl Copy {
    /// Between the executor at `address` and this machine, to it, if it `puts`; or from the executor at `source` to it. A path
    /// of None: `memory`, so many bytes that are made up or thrown away. `into`: the copy goes into the folder there, under
    /// its own name. `limit`: bytes/s, 0: none. `share`: number and count, where others copy the rest at the same time;
    /// `fresh`: this copies all after its shares, one of which made the top folder. `copy`: 16 bytes that all shares of one copy have alike.
    #[new]
    #[expect(clippy::too_many_arguments)]
    #[pyo3(signature = (address, *, source, identity_file, policy, puts, here, here_into, there, there_into, memory, level, streams, threads, checked, anew, whole_file, compress, include, exclude, links, keeps, only, patience, limit, share, fresh, copy))]
    fn new(
        address: &str,
        source: Option<&str>,
        identity_file: &str,
        policy: Words,
        puts: bool,
        here: Option<PathBuf>,
        here_into: bool,
        there: Option<PathBuf>,
        there_into: bool,
        memory: u64,
        level: Option<&str>,
        streams: Option<u16>,
        threads: Option<u16>,
        checked: bool,
        anew: bool,
        whole_file: Option<bool>,
        compress: Option<bool>,
        include: Vec<String>,
        exclude: Vec<String>,
        links: Option<&str>,
        keeps: Vec<String>,
        only: Vec<PathBuf>,
        patience: f64,
        limit: u64,
        share: Option<(u16, u16)>,
        fresh: bool,
        copy: Option<[u8; 16]>,
    ) -> PyResult<Copy> {
        let parse = |address: &str| address.parse::<Address>().map_err(|error| raise("TransferError", error));
        let address = parse(address)?;
        let level = level.map(str::parse).transpose().map_err(|error: String| raise("PolicyError", error))?;
        let target = |path: Option<PathBuf>, folder| match path {
            Some(path) => Target::Path { path: node::to_bytes(path.as_os_str()), folder },
            None => Target::Memory { bytes: memory },
        };
        let here = match (source, here) {
            (Some(source), from) => Here::Executor { address: parse(source)?, source: target(from, false) },
            (None, Some(path)) => Here::Path { path, into: here_into },
            (None, None) => Here::Memory { bytes: memory },
        };
        let share = share.map(|(index, count)| Share { index, count });
        share.map_or(Ok(()), Share::check).map_err(|error| raise("TransferError", error))?;
        let job = Job {
            address,
            member: Member::parse(identity_file, Role::User).map_err(identity)?,
            policy: policy.read()?,
            direction: if puts { Direction::Put } else { Direction::Get },
            here,
            there: target(there, there_into),
            level,
            streams,
            threads,
            checked,
            anew,
            whole_file,
            compress,
            filter: Filter {
                only: only.iter().map(|name| node::to_bytes(name.as_os_str())).collect(),
                include,
                exclude,
                links: links_of(links)?,
                keeps: keeps_of(&keeps)?,
            },
            patience: Duration::from_secs_f64(patience.clamp(0.0, 1e9)),
            limit,
            share,
            fresh,
            copy: copy.unwrap_or_else(random_token),
        };
        Ok(Copy(node::Copy::start(job).map_err(|error| raise("TransferError", error))?))
    }

    /// Bytes that are there, of how many so far, and whether there may be more.
    fn progress(&self) -> (u64, u64, bool) {
        self.0.progress()
    }

    /// What came of it, once it has ended; waits for that up to `patience` seconds.
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

    /// Whether it has ended since one of its machines was out of reach.
    fn is_cut(&self) -> bool {
        let outcome = self.0.wait(Duration::ZERO);
        matches!(outcome, Some(Err(CopyError::Unreachable(_) | CopyError::Cut(_))))
    }

    /// Ends it; what is there is kept.
    fn cancel(&self) {
        self.0.cancel();
    }
}

impl Drop for Copy {
    /// Other threads of the program go on while this one waits for the copy's.
    fn drop(&mut self) {
        Python::attach(|py| py.detach(|| self.0.close()));
    }
}

fn to_dict<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    let failures: Vec<_> = report.failures.iter().map(|one| (one.path.clone(), one.reason.clone())).collect();
    facts.set_item("level", report.level.name())?;
    facts.set_item("why", &report.why)?;
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

fn keeps_of(words: &[String]) -> PyResult<Keeps> {
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
