//! The cage around one program: the environment and the rights of its processes, and how a process enters it.

use super::paths::Opened;
#[cfg(target_os = "linux")]
use super::{Gate, View, Ways, connecting::Doorway, gate, landlock, network, private, seccomp};
#[cfg(target_os = "linux")]
use crate::accounts::Account;
#[cfg(target_os = "linux")]
use crate::limits::Limiter;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// The cage around the processes of one program.
#[derive(Debug, Clone)]
pub struct Bars {
    pub(super) folder: Option<PathBuf>,
    pub(super) environment: Arc<Vec<(OsString, OsString)>>,
    pub(super) paths: Option<Arc<Opened>>,
    #[cfg(target_os = "linux")]
    pub(super) ruleset: Option<Arc<std::os::fd::OwnedFd>>,
    /// The seccomp filter that refuses system calls.
    #[cfg(target_os = "linux")]
    pub(super) filter: Option<Arc<[libc::sock_filter]>>,
    /// The seccomp filter that notifies the keeper.
    #[cfg(target_os = "linux")]
    pub(super) gate: Option<Arc<[libc::sock_filter]>>,
    /// Paths that the processes may write, without symbolic links.
    #[cfg(target_os = "linux")]
    pub(super) writable: Arc<Vec<PathBuf>>,
    /// The Landlock rules for the keeper of the program.
    #[cfg(target_os = "linux")]
    pub(super) around: Option<Arc<std::os::fd::OwnedFd>>,
    /// The account of the processes. `None`: the account of this process.
    #[cfg(target_os = "linux")]
    pub(super) account: Option<Account>,
    /// The limit of the account's processes, checked when one of them forks (`RLIMIT_NPROC`). `None`: no limit.
    #[cfg(target_os = "linux")]
    pub(super) processes: Option<u64>,
    /// The limits of the programs' resources. `None`: there are no limits.
    #[cfg(target_os = "linux")]
    pub(super) limiter: Option<Arc<Limiter>>,
    /// The bytes of memory that the program's user lets it have. `None`: what the machine gives.
    #[cfg(target_os = "linux")]
    pub(super) memory_of_user: Option<u64>,
    /// The folder that the processes see as `/dev/shm`, and its name. `None`: they share the machine's `/dev/shm`.
    #[cfg(target_os = "linux")]
    pub(super) memory: Option<(PathBuf, Arc<std::ffi::CString>)>,
    /// Addresses to which the processes may connect, and the seccomp filter that refuses other sockets. `None`: all addresses.
    #[cfg(target_os = "linux")]
    pub(super) ways: Option<(Arc<Ways>, Arc<[libc::sock_filter]>)>,
    /// The view that shows private folders at some paths. `None`: the processes see the machine's paths.
    #[cfg(target_os = "linux")]
    pub(super) view: Option<Arc<View>>,
}

impl Bars {
    /// The folder of the program, if it has one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The paths that the processes may open. `None`: the cage does not restrict files.
    pub fn opened(&self) -> Option<Opened> {
        let mut opened = self.paths.as_deref()?.clone();
        opened.writable.extend(self.folder.clone());
        Some(opened)
    }

    /// The user number of the processes. `None`: the number of this process.
    pub fn account(&self) -> Option<u32> {
        #[cfg(target_os = "linux")]
        return self.account.as_ref().map(Account::number);
        #[cfg(not(target_os = "linux"))]
        return None;
    }

    /// The limit of the account's processes and threads, checked when a process of the program forks. `None`: no limit.
    #[cfg(target_os = "linux")]
    pub fn processes(&self) -> Option<u64> {
        self.processes
    }

    /// The limits of the programs' resources. `None`: there are no limits.
    #[cfg(target_os = "linux")]
    pub fn limiter(&self) -> Option<&Arc<Limiter>> {
        self.limiter.as_ref()
    }

    /// The same cage for a program that may have so many bytes of memory, if the machine gives as many.
    ///
    /// # Errors
    ///
    /// This machine cannot limit the memory of programs.
    pub fn with_memory(self, memory: Option<u64>) -> io::Result<Bars> {
        #[cfg(target_os = "linux")]
        if memory.is_none() || self.limiter.is_some() {
            return Ok(Bars { memory_of_user: memory, ..self });
        }
        match memory {
            None => Ok(self),
            Some(_) => Err(io::Error::other("this machine cannot limit the memory of an interpreter")),
        }
    }

    /// The bytes of memory that the program's user lets it have. `None`: what the machine gives.
    #[cfg(target_os = "linux")]
    pub fn memory_of_user(&self) -> Option<u64> {
        self.memory_of_user
    }

    /// Whether processes may listen, because ranks of other machines connect to them.
    #[cfg(target_os = "linux")]
    pub fn may_listen(&self) -> bool {
        self.ways.as_ref().is_none_or(|(ways, _)| ways.listens)
    }

    /// The folders that count as the program's disk.
    #[cfg(target_os = "linux")]
    pub fn folders(&self) -> Vec<PathBuf> {
        self.folder.iter().chain(self.memory.iter().map(|(folder, _)| folder)).cloned().collect()
    }

    /// Makes the account the owner of an open file, so that a process can open the file again, for example as `/dev/stdout`.
    ///
    /// # Errors
    ///
    /// The system refuses.
    #[cfg(target_os = "linux")]
    pub fn hand_over(&self, file: impl std::os::fd::AsFd) -> io::Result<()> {
        self.account.as_ref().map_or(Ok(()), |account| account.own(file))
    }

    /// Sets the environment and the folder of a command. Removes variables that were set before.
    pub fn furnish(&self, command: &mut Command) {
        command.env_clear().envs(self.environment.iter().cloned());
        #[cfg(target_os = "linux")]
        if let Some(account) = &self.account {
            // The account's number may have no name on this machine.
            command.env("USER", account.user()).env("LOGNAME", account.user());
        }
        #[cfg(target_os = "linux")]
        if self.ways.is_some() {
            command.env(network::BY_TCP.0, network::BY_TCP.1);
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder).env("HOME", folder).env("TMPDIR", folder);
        }
    }

    /// Puts this process into the cage for good, under its account. It makes system calls only, so that callers can use it between fork and
    /// exec.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    #[cfg(target_os = "linux")]
    pub fn enter(&self) -> io::Result<()> {
        use std::os::fd::AsFd;
        landlock::shed(self.processes)?;
        self.limiter.as_ref().map_or(Ok(()), |limiter| limiter.enter())?;
        self.account.as_ref().map_or(Ok(()), Account::enter)?;
        // An account must gain no rights either, because a program with the set-user-ID bit would make the process root again.
        let filters = [self.filter.is_some(), self.ways.is_some(), self.gate.is_some()].contains(&true);
        if self.ruleset.is_some() || filters || self.account.is_some() {
            landlock::gain_nothing()?;
        }
        self.ruleset.as_ref().map_or(Ok(()), |ruleset| landlock::restrict(ruleset.as_fd()))?;
        self.ways.as_ref().map_or(Ok(()), |(_, filter)| seccomp::enter(filter))?;
        self.filter.as_ref().map_or(Ok(()), |filter| seccomp::enter(filter))
    }

    /// Puts the keeper, which calls this, into namespaces in which the program's own folder is `/dev/shm`. System calls only.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    #[cfg(target_os = "linux")]
    pub fn enter_private(&self) -> io::Result<()> {
        self.memory.as_ref().map_or(Ok(()), |(_, name)| private::enter(name))
    }

    /// Whether the keeper makes system calls for processes in the cage: changes of file modes, or connections.
    #[cfg(target_os = "linux")]
    pub fn has_gate(&self) -> bool {
        self.gate.is_some()
    }

    /// Puts this caged process behind the gate, and sends the gate's descriptor to the keeper through the socket. System calls only.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    #[cfg(target_os = "linux")]
    pub fn enter_gate(&self, keeper: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
        self.gate.as_ref().map_or(Ok(()), |gate| gate::enter(gate, keeper))
    }

    /// Receives the gate of the program, in the keeper. If the program has the keeper's account, the keeper drops its capabilities first.
    /// It makes system calls only. `None`: the program has no gate, or ended before it sent one.
    #[cfg(target_os = "linux")]
    pub fn keep_gate(&self, program: std::os::fd::BorrowedFd<'_>) -> Option<Gate<'_>> {
        self.gate.as_ref()?;
        if self.account.is_none() {
            landlock::gain_nothing().ok()?;
        }
        let writable = self.paths.is_some().then_some(&self.writable[..]);
        let doorway = |ways| Doorway { ways, writable, account: self.account() };
        let doorway = self.ways.as_ref().map(|(ways, _)| doorway(&**ways));
        Gate::receive(program, &self.writable, doorway)
    }

    /// Gives this process the program's view of the machine (a mount namespace). It makes system calls only.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    #[cfg(target_os = "linux")]
    pub fn look(&self) -> io::Result<()> {
        self.view.as_ref().map_or(Ok(()), |view| view.enter())
    }

    /// Restricts the keeper: from now on it can signal only processes that it starts. Returns whether the restriction holds. It makes
    /// system calls only.
    #[cfg(target_os = "linux")]
    pub fn stand_around(&self) -> bool {
        use std::os::fd::AsFd;
        let Some(around) = &self.around else { return false };
        // The kernel must refuse a signal to the parent, which has the same account and is outside of the restriction.
        let refuses = || rustix::process::getppid().is_some_and(|it| rustix::process::test_kill_process(it).is_err());
        landlock::restrict(around.as_fd()).is_ok() && refuses()
    }
}
