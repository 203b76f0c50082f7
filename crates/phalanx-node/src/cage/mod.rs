//! The cage: what the processes that an executor starts for its users may touch on its machine.
//!
//! These processes get a folder of their own, the environment variables of an allow list, and no core dumps. Where the
//! kernel has Landlock, they also open no file outside of the system's, Python's, their own folder and the folders that the
//! machine's owner grants, they neither signal nor trace a process outside of their program, and they are refused the system
//! calls that no task needs. All of this holds before
//! the first instruction of their program, and for all processes that they start. A report says how much of this holds.
//!
//! Processes that a program starts on its own user's machine are not caged: they are the user's own.

mod environment;
#[cfg(target_os = "linux")]
mod landlock;
mod paths;
#[cfg(target_os = "linux")]
mod seccomp;

#[cfg(target_os = "linux")]
pub use landlock::{hide_memory, is_bound, is_caged};

pub use paths::{Opened, check_private};

use phalanx_core::cage::{Kind, Report};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

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
}

/// The cage around the processes of one program.
#[derive(Debug, Clone)]
pub struct Bars {
    folder: Option<PathBuf>,
    environment: Arc<Vec<(OsString, OsString)>>,
    paths: Option<Arc<Opened>>,
    #[cfg(target_os = "linux")]
    ruleset: Option<Arc<std::os::fd::OwnedFd>>,
    /// The program that refuses system calls.
    #[cfg(target_os = "linux")]
    filter: Option<Arc<[libc::sock_filter]>>,
    /// The rules for the keeper of the program.
    #[cfg(target_os = "linux")]
    around: Option<Arc<std::os::fd::OwnedFd>>,
}

/// The file in which the kernel lists the children of a thread, unless it was built without.
#[cfg(target_os = "linux")]
pub const CHILDREN: &std::ffi::CStr = c"/proc/thread-self/children";
const UNLISTED: &str = "this kernel does not list children: what begins a session of its own goes on after its program";

impl Cage {
    /// Reads what the owner says.
    ///
    /// # Errors
    ///
    /// A grant is wrong, or the system cannot enforce the kind that the owner asks for.
    pub fn new(settings: Settings) -> Result<Cage, String> {
        let environment = Arc::new(environment::allowed(std::env::vars_os(), settings.variables.clone()));
        let opened = Opened::new(&settings)?;
        let (kind, mut lacks) = match (settings.kind, possible()) {
            (Some(asked), (most, lacks)) if asked > most => {
                return Err(format!("--cage {} is not possible: {}", asked.name(), lacks.join(", ")));
            }
            (Some(asked), _) if !asked.parts_users() => (asked, vec![open(asked, &format!("--cage {}", asked.name()))]),
            (_, possible) => possible,
        };
        let paths = kind.parts_users().then(|| Arc::new(opened));
        lacks.extend((!finds_descendants(paths.is_some())).then(|| UNLISTED.to_owned()));
        Ok(Cage {
            paths,
            report: Report { kind, lacks },
            environment,
            #[cfg(target_os = "linux")]
            filter: if kind == Kind::None { None } else { seccomp::program().map(Arc::from) },
        })
    }

    /// The kind, and what it lacks on this system.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Checks that the accepted users are kept apart from each other. Empty: all users of the grid.
    ///
    /// # Errors
    ///
    /// They are not, and are more than one.
    pub fn check_users(&self, accepted: &[String]) -> Result<(), String> {
        match self.report.kind.parts_users() || accepted.len() == 1 {
            true => Ok(()),
            false => Err(format!(
                "this executor cannot keep its users apart (cage: {}), and would serve more than one: name the one that it \
                 serves, with --accept NAME",
                self.report
            )),
        }
    }

    /// Whether the owner's processes on this machine can be told from those in the cage, which have the same account.
    pub fn tells_owner_apart(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.report.kind == Kind::None || landlock::are_told_apart();
        #[cfg(not(target_os = "linux"))]
        return true;
    }

    /// The cage around a program whose files are in `folder`. `None`: the program has no folder of its own.
    ///
    /// # Errors
    ///
    /// The kernel refuses the rules.
    pub fn around(&self, folder: Option<&Path>) -> io::Result<Bars> {
        #[cfg(target_os = "linux")]
        let (ruleset, around) = match &self.paths {
            Some(paths) => {
                let ruleset = landlock::ruleset(&paths.readable, &paths.writable, folder)?;
                (Some(Arc::new(ruleset)), landlock::signals()?.map(Arc::new))
            }
            None => (None, None),
        };
        Ok(Bars {
            folder: folder.map(Path::to_owned),
            environment: self.environment.clone(),
            paths: self.paths.clone(),
            #[cfg(target_os = "linux")]
            ruleset,
            #[cfg(target_os = "linux")]
            filter: self.filter.clone(),
            #[cfg(target_os = "linux")]
            around,
        })
    }
}

impl Bars {
    /// The folder of the program, if it has one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// What may be opened. `None`: files are not kept apart.
    pub fn opened(&self) -> Option<Opened> {
        let mut opened = self.paths.as_deref()?.clone();
        opened.writable.extend(self.folder.clone());
        Some(opened)
    }

    /// Gives a command its environment and its folder. Variables that were set before are lost.
    pub fn furnish(&self, command: &mut Command) {
        command.env_clear().envs(self.environment.iter().cloned());
        if let Some(folder) = &self.folder {
            command.current_dir(folder).env("HOME", folder).env("TMPDIR", folder);
        }
    }

    /// Puts this process into the cage, from which there is no way out. It makes system calls only, so it may be called
    /// between fork and exec.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    #[cfg(target_os = "linux")]
    pub fn enter(&self) -> io::Result<()> {
        use std::os::fd::AsFd;
        landlock::shed()?;
        if self.ruleset.is_some() || self.filter.is_some() {
            landlock::gain_nothing()?;
        }
        self.ruleset.as_ref().map_or(Ok(()), |ruleset| landlock::restrict(ruleset.as_fd()))?;
        self.filter.as_ref().map_or(Ok(()), |filter| seccomp::enter(filter))
    }

    /// Puts this process around the cage: it signals only what it starts from now on. Returns false if that is not so. It makes
    /// system calls only.
    #[cfg(target_os = "linux")]
    pub fn stand_around(&self) -> bool {
        use std::os::fd::AsFd;
        let Some(around) = &self.around else { return false };
        // The parent has the same account and stands outside, so that the kernel must refuse a signal to it.
        let refuses = || rustix::process::getppid().is_some_and(|it| rustix::process::test_kill_process(it).is_err());
        landlock::restrict(around.as_fd()).is_ok() && refuses()
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
fn possible() -> (Kind, Vec<String>) {
    let unfiltered = seccomp::program().is_none().then_some(seccomp::UNFILTERED);
    let (kind, mut lacks): (Kind, Vec<String>) = match landlock::support() {
        Ok(lacks) if lacks.is_empty() && unfiltered.is_none() => (Kind::Full, Vec::new()),
        Ok(lacks) => (Kind::Files, lacks.into_iter().map(str::to_owned).collect()),
        Err(why) if unfiltered.is_none() => (Kind::Limits, vec![open(Kind::Limits, why)]),
        Err(why) => (Kind::None, vec![open(Kind::None, why)]),
    };
    lacks.extend(unfiltered.map(str::to_owned));
    (kind, lacks)
}

#[cfg(not(target_os = "linux"))]
fn possible() -> (Kind, Vec<String>) {
    (Kind::None, vec![open(Kind::None, "only Linux has Landlock")])
}

/// The gap in a cage of a kind below [`Kind::Files`]. `why`: the reason for which the cage is not a stronger one.
fn open(kind: Kind, why: &str) -> String {
    let calls = if kind == Kind::None { "system calls, " } else { "" };
    format!("{calls}files, tracing, signals and unix sockets are open ({why})")
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
