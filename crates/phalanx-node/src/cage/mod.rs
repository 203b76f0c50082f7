//! The cage: what the processes that an executor starts for its users may touch on its machine.
//!
//! These processes get a folder of their own, the environment variables of an allow list, and no core dumps. Where the
//! kernel has Landlock, they also open no file outside of the system's, Python's, their own folder and the folders that the
//! machine's owner grants, they neither signal nor trace a process outside of their program, and they are refused the system
//! calls that no task needs. They change the modes of files only where they may write. An executor of root gives the processes of each user an account of their own. All of this holds
//! before the first instruction of their program, and for all processes that they start. A report says how much of this holds.
//!
//! Processes that a program starts on its own user's machine are not caged: they are the user's own.

mod bars;
#[cfg(target_os = "linux")]
mod connecting;
mod environment;
#[cfg(target_os = "linux")]
mod gate;
mod gpu;
#[cfg(target_os = "linux")]
mod landlock;
mod network;
#[cfg(target_os = "linux")]
mod opened_files;
mod paths;
#[cfg(target_os = "linux")]
mod private;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod view;

#[cfg(target_os = "linux")]
pub use connecting::MOST as MOST_CONNECTING;
#[cfg(target_os = "linux")]
pub use gate::Gate;
#[cfg(target_os = "linux")]
pub use landlock::{SHARED, hide_memory, is_bound, is_caged};
#[cfg(target_os = "linux")]
pub use private::is_possible as has_private_memory;
#[cfg(target_os = "linux")]
pub use view::{Shown, View};

pub use crate::limits::Limits;
pub use bars::Bars;
pub use network::{Network, Way, Ways, means_same};
pub use paths::{Opened, check_private};

#[cfg(target_os = "linux")]
use crate::accounts::{Account, Accounts};
#[cfg(target_os = "linux")]
use crate::limits::Limiter;
use phalanx_core::cage::{CAGE, GAPS, Kind, Report};
use phalanx_core::wire::hub::{Facts, LONGEST_FACT};
use phalanx_net::sync::lock;
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the machine's owner says about the cage, and what the programs in it need.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The kind that the owner asked for. `None`: the most that the kernel can.
    pub kind: Option<Kind>,
    /// What a Python interpreter of this executor reads.
    pub python: Vec<PathBuf>,
    /// Files and folders with keys and with other programs' data. They can never be granted.
    pub private: Vec<PathBuf>,
    /// The owner's home folder, which is granted only by name.
    pub home: Option<PathBuf>,
    /// Further folders and files, as the owner writes them: `/data:ro`, `/results:rw`.
    pub grants: Vec<String>,
    /// Environment variables beside those of the allow list.
    pub variables: Vec<(OsString, OsString)>,
    /// The accounts of which each user gets one. `None`: users' processes run under the executor's.
    pub accounts: Option<OwnAccounts>,
    /// What users' processes may use of the machine. `None`: there are no limits.
    pub limits: Option<Limits>,
    /// Where users' processes may connect to.
    pub network: Network,
}

/// The accounts that users' processes run under.
#[derive(Debug, Clone)]
pub struct OwnAccounts {
    /// Numbers of users and groups that nothing else on this machine has.
    pub numbers: RangeInclusive<u32>,
    /// The file that says which user has which.
    pub register: PathBuf,
    /// The certificate of the authority of the users' grid.
    pub authority: Vec<u8>,
}

/// How many graphics processors the grant `gpu` opens on this machine.
pub fn gpus() -> usize {
    gpu::count(Path::new("/dev"), Path::new("/sys"))
}

/// The cage of an executor.
#[derive(Debug, Clone, Default)]
pub struct Cage {
    /// `None`: files are not kept apart.
    paths: Option<Arc<Opened>>,
    /// How much is kept apart, and what is not.
    report: Report,
    environment: Arc<Vec<(OsString, OsString)>>,
    /// The program that refuses system calls. `None`: none is refused.
    #[cfg(target_os = "linux")]
    filter: Option<Arc<[libc::sock_filter]>>,
    /// The program with which the kernel asks the keeper. `None`: processes change the modes of all files of their account.
    #[cfg(target_os = "linux")]
    gate: Option<Arc<[libc::sock_filter]>>,
    accounts: SharedAccounts,
    /// What users' processes may use of the machine. `None`: there are no limits.
    #[cfg(target_os = "linux")]
    limiter: Option<Arc<Limiter>>,
    network: Arc<Reach>,
    /// The certificate of the authority of the users' grid. `None`: that of the accounts.
    grid: Option<Arc<[u8]>>,
}

/// Where users' processes may connect to.
#[derive(Debug, Default)]
struct Reach {
    network: Network,
    /// The addresses of the grid, or of hosts that the owner has named, and when they were looked up.
    ways: Mutex<(Vec<Way>, Option<Instant>)>,
    /// The addresses of the executors of the grid. `None`: there is no hub that knows them.
    members: Mutex<Option<Vec<IpAddr>>>,
    /// Whether a program has named a machine that is none of them, so that they should be asked for again.
    is_old: AtomicBool,
}

impl Reach {
    /// The addresses. Names of hosts are looked up again for a program that begins.
    fn ways(&self) -> Vec<Way> {
        let mut ways = lock(&self.ways);
        let is_old = ways.1.is_none_or(|when| when.elapsed() > LOOK_UP);
        if let Network::Hosts(hosts) = &self.network
            && is_old
        {
            ways.1 = Some(Instant::now());
            if let Ok(found) = network::resolve(hosts) {
                ways.0 = found; // otherwise those from before
            }
        }
        ways.0.clone()
    }
}

#[cfg(target_os = "linux")]
type SharedAccounts = Option<Arc<Accounts>>;
/// Elsewhere there are no accounts.
#[cfg(not(target_os = "linux"))]
type SharedAccounts = Option<()>;

/// How long looked up addresses of hosts are used for programs that begin.
const LOOK_UP: Duration = Duration::from_secs(30);

/// The file in which the kernel lists the children of a thread, unless it was built without.
#[cfg(target_os = "linux")]
pub const CHILDREN: &std::ffi::CStr = c"/proc/thread-self/children";
const UNLISTED: &str = "this kernel does not list children: what begins a session of its own goes on after its program";

impl Cage {
    /// Reads what the owner says.
    ///
    /// # Errors
    ///
    /// A grant is wrong, the system cannot enforce the kind that the owner asks for, or the accounts cannot be used.
    pub fn new(settings: Settings) -> Result<Cage, String> {
        #[cfg(target_os = "linux")]
        let take = |it: &OwnAccounts| Accounts::new(it.numbers.clone(), &it.register, &it.authority);
        #[cfg(target_os = "linux")]
        let accounts = settings.accounts.as_ref().map(take).transpose()?.map(Arc::new);
        #[cfg(not(target_os = "linux"))]
        let accounts = match settings.accounts {
            Some(_) => return Err("--accounts works on Linux only".to_owned()),
            None => None,
        };
        #[cfg(target_os = "linux")]
        let limiter =
            settings.limits.clone().map(crate::limits::begin).transpose().map_err(|error| error.to_string())?;
        let cage = Cage::with(settings, accounts)?;
        #[cfg(target_os = "linux")]
        let cage = Cage { limiter, ..cage };
        Ok(cage)
    }

    /// A cage with other settings, which gives out the same accounts: for users of a grid to which the executor is lent.
    ///
    /// # Errors
    ///
    /// As [`Cage::new`].
    pub fn lent(&self, settings: Settings) -> Result<Cage, String> {
        #[cfg(target_os = "linux")]
        return Ok(Cage { limiter: self.limiter.clone(), ..Cage::with(settings, self.accounts.clone())? });
        #[cfg(not(target_os = "linux"))]
        return Cage::with(settings, None);
    }

    /// The same cage for users of the grid of this authority. A user of another grid may have the same name, and gets another account.
    pub fn of_grid(&self, authority: &[u8]) -> Cage {
        let network = Arc::new(Reach { network: self.network.network.clone(), ..Reach::default() });
        Cage { grid: Some(authority.into()), network, ..self.clone() }
    }

    fn with(settings: Settings, accounts: SharedAccounts) -> Result<Cage, String> {
        let has_accounts = accounts.is_some();
        let environment = Arc::new(environment::allowed(std::env::vars_os(), settings.variables.clone()));
        let opened = Opened::new(&settings)?;
        let (kind, mut lacks) = match (settings.kind, possible(has_accounts)) {
            (Some(asked), (most, lacks)) if asked > most => {
                return Err(format!("--cage {} is not possible: {}", asked.name(), lacks.join(", ")));
            }
            (Some(asked), _) if !asked.parts_users() => {
                (asked, vec![open(asked, &format!("--cage {}", asked.name()), has_accounts)])
            }
            (_, possible) => possible,
        };
        let reach = Reach { network: settings.network.clone(), ..Reach::default() };
        check_network(&reach.network)?;
        if kind == Kind::None && reach.network != Network::All {
            // Without the filter of system calls, a process uses the numbers of another architecture.
            return Err(format!("--network {} needs a cage that is limits or more", reach.network));
        }
        let paths = kind.parts_users().then(|| Arc::new(opened));
        lacks.extend((!finds_descendants(paths.is_some())).then(|| UNLISTED.to_owned()));
        Ok(Cage {
            paths,
            report: Report { kind, accounts: has_accounts, lacks },
            environment,
            accounts,
            #[cfg(target_os = "linux")]
            limiter: None,
            network: Arc::new(reach),
            grid: None,
            #[cfg(target_os = "linux")]
            // An account of the user's own has no files but the user's.
            gate: (kind.parts_users() && !has_accounts && gate::is_possible())
                .then(|| gate::program(true, false))
                .flatten()
                .map(Arc::from),
            #[cfg(target_os = "linux")]
            filter: if kind == Kind::None { None } else { seccomp::program().map(Arc::from) },
        })
    }

    /// The kind, and what it lacks on this system.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// What a hub is told of the cage.
    pub fn facts(&self) -> Facts {
        let short = |text: String| text.chars().take(LONGEST_FACT / 4).collect::<String>();
        let mut facts = Facts::from([(CAGE.to_owned(), self.report.fact())]);
        let lacks = (!self.report.lacks.is_empty()).then(|| short(self.report.lacks.join(", ")));
        facts.extend(lacks.map(|lacks| (GAPS.to_owned(), lacks)));
        let limits = Some(short(self.limits().join(", "))).filter(|limits| !limits.is_empty());
        facts.extend(limits.map(|limits| ("limits".to_owned(), limits)));
        facts
    }

    /// The limits for users' processes in words, each with how it is enforced.
    pub fn limits(&self) -> Vec<String> {
        #[cfg(target_os = "linux")]
        return self.limits_of_system();
        #[cfg(not(target_os = "linux"))]
        return Vec::new();
    }

    #[cfg(target_os = "linux")]
    fn limits_of_system(&self) -> Vec<String> {
        let mut words = self.limiter.as_ref().map_or_else(Vec::new, |limiter| limiter.report());
        words.extend((self.network.network != Network::All).then(|| format!("network {}", self.network.network)));
        if self.limiter.is_some() {
            words.push(if private::is_possible() { private::KEPT } else { private::OPEN }.to_owned());
        }
        words
    }

    /// Whether the owner limits where users' processes connect to. If so, a hub will say who is in the grid; until it has, nobody is.
    pub fn awaits_grid(&self) -> bool {
        let is_limited = self.network.network != Network::All;
        if is_limited {
            lock(&self.network.members).get_or_insert_default();
        }
        is_limited
    }

    /// Learns the addresses of the grid, and which of them are executors'.
    pub fn learn_grid(&self, ways: Vec<Way>, members: Vec<IpAddr>) {
        if self.network.network == Network::Grid {
            lock(&self.network.ways).0 = ways;
        }
        self.network.is_old.store(false, Ordering::Release);
        *lock(&self.network.members) = Some(members);
    }

    /// Whether the addresses of the grid should be learned again at once.
    pub fn misses_members(&self) -> bool {
        self.network.is_old.load(Ordering::Acquire)
    }

    /// Those of a program's machines to which its processes may connect here. A launcher names the machines, and could name any address.
    /// `from`: where the launcher is.
    #[cfg(target_os = "linux")]
    pub(crate) fn machines_of_grid(&self, machines: &[IpAddr], from: Option<IpAddr>) -> Vec<IpAddr> {
        if self.network.network == Network::All {
            return machines.to_vec();
        }
        let known = network::known(machines, lock(&self.network.members).as_deref(), from);
        self.network.is_old.fetch_or(known.len() < machines.len(), Ordering::AcqRel);
        known
    }

    /// Removes what the system keeps for the limits. Programs that go on have none any more.
    pub fn close(&self) {
        #[cfg(target_os = "linux")]
        self.limiter.iter().for_each(|limiter| limiter.close());
    }

    /// Checks that the accepted users are kept apart from each other. Empty: all users of the grid.
    ///
    /// # Errors
    ///
    /// They are not, and are more than one.
    pub fn check_users(&self, accepted: &[String]) -> Result<(), String> {
        match self.report.parts_users() || accepted.len() == 1 {
            true => Ok(()),
            false => Err(format!(
                "this executor cannot keep its users apart (cage: {}), and would serve more than one: name the one that it \
                 serves, with --accept NAME",
                self.report
            )),
        }
    }

    /// Checks that users of other grids, to which the executor is lent, are kept apart from each other and from its own users.
    ///
    /// # Errors
    ///
    /// They are not.
    pub fn check_lent(&self) -> Result<(), String> {
        match self.report.parts_users() {
            true => Ok(()),
            false => Err(format!("the cage does not keep users of two grids apart ({})", self.report)),
        }
    }

    /// Checks that users' processes do not run as root, unless the owner says that they may.
    ///
    /// # Errors
    ///
    /// They would.
    pub fn check_root(&self, is_allowed: bool) -> Result<(), String> {
        match !rustix::process::geteuid().is_root() || self.report.accounts || is_allowed {
            true => Ok(()),
            false => {
                Err("this executor runs as root, and so would its users' processes: give each user an account with \
                          --accounts FIRST-LAST, numbers that nothing else on this machine has, like \
                          1900000000-1900000031; or start it under another account; or let users' processes be root, with \
                          --allow-root or PHALANX_ALLOW_ROOT=1"
                    .to_owned())
            }
        }
    }

    /// The account of a user. `None`: users' processes run under the executor's.
    ///
    /// # Errors
    ///
    /// All accounts are other users'.
    #[cfg(target_os = "linux")]
    pub(crate) fn account_of(&self, user: &str) -> io::Result<Option<Account>> {
        self.accounts.as_ref().map(|accounts| accounts.of(user, self.grid.as_deref())).transpose()
    }

    /// Whether users' processes find a program of this name, and may run it: on the `PATH` that they have, where the cage opens it.
    pub fn finds(&self, program: &str) -> bool {
        let path = self.environment.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value);
        let at = |folder: PathBuf| std::fs::canonicalize(folder.join(program)).ok();
        let may_run = |file: &PathBuf| paths::is_program(file) && self.paths.as_ref().is_none_or(|it| it.opens(file));
        path.is_some_and(|path| std::env::split_paths(path).filter_map(at).any(|file| may_run(&file)))
    }

    /// Whether the owner's processes on this machine can be told from those in the cage, which may have the same account.
    pub fn tells_owner_apart(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.report.kind == Kind::None || self.report.accounts || landlock::are_told_apart();
        #[cfg(not(target_os = "linux"))]
        return true;
    }

    /// The cage around a program whose files are in `folder`, and whose named memory is in the folder `memory`. `None`: the program has none of its
    /// own. Its processes run under `account`; `None`: under this process's. It has ranks on these `machines`.
    ///
    /// # Errors
    ///
    /// The kernel refuses the rules.
    #[cfg(target_os = "linux")]
    pub(crate) fn around(
        &self,
        folder: Option<&Path>,
        account: Option<&Account>,
        memory: Option<&Path>,
        machines: &[IpAddr],
    ) -> io::Result<Bars> {
        self.around_view(folder, account, memory, machines, None)
    }

    /// The cage around a program that sees folders of its own at some paths.
    ///
    /// # Errors
    ///
    /// The kernel refuses the rules.
    #[cfg(target_os = "linux")]
    pub(crate) fn around_view(
        &self,
        folder: Option<&Path>,
        account: Option<&Account>,
        memory: Option<&Path>,
        machines: &[IpAddr],
        view: Option<View>,
    ) -> io::Result<Bars> {
        // What is mounted elsewhere is not beneath the program's folder there, to the rules.
        let folders = || view.iter().flat_map(View::folders);
        let (ruleset, around) = match &self.paths {
            Some(paths) => {
                let own: Vec<&Path> = folder.into_iter().chain(folders()).collect();
                let ruleset = landlock::ruleset(&paths.readable, &paths.writable, &own, memory)?;
                (Some(Arc::new(ruleset)), landlock::signals()?.map(Arc::new))
            }
            None => (None, None),
        };
        let ways = Ways::new(&self.network.network, &self.network.ways(), machines).map(Arc::new);
        // Without sockets of the network, there are those of unix, which lead to the services of the account.
        let asks = ways.as_ref().is_some_and(|ways| ways.has_sockets || gate::is_possible());
        let gate = if asks { gate::program(self.gate.is_some(), true).map(Arc::from) } else { self.gate.clone() };
        let ways = ways.and_then(|ways| Some((seccomp::network_program(ways.has_sockets)?, ways)));
        let memory = memory
            .map(|memory| Ok::<_, io::Error>((memory.to_owned(), Arc::new(private::name(memory)?))))
            .transpose()?;
        let writable = self.paths.iter().flat_map(|paths| &paths.writable).map(PathBuf::as_path).chain(folder);
        let mut writable = gate::writable(writable.chain([Path::new(landlock::SHARED)]));
        writable.extend(view.iter().flat_map(View::paths).map(Path::to_owned));
        Ok(Bars {
            folder: folder.map(Path::to_owned),
            environment: self.environment.clone(),
            writable: Arc::new(writable),
            paths: self.paths.clone(),
            gate,
            ways: ways.map(|(filter, ways)| (ways, Arc::from(filter))),
            memory,
            ruleset,
            filter: self.filter.clone(),
            around,
            account: account.cloned(),
            processes: crate::threads::most_for_tasks(),
            limiter: self.limiter.clone(),
            view: view.map(Arc::new),
        })
    }

    /// The same, where there are neither rules nor accounts.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn around(&self, folder: Option<&Path>) -> io::Result<Bars> {
        let (folder, environment) = (folder.map(Path::to_owned), self.environment.clone());
        Ok(Bars { folder, environment, paths: self.paths.clone() })
    }
}

/// Checks that the owner's words about the network can be enforced.
fn check_network(network: &Network) -> Result<(), String> {
    if let Network::Hosts(hosts) = network {
        network::resolve(hosts)?;
    }
    #[cfg(target_os = "linux")]
    let is_possible = *network == Network::None || gate::is_possible();
    #[cfg(not(target_os = "linux"))]
    let is_possible = false;
    #[cfg(target_os = "linux")]
    let is_possible = is_possible && seccomp::program().is_some();
    match *network == Network::All || is_possible {
        true => Ok(()),
        false => Err(format!("--network {network} is not possible: this system lets no filter of system calls ask")),
    }
}

/// Whether descendants are found that have left their program's process group.
#[cfg(target_os = "linux")]
fn finds_descendants(keeps_files: bool) -> bool {
    let listed = || rustix::fs::access(CHILDREN, rustix::fs::Access::READ_OK).is_ok();
    (keeps_files && landlock::scopes_signals()) || listed()
}

#[cfg(not(target_os = "linux"))]
fn finds_descendants(_: bool) -> bool {
    false
}

/// The most that this system keeps apart, and what it does not.
#[cfg(target_os = "linux")]
fn possible(has_accounts: bool) -> (Kind, Vec<String>) {
    let unfiltered = seccomp::program().is_none().then_some(seccomp::UNFILTERED);
    let open = |kind, why| open(kind, why, has_accounts);
    let support = landlock::support(has_accounts).map(|mut lacks| {
        lacks.extend((!has_accounts && !gate::is_possible()).then_some(gate::OPEN));
        lacks
    });
    let (kind, mut lacks): (Kind, Vec<String>) = match support {
        Ok(lacks) if lacks.is_empty() && unfiltered.is_none() => (Kind::Full, Vec::new()),
        Ok(lacks) => (Kind::Files, lacks.into_iter().map(str::to_owned).collect()),
        Err(why) if unfiltered.is_none() => (Kind::Limits, vec![open(Kind::Limits, why)]),
        Err(why) => (Kind::None, vec![open(Kind::None, why)]),
    };
    lacks.extend(unfiltered.map(str::to_owned));
    (kind, lacks)
}

#[cfg(not(target_os = "linux"))]
fn possible(has_accounts: bool) -> (Kind, Vec<String>) {
    (Kind::None, vec![open(Kind::None, "only Linux has Landlock", has_accounts)])
}

/// The gap in a cage of a kind below [`Kind::Files`]. `why`: the reason for which the cage is not a stronger one.
fn open(kind: Kind, why: &str, has_accounts: bool) -> String {
    match (kind, has_accounts) {
        (Kind::None, true) => format!("system calls, and what every account of the machine may use, are open ({why})"),
        (_, true) => format!("what every account of the machine may use is open ({why})"),
        (Kind::None, false) => format!("system calls, files, tracing, signals and unix sockets are open ({why})"),
        (_, false) => format!("files, tracing, signals and unix sockets are open ({why})"),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
