//! What the kernel enforces: Landlock's rules for files, signals and tracing.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, make_bitflags, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The newest rights that are asked for. Older kernels know a part of them. Version 9 keeps unix sockets apart.
const FILES: ABI = ABI::V9;
const SCOPES: ABI = ABI::V6;
/// Asks for the version of Landlock (`LANDLOCK_CREATE_RULESET_VERSION`).
const VERSION: libc::c_uint = 1;
/// The version that keeps signals apart.
const SIGNALS: libc::c_long = 6;
/// The version that keeps unix sockets apart.
const SOCKETS: libc::c_long = 9;

/// Devices that programs write to.
const SINKS: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];
/// Devices that programs read.
const SOURCES: &[&str] = &["/dev/random", "/dev/urandom"];
/// Shared memory and semaphores with names. All programs have one folder. They cannot list it, so that they reach only what
/// they know the name of.
pub const SHARED: &str = "/dev/shm";

/// Returns the gaps of the kernel's version of Landlock. `has_accounts`: users have accounts of their own, which close some of the
/// gaps. The error says why the kernel has no Landlock.
pub fn support(has_accounts: bool) -> Result<Vec<&'static str>, &'static str> {
    match version() {
        version @ 1.. => Ok(lacks(version, has_accounts)),
        _ if io::Error::last_os_error().raw_os_error() == Some(libc::EOPNOTSUPP) => {
            Err("this kernel was started without Landlock (lsm=landlock,…)")
        }
        _ => Err("this kernel has no Landlock"),
    }
}

fn version() -> libc::c_long {
    // SAFETY: without attributes the call returns the version and does nothing else.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION) }
}

/// Whether the kernel keeps signals apart.
pub fn scopes_signals() -> bool {
    version() >= SIGNALS
}

fn lacks(version: libc::c_long, has_accounts: bool) -> Vec<&'static str> {
    let moves = (2, "this kernel moves no file from one folder to another (Linux 5.19 does)");
    let within_account = [
        (3, "this kernel lets users truncate the account's files (before Linux 6.2)"),
        (SIGNALS, "this kernel lets users signal the account's processes (before Linux 6.12)"),
        (SOCKETS, "this kernel lets users connect to the account's unix sockets (before Linux 7.1)"),
    ];
    // The account is the user's own: only sockets are left to which other accounts admit it.
    let sockets =
        (SOCKETS, "this kernel lets users connect to unix sockets that every account may use (before Linux 7.1)");
    let others: &[_] = if has_accounts { &[sockets] } else { &within_account };
    let all = std::iter::once(&moves).chain(others);
    all.filter(|(needed, _)| version < *needed).map(|(_, what)| *what).collect()
}

/// Rules under which only these paths, and the program's own folders, may be opened.
pub fn ruleset(
    readable: &[PathBuf],
    writable: &[PathBuf],
    folders: &[&Path],
    memory: Option<&Path>,
) -> io::Result<OwnedFd> {
    let failed = |error: RulesetError| io::Error::other(format!("the cage cannot be made: {error}"));
    let (all, read) = (AccessFs::from_all(FILES), AccessFs::from_read(FILES));
    let made = Ruleset::default().handle_access(all).and_then(|rules| rules.scope(Scope::from_all(SCOPES)));
    let mut rules = made.and_then(Ruleset::create).map_err(failed)?;
    let sink: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate});
    let shared = sink | AccessFs::MakeReg | AccessFs::RemoveFile;
    let mut add = |paths: &mut dyn Iterator<Item = &Path>, access: BitFlags<AccessFs>| -> io::Result<()> {
        (&mut rules).add_rules(path_beneath_rules(paths, access)).map(drop).map_err(failed)
    };
    add(&mut readable.iter().map(PathBuf::as_path), read)?;
    add(&mut writable.iter().map(PathBuf::as_path), all)?;
    add(&mut SINKS.iter().map(Path::new), sink)?;
    add(&mut SOURCES.iter().map(Path::new), AccessFs::ReadFile.into())?;
    // The folder that is mounted there, or the one of all programs.
    add(&mut [memory.unwrap_or(Path::new(SHARED))].into_iter(), shared)?;
    for folder in folders {
        let opened = PathFd::new(folder).map_err(io::Error::other)?;
        rules = rules.add_rule(PathBeneath::new(opened, all)).map_err(failed)?;
    }
    Option::<OwnedFd>::from(rules).ok_or_else(|| io::Error::other("this kernel has no Landlock"))
}

/// Rules under which a process signals only processes that it has started. `None`: the kernel cannot.
pub fn signals() -> io::Result<Option<OwnedFd>> {
    if !scopes_signals() {
        return Ok(None);
    }
    let failed = |error: RulesetError| io::Error::other(format!("the cage cannot be made: {error}"));
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    // Rules that do not name moves between folders refuse them, whatever the rules within say.
    let made = rules.handle_access(AccessFs::Refer).and_then(|rules| rules.scope(Scope::Signal));
    let root = PathBeneath::new(PathFd::new("/").map_err(io::Error::other)?, AccessFs::Refer);
    let made = made.and_then(Ruleset::create).and_then(|rules| rules.add_rule(root));
    Ok(made.map_err(failed)?.into())
}

/// Forbids this process core dumps, and more processes than `most` of its account. Closes what was left open for its program by
/// mistake. System calls only.
pub fn shed(most: Option<u64>) -> io::Result<()> {
    // SAFETY: descriptors are marked, none is closed.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if let Some(most) = most {
        let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
        let Rlimit { current, maximum } = getrlimit(Resource::Nproc);
        setrlimit(Resource::Nproc, Rlimit { current: least(current), maximum: least(maximum) })?;
    }
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

/// Takes all capabilities from this process, and all ways to gain rights. System calls only.
pub fn gain_nothing() -> io::Result<()> {
    let none = CapabilitySet::empty();
    // Root without capabilities is an account that owns many files. With them it could read the kernel's memory.
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(set_no_new_privs(true)?)
}

/// Puts this process under the rules. System calls only.
pub fn restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    set_no_new_privs(true)?;
    // SAFETY: the descriptor is that of a ruleset; it is borrowed for the call.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Hides the memory of this process, in which there are keys, from other processes of its account, and from core dumps.
pub fn hide_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Whether a process is in a cage, as far as another one can see it: it can never gain rights, which is inherited and cannot be
/// undone. A process that is gone counts as caged. If this process itself can never gain rights, no other one can be told apart.
pub fn is_caged(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let is_free = status.lines().any(|line| line.strip_prefix("NoNewPrivs:").is_some_and(|value| value.trim() == "0"));
    !is_free && are_told_apart()
}

/// Whether this process can get no new privileges, as those in a cage.
pub fn is_bound() -> bool {
    rustix::thread::no_new_privs().unwrap_or(false)
}

/// Whether [`is_caged`] can tell caged processes from others.
pub fn are_told_apart() -> bool {
    rustix::thread::no_new_privs().is_ok_and(|is_bound| !is_bound)
}
