//! Connections through the gate: the keeper connects a process's socket to an address that the keeper has copied.
//!
//! A seccomp filter cannot read the address of `connect`. A process could also change an address after the check (time of check to time of
//! use). So the keeper copies the address, fetches the socket (`pidfd_getfd`), and connects it itself. The filter allows sockets of unix
//! and TCP only, without datagrams, because these cannot send before they are connected. This module makes system calls only, like the rest
//! of the gate.

use super::network::Ways;
use super::opened_files::{is_in, link_to, open_for, open_named, read_bytes, written};
use libc::{c_int, pid_t};
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

/// Most pending connections of one program.
pub const MOST: usize = 64;
/// The longest address that the kernel takes (`struct sockaddr_storage`).
const LONGEST: usize = 128;
/// Retries to connect to a unix socket whose backlog is full, and milliseconds between two attempts.
const ATTEMPTS: u32 = 50;
const PAUSE: c_int = 10;
/// Most ancestors of a process that are searched for the keeper.
const DEEPEST: usize = 4096;

/// The outcome of a call.
pub enum Made {
    /// The keeper has made the call.
    Done,
    /// The process makes the call itself.
    Own,
    /// The connection is pending. This socket becomes writable at its end.
    Begun(OwnedFd),
}

/// Checks that the process still waits for the answer.
type Still<'a> = &'a dyn Fn() -> io::Result<()>;

/// The rules by which the keeper connects processes.
pub struct Doorway<'a> {
    pub ways: &'a Ways,
    /// Paths that the processes may write. `None`: the cage does not restrict files.
    pub writable: Option<&'a [PathBuf]>,
    /// The account of the processes. `None`: the keeper's account.
    pub account: Option<u32>,
}

impl Doorway<'_> {
    /// Checks that a process may listen on a socket. The process calls `listen` itself, because the peer of a unix socket sees which
    /// process did. So a process that exchanges the socket meanwhile can listen to the network.
    pub fn listen(&self, process: pid_t, socket: c_int) -> io::Result<Made> {
        let socket = fetch(process, socket)?;
        match option(&socket, libc::SO_DOMAIN)? == libc::AF_UNIX || self.ways.listens {
            true => Ok(Made::Own),
            false => refused(),
        }
    }

    /// Connects a socket of the process. `still` checks that the process waits, because its number may belong to another process meanwhile.
    pub fn connect(&self, process: pid_t, socket: c_int, at: u64, length: u64, still: Still<'_>) -> io::Result<Made> {
        let mut address = Address([0; LONGEST]);
        let length = usize::try_from(length).ok().filter(|it| (2..=LONGEST).contains(it)).ok_or(EINVAL)?;
        read_bytes(process, at, &mut address.0[..length])?;
        let socket = fetch(process, socket)?;
        still()?;
        let family = c_int::from(u16::from_ne_bytes([address.0[0], address.0[1]]));
        match option(&socket, libc::SO_DOMAIN)? {
            libc::AF_UNIX if family == libc::AF_UNIX => {
                self.connect_here(process, &socket, &address.0[..length], still)
            }
            libc::AF_INET | libc::AF_INET6 if family == libc::AF_UNSPEC => begin(socket, &address, length), // ends a connection
            libc::AF_INET | libc::AF_INET6 => {
                let to = of_network(&address.0[..length]).ok_or(EINVAL)?;
                if self.ways.lead_to(&to) { begin(socket, &address, length) } else { refused() }
            }
            _ => refused(),
        }
    }

    /// Connects a unix socket.
    fn connect_here(&self, process: pid_t, socket: &OwnedFd, address: &[u8], still: Still<'_>) -> io::Result<Made> {
        let is_abstract = address.get(2) == Some(&0) && address.len() > 3;
        match (self.account, is_abstract) {
            (None, true) => connect_patiently(socket, address)?,
            (Some(account), true) => as_account(account, process, still, || connect_patiently(socket, address))?,
            (None, false) => {
                self.connect_file(socket, address, still, |path| open_named(process, libc::AT_FDCWD, path, 0))?
            }
            (Some(account), false) => as_account(account, process, still, || {
                self.connect_file(socket, address, still, |path| open_for(libc::AT_FDCWD, path, 0))
            })?,
        }
        if is_abstract { check_peer(socket) } else { Ok(()) }.map(|()| Made::Done)
    }

    /// Connects to a path that the processes may write.
    fn connect_file(
        &self,
        socket: &OwnedFd,
        address: &[u8],
        still: Still<'_>,
        open: impl FnOnce(&CStr) -> io::Result<OwnedFd>,
    ) -> io::Result<()> {
        let mut path = [0; LONGEST + 1];
        path[..address.len() - 2].copy_from_slice(&address[2..]);
        let file = open(CStr::from_bytes_until_nul(&path).map_err(|_| EINVAL)?)?;
        still()?;
        if self.writable.is_some_and(|writable| !is_in(&file, writable)) {
            return refused();
        }
        connect_patiently(socket, &to_path(link_to(&file, &mut [0; 64])))
    }
}

/// Checks that a process of the same program listens at the other end of a socket with an abstract name. The keeper learns the peer only
/// from the connected socket. If the peer is another program, the keeper ends the connection at once. Another thread may send data before
/// that.
fn check_peer(socket: &OwnedFd) -> io::Result<()> {
    if descends(peer_of(socket)?) {
        return Ok(());
    }
    // SAFETY: the descriptor is open.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
    refused()
}

/// The outcome of a pending connection. The keeper calls this once the socket is writable.
pub fn outcome(socket: &OwnedFd) -> io::Result<()> {
    match option(socket, libc::SO_ERROR)? {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Begins a connection without waiting for it, even if the socket is blocking.
fn begin(socket: OwnedFd, address: &Address, length: usize) -> io::Result<Made> {
    let number = socket.as_raw_fd();
    // SAFETY: the descriptor is open; the address lives as long as the call.
    let (flags, outcome, error) = unsafe {
        let flags = libc::fcntl(number, libc::F_GETFL);
        libc::fcntl(number, libc::F_SETFL, flags | libc::O_NONBLOCK);
        let (outcome, error) = interrupted(|| {
            let outcome = libc::connect(number, address.0.as_ptr().cast(), length as libc::socklen_t);
            (outcome, io::Error::last_os_error())
        });
        libc::fcntl(number, libc::F_SETFL, flags);
        (flags, outcome, error)
    };
    // An interrupted call continues in the kernel, like a call on a non-blocking socket.
    let goes_on = matches!(error.raw_os_error(), Some(libc::EINPROGRESS | libc::EINTR));
    match outcome {
        0 => Ok(Made::Done),
        _ if goes_on && flags & libc::O_NONBLOCK == 0 => Ok(Made::Begun(socket)),
        _ if goes_on => Err(io::Error::from_raw_os_error(libc::EINPROGRESS)),
        _ => Err(error),
    }
}

/// Connects as the account of the processes, in a child of the keeper that stands in the folder of the process. So the peer sees this
/// account, and the kernel checks its rights.
fn as_account(
    account: u32,
    process: pid_t,
    still: Still<'_>,
    connect: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let mut name = [0; 64];
    let folder = written(&mut name, format_args!("/proc/{process}/cwd\0"));
    // SAFETY: the child makes system calls, and ends. Names and addresses live as long as the calls.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let is_there = libc::chdir(folder.as_ptr()) == 0 && still().is_ok();
            let is_account = libc::setgroups(0, std::ptr::null()) == 0
                && libc::setresgid(account, account, account) == 0
                && libc::setresuid(account, account, account) == 0;
            let error = match is_there && is_account {
                true => connect().err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO)),
                false => libc::EACCES,
            };
            libc::_exit(error);
        }
        check(child)?;
        let mut status = 0;
        while libc::waitpid(child, &raw mut status, 0) < 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return refused();
            }
        }
        match libc::WEXITSTATUS(status) {
            0 if libc::WIFEXITED(status) => Ok(()),
            0 => refused(),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Connects a unix socket. The call returns at once, unless the backlog of the listener is full.
fn connect_patiently(socket: &OwnedFd, address: &[u8]) -> io::Result<()> {
    let number = socket.as_raw_fd();
    // SAFETY: the descriptor is open; the address lives as long as the calls.
    unsafe {
        let flags = libc::fcntl(number, libc::F_GETFL);
        libc::fcntl(number, libc::F_SETFL, flags | libc::O_NONBLOCK);
        let mut attempts = if flags & libc::O_NONBLOCK == 0 { ATTEMPTS } else { 1 };
        let outcome = loop {
            attempts -= 1;
            let length = address.len() as libc::socklen_t;
            let outcome = interrupted(|| check(libc::connect(number, address.as_ptr().cast(), length)));
            match outcome.as_ref().err().and_then(io::Error::raw_os_error) {
                Some(libc::EAGAIN | libc::EINTR) if attempts > 0 => {
                    libc::poll(std::ptr::null_mut(), 0, PAUSE);
                }
                Some(libc::EINTR) => break Err(io::Error::from_raw_os_error(libc::EAGAIN)),
                _ => break outcome,
            }
        };
        libc::fcntl(number, libc::F_SETFL, flags);
        outcome
    }
}

/// Makes a system call with a timeout of 20 ms. The flag `O_NONBLOCK` is not enough, because the process shares it and may clear it just
/// before the call. A listener that accepts no connection would then block the keeper for ever, and with it all limits. The timer repeats,
/// because a signal just before the call would have no effect.
fn interrupted<T>(call: impl FnOnce() -> T) -> T {
    extern "C" fn nothing(_: c_int) {}
    const NEVER: libc::timeval = libc::timeval { tv_sec: 0, tv_usec: 0 };
    const SOON: libc::timeval = libc::timeval { tv_sec: 0, tv_usec: 20_000 };
    let set = |next: libc::timeval| {
        let timer = libc::itimerval { it_interval: next, it_value: next };
        // SAFETY: the timer is that of this process, which has one thread.
        unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &raw const timer, std::ptr::null::<c_int>()) };
    };
    // SAFETY: all zeroes is a value of the structure; the handler does nothing. Without SA_RESTART, a call ends when the handler has run.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(c_int) as usize;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
    }
    set(SOON);
    let done = call();
    set(NEVER);
    done
}

/// A copy of a process's socket.
fn fetch(process: pid_t, socket: c_int) -> io::Result<OwnedFd> {
    // Descriptors belong to the process, but the notification names one of its threads.
    let owner = status_of(process, b"Tgid:").unwrap_or(process);
    let made = |number: libc::c_long| match number {
        // SAFETY: the calls make descriptors, which are owned from here on.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(number as RawFd) }),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: plain system calls.
    let of = made(unsafe { libc::syscall(libc::SYS_pidfd_open, owner, 0) })?;
    // SAFETY: the same.
    let fetched = made(unsafe { libc::syscall(libc::SYS_pidfd_getfd, of.as_raw_fd(), socket, 0) })?;
    option(&fetched, libc::SO_DOMAIN).map(|_| fetched)
}

/// The number in a line of a process's `/proc/PID/status`.
fn status_of(process: pid_t, name: &[u8]) -> Option<pid_t> {
    let mut buffer = [0u8; 1024];
    let mut path = [0; 64];
    let path = written(&mut path, format_args!("/proc/{process}/status\0"));
    // SAFETY: the path ends with a zero; the buffer lives as long as the calls.
    let count = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let count = libc::read(file, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(file);
        usize::try_from(count).ok()?
    };
    let line = buffer[..count].split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// Whether a process descends from this one.
fn descends(process: pid_t) -> bool {
    let own = std::process::id() as pid_t;
    let mut process = process;
    for _ in 0..DEEPEST {
        match status_of(process, b"PPid:") {
            Some(parent) if parent == own => return true,
            Some(parent) if parent > 1 => process = parent,
            _ => return false,
        }
    }
    false
}

/// The process that listens at the other end.
fn peer_of(socket: &OwnedFd) -> io::Result<pid_t> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let number = socket.as_raw_fd();
    // SAFETY: the structure and its length live as long as the call.
    check(unsafe {
        libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut length)
    })?;
    Ok(peer.pid)
}

fn option(socket: &OwnedFd, name: c_int) -> io::Result<c_int> {
    let (mut value, mut length) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
    let number = socket.as_raw_fd();
    // SAFETY: the value and its length live as long as the call.
    check(unsafe { libc::getsockopt(number, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length) })?;
    Ok(value)
}

/// An address as the kernel reads it.
#[repr(align(8))]
struct Address([u8; LONGEST]);

/// The address of a unix socket at a path.
fn to_path(path: &CStr) -> [u8; 66] {
    let mut address = [0; 66];
    address[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    let bytes = path.to_bytes();
    address[2..2 + bytes.len()].copy_from_slice(bytes);
    address
}

/// Reads an IP address and port. `None`: the address has another family, or is too short.
fn of_network(bytes: &[u8]) -> Option<SocketAddr> {
    let part = |from: usize, to: usize| bytes.get(from..to);
    let family = c_int::from(u16::from_ne_bytes(part(0, 2)?.try_into().ok()?));
    let port = u16::from_be_bytes(part(2, 4)?.try_into().ok()?);
    let ip = match family {
        libc::AF_INET if bytes.len() >= size_of::<libc::sockaddr_in>() => {
            IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(part(4, 8)?).ok()?))
        }
        libc::AF_INET6 if bytes.len() >= 24 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(part(8, 24)?).ok()?)),
        _ => return None,
    };
    // The kernel takes the unspecified address as this machine.
    let ip = match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    Some(SocketAddr::new(ip, port))
}

const EINVAL: io::ErrorKind = io::ErrorKind::InvalidInput;

fn check(outcome: c_int) -> io::Result<()> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Connections that the owner does not allow fail with the error of a local firewall.
fn refused<T>() -> io::Result<T> {
    Err(io::Error::from_raw_os_error(libc::EACCES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        let mut four = [0; 16];
        four[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        four[2..8].copy_from_slice(&[1, 187, 192, 0, 2, 7]);
        assert_eq!(of_network(&four), Some("192.0.2.7:443".parse().unwrap()));
        assert_eq!(
            of_network(&[four.as_slice(), &[9; 100]].concat()),
            of_network(&four),
            "the kernel takes longer ones"
        );
        assert_eq!(of_network(&four[..15]), None);
        four[4..8].fill(0);
        assert_eq!(of_network(&four), Some("127.0.0.1:443".parse().unwrap()));
        let mut six = [0; 28];
        six[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        six[23] = 1;
        assert_eq!(of_network(&six), Some("[::1]:0".parse().unwrap()));
        assert_eq!(of_network(&six[..23]), None);
        assert_eq!((of_network(&[]), of_network(&[1, 0, 0, 0, 0, 0, 0, 0])), (None, None));
    }
}
