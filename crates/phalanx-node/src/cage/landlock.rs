//! Landlock rules, with which the kernel restricts files, signals and tracing.

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, make_bitflags, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The newest access rights that the rules name. Older kernels enforce a part of them. Version 9 restricts unix sockets.
const FILES: ABI = ABI::V9;
const SCOPES: ABI = ABI::V6;
/// Asks for the version of Landlock (`LANDLOCK_CREATE_RULESET_VERSION`).
const VERSION: libc::c_uint = 1;
/// The version that restricts signals.
const SIGNALS: libc::c_long = 6;
/// The version that restricts unix sockets.
const SOCKETS: libc::c_long = 9;

/// Devices that programs write to.
const SINKS: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];
/// Devices that programs read.
const SOURCES: &[&str] = &["/dev/random", "/dev/urandom"];
/// The folder of named shared memory and semaphores. Programs without private memory share it. They cannot list it, so that they reach only
/// objects whose names they know.
pub const SHARED: &str = "/dev/shm";

/// Returns the gaps of the kernel's version of Landlock. `has_accounts`: each user has a separate account, which closes some gaps. The
/// error says why the kernel has no Landlock.
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

/// Whether the kernel restricts signals.
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
    // Each user has a separate account, so that only sockets which other accounts open to all remain.
    let sockets =
        (SOCKETS, "this kernel lets users connect to unix sockets that every account may use (before Linux 7.1)");
    let others: &[_] = if has_accounts { &[sockets] } else { &within_account };
    let all = std::iter::once(&moves).chain(others);
    all.filter(|(needed, _)| version < *needed).map(|(_, what)| *what).collect()
}

/// Rules that allow access to these paths and the program's own folders only.
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
    // The program's own folder, which is mounted there, or the shared one.
    add(&mut [memory.unwrap_or(Path::new(SHARED))].into_iter(), shared)?;
    for folder in folders {
        let opened = PathFd::new(folder).map_err(io::Error::other)?;
        rules = rules.add_rule(PathBeneath::new(opened, all)).map_err(failed)?;
    }
    Option::<OwnedFd>::from(rules).ok_or_else(|| io::Error::other("this kernel has no Landlock"))
}

/// Rules under which a process can signal only processes that it has started. `None`: the kernel does not support them.
pub fn signals() -> io::Result<Option<OwnedFd>> {
    if !scopes_signals() {
        return Ok(None);
    }
    let failed = |error: RulesetError| io::Error::other(format!("the cage cannot be made: {error}"));
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    // The rules must allow moves between folders, because Landlock refuses them otherwise, whatever the inner rules say.
    let made = rules.handle_access(AccessFs::Refer).and_then(|rules| rules.scope(Scope::Signal));
    let root = PathBeneath::new(PathFd::new("/").map_err(io::Error::other)?, AccessFs::Refer);
    let made = made.and_then(Ruleset::create).and_then(|rules| rules.add_rule(root));
    Ok(made.map_err(failed)?.into())
}

/// Forbids core dumps, and more processes of the account than `most`. Marks all descriptors from 3 on close-on-exec, because some may be
/// open by mistake. System calls only.
pub fn shed(most: Option<u64>) -> io::Result<()> {
    // SAFETY: the call marks descriptors, and closes none.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if let Some(most) = most {
        let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
        let Rlimit { current, maximum } = getrlimit(Resource::Nproc);
        setrlimit(Resource::Nproc, Rlimit { current: least(current), maximum: least(maximum) })?;
    }
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

/// Drops all capabilities of this process, and sets `no_new_privs`. System calls only.
pub fn gain_nothing() -> io::Result<()> {
    let none = CapabilitySet::empty();
    // Root with capabilities could read the kernel's memory. Without them, root is an account that owns many files.
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(set_no_new_privs(true)?)
}

/// Applies the rules to this process. System calls only.
pub fn restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    set_no_new_privs(true)?;
    // SAFETY: the descriptor is that of a ruleset; it is borrowed for the call.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Hides the memory of this process from other processes of its account and from core dumps, because it contains keys.
pub fn hide_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Whether a process seems to be in a cage, because it has `no_new_privs`, which children inherit and no process can clear. A process that
/// has ended counts as caged. If this process has `no_new_privs` too, the test is meaningless and returns false.
pub fn is_caged(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let is_free = status.lines().any(|line| line.strip_prefix("NoNewPrivs:").is_some_and(|value| value.trim() == "0"));
    !is_free && are_told_apart()
}

/// Whether this process has `no_new_privs`, like the processes in a cage.
pub fn is_bound() -> bool {
    rustix::thread::no_new_privs().unwrap_or(false)
}

/// Whether [`is_caged`] can tell caged processes from others.
pub fn are_told_apart() -> bool {
    rustix::thread::no_new_privs().is_ok_and(|is_bound| !is_bound)
}
