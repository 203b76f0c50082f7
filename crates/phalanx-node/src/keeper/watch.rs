//! The main loop of the keeper's process. From the start of the program on, it makes system calls only.

use super::{NEWS, ORDER};
use super::{niceness, nursery};
use crate::cage::{Bars, Gate, MOST_CONNECTING as MOST};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::Command;

/// Milliseconds that the keeper waits for killed processes before it looks for further ones.
const AGAIN: libc::c_int = 10;
/// The file that lists the processes whose parent the keeper is.
const CHILDREN: &std::ffi::CStr = crate::cage::CHILDREN;
const NAME: &std::ffi::CStr = c"phalanx-keeper";

/// The state of the keeper's process.
struct Watch<'a> {
    socket: RawFd,
    /// The gate, at which the program's processes request system calls. `None`: the program has no gate.
    gate: Option<Gate<'a>>,
    /// Readable when a child has ended.
    ends: RawFd,
    /// The running processes of the program.
    programs: Vec<i32>,
    /// Whether the keeper can signal all processes of the program at once, and no others.
    is_apart: bool,
    /// The report on the last process of the program. The keeper sends it when no descendant is left.
    last: Option<[u8; NEWS]>,
}

/// Starts the commands in their cage, and keeps them until the program has ended or the socket is closed.
///
/// # Safety
///
/// Only to be called right after a fork, in the child. `programs` has room for all commands.
pub unsafe fn keep(
    socket: RawFd,
    programs: Vec<i32>,
    bars: &Bars,
    groups: &[BorrowedFd<'_>],
    commands: &mut [Command],
    report: RawFd,
) -> ! {
    // SAFETY: plain system calls with constants, and one name that ends with a zero.
    let keeper = unsafe {
        libc::setsid(); // no signal of the terminal reaches the keeper, and no task can type into the terminal
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::getpid()
    };
    niceness::apply();
    // The mounts come first, because `stand_around` applies Landlock, which forbids mounts.
    let looked = bars.enter_private().and_then(|()| bars.look());
    let is_apart = bars.stand_around();
    let begun = looked.and_then(|()| begin(bars, groups, commands, report, keeper));
    let gate = match begun {
        Ok(gate) => gate,
        Err(error) => {
            nursery::refuse(report, error);
            None
        }
    };
    // SAFETY: the keeper uses no other descriptor, and no memory of other threads.
    unsafe {
        close_all_but(&[socket, gate.as_ref().map_or(socket, Gate::as_raw_fd)]);
        for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(number, libc::SIG_IGN);
        }
    }
    let mut watch = Watch { socket, gate, ends: ends_of_children(), programs, is_apart, last: None };
    if watch.is_told() {
        watch.wait();
    }
    watch.sweep();
    if let Some(last) = watch.last {
        watch.report(&last);
    }
    nursery::exit(0)
}

/// Starts the process that starts the commands, and receives the gate from it.
fn begin<'a>(
    bars: &'a Bars,
    groups: &[BorrowedFd<'_>],
    commands: &mut [Command],
    report: RawFd,
    keeper: i32,
) -> io::Result<Option<Gate<'a>>> {
    let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (ours, theirs): (OwnedFd, OwnedFd) = pair()?;
    // SAFETY: the child enters the cage and starts the commands.
    match unsafe { libc::fork() } {
        0 => {
            drop(ours);
            // SAFETY: this is the child.
            unsafe { nursery::nurse(bars, groups, commands, report, theirs, keeper) }
        }
        -1 => Err(io::Error::last_os_error()),
        _ => {
            drop(theirs); // so that waiting for the gate ends with the child
            Ok(bars.keep_gate(ours.as_fd()))
        }
    }
}

impl Watch<'_> {
    /// Receives the numbers of the program's processes. False: the socket was closed.
    fn is_told(&mut self) -> bool {
        loop {
            match self.order() {
                Some((0, 0)) => return true,
                Some((process, 0)) if self.programs.len() < self.programs.capacity() => self.programs.push(process),
                Some(_) => {}
                None => return false,
            }
        }
    }

    /// Carries out orders and reaps ended processes, until no process of the program is left or the socket is closed.
    fn wait(&mut self) {
        loop {
            self.reap();
            if self.programs.is_empty() {
                return;
            }
            if self.poll(self.socket, -1) {
                match self.order() {
                    Some((process, signal)) => self.signal(process, signal),
                    None => return,
                }
            }
        }
    }

    /// Waits for the end of a child, and for an order unless `socket` is negative. Meanwhile answers requests at the gate. Returns whether
    /// an order has come, or the socket was closed.
    fn poll(&mut self, socket: RawFd, patience: libc::c_int) -> bool {
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let gate = self.gate.as_ref().map_or(-1, Gate::as_raw_fd); // the kernel passes over negative numbers
        let mut fds = [poll(-1); 3 + MOST];
        fds[..3].copy_from_slice(&[poll(socket), poll(self.ends), poll(gate)]);
        for (at, pending) in fds[3..].iter_mut().zip(self.gate.iter().flat_map(Gate::pending)) {
            *at = libc::pollfd { fd: pending, events: libc::POLLOUT, revents: 0 };
        }
        let count = if self.gate.is_some() { fds.len() } else { 3 };
        // SAFETY: the array and the buffer live as long as the calls.
        unsafe {
            if libc::poll(fds.as_mut_ptr(), count as libc::nfds_t, patience) < 0 {
                return false; // interrupted, so that the events are unknown
            }
            // Orders take precedence, so that processes with a flood of requests cannot delay their end.
            if fds[0].revents != 0 {
                return true;
            }
            if fds[1].revents != 0 {
                let mut unused = [0u8; size_of::<libc::signalfd_siginfo>()];
                libc::read(self.ends, unused.as_mut_ptr().cast(), unused.len());
            }
        }
        if let Some(gate) = &mut self.gate {
            let made = fds[3..].iter().enumerate().filter(|(_, it)| it.revents != 0);
            made.for_each(|(number, _)| gate.complete(number));
        }
        match fds[2].revents {
            0 => {}
            revents if revents & libc::POLLIN != 0 => self.gate.iter_mut().for_each(Gate::answer),
            _ => self.gate = None, // no process is left that could ask
        }
        false
    }

    fn order(&self) -> Option<(i32, i32)> {
        let mut bytes = [0u8; ORDER];
        loop {
            // SAFETY: the buffer lives as long as the call.
            match unsafe { libc::recv(self.socket, bytes.as_mut_ptr().cast(), ORDER, 0) } {
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                count if count == ORDER as isize => break,
                _ => return None,
            }
        }
        let word = |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Some((word(0), word(4)))
    }

    fn signal(&self, process: i32, signal: i32) {
        if self.programs.contains(&process) {
            // A process can move itself into the keeper's process group, so that its own group does not exist. SAFETY: the process was not
            // reaped, so that its number is not reused.
            unsafe {
                if libc::kill(-process, signal) != 0 || signal == libc::SIGKILL {
                    libc::kill(process, signal);
                }
            }
        }
    }

    /// Reaps all children that have ended. Returns whether there is any other child.
    fn reap(&mut self) -> bool {
        loop {
            // SAFETY: all zeroes are values of these plain structures, which the system fills in.
            let (mut info, mut usage): (libc::siginfo_t, libc::rusage) = unsafe { std::mem::zeroed() };
            let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            // SAFETY: `info` lives as long as the call, which fills it in.
            let (outcome, process) = unsafe { (libc::waitid(libc::P_ALL, 0, &raw mut info, how), info.si_pid()) };
            if outcome != 0 || process == 0 {
                return outcome == 0;
            }
            let index = self.programs.iter().position(|program| *program == process);
            if index.is_some() {
                self.signal(process, libc::SIGKILL); // the rest of its process group, before the number can be reused
            }
            let mut status = 0;
            // SAFETY: both live as long as the call; the process has ended and was not waited for.
            unsafe { libc::wait4(process, &raw mut status, 0, &raw mut usage) };
            if let Some(index) = index {
                self.programs.swap_remove(index);
                self.note(process, status, &usage);
            }
        }
    }

    fn note(&mut self, process: i32, status: i32, usage: &libc::rusage) {
        let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        let mut news = [0; NEWS];
        news[..4].copy_from_slice(&process.to_ne_bytes());
        news[4..8].copy_from_slice(&status.to_ne_bytes());
        news[8..16].copy_from_slice(&(usage.ru_maxrss as u64).to_ne_bytes());
        news[16..].copy_from_slice(&(micros(usage.ru_utime) + micros(usage.ru_stime)).to_ne_bytes());
        match self.programs.is_empty() {
            true => self.last = Some(news),
            false => self.report(&news),
        }
    }

    fn report(&self, news: &[u8; NEWS]) {
        // SAFETY: the bytes live as long as the call.
        let send = || unsafe { libc::send(self.socket, news.as_ptr().cast(), NEWS, libc::MSG_NOSIGNAL) };
        while send() < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {}
    }

    /// Kills all descendants until none is left. Orphans of a killed process become children of the keeper.
    fn sweep(&mut self) {
        loop {
            let finds_all = self.kill_all();
            if !self.reap() || (self.programs.is_empty() && !finds_all) {
                return;
            }
            self.poll(-1, AGAIN);
        }
    }

    /// Kills the program's processes. Returns whether this reaches descendants that have left their process group.
    fn kill_all(&self) -> bool {
        if self.is_apart {
            // SAFETY: the keeper may signal only processes of its Landlock domain, which all are its descendants. None of them can fork
            // meanwhile, because the kernel holds the lock of the process list.
            unsafe { libc::kill(-1, libc::SIGKILL) };
            return true;
        }
        self.programs.iter().for_each(|program| self.signal(*program, libc::SIGKILL));
        kill_children()
    }
}

/// A descriptor that is readable when a child has ended.
fn ends_of_children() -> RawFd {
    // SAFETY: the set is filled in before it is used, and lives as long as the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK)
    }
}

/// Kills the children. Grandchildren become children for the next round. Returns whether the kernel lists children.
fn kill_children() -> bool {
    let mut buffer = [0u8; 4096];
    let mut number = 0i32;
    // SAFETY: the path ends with a zero; the buffer lives as long as the calls. A child was not reaped, so that its number is not reused.
    unsafe {
        let file = libc::open(CHILDREN.as_ptr(), libc::O_RDONLY);
        if file < 0 {
            return false;
        }
        loop {
            let count = libc::read(file, buffer.as_mut_ptr().cast(), buffer.len());
            if count <= 0 {
                break;
            }
            for byte in &buffer[..count as usize] {
                match byte {
                    b'0'..=b'9' => number = number.wrapping_mul(10) + i32::from(byte - b'0'),
                    _ if number > 0 => {
                        libc::kill(number, libc::SIGKILL);
                        number = 0;
                    }
                    _ => {}
                }
            }
        }
        libc::close(file);
    }
    true
}

/// Closes all descriptors but a few, because other processes may wait until these are closed.
///
/// # Safety
///
/// Only in a process that uses no other descriptor any more.
pub unsafe fn close_all_but(kept: &[RawFd]) {
    let mut from = 0;
    loop {
        let next = kept.iter().map(|it| *it as libc::c_uint).filter(|it| *it >= from).min();
        if next != Some(from) {
            let last = next.map_or(libc::c_uint::MAX, |next| next - 1);
            // SAFETY: see above.
            unsafe { libc::syscall(libc::SYS_close_range, from, last, 0) };
        }
        let Some(next) = next else { return };
        from = next + 1;
    }
}
