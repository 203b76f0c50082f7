//! On Windows: the pipes are those of the C library that Python uses (the universal C runtime). No process can read what another one left
//! in its pipes, so what a task printed within the last milliseconds before it was killed is lost.

use crate::credit::Credit;
use bytes::Bytes;
use phalanx_core::level::Mark;
use phalanx_core::wire::machines::Kind;
use phalanx_core::wire::{FromInterpreter, PRINTED, encode};
use phalanx_net::link::Link;
use phalanx_net::socket::Socket;
use phalanx_net::sync::lock;
use std::ffi::c_int;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, IntoRawHandle, OwnedHandle};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::Storage::FileSystem::ReadFile;
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};
use windows_sys::Win32::System::Pipes::{CreatePipe, PeekNamedPipe};

/// Bytes read at once.
const AT_ONCE: usize = 64 << 10;
/// Bytes that a pipe takes until they are read. With less, a task that prints much would wait for the next look.
const ROOM: u32 = 1 << 20;
/// How often the pipes are looked at: the system has no wait for two of them. A user at a terminal does not notice 20 ms, and a look
/// takes microseconds.
const PAUSE: Duration = Duration::from_millis(20);
const KINDS: [Kind; 2] = [Kind::Output, Kind::Error];
/// `_O_BINARY` of the C library: it changes no line ends.
const BINARY: c_int = 0x8000;

/// The reading ends of the process's standard output and error.
#[derive(Debug)]
pub struct Printing {
    link: Arc<Link>,
    pipes: [OwnedHandle; 2],
    /// Credit for bytes that the manager has not shown yet. An interpreter that prints faster waits.
    credit: Credit,
    /// Buffer for reading. Its lock is held while bytes are read and sent, so that they stay in order.
    turn: Mutex<Vec<u8>>,
    /// The strongest mark of anything fired so far. It applies to all output, because a line does not tell where its data comes
    /// from.
    mark: Mutex<Mark>,
    c: C,
}

impl Printing {
    /// Replaces the process's standard output and error by pipes.
    pub fn begin(link: &Arc<Link>, _: &Socket, _: bool) -> io::Result<Arc<Printing>> {
        let c = C::of_python()?;
        let pipes = [c.replace(1)?, c.replace(2)?];
        let (turn, mark) = (Mutex::new(vec![0; AT_ONCE]), Mutex::new(Mark::None));
        let printing = Arc::new(Printing { link: link.clone(), pipes, credit: Credit::new(PRINTED), turn, mark, c });
        let reading = printing.clone();
        thread::Builder::new().name("phalanx-printing".into()).spawn(move || reading.run())?;
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
        self.c.flush();
        self.send();
    }

    /// The manager has shown `bytes` more.
    pub fn shown(&self, bytes: u32) {
        self.credit.give(bytes);
    }

    fn run(&self) {
        while !self.link.is_closed() {
            if !self.send() {
                thread::sleep(PAUSE);
            }
        }
    }

    /// Sends what is in the pipes, and returns whether there was something.
    fn send(&self) -> bool {
        let mut buffer = lock(&self.turn);
        let mut was_something = false;
        for (kind, pipe) in KINDS.into_iter().zip(&self.pipes) {
            let mut left = waiting(pipe);
            while left > 0 {
                let count = read(pipe, &mut buffer[..left.min(AT_ONCE)]);
                if count == 0 || !self.credit.take(count) {
                    break;
                }
                let body = Bytes::copy_from_slice(&buffer[..count]);
                let _ = self.link.send(
                    *lock(&self.mark),
                    encode(&FromInterpreter::Printed { kind }, count as u64),
                    vec![body],
                );
                (left, was_something) = (left.saturating_sub(count), true);
            }
        }
        was_something
    }
}

/// The bytes that are in a pipe.
fn waiting(pipe: &OwnedHandle) -> usize {
    let (mut count, nothing) = (0, std::ptr::null_mut());
    // SAFETY: the handle is open, and `count` lives as long as the call.
    let told =
        unsafe { PeekNamedPipe(pipe.as_raw_handle(), nothing, 0, nothing.cast(), &raw mut count, nothing.cast()) };
    if told == 0 { 0 } else { count as usize }
}

/// Reads bytes that are there.
fn read(pipe: &OwnedHandle, buffer: &mut [u8]) -> usize {
    let mut count = 0;
    let (place, length) = (buffer.as_mut_ptr(), buffer.len() as u32);
    // SAFETY: the handle is open, and the buffer is as long as said.
    let told = unsafe { ReadFile(pipe.as_raw_handle(), place, length, &raw mut count, std::ptr::null_mut()) };
    if told == 0 { 0 } else { count as usize }
}

/// A function of a library, of a type that is not told.
type Found = unsafe extern "system" fn() -> isize;
type Open = unsafe extern "C" fn(isize, c_int) -> c_int;
type Dup2 = unsafe extern "C" fn(c_int, c_int) -> c_int;
type Close = unsafe extern "C" fn(c_int) -> c_int;
type FlushAll = unsafe extern "C" fn() -> c_int;

/// Functions of the C library that Python uses, which need not be the one that this library is linked with.
#[derive(Debug, Clone, Copy)]
struct C {
    open: Open,
    dup2: Dup2,
    close: Close,
    flush_all: FlushAll,
}

impl C {
    fn of_python() -> io::Result<C> {
        // SAFETY: a name that ends with a zero.
        let library = unsafe { GetModuleHandleA(c"ucrtbase.dll".as_ptr().cast()) };
        let find = |name: &std::ffi::CStr| {
            // SAFETY: a name that ends with a zero, and a library that stays loaded.
            let found = if library.is_null() { None } else { unsafe { GetProcAddress(library, name.as_ptr().cast()) } };
            found.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "this Python uses another C library"))
        };
        // SAFETY: these functions have these types, as <io.h> and <stdio.h> declare them.
        unsafe {
            Ok(C {
                open: std::mem::transmute::<Found, Open>(find(c"_open_osfhandle")?),
                dup2: std::mem::transmute::<Found, Dup2>(find(c"_dup2")?),
                close: std::mem::transmute::<Found, Close>(find(c"_close")?),
                flush_all: std::mem::transmute::<Found, FlushAll>(find(c"_flushall")?),
            })
        }
    }

    /// Makes a descriptor of the C library, and the standard handle that belongs to it, the writing end of a new pipe. Returns the
    /// reading end.
    fn replace(&self, descriptor: c_int) -> io::Result<OwnedHandle> {
        let (mut reading, mut writing): (HANDLE, HANDLE) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: both handles are made here, and owned by nothing else.
        let (reading, writing) = unsafe {
            if CreatePipe(&raw mut reading, &raw mut writing, std::ptr::null(), ROOM) == 0 {
                return Err(io::Error::last_os_error());
            }
            (OwnedHandle::from_raw_handle(reading), OwnedHandle::from_raw_handle(writing))
        };
        // SAFETY: the C library takes the handle over; the descriptors are its own.
        unsafe {
            let opened = (self.open)(writing.into_raw_handle() as isize, BINARY);
            let is_replaced = opened >= 0 && (self.dup2)(opened, descriptor) == 0;
            if opened >= 0 {
                (self.close)(opened);
            }
            if !is_replaced {
                return Err(io::Error::other("the C library cannot replace a standard stream"));
            }
        }
        Ok(reading)
    }

    fn flush(&self) {
        // SAFETY: it locks each stream itself.
        unsafe { (self.flush_all)() };
    }
}

/// The output that an ended interpreter left in its pipes. Windows keeps none of it.
pub fn left(_: &Socket) -> Vec<(Kind, Bytes)> {
    Vec::new()
}

/// Nothing to do: no file gets the number of a standard stream here.
pub fn open_standard_streams() -> io::Result<()> {
    Ok(())
}
