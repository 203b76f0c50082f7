//! An interpreter's process on Windows: it is in a job object with all that it starts, and reads its end of the tether from its standard
//! input. The system ends a job's processes when the last handle of the job is closed, so also when this process is killed.

use crate::ending::{self, Before, ENDED};
use phalanx_net::socket::Socket;
use std::io::{self, Write};
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::process::{Child, Command, Stdio};
use windows_sys::Win32::System::Console::GetConsoleWindow;
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation, SetInformationJobObject,
    TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW, GetCurrentProcess, TerminateProcess,
};

/// What the interpreter is given after its start: its end of the tether.
pub(super) struct Passenger(Socket);

/// The interpreter's process, a child of this one, and its job.
#[derive(Debug)]
pub(super) struct Spawned {
    child: Child,
    job: OwnedHandle,
}

impl Spawned {
    /// Starts the command. Until it gets its end of the tether, it runs no code of a user, so that nothing is started outside of the job.
    pub fn start(mut command: Command) -> io::Result<Spawned> {
        let job = new_job()?;
        let mut child = command.spawn()?;
        // SAFETY: both handles are open.
        if unsafe { AssignProcessToJobObject(job.as_raw_handle(), child.as_raw_handle()) } == 0 {
            let error = io::Error::last_os_error();
            let _ = child.kill().and_then(|()| child.wait());
            return Err(error);
        }
        Ok(Spawned { child, job })
    }

    pub fn take_on(&mut self, Passenger(child_end): Passenger) -> io::Result<()> {
        let passed = child_end.pass_to(self.child.id())?;
        self.child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?.write_all(&passed)
    }

    pub fn number(&self) -> u32 {
        self.child.id()
    }

    pub fn has_ended(&self) -> bool {
        ending::has_ended(self.child.as_handle())
    }

    pub fn begin_end(&self) {
        // SAFETY: both handles are open.
        unsafe {
            TerminateJobObject(self.job.as_raw_handle(), ENDED);
        }
    }

    /// Ends the interpreter and what it has started. Returns how it ended.
    pub fn end(&self, _: Before) -> String {
        self.begin_end();
        ending::wait(self.child.as_handle())
    }
}

/// A job whose processes end when its handle is closed.
fn new_job() -> io::Result<OwnedHandle> {
    // SAFETY: a job without a name; the handle that it returns is owned by nothing else.
    let job = unsafe {
        let job = CreateJobObjectW(std::ptr::null(), std::ptr::null());
        if job.is_null() {
            return Err(io::Error::last_os_error());
        }
        OwnedHandle::from_raw_handle(job)
    };
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    let length = size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>() as u32;
    // SAFETY: the handle is open, and the structure is of the length and the class given.
    let set = unsafe {
        SetInformationJobObject(
            job.as_raw_handle(),
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            length,
        )
    };
    if set == 0 { Err(io::Error::last_os_error()) } else { Ok(job) }
}

/// Prepares a command that is to have an end of the tether. A Ctrl-C in the console is meant for the user's program, which then ends its
/// interpreters. Where this process has no console, the interpreter shows no window of one.
pub(super) fn tether(command: &mut Command, child_end: Socket) -> Passenger {
    // SAFETY: a plain call.
    let has_console = unsafe { !GetConsoleWindow().is_null() };
    command.stdin(Stdio::piped());
    command.creation_flags(CREATE_NEW_PROCESS_GROUP | if has_console { 0 } else { CREATE_NO_WINDOW });
    Passenger(child_end)
}

/// Passes the interpreter a connection.
pub(super) fn pass(tether: &Socket, data: &Socket, interpreter: u32) -> io::Result<()> {
    tether.send_socket(data, interpreter)
}

/// Reads this process's end of the tether from its standard input, which then is at its end for user code.
pub(super) fn take_tether() -> io::Result<Socket> {
    Socket::passed(&mut io::stdin().lock())
}

/// Ends this process at once. Exit handlers of the user's libraries do not run. What it has started is in its job, which its parent ends.
pub fn end_process(status: i32) -> ! {
    // SAFETY: the handle always is that of this process.
    unsafe { TerminateProcess(GetCurrentProcess(), status as u32) };
    std::process::abort()
}
