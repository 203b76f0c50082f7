//! Private named memory: only one program sees it, and it ends with the program.
//!
//! A task can leave files in `/dev/shm`, and System V segments and queues, which outlive its processes. So a keeper that runs as root puts
//! the program into private namespaces. In the mount namespace, a folder of the program is mounted at `/dev/shm`. The IPC namespace
//! isolates System V objects. All interpreters of a manager share one folder.

use crate::cage::SHARED;
use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;
use std::sync::OnceLock;

const AT: &CStr = c"/dev/shm";
/// The report on systems where programs share named memory.
pub const OPEN: &str = "named shared memory stays after its program, because only root can keep it apart";
pub const KEPT: &str = "named shared memory ends with its program";

/// Whether this process can make such namespaces. A child process tries it.
pub fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| rustix::process::geteuid().is_root() && try_out())
}

fn try_out() -> bool {
    // SAFETY: the child makes system calls, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(i32::from(enter(AT).is_err()));
        }
        let mut status = -1;
        while child > 0
            && libc::waitpid(child, &raw mut status, 0) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        child > 0 && status == 0
    }
}

/// The name of a folder, in the form that [`enter`] needs.
pub fn name(folder: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    debug_assert!(folder.starts_with(SHARED));
    CString::new(folder.as_os_str().as_bytes()).map_err(io::Error::other)
}

/// Puts this process into private namespaces, in which `folder` is `/dev/shm`. Mounts of the system propagate into them, but not out of
/// them. System calls only.
///
/// # Errors
/// The system refuses.
pub fn enter(folder: &CStr) -> io::Result<()> {
    let none = std::ptr::null();
    // SAFETY: the names end with a zero and live as long as the calls.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWIPC))?;
        check(libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_SLAVE, none.cast()))?;
        check(libc::mount(folder.as_ptr(), AT.as_ptr(), none, libc::MS_BIND, none.cast()))
    }
}

fn check(outcome: libc::c_int) -> io::Result<()> {
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
