//! The gate: a caged process can change the mode, the owner and the group of a file only where it may write.
//!
//! Landlock has no rule for these changes. Without the gate, a task could open the files of the executor's account to other accounts of the
//! machine. A seccomp filter sees numbers, but not the file that they name. So the kernel notifies the keeper (`SECCOMP_RET_USER_NOTIF`).
//! The keeper opens the file, checks its path, and changes the file that it has opened, so that the process cannot exchange it meanwhile.
//! The keeper makes system calls only and allocates nothing, because it is a fork of a process with threads.

use super::connecting::{self, Doorway, Made};
use super::opened_files::{PATH, is_beneath, link_to, open_for, open_named, open_own, path_of, read_path};
use super::seccomp;
use libc::{c_int, c_long, c_uint, pid_t, sock_filter};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The gap of a cage without a gate.
pub const OPEN: &str = "this kernel, or what this executor runs in, lets users change the modes of the account's files";

/// `fchmodat2`, for which libc has no name on some architectures.
const FCHMODAT2: c_long = 452;
/// The calls that the keeper makes for a process.
const CALLS: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
];
/// The calls that the keeper makes for a process whose connections the owner limits.
const CONNECTIONS: &[c_long] = &[libc::SYS_connect, libc::SYS_listen];
/// Buffer size of a notification or an answer, in bytes. Newer kernels may use more of it.
const MESSAGE: usize = 512;

/// The setting that restricts who may read the memory of processes. From 2 on, a parent may not.
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Whether the kernel can notify a keeper of this executor. A child process tries it, because the kernel allows one listener only, and a
/// container around the executor may have it.
pub fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(try_out)
}

fn try_out() -> bool {
    let is_readable = std::fs::read_to_string(YAMA).map_or(true, |scope| matches!(scope.trim(), "0" | "1"));
    let may_ask = is_readable && seccomp::is_available(libc::SECCOMP_RET_USER_NOTIF);
    let may_ask = may_ask && open_for(libc::AT_FDCWD, c"/", 0).is_ok();
    let Some(program) = program(true, true).filter(|_| may_ask) else { return false };
    // SAFETY: the child makes system calls, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let outcome = rustix::thread::set_no_new_privs(true).map_err(io::Error::from).and_then(|()| install(&program));
        // SAFETY: ends the child without the handlers of its parent.
        unsafe { libc::_exit(i32::from(outcome.is_err())) }
    }
    let mut status = -1;
    // SAFETY: waits for the child, which only this function knows.
    let mut wait = || unsafe { libc::waitpid(child, &raw mut status, 0) };
    let is_interrupted = |outcome| outcome < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
    while child > 0 && is_interrupted(wait()) {}
    child > 0 && status == 0
}

/// The seccomp filter that notifies the keeper of changes of files, and of connections. `None`: there is no list of calls for this
/// architecture.
pub fn program(changes: bool, connections: bool) -> Option<Vec<sock_filter>> {
    let calls = [(changes, CALLS), (connections, CONNECTIONS)].into_iter().filter(|(asks, _)| *asks);
    let calls: Vec<c_long> = calls.flat_map(|(_, calls)| calls).copied().collect();
    seccomp::program_for(&calls, libc::SECCOMP_RET_USER_NOTIF)
}

/// Puts this process behind a gate, and sends the listener's descriptor to the keeper through a socket. System calls only.
pub fn enter(program: &[sock_filter], socket: BorrowedFd<'_>) -> io::Result<()> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let listener = install(program)?;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let descriptors = [std::os::fd::AsFd::as_fd(&listener)];
    message.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[io::IoSlice::new(&[0])], &mut message, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Installs the filter for this process. Returns the descriptor from which the keeper reads notifications.
fn install(program: &[sock_filter]) -> io::Result<OwnedFd> {
    // With this flag, only a fatal signal interrupts a process that waits for an answer. Linux has it since 5.19.
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let listener = seccomp::install(program, flags | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
        .or_else(|_| seccomp::install(program, flags))?;
    // SAFETY: with the flag, the kernel has made this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as RawFd) })
}

/// The keeper's side of the gate.
pub struct Gate<'a> {
    listener: OwnedFd,
    /// Paths that the processes may write, with everything beneath them, without symbolic links.
    writable: &'a [PathBuf],
    /// The rules for connections. `None`: the filter does not notify the keeper of connections.
    doorway: Option<Doorway<'a>>,
    /// Pending connections, each with the number of its notification.
    pending: [Option<(u64, OwnedFd)>; connecting::MOST],
}

impl<'a> Gate<'a> {
    /// Receives the descriptor that [`enter`] sends. `None`: the process has no gate, because it has not entered its cage.
    pub fn receive(socket: BorrowedFd<'_>, writable: &'a [PathBuf], doorway: Option<Doorway<'a>>) -> Option<Gate<'a>> {
        use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = RecvAncillaryBuffer::new(&mut space);
        loop {
            let mut byte = [0];
            match recvmsg(socket, &mut [io::IoSliceMut::new(&mut byte)], &mut message, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
                Ok(_) => break,
            }
        }
        let first = |it| match it {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        };
        let listener = message.drain().find_map(first)?;
        Some(Gate { listener, writable, doorway, pending: [const { None }; connecting::MOST] })
    }

    /// Answers a notification, if there is one.
    pub fn answer(&mut self) {
        let mut bytes = Message([0; MESSAGE]);
        // SAFETY: the buffer has room for the structure of any kernel, is aligned, and lives as long as the call.
        let asked =
            unsafe { libc::ioctl(self.listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, bytes.0.as_mut_ptr()) };
        if asked != 0 {
            return; // the process was killed meanwhile
        }
        // SAFETY: the kernel has filled in the structure, which is the beginning of the buffer.
        let question = unsafe { bytes.0.as_ptr().cast::<libc::seccomp_notif>().read() };
        match self.carry_out(&question) {
            Ok(Made::Done) => self.say(question.id, Ok(()), 0),
            Ok(Made::Own) => self.say(question.id, Ok(()), libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Err(error) => self.say(question.id, Err(error), 0),
            Ok(Made::Begun(socket)) => match self.pending.iter_mut().find(|it| it.is_none()) {
                Some(free) => *free = Some((question.id, socket)),
                None => self.say(question.id, Err(io::Error::from_raw_os_error(libc::EAGAIN)), 0),
            },
        }
    }

    /// Sockets of pending connections, each writable at its end. -1: the slot is free.
    pub fn pending(&self) -> impl Iterator<Item = RawFd> {
        self.pending.iter().map(|it| it.as_ref().map_or(-1, |(_, socket)| socket.as_raw_fd()))
    }

    /// A pending connection has succeeded or failed.
    pub fn complete(&mut self, number: usize) {
        if let Some((question, socket)) = self.pending.get_mut(number).and_then(Option::take) {
            self.say(question, connecting::outcome(&socket), 0);
        }
    }

    fn say(&self, question: u64, outcome: io::Result<()>, flags: u32) {
        let error = outcome.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EPERM));
        let mut bytes = Message([0; MESSAGE]);
        let answer = libc::seccomp_notif_resp { id: question, val: 0, error: -error, flags };
        // SAFETY: as above. An answer to a process that was killed is refused.
        unsafe {
            bytes.0.as_mut_ptr().cast::<libc::seccomp_notif_resp>().write(answer);
            libc::ioctl(self.listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, bytes.0.as_ptr());
        }
    }

    fn carry_out(&self, question: &libc::seccomp_notif) -> io::Result<Made> {
        let process = question.pid as pid_t;
        let (call, arg) = (c_long::from(question.data.nr), question.data.args);
        if let Some(doorway) = self.doorway.as_ref().filter(|_| CONNECTIONS.contains(&call)) {
            let still = || self.asks_still(question);
            return match call {
                libc::SYS_listen => doorway.listen(process, arg[0] as c_int),
                _ => doorway.connect(process, arg[0] as c_int, arg[1], arg[2] & u64::from(u32::MAX), &still),
            };
        }
        let change = Change::of(&question.data).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOSYS))?;
        let file = match change.at {
            At::Descriptor(number) => open_own(process, number)?,
            At::Path { folder, path, flags } => {
                let mut buffer = [0; PATH];
                open_named(process, folder, read_path(process, path, &mut buffer)?, flags)?
            }
        };
        self.asks_still(question)?;
        if !self.is_writable(&file, matches!(change.at, At::Descriptor(_)))? {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        if change.to.sets_group() && !is_folder(&file)? {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        change.to.make(&file).map(|()| Made::Done)
    }

    /// Checks that the process still waits. If it has ended, its number may belong to another process.
    fn asks_still(&self, question: &libc::seccomp_notif) -> io::Result<()> {
        let asks = &raw const question.id;
        // SAFETY: the number lives as long as the call.
        match unsafe { libc::ioctl(self.listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, asks) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whether a file is where the processes may write. `is_own`: the process has the file open, so that a pipe or a socket is its own.
    fn is_writable(&self, file: &OwnedFd, is_own: bool) -> io::Result<bool> {
        let mut buffer = [0; PATH];
        let path = path_of(file, &mut buffer)?;
        Ok(match path.first() {
            // Memory of `memfd_create`, which only processes with its descriptor can open.
            Some(b'/') if path.starts_with(b"/memfd:") && path.ends_with(b" (deleted)") => is_own,
            Some(b'/') => is_beneath(path, self.writable),
            _ => is_own && !path.starts_with(b"("),
        })
    }
}

impl AsRawFd for Gate<'_> {
    fn as_raw_fd(&self) -> RawFd {
        self.listener.as_raw_fd()
    }
}

/// A buffer with the alignment of the kernel's structures.
#[repr(align(8))]
struct Message([u8; MESSAGE]);

/// The change that a process requests.
struct Change {
    at: At,
    to: To,
}

enum At {
    Descriptor(c_int),
    Path { folder: c_int, path: u64, flags: c_int },
}

enum To {
    Mode(libc::mode_t),
    Owner(libc::uid_t, libc::gid_t),
}

impl Change {
    fn of(data: &libc::seccomp_data) -> Option<Change> {
        let arg = data.args;
        let number = |at: usize| arg[at] as c_int;
        let (mode, owner) =
            (|at: usize| To::Mode(arg[at] as c_uint), |at: usize| To::Owner(arg[at] as _, arg[at + 1] as _));
        let here = |flags| At::Path { folder: libc::AT_FDCWD, path: arg[0], flags };
        let at = |flags| At::Path { folder: number(0), path: arg[1], flags };
        let (at, to) = match c_long::from(data.nr) {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => (here(0), mode(1)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => (here(0), owner(1)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => (here(libc::AT_SYMLINK_NOFOLLOW), owner(1)),
            libc::SYS_fchmod => (At::Descriptor(number(0)), mode(1)),
            libc::SYS_fchmodat => (at(0), mode(2)),
            FCHMODAT2 => (at(number(3)), mode(2)),
            libc::SYS_fchown => (At::Descriptor(number(0)), owner(1)),
            libc::SYS_fchownat => (at(number(4)), owner(2)),
            _ => return None,
        };
        Some(Change { at, to })
    }
}

impl To {
    /// Whether the mode has the set-group-ID bit. Another account that runs such a file gets the group of the cage's account, outside of
    /// the cage. The bit is harmless at a folder, where it sets the group of new files.
    fn sets_group(&self) -> bool {
        matches!(self, To::Mode(mode) if mode & libc::S_ISGID != 0)
    }

    fn make(&self, file: &OwnedFd) -> io::Result<()> {
        let mut name = [0; 64];
        // SAFETY: the names end with a zero and live as long as the calls.
        let outcome = unsafe {
            match *self {
                To::Mode(mode) => libc::chmod(link_to(file, &mut name).as_ptr(), mode & 0o3777),
                To::Owner(user, group) => {
                    libc::fchownat(file.as_raw_fd(), c"".as_ptr(), user, group, libc::AT_EMPTY_PATH)
                }
            }
        };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

fn is_folder(file: &OwnedFd) -> io::Result<bool> {
    let mode = rustix::fs::fstat(file)?.st_mode;
    Ok(rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::Directory)
}

/// The folders in which the processes of a program may write, without symbolic links.
pub fn writable<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<PathBuf> {
    paths.into_iter().filter_map(|path| std::fs::canonicalize(path).ok()).collect()
}
