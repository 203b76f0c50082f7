//! The gate: a process in a cage changes the mode, the owner and the group of a file only where it may write.
//!
//! Landlock has no rule for these changes: without the gate, a task opens the files of the executor's account to other accounts of the
//! machine. A filter sees numbers, not the file that they are about. So the kernel asks the keeper (`SECCOMP_RET_USER_NOTIF`), which
//! opens the file, looks where it is, and makes the change itself, at the file that it has opened. The process cannot exchange the file
//! meanwhile. What the keeper does here are system calls only: it is a fork of a process with threads, and allocates nothing.

use super::connecting::{self, Doorway, Made};
use super::opened_files::{PATH, is_beneath, link_to, open_for, open_named, open_own, path_of, read_path};
use super::seccomp;
use libc::{c_int, c_long, c_uint, pid_t, sock_filter};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What is not kept apart without a gate.
pub const OPEN: &str = "this kernel, or what this executor runs in, lets users change the modes of the account's files";

/// `fchmodat2`. Not each architecture has a name for it.
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
/// Bytes of a question or an answer. Newer kernels may have longer ones, and write zeroes.
const MESSAGE: usize = 512;

/// Where the system says who may read the memory of processes. From 2 on a parent may not.
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Whether a keeper can answer, and the kernel asks it. A process finds that out by trying: the kernel asks one keeper only, and what
/// this executor runs in may have one.
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

/// The program with which the kernel asks about changes of files, and about connections. `None`: there is no list of calls for this
/// architecture.
pub fn program(changes: bool, connections: bool) -> Option<Vec<sock_filter>> {
    let calls = [(changes, CALLS), (connections, CONNECTIONS)].into_iter().filter(|(asks, _)| *asks);
    let calls: Vec<c_long> = calls.flat_map(|(_, calls)| calls).copied().collect();
    seccomp::program_for(&calls, libc::SECCOMP_RET_USER_NOTIF)
}

/// Puts this process behind a gate, and sends what the keeper needs through a socket. System calls only.
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

/// Puts this process under the program. Returns the descriptor from which the questions are read.
fn install(program: &[sock_filter]) -> io::Result<OwnedFd> {
    // A process that waits for an answer is interrupted by no signal but a fatal one. Linux before 5.19 has no such flag.
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let listener = seccomp::install(program, flags | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
        .or_else(|_| seccomp::install(program, flags))?;
    // SAFETY: with the flag, the kernel has made this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as RawFd) })
}

/// The keeper's side.
pub struct Gate<'a> {
    listener: OwnedFd,
    /// What the processes may write, without symbolic links, each with everything beneath it.
    writable: &'a [PathBuf],
    /// Where they may connect to. `None`: the kernel does not ask about connections.
    doorway: Option<Doorway<'a>>,
    /// Connections that are being made, with the question that each answers.
    pending: [Option<(u64, OwnedFd)>; connecting::MOST],
}

impl<'a> Gate<'a> {
    /// Receives what [`enter`] sends. `None`: the process is behind no gate, because it has not entered its cage.
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

    /// Answers a question, if there is one.
    pub fn answer(&mut self) {
        let mut bytes = Message([0; MESSAGE]);
        // SAFETY: the buffer has room for what any kernel writes, is aligned, and lives as long as the call.
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

    /// Where connections that are being made tell their end.
    pub fn pending(&self) -> impl Iterator<Item = RawFd> {
        self.pending.iter().map(|it| it.as_ref().map_or(-1, |(_, socket)| socket.as_raw_fd()))
    }

    /// A connection has come out.
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

    /// An error: the process has ended meanwhile, so that its number may be another process's.
    fn asks_still(&self, question: &libc::seccomp_notif) -> io::Result<()> {
        let asks = &raw const question.id;
        // SAFETY: the number lives as long as the call.
        match unsafe { libc::ioctl(self.listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, asks) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whether a file is where the processes may write. `is_own`: a process has it open, so that a pipe or a socket is its own.
    fn is_writable(&self, file: &OwnedFd, is_own: bool) -> io::Result<bool> {
        let mut buffer = [0; PATH];
        let path = path_of(file, &mut buffer)?;
        Ok(match path.first() {
            // Memory with a name only. It can be opened by those alone who have it.
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

/// Aligned as the structures of the kernel.
#[repr(align(8))]
struct Message([u8; MESSAGE]);

/// What a process asks for.
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
    /// Whether another account that runs the file gets the group of the cage's account, outside of the cage. At a folder the bit says
    /// which group new files get.
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
