//! On unix systems: a parent that is the user's own program also has the reading ends, and reads what an interpreter that was killed left
//! in them.

use crate::credit::Credit;
use bytes::Bytes;
use phalanx_core::level::Mark;
use phalanx_core::wire::machines::Kind;
use phalanx_core::wire::{FromInterpreter, PRINTED, encode};
use phalanx_net::link::Link;
use phalanx_net::socket::Socket;
use phalanx_net::sync::lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::{Errno, ioctl_fionread, read};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// Bytes read at once: the capacity of a pipe.
const AT_ONCE: usize = 64 << 10;
/// How long printed bytes stay in the pipes, in steps of 1 ms, if the parent can read the rest after a kill. So a task that
/// prints and is killed at once loses nothing. A user at a terminal does not notice 10 ms.
const LINGER_STEPS: u32 = 10;
/// With this many bytes in the pipes, they are read at once. So a task that prints much does not wait for room in the pipe (64
/// KiB).
const MUCH: u64 = 16 << 10;
/// How long a process that dies from a signal waits for its last output to be sent, in steps of 1 ms.
const CRASH_STEPS: u32 = 1000;
const KINDS: [Kind; 2] = [Kind::Output, Kind::Error];
const CRASHES: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGFPE, libc::SIGILL];

/// This process's instance, for the signal handler.
static PRINTING: OnceLock<Arc<Printing>> = OnceLock::new();

/// The reading ends of the process's standard output and error.
#[derive(Debug)]
pub struct Printing {
    link: Arc<Link>,
    pipes: [OwnedFd; 2],
    /// Credit for bytes that the manager has not shown yet. An interpreter that prints faster waits.
    credit: Credit,
    /// Buffer for reading. Its lock is held while bytes are read and sent, so that they stay in order.
    turn: Mutex<Vec<u8>>,
    /// Whether bytes were read and not sent yet.
    sending: AtomicBool,
    /// The strongest mark of anything fired so far. It applies to all output, because a line does not tell where its data comes
    /// from.
    mark: Mutex<Mark>,
    /// Whether the parent reads what is left in the pipes.
    lingers: bool,
}

impl Printing {
    /// Replaces the process's standard output and error by pipes. The parent also gets the reading ends. If it `reads_rest`,
    /// bytes left in the pipes after the process has ended are not lost.
    pub fn begin(link: &Arc<Link>, tether: &Socket, reads_rest: bool) -> io::Result<Arc<Printing>> {
        let (output, output_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (errors, error_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        for pipe in [&output, &errors] {
            rustix::fs::fcntl_setfl(pipe, OFlags::NONBLOCK)?;
            tether.send_file(pipe.as_fd())?;
        }
        rustix::stdio::dup2_stdout(output_end)?;
        rustix::stdio::dup2_stderr(error_end)?;
        c_lines();
        let printing = Arc::new(Printing {
            link: link.clone(),
            pipes: [output, errors],
            credit: Credit::new(PRINTED),
            turn: Mutex::new(vec![0; AT_ONCE]),
            sending: AtomicBool::new(false),
            mark: Mutex::new(Mark::None),
            lingers: reads_rest,
        });
        let reading = printing.clone();
        thread::Builder::new().name("phalanx-printing".into()).stack_size(64 << 10).spawn(move || reading.run())?;
        if PRINTING.set(printing.clone()).is_ok() {
            CRASHES.into_iter().for_each(on_crash);
        }
        Ok(printing)
    }

    /// Called when something with this mark is fired. From then on, output travels at no lower level than the mark's.
    pub fn raise(&self, mark: Mark) {
        let mut printed = lock(&self.mark);
        let level = |mark| self.link.levels().of(mark);
        if level(mark) > level(*printed) {
            *printed = mark;
        }
    }

    /// Sends what was printed before an answer. Blocks while the manager is far behind with showing output.
    pub fn drain(&self) {
        c_flush();
        self.send(false);
    }

    /// The manager has shown `bytes` more.
    pub fn shown(&self, bytes: u32) {
        self.credit.give(bytes);
    }

    fn run(&self) {
        loop {
            let mut fds = self.pipes.each_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN));
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {
                    self.linger();
                    self.send(true);
                }
                Err(_) => return,
            }
        }
    }

    /// Waits before reading. Bytes can be lost only between being read and being sent, so they stay in the pipes for a while.
    fn linger(&self) {
        let waiting = || self.pipes.iter().filter_map(|pipe| ioctl_fionread(pipe).ok()).sum::<u64>();
        for _ in 0..if self.lingers { LINGER_STEPS } else { 0 } {
            if waiting() >= MUCH {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends what is in the pipes, at most their capacity.
    fn send(&self, surely: bool) {
        let mut buffer = lock(&self.turn);
        let mut fds = self.pipes.each_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN));
        if !surely && poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready == 0) {
            return;
        }
        for (kind, pipe) in KINDS.into_iter().zip(&self.pipes) {
            self.sending.store(true, Ordering::SeqCst);
            match read(pipe, &mut buffer[..]) {
                Ok(count) if count > 0 && self.credit.take(count) => {
                    let body = Bytes::copy_from_slice(&buffer[..count]);
                    let start = encode(&FromInterpreter::Printed { kind }, count as u64);
                    let _ = self.link.send(*lock(&self.mark), start, vec![body]);
                }
                _ => {}
            }
            self.sending.store(false, Ordering::SeqCst);
        }
    }

    /// Whether all printed output has been sent. Safe to call in a signal handler.
    fn is_sent(&self) -> bool {
        let is_empty = |pipe: &OwnedFd| ioctl_fionread(pipe).is_ok_and(|bytes| bytes == 0);
        self.pipes.iter().all(is_empty) && !self.sending.load(Ordering::SeqCst)
    }
}

/// Installs a handler that lets the printing thread send the last output before a signal ends the process. If Python's
/// `faulthandler` is enabled afterwards, its traceback is included.
fn on_crash(signal: i32) {
    // SAFETY: all zeroes is a value of this plain structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = crashed as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESETHAND;
    // SAFETY: the handler only does what handlers may.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

/// The signal handler. The system has already restored the signal's default action, which ends the process.
extern "C" fn crashed(signal: i32) {
    let step = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    for _ in 0..CRASH_STEPS {
        if PRINTING.get().is_none_or(|printing| printing.is_sent()) {
            break;
        }
        // SAFETY: may be called in a handler; `step` lives as long as the call.
        unsafe { libc::nanosleep(&raw const step, std::ptr::null_mut()) };
    }
    // SAFETY: may be called in a handler.
    unsafe { libc::raise(signal) };
}

#[cfg(target_os = "linux")]
mod c {
    unsafe extern "C" {
        /// The C library's stream, as `<stdio.h>` declares it.
        pub static stdout: *mut libc::FILE;
    }
}

/// Makes C's standard output line buffered, as on a terminal, because the process may be killed at any time.
#[cfg(target_os = "linux")]
fn c_lines() {
    // SAFETY: no C code has printed yet, and no other thread prints meanwhile.
    unsafe { libc::setvbuf(c::stdout, std::ptr::null_mut(), libc::_IOLBF, 0) };
}

#[cfg(target_os = "linux")]
fn c_flush() {
    // SAFETY: the C library's own stream, which it locks itself.
    unsafe { libc::fflush(c::stdout) };
}

#[cfg(not(target_os = "linux"))]
fn c_lines() {}

#[cfg(not(target_os = "linux"))]
fn c_flush() {}

/// Reads what an ended interpreter left in its pipes, at most their capacity. It has sent them over its tether.
pub fn left(tether: &Socket) -> Vec<(Kind, Bytes)> {
    let pipes: Vec<OwnedFd> = std::iter::from_fn(|| tether.receive_file_now().ok()).take(2).collect();
    let mut buffer = vec![0; AT_ONCE];
    let mut rest = Vec::new();
    for (kind, pipe) in KINDS.into_iter().zip(&pipes) {
        if let Ok(count @ 1..) = read(pipe, &mut buffer[..]) {
            rest.push((kind, Bytes::copy_from_slice(&buffer[..count])));
        }
    }
    rest
}

/// Opens the standard streams that are not open, so that no other file gets their descriptor numbers.
pub fn open_standard_streams() -> io::Result<()> {
    loop {
        let nothing = OwnedFd::from(std::fs::File::options().read(true).write(true).open("/dev/null")?);
        if nothing.as_raw_fd() > 2 {
            return Ok(());
        }
        std::mem::forget(nothing);
    }
}
