//! An interpreter's standard output and error on their way to its manager.
//!
//! Both are pipes, so that what libraries in C and child processes write is in them too. They are read in the interpreter
//! itself and leave over its data link, because what a task prints is the user's data. A thread that needs no Python reads
//! them; before every answer the answering thread reads what is left, so that a result never overtakes what was
//! printed before it.

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

/// Bytes read at once: as many as a pipe holds.
const AT_ONCE: usize = 64 << 10;
/// Steps of 1 ms for which printed bytes stay in the pipes of an interpreter whose parent reads the rest after a kill. So a task
/// that prints and is killed at once loses nothing. A person at a terminal does not notice 10 ms.
const LINGER_STEPS: u32 = 10;
/// Bytes from which on they are read at once, so that a task which prints much does not wait for room in the pipe (64 KiB).
const MUCH: u64 = 16 << 10;
/// For the last words of a process that a signal ends, in steps of 1 ms.
const CRASH_STEPS: u32 = 1000;
const KINDS: [Kind; 2] = [Kind::Output, Kind::Error];
const CRASHES: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGFPE, libc::SIGILL];

/// That of this process, for the handler of signals.
static PRINTING: OnceLock<Arc<Printing>> = OnceLock::new();

/// The reading ends of the process's standard output and error.
#[derive(Debug)]
pub struct Printing {
    link: Arc<Link>,
    pipes: [OwnedFd; 2],
    /// Bytes that the manager has not yet shown: an interpreter that prints faster waits.
    credit: Credit,
    /// Held while bytes are read and sent, so that they stay in order.
    turn: Mutex<Vec<u8>>,
    /// Bytes were read and not yet sent.
    sending: AtomicBool,
    /// The strongest mark of anything that was fired so far: no line tells where its data comes from.
    mark: Mutex<Mark>,
    /// The parent reads what is left.
    lingers: bool,
}

impl Printing {
    /// Puts pipes in the place of the process's standard output and error. The parent gets the reading ends too: when the
    /// process has ended, the bytes left in them are not lost if the parent `reads_rest`.
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

    /// Something with this mark is fired: what is printed from now on travels at no lower level.
    pub fn raise(&self, mark: Mark) {
        let mut printed = lock(&self.mark);
        let level = |mark| self.link.levels().of(mark);
        if level(mark) > level(*printed) {
            *printed = mark;
        }
    }

    /// Sends what was printed before an answer; waits while the manager is far behind with showing it.
    pub fn drain(&self) {
        c_flush();
        self.send(false);
    }

    /// The manager has shown so many bytes.
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

    /// Bytes are lost only between being read and being sent, so they are not read at once.
    fn linger(&self) {
        let waiting = || self.pipes.iter().filter_map(|pipe| ioctl_fionread(pipe).ok()).sum::<u64>();
        for _ in 0..if self.lingers { LINGER_STEPS } else { 0 } {
            if waiting() >= MUCH {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends what is in the pipes, at most as much as they hold.
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

    /// Whether all that was printed is on its way; may be asked in a handler of signals.
    fn is_sent(&self) -> bool {
        let is_empty = |pipe: &OwnedFd| ioctl_fionread(pipe).is_ok_and(|bytes| bytes == 0);
        self.pipes.iter().all(is_empty) && !self.sending.load(Ordering::SeqCst)
    }
}

/// Lets the printing thread send the last words of a process that a signal is about to end, and then lets it end. Where
/// Python's `faulthandler` is enabled afterwards, its traceback is among them.
fn on_crash(signal: i32) {
    // SAFETY: all zeroes is a value of this plain structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = crashed as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESETHAND;
    // SAFETY: the handler only does what handlers may.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

/// The handler; the system has put the signal's usual action, the end of the process, in its place.
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

/// What code in C prints leaves its buffer line by line, as on a terminal: the process may be ended at any time.
#[cfg(target_os = "linux")]
fn c_lines() {
    // SAFETY: nothing was printed in C yet, and no other thread does it meanwhile.
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

/// What is left in the reading ends of an interpreter that has ended, at most as much as they hold.
pub fn left(pipes: &[OwnedFd]) -> Vec<(Kind, Bytes)> {
    let mut buffer = vec![0; AT_ONCE];
    let mut rest = Vec::new();
    for (kind, pipe) in KINDS.into_iter().zip(pipes) {
        if let Ok(count @ 1..) = read(pipe, &mut buffer[..]) {
            rest.push((kind, Bytes::copy_from_slice(&buffer[..count])));
        }
    }
    rest
}

/// Opens what is not open of the three standard streams, so that nothing else gets their numbers.
pub fn open_standard_streams() -> io::Result<()> {
    loop {
        let nothing = OwnedFd::from(std::fs::File::options().read(true).write(true).open("/dev/null")?);
        if nothing.as_raw_fd() > 2 {
            return Ok(());
        }
        std::mem::forget(nothing);
    }
}
