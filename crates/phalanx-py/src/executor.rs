//! The executor's service for `phalanx executor`.

use crate::errors::{identity, raise};
use crate::grid::at_files;
use crate::hub::{AtGrid, Hub};
use crate::policy::Words;
use crate::space::Serving;
use phalanx_core::voluntary::{DAY, Hours, Rules, Seen};
use phalanx_core::wire::Version;
use phalanx_core::wire::hub::Facts;
use phalanx_net::identity::{Member, Role};
use phalanx_node::cage::{Cage, Limits, OwnAccounts, Settings};
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
    #[pyo3(item)]
    limits: Option<Limiting>,
    #[pyo3(item)]
    network: String,
}

/// What users' processes may use of the machine, as Python passes it.
#[derive(FromPyObject)]
struct Limiting {
    #[pyo3(item)]
    memory: Option<u64>,
    #[pyo3(item)]
    program_memory: Option<u64>,
    #[pyo3(item)]
    cpu: Option<u64>,
    #[pyo3(item)]
    processes: Option<u64>,
    #[pyo3(item)]
    disk: Option<u64>,
    #[pyo3(item)]
    places: u64,
}

impl From<Limiting> for Limits {
    fn from(said: Limiting) -> Limits {
        let Limiting { memory, program_memory, cpu, processes, disk, places } = said;
        Limits { memory, program_memory, cpu, processes, disk, places }
    }
}

impl Caging {
    fn settings(self, member: &Member) -> PyResult<Settings> {
        let kind = self.kind.as_deref().map(str::parse).transpose().map_err(PyValueError::new_err::<String>)?;
        let Caging { python, private, home, grants, variables, accounts, register, limits, network, .. } = self;
        let network = network.parse().map_err(|error: String| raise("PolicyError", error))?;
        let limits = limits.map(Limits::from);
        let own =
            |(first, last)| OwnAccounts { numbers: first..=last, register, authority: member.authority().to_vec() };
        let accounts = accounts.map(own);
        Ok(Settings { kind, python, private, home, grants, variables, accounts, limits, network })
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

/// When the machine works for users, as Python passes it: the seconds without a key or a movement of the mouse, the most load of the
/// owner's programs, the hours of the day in minutes, and whether it works on battery and on a metered network.
#[derive(FromPyObject)]
struct RuleWords {
    #[pyo3(item)]
    idle_after: Option<f64>,
    #[pyo3(item)]
    most_load: Option<f64>,
    #[pyo3(item)]
    hours: Vec<(u16, u16)>,
    #[pyo3(item)]
    on_battery: bool,
    #[pyo3(item)]
    on_metered: bool,
}

/// Most parts of a day: all of them are told to the hub, in a short text.
const MOST_HOURS: usize = 8;

impl RuleWords {
    fn read(self) -> PyResult<Rules> {
        let RuleWords { idle_after, most_load, hours, on_battery, on_metered } = self;
        let wrong = |_| PyValueError::new_err("the idle time is no time");
        let idle_after = idle_after.map(Duration::try_from_secs_f64).transpose().map_err(wrong)?;
        if hours.len() > MOST_HOURS || hours.iter().any(|(from, to)| *from >= DAY || *to >= DAY) {
            return Err(PyValueError::new_err(format!("hours are at most {MOST_HOURS} parts of a day")));
        }
        let hours = hours.into_iter().map(|(from, to)| Hours { from, to }).collect();
        Ok(Rules { idle_after, most_load, hours, on_battery, on_metered })
    }
}

/// What the sensors see, as Python passes it.
#[derive(FromPyObject)]
struct SeenWords {
    #[pyo3(item)]
    idle: Option<f64>,
    #[pyo3(item)]
    load: Option<f64>,
    #[pyo3(item)]
    minute: u16,
    #[pyo3(item)]
    on_battery: bool,
    #[pyo3(item)]
    is_metered: bool,
    #[pyo3(item)]
    is_paused: bool,
}

impl SeenWords {
    fn read(self) -> Seen {
        let SeenWords { idle, load, minute, on_battery, is_metered, is_paused } = self;
        let idle = idle.map(|idle| Duration::try_from_secs_f64(idle).unwrap_or_default());
        Seen { idle, load, minute, on_battery, is_metered, is_paused }
    }
}

/// What a user uses, for Python: the name, seconds of processor time, seconds of places, how many processes were started, the memory in
/// bytes, and for each kind that runs its word, how many there are, and for how many seconds.
type UseRow = (String, f64, f64, u64, u64, Vec<(&'static str, u32, f64)>);

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
    /// What users' processes may use of the machine, in words, each with how it is enforced.
    #[pyo3(get)]
    limits: Vec<String>,
}

#[pymethods]
impl Executor {
    /// Listens at `address`. `identity_file` is the text of the `file`. Behind the same door is a `hub`, if one is given. With `grid`, the
    /// executor stays at a hub, whose grid's owners may lend what `lending` says. With `lan`, it is announced on the local network.
    /// `facts`: what the machine has for users' programs. Log
    /// lines for the machine's owner go to standard error, from this severity on.
    #[new]
    #[expect(clippy::too_many_arguments)]
    #[pyo3(signature = (address, *, identity_file, file=None, revoked, capacity, accepted, weights=HashMap::new(), command, python, policy, spaces, exports, environment, cage=None, hub=None, grid=None, lending=None, lan=false, jobs=true, rules=None, nice=0, facts=Facts::new(), log_level))]
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
        jobs: bool,
        rules: Option<RuleWords>,
        nice: u8,
        facts: Facts,
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
        let (report, limits) = (cage.report().to_string(), cage.limits());
        let phalanx = Version::default();
        let rules = rules.map(RuleWords::read).transpose()?.unwrap_or_default();
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
            refuses_jobs: !jobs,
            rules,
            nice,
            facts,
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
        Ok(Executor { executor, name, cage: report, limits })
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

    /// The sensors have seen this. Returns after what users run here has ended, if the rules say so.
    fn observe(&self, py: Python<'_>, seen: SeenWords) {
        py.detach(|| self.executor.observe(&seen.read()));
    }

    /// Closes the machine to users if its sensors say nothing any more. Call it from time to time.
    fn look_at_owner(&self, py: Python<'_>) {
        py.detach(|| self.executor.look_at_owner());
    }

    /// Why nobody is served now. None: users are.
    #[getter]
    fn closed(&self) -> Option<String> {
        self.executor.closed()
    }

    /// What each user uses now and has used since the start, and the seconds of processor time of all users together.
    fn used(&self, py: Python<'_>) -> (Vec<UseRow>, f64) {
        let (rows, all) = py.detach(|| self.executor.used());
        let row = |it: phalanx_node::executor::Use| {
            let live = it.live.into_iter().map(|(what, count, lasts)| (what, count, lasts.as_secs_f64())).collect();
            (it.user, it.processor.as_secs_f64(), it.places.as_secs_f64(), it.started, it.resident, live)
        };
        (rows.into_iter().map(row).collect(), all.as_secs_f64())
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
