//! The executor's service for `phalanx executor`.

use crate::errors::{identity, raise};
use crate::grid::at_files;
use crate::hub::{AtGrid, Hub};
use crate::policy::Words;
use crate::space::Serving;
use phalanx_core::wire::Version;
use phalanx_net::identity::{Member, Role};
use phalanx_node::cage::{Cage, OwnAccounts, Settings};
use phalanx_node::executor as node;
use phalanx_node::log::{Log, Severity};
use phalanx_node::membership::{HubsFile, Telling};
use phalanx_node::transfer::Exports;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What the owner says about the cage, as Python passes it: the kind, what Python reads, what is private, the owner's home
/// folder, grants, environment variables, the first and the last account for users, the file that says who has which, and
/// whether users' processes may be root.
#[derive(FromPyObject)]
struct Caging {
    #[pyo3(item)]
    kind: Option<String>,
    #[pyo3(item)]
    python: Vec<PathBuf>,
    #[pyo3(item)]
    private: Vec<PathBuf>,
    #[pyo3(item)]
    home: Option<PathBuf>,
    #[pyo3(item)]
    grants: Vec<String>,
    #[pyo3(item)]
    variables: Vec<(OsString, OsString)>,
    #[pyo3(item)]
    accounts: Option<(u32, u32)>,
    #[pyo3(item)]
    register: PathBuf,
    #[pyo3(item)]
    allow_root: bool,
}

impl Caging {
    fn settings(self, member: &Member) -> PyResult<Settings> {
        let kind = self.kind.as_deref().map(str::parse).transpose().map_err(PyValueError::new_err::<String>)?;
        let Caging { python, private, home, grants, variables, accounts, register, .. } = self;
        let own =
            |(first, last)| OwnAccounts { numbers: first..=last, register, authority: member.authority().to_vec() };
        let accounts = accounts.map(own);
        Ok(Settings { kind, python, private, home, grants, variables, accounts })
    }

    fn read(self, member: &Member) -> PyResult<Cage> {
        let allow_root = self.allow_root;
        let cage = Cage::new(self.settings(member)?);
        let checked = cage.and_then(|cage| cage.check_root(allow_root).map(|()| cage));
        checked.map_err(|error| raise("PolicyError", error))
    }
}

/// What the owner lets be lent to other grids, as Python passes it: the most places, the cage of users of other grids, and the folder
/// for the identity in the other grid.
type Lending = (u32, Caging, PathBuf);

/// What may be lent. Users of other grids are more than one, so the cage has to keep them apart.
fn lendable(lending: Lending, cage: &Cage, member: &Member) -> PyResult<node::Lendable> {
    let (places, said, folder) = lending;
    let lent = cage.lent(said.settings(member)?).map_err(|error| raise("PolicyError", error))?;
    let cage = lent.check_lent().map(|()| lent);
    Ok(node::Lendable { places, cage, folder })
}

/// The strongest cage that this system has without accounts, in words: its kind, and what it does not keep apart.
#[pyfunction]
pub fn cage_here() -> PyResult<(&'static str, Vec<String>)> {
    let cage = Cage::new(Settings::default()).map_err(|error| raise("PolicyError", error))?;
    Ok((cage.report().kind.name(), cage.report().lacks.clone()))
}

/// A running service on a donated machine.
#[pyclass(frozen)]
pub struct Executor {
    executor: node::Executor,
    #[pyo3(get)]
    name: String,
    /// The kind of cage, and what it lacks on this system.
    #[pyo3(get)]
    cage: String,
}

#[pymethods]
impl Executor {
    /// Listens at `address`. `identity_file` is the text of the `file`. Behind the same door is a `hub`, if one is given. With `grid`, the
    /// executor stays at a hub, whose grid's owners may lend what `lending` says. With `lan`, it is announced on the local network. Log
    /// lines for the machine's owner go to standard error, from this severity on.
    #[new]
    #[expect(clippy::too_many_arguments)]
    #[pyo3(signature = (address, *, identity_file, file=None, revoked, capacity, accepted, weights=HashMap::new(), command, python, policy, spaces, exports, environment, cage=None, hub=None, grid=None, lending=None, lan=false, log_level))]
    fn new(
        address: &str,
        identity_file: &str,
        file: Option<PathBuf>,
        revoked: Vec<PathBuf>,
        capacity: u32,
        accepted: Vec<String>,
        weights: HashMap<String, u32>,
        command: Vec<String>,
        python: String,
        policy: Words,
        spaces: Option<Serving<'_>>,
        exports: Vec<String>,
        environment: Vec<(String, String)>,
        cage: Option<Caging>,
        hub: Option<&Hub>,
        grid: Option<AtGrid>,
        lending: Option<Lending>,
        lan: bool,
        log_level: &str,
    ) -> PyResult<Executor> {
        let member = match &grid {
            Some(_) => Member::parse_ended(identity_file, Role::Executor), // the hub gives it a new certificate
            None => Member::parse(identity_file, Role::Executor),
        };
        let member = member.map_err(identity)?;
        let kept = file.as_deref().map(HubsFile::beside);
        let member = at_files(member, file, revoked)?;
        let name = member.name.clone();
        let policy = policy.read()?;
        let spaces = spaces.map(|serving| serving.read(policy.clone())).transpose()?;
        let exports = Exports::parse(&exports).map_err(|error| raise("TransferError", error))?;
        let cage = match cage {
            Some(said) => {
                exports.check_private(&said.private).map_err(|error| raise("TransferError", error))?;
                said.read(&member)?
            }
            None => Cage::new(Settings::default()).map_err(|error| raise("PolicyError", error))?,
        };
        cage.check_users(&accepted).map_err(|error| raise("PolicyError", error))?;
        let lendable = lending.map(|lending| lendable(lending, &cage, &member)).transpose()?;
        let report = cage.report().to_string();
        let phalanx = Version::default();
        let hub = hub.map(|hub| hub.0.clone());
        let options = node::Options {
            capacity,
            accepted,
            weights,
            command,
            python,
            phalanx,
            policy,
            spaces,
            exports,
            environment,
            cage,
            hub,
            lendable,
        };
        let least: Severity = log_level.parse().map_err(PyValueError::new_err::<String>)?;
        let executor = node::Executor::start(address, member, options, Log::to_standard_error(least));
        let executor =
            executor.map_err(|error| raise("RecruitError", format!("cannot listen at {address}: {error}")))?;
        if lan {
            let named = |error| raise("RecruitError", format!("the executor cannot be announced (--lan): {error}"));
            executor.announce().map_err(named)?;
        }
        if let Some((hubs, addresses, facts)) = grid {
            executor.stay(hubs, kept, Telling { addresses, facts, ..Telling::default() })?;
        }
        Ok(Executor { executor, name, cage: report })
    }

    /// How the executor and its hub are, for people. None: it has no hub.
    #[getter]
    fn hub_status(&self) -> Option<String> {
        self.executor.hub_status()
    }

    /// Why the executor is no member of its grid any more. None: it is one, or it has no hub.
    #[getter]
    fn expelled(&self) -> Option<String> {
        self.executor.expelled()
    }

    /// Waits until a hub has let the executor in, at most for so many seconds. Whether one has.
    fn wait_for_hub(&self, py: Python<'_>, seconds: f64) -> bool {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| self.executor.wait_for_hub(patience))
    }

    /// Where it listens, as `host:port`.
    #[getter]
    fn address(&self) -> String {
        self.executor.address().to_string()
    }

    /// Warns in the log when the certificate is near its end, and when it has ended. Call it from time to time.
    fn look_at_certificate(&self, py: Python<'_>) {
        py.detach(|| self.executor.look_at_certificate());
    }

    /// Ends every interpreter and stops serving.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.executor.close());
    }
}

/// How many graphics processors this machine has that users may use where they are granted.
#[pyfunction]
pub fn gpus() -> usize {
    phalanx_node::cage::gpus()
}

/// How many cores this process may use: by its affinity, and by the limit of its control group, as containers have one.
#[pyfunction]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
