//! The cage: a sandbox for the processes that an executor starts for its users.
//!
//! Caged processes have a private folder, the environment variables of an allow list, and no core dumps. With Landlock, they can open only
//! files of the system, of Python, of their own folder, and of folders that the machine's owner grants. They can neither signal nor trace
//! processes outside of their program. A seccomp filter refuses system calls that no task needs. A gate lets them change the modes of files
//! only where they may write. An executor that runs as root gives each user a separate account. The cage holds before the first instruction
//! of the program, and for all its descendants. A report says which of these parts hold on this system.
//!
//! Processes that a program starts on its own user's machine are not caged, because they act for the user.

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
mod rights;
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
pub use gpu::Maker;
pub use network::{Network, Way, Ways, means_same};
pub use paths::{Opened, check_private};
pub use rights::is_program;

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

/// The owner's settings for the cage, and the needs of programs in it.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The kind that the owner requests. `None`: the strongest that the kernel supports.
    pub kind: Option<Kind>,
    /// Paths that a Python interpreter of this executor reads.
    pub python: Vec<PathBuf>,
    /// Files and folders with keys, or with other programs' data. The owner cannot grant them.
    pub private: Vec<PathBuf>,
    /// The owner's home folder, which only a grant opens.
    pub home: Option<PathBuf>,
    /// Further folders and files in the owner's notation: `/data:ro`, `/results:rw`.
    pub grants: Vec<String>,
    /// Environment variables beside those of the allow list.
    pub variables: Vec<(OsString, OsString)>,
    /// The accounts, one for each user. `None`: users' processes run under the executor's account.
    pub accounts: Option<OwnAccounts>,
    /// The limits of the resources of users' processes. `None`: there are no limits.
    pub limits: Option<Limits>,
    /// The policy for connections of users' processes.
    pub network: Network,
}

/// The accounts for users' processes.
#[derive(Debug, Clone)]
pub struct OwnAccounts {
    /// Numbers of users and groups that are free on this machine.
    pub numbers: RangeInclusive<u32>,
    /// The file that maps users to accounts.
    pub register: PathBuf,
    /// The certificate of the authority of the users' grid.
    pub authority: Vec<u8>,
}

/// The number of graphics processors that the grant `gpu` opens on this machine.
pub fn gpus() -> usize {
    makers().len()
}

/// The makers of these graphics processors, one for each.
pub fn makers() -> Vec<Maker> {
    gpu::makers(Path::new("/dev"), Path::new("/sys"))
}

/// The cage of an executor.
#[derive(Debug, Clone, Default)]
pub struct Cage {
    /// The paths that processes may open. `None`: the cage does not restrict files.
    paths: Option<Arc<Opened>>,
    /// The kind of the cage, and its gaps.
    report: Report,
    environment: Arc<Vec<(OsString, OsString)>>,
    /// The seccomp filter that refuses system calls. `None`: all are allowed.
    #[cfg(target_os = "linux")]
    filter: Option<Arc<[libc::sock_filter]>>,
    /// The seccomp filter that notifies the keeper. `None`: processes can change the modes of all files of their account.
    #[cfg(target_os = "linux")]
    gate: Option<Arc<[libc::sock_filter]>>,
    accounts: SharedAccounts,
    /// The limits of the resources of users' processes. `None`: there are no limits.
    #[cfg(target_os = "linux")]
    limiter: Option<Arc<Limiter>>,
    network: Arc<Reach>,
    /// The certificate of the authority of the users' grid. `None`: the authority of the accounts.
    grid: Option<Arc<[u8]>>,
}

/// The policy for connections of users' processes, and the addresses that it allows.
#[derive(Debug, Default)]
struct Reach {
    network: Network,
    /// The addresses of the grid, or of hosts that the owner has named, and the time of their lookup.
    ways: Mutex<(Vec<Way>, Option<Instant>)>,
    /// The addresses of the grid's executors. `None`: they are unknown, because there is no hub.
    members: Mutex<Option<Vec<IpAddr>>>,
    /// Whether a program has named an unknown machine, so that the executor should ask the hub for the addresses again.
    is_old: AtomicBool,
}

impl Reach {
    /// The addresses, refreshed by a lookup of host names if they are older than [`LOOK_UP`].
    fn ways(&self) -> Vec<Way> {
        let mut ways = lock(&self.ways);
        let is_old = ways.1.is_none_or(|when| when.elapsed() > LOOK_UP);
        if let Network::Hosts(hosts) = &self.network
            && is_old
        {
            ways.1 = Some(Instant::now());
            if let Ok(found) = network::resolve(hosts) {
                ways.0 = found; // otherwise keep the previous addresses
            }
        }
        ways.0.clone()
    }
}

#[cfg(target_os = "linux")]
type SharedAccounts = Option<Arc<Accounts>>;
/// Other systems have no accounts.
#[cfg(not(target_os = "linux"))]
type SharedAccounts = Option<()>;

/// Time to live of looked up addresses. A longer time misses changes of addresses, a shorter one delays the start of programs.
const LOOK_UP: Duration = Duration::from_secs(30);

/// The file in which the kernel lists the children of a thread. Some kernels are built without it.
#[cfg(target_os = "linux")]
pub const CHILDREN: &std::ffi::CStr = c"/proc/thread-self/children";
const UNLISTED: &str = "this kernel does not list children: what begins a session of its own goes on after its program";

impl Cage {
    /// Creates the cage from the owner's settings.
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

    /// A cage with other settings that shares the accounts and limits. It serves users of a grid to which the executor is lent.
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

    /// The same cage for users of the grid of this authority. A user of the same name in another grid gets another account.
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
            // Without the filter of system calls, a process could evade by the numbers of another architecture.
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
            // A separate account owns the user's files only, so that it needs no gate.
            gate: (kind.parts_users() && !has_accounts && gate::is_possible())
                .then(|| gate::program(true, false))
                .flatten()
                .map(Arc::from),
            #[cfg(target_os = "linux")]
            filter: if kind == Kind::None { None } else { seccomp::program().map(Arc::from) },
        })
    }

    /// The kind, and its gaps on this system.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Facts about the cage for a hub.
    pub fn facts(&self) -> Facts {
        let short = |text: String| text.chars().take(LONGEST_FACT / 4).collect::<String>();
        let mut facts = Facts::from([(CAGE.to_owned(), self.report.fact())]);
        let lacks = (!self.report.lacks.is_empty()).then(|| short(self.report.lacks.join(", ")));
        facts.extend(lacks.map(|lacks| (GAPS.to_owned(), lacks)));
        let limits = Some(short(self.limits().join(", "))).filter(|limits| !limits.is_empty());
        facts.extend(limits.map(|limits| ("limits".to_owned(), limits)));
        facts
    }

    /// The limits for users' processes in words, each with its mechanism.
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

    /// Whether the owner restricts the network of users' processes. If so, the grid counts as empty until a hub reports its members.
    pub fn awaits_grid(&self) -> bool {
        let is_limited = self.network.network != Network::All;
        if is_limited {
            lock(&self.network.members).get_or_insert_default();
        }
        is_limited
    }

    /// Takes over the addresses of the grid, and those of its executors, from a hub.
    pub fn learn_grid(&self, ways: Vec<Way>, members: Vec<IpAddr>) {
        if self.network.network == Network::Grid {
            lock(&self.network.ways).0 = ways;
        }
        self.network.is_old.store(false, Ordering::Release);
        *lock(&self.network.members) = Some(members);
    }

    /// Whether the executor should ask for the addresses of the grid again at once.
    pub fn misses_members(&self) -> bool {
        self.network.is_old.load(Ordering::Acquire)
    }

    /// The machines of a program to which its processes may connect from here. The cage checks them, because a launcher could name any
    /// address. `from`: the launcher's address.
    #[cfg(target_os = "linux")]
    pub(crate) fn machines_of_grid(&self, machines: &[IpAddr], from: Option<IpAddr>) -> Vec<IpAddr> {
        if self.network.network == Network::All {
            return machines.to_vec();
        }
        let known = network::known(machines, lock(&self.network.members).as_deref(), from);
        self.network.is_old.fetch_or(known.len() < machines.len(), Ordering::AcqRel);
        known
    }

    /// Removes the control groups and other state of the limits. Programs that still run have no limits afterwards.
    pub fn close(&self) {
        #[cfg(target_os = "linux")]
        self.limiter.iter().for_each(|limiter| limiter.close());
    }

    /// Checks that the cage isolates the accepted users from each other. Empty: all users of the grid.
    ///
    /// # Errors
    ///
    /// The cage does not isolate users, and there is more than one.
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

    /// Checks that the cage isolates users of other grids, to which the executor is lent, from each other and from its own users.
    ///
    /// # Errors
    ///
    /// The cage does not isolate users.
    pub fn check_lent(&self) -> Result<(), String> {
        match self.report.parts_users() {
            true => Ok(()),
            false => Err(format!("the cage does not keep users of two grids apart ({})", self.report)),
        }
    }

    /// Checks that users' processes do not run as root, unless the owner allows it.
    ///
    /// # Errors
    ///
    /// Users' processes would run as root.
    pub fn check_root(&self, is_allowed: bool) -> Result<(), String> {
        match !rights::is_root() || self.report.accounts || is_allowed {
            true => Ok(()),
            false if cfg!(windows) => {
                Err("this executor has an administrator's rights, and so would its users' processes: start it without them, \
                     under an account that is no administrator's; or let users' processes have them, with --allow-root or \
                     PHALANX_ALLOW_ROOT=1"
                    .to_owned())
            }
            false => {
                Err("this executor runs as root, and so would its users' processes: give each user an account with \
                          --accounts FIRST-LAST, numbers that nothing else on this machine has, like \
                          1900000000-1900000031; or start it under another account; or let users' processes be root, with \
                          --allow-root or PHALANX_ALLOW_ROOT=1"
                    .to_owned())
            }
        }
    }

    /// The account of a user. `None`: users' processes run under the executor's account.
    ///
    /// # Errors
    ///
    /// Other users have all accounts.
    #[cfg(target_os = "linux")]
    pub(crate) fn account_of(&self, user: &str) -> io::Result<Option<Account>> {
        self.accounts.as_ref().map(|accounts| accounts.of(user, self.grid.as_deref())).transpose()
    }

    /// Whether users' processes find a program of this name on their `PATH`, and the cage lets them run it.
    pub fn finds(&self, program: &str) -> bool {
        let path = self.environment.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value);
        let at = |folder: PathBuf| std::fs::canonicalize(folder.join(program)).ok();
        let may_run = |file: &PathBuf| rights::is_program(file) && self.paths.as_ref().is_none_or(|it| it.opens(file));
        path.is_some_and(|path| std::env::split_paths(path).filter_map(at).any(|file| may_run(&file)))
    }

    /// Whether the executor can distinguish the owner's processes on this machine from caged ones, which may have the same account.
    pub fn tells_owner_apart(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.report.kind == Kind::None || self.report.accounts || landlock::are_told_apart();
        #[cfg(not(target_os = "linux"))]
        return true;
    }

    /// The cage around a program. `folder` has its files, and `memory` its named memory; `None`: the program has no private one. Its
    /// processes run under `account`; `None`: under the account of this process. `machines` have its ranks.
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

    /// The cage around a program that sees private folders at some paths (`view`).
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
        // The rules must name folders that are mounted elsewhere, because there they are not beneath the program's folder.
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
        // A program without network sockets still has unix sockets, which lead to services of the account. So the gate checks these too.
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
            memory_of_user: None,
            view: view.map(Arc::new),
        })
    }

    /// The cage around a program, on systems without rules and accounts.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn around(&self, folder: Option<&Path>) -> io::Result<Bars> {
        let (folder, environment) = (folder.map(Path::to_owned), self.environment.clone());
        Ok(Bars { folder, environment, paths: self.paths.clone() })
    }
}

/// Checks that the system can enforce the owner's setting for the network.
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

/// Whether the keeper finds descendants that have left their program's process group.
#[cfg(target_os = "linux")]
fn finds_descendants(keeps_files: bool) -> bool {
    let listed = || rustix::fs::access(CHILDREN, rustix::fs::Access::READ_OK).is_ok();
    (keeps_files && landlock::scopes_signals()) || listed()
}

#[cfg(not(target_os = "linux"))]
fn finds_descendants(_: bool) -> bool {
    false
}

/// The strongest kind that this system supports, and its gaps.
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
